/** What a statement of a kernel costs at one point, operands at hand, by the machine's prices: the one scale of planner and schedules. */
import { drawsAt } from '../kernel/draws.ts'
import type { LetStmt, Stmt, ValueId } from '../kernel/ir.ts'
import { scalarInfo } from '../scalar/ops.ts'
import { elementsPerCall, isRandomDType, sharedByMask } from '../scalar/threefry.ts'
import type { LoopMachine } from '../target/loops.ts'
import { arithmeticOf, inAdditions, type Prices, priceOf } from '../target/prices.ts'
import { type DType, isFloat } from '../types/dtype.ts'

/** A statement as its price sees it. Values carried around a loop have no operation. */
export interface Priced {
  readonly op?: LetStmt['op']
  readonly dtype: DType
}

/** Seconds that an element of random bits of a dtype takes, or of masks: several of their elements share a word. */
export const randomSeconds = (dtype: DType, { random }: Prices): number =>
  random / (isRandomDType(dtype) ? elementsPerCall(dtype) : sharedByMask * elementsPerCall('u32'))

/** Seconds of evaluating a statement at one point (folds and products: of what they fold); moving the bytes of loads is not in it. */
export function statementSeconds({ op, dtype }: Priced, dtypeOf: (id: ValueId) => DType, prices: Prices): number {
  switch (op?.kind) {
    case 'scalar': {
      // Comparisons, selections and casts compute on what they take.
      const last = op.args.at(-1)
      if (op.op === 'cast' && last !== undefined && (op.loose === true || dtypeOf(last) === dtype)) return 0
      return priceOf(op.op, last === undefined ? dtype : dtypeOf(last), prices)
    }
    case 'random':
      return randomSeconds(dtype, prices) / drawsAt(op.index).repeat
    case 'reduce':
    case 'scan':
      return prices.fold[arithmeticOf(dtype)]
    case 'dot':
      return 2 * prices.fold[arithmeticOf(dtype)]
    case 'load':
      return prices.read[dtype]
    case 'index':
    case 'predicate':
      return priceOf('add', 'i32', prices)
    case 'const':
    case 'stage':
    case 'at':
    case undefined:
      return 0
  }
}

/** Additions' worth of a value whose instructions are a chain worth computing for several groups of lanes at a time, or apart from others like it. */
const leastFunction = 6

/**
 * Whether a value takes so many instructions that other functions beside it are in its way. Comparisons and choices of integers do not, however wide they are: they need no
 * coefficients, and what takes long is that fewer stand in a vector.
 */
export function isFunction({ op, dtype }: Priced, dtypeOf: (id: ValueId) => DType, prices: Prices): boolean {
  if (op?.kind !== 'scalar') return false
  const last = op.args.at(-1)
  const { chooses, result } = scalarInfo(op.op)
  if ((chooses === true || result === 'bool') && last !== undefined && !isFloat(dtypeOf(last))) return false
  return inAdditions(statementSeconds({ op, dtype }, dtypeOf, prices), prices) >= leastFunction
}

/** The dtypes of the values of statements, loops included. */
export function dtypesIn(body: readonly Stmt[], into = new Map<ValueId, DType>()): ReadonlyMap<ValueId, DType> {
  for (const s of body) {
    if (s.kind === 'let') into.set(s.id, s.dtype)
    if (s.kind !== 'loop') continue
    for (const c of s.carries) into.set(c.param, c.dtype).set(c.result, c.dtype)
    dtypesIn(s.body, into)
  }
  return into
}

/**
 * Seconds that operations wait for each other, beside all the work of `steps` steps that run one after another: `longest` is the longest chain of
 * operations in one, in seconds at full rate. Steps side by side fill what the window reaches.
 */
export function waitingSeconds(
  work: number,
  steps: number,
  longest: number,
  { latency, window }: Pick<LoopMachine, 'latency' | 'window'>,
): number {
  if (longest === 0 || steps === 0) return 0
  const step = work / steps
  return steps * Math.max(0, (latency * longest * step) / (step + window) - step)
}
