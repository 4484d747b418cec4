/**
 * Code that repeats itself as a loop: a recurrence whose steps were written out becomes one step with carried tiles, so that code
 * does not grow with the number of steps. What is computed, and in which order, stays the same.
 */
import type { Expr } from '../affine/expr.ts'
import { valuesOf } from '../affine/expr.ts'
import type { Scalar } from '../scalar/ops.ts'
import type { DType } from '../types/dtype.ts'
import {
  type Carry,
  type KernelPart,
  type LetStmt,
  type LoopStmt,
  operandsOf,
  type Stmt,
  type StoreStmt,
  type ValueId,
} from './ir.ts'
import { renameOperands } from './walk.ts'

/** Fewer steps stay written out. */
const leastSteps = 4
/** Work that need not be written again, in additions at a point, for which a loop is made. */
const leastWeight = 256
/** A fold with what merges the results of threads. */
const foldWeight = 16

const isExpr = (v: unknown): v is Expr => typeof v === 'object' && v !== null && 'terms' in v && 'key' in v

/** What a statement does, its operands left out. */
const outline = (l: LetStmt): string =>
  JSON.stringify([renameOperands(l.op, () => 0), l.dtype, l.axes], (_, v: unknown) => {
    if (typeof v === 'bigint') return `${v}n`
    if (typeof v === 'number' && !Number.isSafeInteger(v)) return `${Object.is(v, -0) ? '-0' : v}`
    return isExpr(v) ? v.key : v
  })

/** A run of equal steps: the first statement, the statements of a step, and the number of steps. */
interface Run {
  readonly start: number
  readonly period: number
  readonly steps: number
}

/** A value that a step takes from the one before: `init` in the first. */
interface Handed {
  readonly init: ValueId | undefined
  /** The statement of a step that gives it. */
  readonly from: number
}

class Roller {
  private readonly part: KernelPart
  private readonly consts: readonly LetStmt[]
  private readonly lets: readonly LetStmt[]
  private readonly stores: readonly StoreStmt[]
  private readonly place: ReadonlyMap<ValueId, number>
  private readonly operands: readonly (readonly ValueId[])[]
  private readonly byId: ReadonlyMap<ValueId, LetStmt>

  constructor(part: KernelPart, lets: readonly LetStmt[], stores: readonly StoreStmt[]) {
    this.part = part
    this.consts = lets.filter((l) => l.op.kind === 'const')
    this.lets = lets.filter((l) => l.op.kind !== 'const')
    this.stores = stores
    this.place = new Map(this.lets.map((l, i) => [l.id, i]))
    this.operands = this.lets.map((l) => operandsOf(l.op))
    this.byId = new Map(lets.map((l) => [l.id, l]))
  }

  rolled(weigh: (l: LetStmt) => number, least: number): KernelPart {
    const codes = new Map<string, number>()
    const code = this.lets.map((l) => {
      const text = outline(l)
      const have = codes.get(text) ?? codes.size
      codes.set(text, have)
      return have
    })
    const weights = this.lets.map((l) =>
      l.op.kind === 'reduce' || l.op.kind === 'scan' ? foldWeight : Math.max(1, weigh(l)),
    )
    let best: { readonly run: Run; readonly gain: number } | undefined
    const n = this.lets.length
    for (let period = 1; period * leastSteps <= n; period++)
      for (let i = 0; i + period < n; i++) {
        let end = i
        while (end + period < n && code[end] === code[end + period]) end++
        if (end - i >= (leastSteps - 1) * period)
          for (let start = i; start < Math.min(end, i + 2 * period); start++) {
            const steps = Math.floor((end + period - start) / period)
            const gain = weights.slice(start, start + (steps - 1) * period).reduce((a, b) => a + b, 0)
            if (steps < leastSteps || gain < least || gain <= (best?.gain ?? 0)) continue
            const run = { start, period, steps }
            if (this.handedOn(run) !== undefined) best = { run, gain }
          }
        i = end
      }
    return best === undefined ? this.part : this.withLoop(best.run)
  }

  private let(i: number): LetStmt {
    const l = this.lets[i]
    if (l === undefined) throw new RangeError(`no statement ${i}`)
    return l
  }

