/** Rates measured on one machine, kept as text, in the place of the shipped record's. */
import { type ScalarOp, scalarInfo, scalarOps } from '../scalar/ops.ts'
import { allDTypes, type DType, dtypeClass } from '../types/dtype.ts'
import { type LoopMachine, loopUnits } from './loops.ts'
import type { Machine, Memory } from './machine.ts'
import { arithmeticOf, arithmetics } from './prices.ts'

/** What calibration measures; blocks, limits and features stay the record's. */
export type Rates = Pick<Machine, 'memories' | 'overlap' | 'prices' | 'launch' | 'matrixRate'> & {
  readonly loops: LoopMachine
}

export interface Calibration {
  /** The processor and the engine it was measured on: it holds for those alone. */
  readonly on: string
  readonly rates: Rates
}

const version = 2

/** A machine with measured rates. */
export const calibrated = (machine: Machine, { rates }: Calibration): Machine => ({ ...machine, ...rates })

/** Digits that two machines share where they are planned for alike: of all numbers of a record. */
export function digestOf(machine: Machine): string {
  let hash = 0xcbf29ce484222325n
  for (const c of JSON.stringify(machine, (_, v: unknown) => (v instanceof Map ? [...v] : v)))
    hash = BigInt.asUintN(64, (hash ^ BigInt(c.charCodeAt(0))) * 0x100000001b3n)
  return hash.toString(16).padStart(16, '0')
}

/** A calibration as text; JSON has no infinity, so the last memory has no size. */
export function printCalibration({ on, rates }: Calibration): string {
  const memories = rates.memories.map((m) => (Number.isFinite(m.bytes) ? m : { bandwidth: m.bandwidth }))
  return `${JSON.stringify({ version, on, rates: { ...rates, memories } }, undefined, 1)}\n`
}

const isRate = (x: unknown): x is number => typeof x === 'number' && Number.isFinite(x) && x > 0
const isShare = (x: unknown): x is number => typeof x === 'number' && x >= 0 && x <= 1
const isSeconds = (x: unknown): x is number => typeof x === 'number' && x >= 0 && x < 1

type Json = Readonly<Record<string, unknown>>
const object = (x: unknown): Json => (typeof x === 'object' && x !== null ? (x as Json) : {})

/** A calibration from text; undefined where it is none, or one of another version. */
export function parseCalibration(text: string): Calibration | undefined {
  let read: Json
  try {
    read = object(JSON.parse(text))
  } catch {
    return undefined
  }
  const rates = object(read.rates)
  const prices = object(rates.prices)
  const memories = memoriesOf(rates.memories)
  const complete =
    read.version === version &&
    typeof read.on === 'string' &&
    memories !== undefined &&
    isShare(rates.overlap) &&
    isSeconds(rates.launch) &&
    isRate(rates.matrixRate) &&
    areLoops(object(rates.loops)) &&
    isSeconds(prices.random) &&
    allDTypes.every((d) => isSeconds(object(prices.read)[d]) && isSeconds(object(prices.write)[d])) &&
    arithmetics.every((a) => isSeconds(object(prices.fold)[a])) &&
    (Object.keys(scalarOps) as ScalarOp[]).every((op) =>
      dtypesOf(op).every((d) => isSeconds(object(object(prices.scalar)[op])[arithmeticOf(d)])),
    )
  if (!complete) return undefined
  return { on: read.on as string, rates: { ...(rates as unknown as Rates), memories } }
}

const areLoops = (loops: Json): boolean =>
  Object.entries(loopUnits).every(([name, unit]) =>
    unit === 'seconds' ? isSeconds(loops[name]) : unit === 'share' ? isShare(loops[name]) : isRate(loops[name]),
  )

/** The dtypes an operation is defined on. */
const dtypesOf = (op: ScalarOp): DType[] => allDTypes.filter((d) => scalarInfo(op).on.includes(dtypeClass(d)))

function memoriesOf(given: unknown): readonly Memory[] | undefined {
  if (!Array.isArray(given) || given.length === 0) return undefined
  const memories = given.map((m: unknown, i) => ({
    bytes: i === given.length - 1 ? Number.POSITIVE_INFINITY : object(m).bytes,
    bandwidth: object(m).bandwidth,
  }))
  const ordered = memories.every(
    ({ bytes, bandwidth }, i) =>
      typeof bytes === 'number' && isRate(bandwidth) && bytes > Number(memories[i - 1]?.bytes ?? 0),
  )
  return ordered ? (memories as Memory[]) : undefined
}
