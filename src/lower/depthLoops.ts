/**
 * Loops over the depth of a matrix product: what they carry from step to step, and the folds that ride with the product in loops of their own
 * before it.
 */
import type { Predicate } from '../affine/predicate.ts'
import { invariant } from '../diagnostics/errors.ts'
import type { Carry, LetStmt, LoopStmt, Stmt, ValueId } from '../kernel/ir.ts'
import { liveLets, renameOperands } from '../kernel/walk.ts'
import type { Blocked } from '../plan/axes/matrixBlocks.ts'
import { combinerIdentity, isArgCombiner } from '../scalar/ops.ts'

/** What a loop over the depth carries: its start, one step's new state from the state before, the whole. */
export interface Carried {
  readonly init: LetStmt
  readonly step: (before: ValueId) => readonly LetStmt[]
  readonly result: ValueId
}

/** A value that loops carry: `param` and `next` stand in the body of the innermost. */
export interface LoopState {
  readonly init: LetStmt
  readonly param: ValueId
  readonly next: ValueId
  readonly result: ValueId
}

/** Loops over blocks (that of `bounded`, the outermost unless given, between `from` and `to`) around a body, carrying states from the outermost loop's start to its end. */
export function carryingLoops(
  loops: readonly Blocked[],
  inner: readonly Stmt[],
  states: readonly LoopState[],
  fresh: () => ValueId,
  bounds: Pick<LoopStmt, 'from' | 'to'> = {},
  bounded = loops[0]?.axis,
): LoopStmt {
  let body = inner
  let made: LoopStmt | undefined
  let ends = states.map((s) => ({ param: s.param, next: s.next }))
  for (const d of [...loops].reverse()) {
    const outermost = d === loops[0]
    const carries = states.map((s, i): Carry => {
      const { param = s.param, next = s.next } = ends[i] ?? {}
      const { dtype, axes } = s.init
      return { init: outermost ? s.init.id : fresh(), param, next, result: outermost ? s.result : fresh(), dtype, axes }
    })
    made = { kind: 'loop', axis: d.axis, block: d.block, ...(d.axis === bounded ? bounds : {}), carries, body }
    body = [made]
    ends = carries.map((c) => ({ param: c.init, next: c.result }))
  }
  invariant(made !== undefined, 'a matrix product without depth')
  return made
}

/** Loops over blocks of the depth (up to `to`) around `inner`, carrying states each of which has steps of its own. */
export function depthLoops(
  loops: readonly Blocked[],
  inner: readonly Stmt[],
  carried: readonly Carried[],
  fresh: () => ValueId,
  to?: ValueId,
): Stmt {
  const states = carried.map((c) => {
    const param = fresh()
    const steps = c.step(param)
    const last = steps.at(-1)
    invariant(last !== undefined, 'a carried state without a step')
    return { ...c, steps, param, next: last.id }
  })
  const body = [...inner, ...states.flatMap((s) => s.steps)]
  return carryingLoops(loops, body, states, fresh, to === undefined ? {} : { to })
}

/**
 * A fold over the depth before the product's own loop: one pass in the programs where `mask` holds, none in the others. It
 * brings the operand that both read near.
 */
export function ridingFold(
  l: LetStmt,
  looped: readonly LetStmt[],
  loops: readonly Blocked[],
  mask: Predicate,
  fresh: () => ValueId,
): Stmt[] {
  const { op } = l
  const [first] = loops
  invariant(op.kind === 'reduce' && !isArgCombiner(op.combiner), 'only folds without positions ride')
  invariant(first !== undefined, 'a matrix product without depth')
  const out: Stmt[] = []
  const emit = (dtype: LetStmt['dtype'], value: LetStmt['op'], axes: readonly string[] = []): ValueId => {
    const id = fresh()
    out.push({ kind: 'let', id, dtype, axes, op: value })
    return id
  }
  let to: ValueId | undefined
  if (mask.length > 0) {
    const here = emit('bool', { kind: 'predicate', predicate: mask })
    const all = emit('i32', { kind: 'const', value: first.block })
    const none = emit('i32', { kind: 'const', value: 0 })
    to = emit('i32', { kind: 'scalar', op: 'select', args: [here, all, none] })
  }
  const names = new Map<ValueId, ValueId>()
  const own = liveLets(looped, [op.arg]).map((x): LetStmt => {
    const id = fresh()
    const copy: LetStmt = { ...x, id, op: renameOperands(x.op, (v) => names.get(v) ?? v) }
    names.set(x.id, id)
    return copy
  })
  const init: LetStmt = {
    kind: 'let',
    id: fresh(),
    dtype: l.dtype,
    axes: l.axes,
    op: { kind: 'const', value: combinerIdentity(op.combiner, l.dtype) },
  }
  const step = (): readonly LetStmt[] => [{ ...l, id: fresh(), op: { ...op, arg: names.get(op.arg) ?? op.arg } }]
  return [...out, init, depthLoops(loops, own, [{ init, step, result: l.id }], fresh, to)]
}