  /**
   * What steps hand on, by the value that the first one takes (or, for what only the statements behind the loop read, by itself);
   * undefined where the steps are not the same.
   */
  private handedOn({ start, period, steps }: Run): Map<string, Handed> | undefined {
    const { place, operands } = this
    const handed = new Map<string, Handed>()
    for (let t = 0; t < period; t++) {
      const first = operands[start + t] ?? []
      const second = operands[start + period + t] ?? []
      const ways = new Map<ValueId, string>()
      for (const [o, a] of first.entries()) {
        const b = second[o]
        if (b === undefined) return undefined
        const [pa, pb] = [place.get(a), place.get(b)]
        let expected: (step: number) => ValueId | undefined
        let way: string
        if (a === b && (pa === undefined || pa < start)) {
          expected = () => a
          way = 'same'
        } else if (pa !== undefined && pa >= start) {
          expected = (step) => this.lets[pa + step * period]?.id
          way = 'inner'
        } else if (pb !== undefined && pb >= start && pb < start + period) {
          const from = pb - start
          const [init, next] = [this.byId.get(a), this.let(pb)]
          if (init === undefined || init.dtype !== next.dtype || init.axes.join() !== next.axes.join()) return undefined
          expected = (step) => (step === 0 ? a : this.lets[pb + (step - 1) * period]?.id)
          way = `${a} ${from}`
          handed.set(way, { init: a, from })
        } else return undefined
        if ((ways.get(a) ?? way) !== way) return undefined
        ways.set(a, way)
        for (let step = 1; step < steps; step++)
          if (operands[start + step * period + t]?.[o] !== expected(step)) return undefined
      }
    }
    const [last, end] = [start + (steps - 1) * period, start + steps * period]
    const read = [
      ...operands.slice(end).flat(),
      ...this.stores.flatMap((s) => [s.value, ...(s.maskValue === undefined ? [] : [s.maskValue])]),
    ]
    for (const id of read) {
      const at = place.get(id)
      if (at === undefined || at < start || at >= end) continue
      if (at < last) return undefined
      const from = at - last
      if (![...handed.values()].some((h) => h.from === from)) handed.set(`${from}`, { init: undefined, from })
    }
    return handed
  }

  private withLoop(run: Run): KernelPart {
    const { start, period, steps } = run
    let next = Math.max(...this.byId.keys()) + 1
    const zeros: LetStmt[] = []
    const carries: Carry[] = []
    const results = new Map<ValueId, ValueId>()
    const params = new Map<string, ValueId>()
    for (const [way, { init, from }] of this.handedOn(run) ?? []) {
      const { id, dtype, axes } = this.let(start + from)
      let begin = init
      if (begin === undefined) {
        begin = next++
        zeros.push({ kind: 'let', id: begin, dtype, axes, op: { kind: 'const', value: zeroOf(dtype) } })
      }
      const carry: Carry = { init: begin, param: next++, next: id, result: next++, dtype, axes }
      carries.push(carry)
      params.set(way, carry.param)
      results.set(this.let(start + (steps - 1) * period + from).id, carry.result)
    }
    const body = Array.from({ length: period }, (_, t): LetStmt => {
      const l = this.let(start + t)
      const second = this.operands[start + period + t] ?? []
      const taken = new Map(
        (this.operands[start + t] ?? []).map((a, o) => [
          a,
          params.get(`${a} ${(this.place.get(second[o] ?? -1) ?? -1) - start}`) ?? a,
        ]),
      )
      const isInner = (a: ValueId): boolean => (this.place.get(a) ?? -1) >= start
      return { ...l, op: renameOperands(l.op, (a) => (isInner(a) ? a : (taken.get(a) ?? a))) }
    })
    const taken = new Set(this.part.axes.map((a) => a.name))
    let axis = 'step'
    for (let i = 2; taken.has(axis); i++) axis = `step_${i}`
    const loop: LoopStmt = { kind: 'loop', axis, block: 1, carries, body }
    const after = (id: ValueId): ValueId => results.get(id) ?? id
    return {
      ...this.part,
      axes: [...this.part.axes, { name: axis, extent: steps }],
      body: [
        ...this.consts,
        ...zeros,
        ...this.lets.slice(0, start),
        loop,
        ...this.lets.slice(start + steps * period).map((l) => ({ ...l, op: renameOperands(l.op, after) })),
        ...this.stores.map((s) => ({
          ...s,
          value: after(s.value),
          ...(s.maskValue === undefined ? {} : { maskValue: after(s.maskValue) }),
        })),
      ],
    }
  }
}

const zeroOf = (dtype: DType): Scalar => (dtype === 'bool' ? false : dtype === 'i64' || dtype === 'u64' ? 0n : 0)

/** A part with its longest recurrence as a loop, where that spares at least `least` additions a point, as `weigh` counts statements in. */
export function rollPart(part: KernelPart, weigh: (l: LetStmt) => number, least = leastWeight): KernelPart {
  const lets: LetStmt[] = []
  const stores: StoreStmt[] = []
  for (const s of part.body as readonly Stmt[]) {
    if (s.kind === 'loop') return part
    if (s.kind === 'store') {
      if ([...s.index, ...s.mask.map((b) => b.expr)].some((e) => valuesOf(e).size > 0)) return part
      stores.push(s)
      continue
    }
    if (stores.length > 0 || s.op.kind === 'dot' || s.op.kind === 'stage' || s.op.kind === 'at') return part
    lets.push(s)
  }
  return lets.length < leastSteps ? part : new Roller(part, lets, stores).rolled(weigh, least)
}
