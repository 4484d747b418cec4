/**
 * What operations cost on a machine: one price each, asked by the planner, the schedules of threads and of loops, and what shares work
 * between threads. Prices are seconds an element with all lanes and units at work and operands at hand.
 */
import { invariant } from '../diagnostics/errors.ts'
import { type Approximated, approximated, approximations } from '../scalar/approximations.ts'
import type { Algebra } from '../scalar/formula.ts'
import { type ScalarCost, type ScalarOp, scalarInfo, scalarOps } from '../scalar/ops.ts'
import { allDTypes, type DType, dtypeBytes, isFloat } from '../types/dtype.ts'

/** What values are computed as: 16-bit floats as f32, integers of at most 32 bits and bools as words of 32. */
export const arithmetics = ['f32', 'f64', 'i32', 'i64'] as const
export type Arithmetic = (typeof arithmetics)[number]

export function arithmeticOf(dtype: DType): Arithmetic {
  const wide = dtypeBytes(dtype) === 8
  return isFloat(dtype) ? (wide ? 'f64' : 'f32') : wide ? 'i64' : 'i32'
}

/** Seconds an element, by what it is computed as. */
export type Price = Readonly<Partial<Record<Arithmetic, number>>>

export interface Prices {
  /** Elementwise operations, in every arithmetic that they are defined in. */
  readonly scalar: Readonly<Record<ScalarOp, Price>>
  /** Adding an element to an accumulator, or another fold. */
  readonly fold: Readonly<Record<Arithmetic, number>>
  /** A call of the generator of random bits (64 bits; Threefry-2x32). */
  readonly random: number
  /** Reading and writing an element beside moving its bytes: conversions of formats that are not computed in. */
  readonly read: Readonly<Record<DType, number>>
  readonly write: Readonly<Record<DType, number>>
}

/** Seconds of an elementwise operation on operands of a dtype. */
export function priceOf(op: ScalarOp, dtype: DType, { scalar }: Prices): number {
  const price = scalar[op][arithmeticOf(dtype)]
  invariant(price !== undefined, `${op} of ${dtype} has no price`)
  return price
}

/** A price in additions of f32: what schedules count instructions by. */
export const inAdditions = (seconds: number, prices: Prices): number => seconds / priceOf('add', 'f32', prices)

/** Prices written in picoseconds. */
export function picoseconds(prices: Prices): Prices {
  const all = <T extends object>(of: T): T =>
    Object.fromEntries(
      Object.entries(of).map(([k, v]) => [k, typeof v === 'number' ? v * 1e-12 : all(v as object)]),
    ) as T
  return all(prices)
}

/** Prices of approximated functions: what their formulas ask for. */
export function approximatedPrices(
  known: Readonly<Record<Exclude<ScalarOp, Approximated>, Price>>,
): Readonly<Record<Approximated, Price>> {
  const total = (op: Approximated, arithmetic: 'f32' | 'f64'): number => {
    let sum = 0
    const pay = (...ops: readonly Exclude<ScalarOp, Approximated>[]): null => {
      for (const o of ops) sum += known[o][arithmetic] ?? 0
      return null
    }
    const paid =
      (...ops: readonly Exclude<ScalarOp, Approximated>[]) =>
      (): null =>
        pay(...ops)
    const count: Algebra<null, null> = {
      wide: arithmetic === 'f64',
      lit: paid(),
      let: paid(),
      add: paid('add'),
      sub: paid('sub'),
      mul: paid('mul'),
      div: paid('div'),
      fma: paid('mul', 'add'),
      neg: paid('neg'),
      abs: paid('abs'),
      sqrt: paid('sqrt'),
      round: paid('round'),
      exp: paid('exp'),
      log: paid('log'),
      erf: paid('erf'),
      lt: paid(),
      eq: paid(),
      isnan: paid(),
      isinf: paid(),
      select: paid('select'),
    }
    approximations[op].formula(count, null, null)
    return sum
  }
  return Object.fromEntries(approximated.map((op) => [op, { f32: total(op, 'f32'), f64: total(op, 'f64') }])) as Record<
    Approximated,
    Price
  >
}

/** Formats of which reading and writing costs no more than moving the bytes. */
const free = Object.fromEntries(allDTypes.map((d) => [d, 0])) as Readonly<Record<DType, number>>

/** Prices of a machine of which only the rates of classes of operations are known, all arithmetics alike. */
export function pricesByClass(rates: {
  /** Elements a second: instructions; divisions and square roots; special functions; calls of the generator. */
  readonly simple: number
  readonly divide: number
  readonly special: number
  readonly random: number
}): Prices {
  const seconds: Readonly<Record<ScalarCost, number>> = {
    free: 0,
    simple: 1 / rates.simple,
    divide: 1 / rates.divide,
    special: 1 / rates.special,
  }
  const all = (price: number): Readonly<Record<Arithmetic, number>> => ({
    f32: price,
    f64: price,
    i32: price,
    i64: price,
  })
  const names = Object.keys(scalarOps) as readonly ScalarOp[]
  const scalar = Object.fromEntries(names.map((op) => [op, all(seconds[scalarInfo(op).cost])])) as Record<
    ScalarOp,
    Price
  >
  return {
    scalar: { ...scalar, ...approximatedPrices(scalar) },
    fold: all(seconds.simple),
    random: 1 / rates.random,
    read: free,
    write: free,
  }
}
