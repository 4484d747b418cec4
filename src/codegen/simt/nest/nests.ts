/**
 * Loop nests of registers: steps over the same loops are one nest; a value used beyond it lies in a register array, others are names
 * inside.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import type { NestEntry, PointStep, Seldom, SlidingNest } from '../../../schedule/simt/sequence/sequence.ts'
import { and, type Block, bin, cast, type Ex, int, lt, no, regType, type S, sub, uint, v, yes } from '../ir/ir.ts'
import { declare, emitLoops, type Registers, registerAt, registerIndex } from '../ir/registers.ts'
import { bodiesOf } from '../ir/walk.ts'
import { Point } from './point.ts'
import type { Scope } from './scope.ts'
import { type EmitPoint, emitSliding } from './sliding.ts'

/** Emits a step at a point; its value, if it gives one that is not written into registers lane by lane. */
export type EmitStep = (step: PointStep, point: Point, out: Block, to?: Registers) => Ex | undefined

/** A nest; where a condition holds seldom, or all over most blocks, it is there twice, with and without it. */
export function emitNest(
  scope: Scope,
  { steps, arrays: ids, seldom, usual, sliding }: NestEntry,
  emit: EmitStep,
  out: Block,
): void {
  const arrays = new Map<ValueId, Registers>()
  const holds = seldom === undefined ? undefined : holdsHere(scope, seldom)
  for (const s of steps) {
    if (s.gives === undefined || !ids.includes(s.gives)) continue
    const axes = scope.part.axesOf(s.gives)
    const registers: Registers = {
      name: scope.unit.name(s.name),
      type: regType(scope.part.dtypeOf(s.gives)),
      length: scope.registers(axes),
    }
    declare(registers, out)
    arrays.set(s.gives, registers)
    scope.held.set(s.gives, { kind: 'registers', registers, layout: scope.layout, axes })
  }
  const nest = (known: ReadonlyMap<ValueId, Ex>, to: Block, at = scope): void =>
    emitLoopNest(at, steps, { arrays, known, sliding }, emit, to)
  if (usual !== undefined) {
    const [body, otherwise]: [Block, Block] = [[], []]
    nest(new Map(usual.ids.map((id) => [id, yes])), body, whole(scope, usual.axes))
    nest(new Map(), otherwise)
    const at = new Point(scope, new Map())
    const cond = and(isWhole(scope, usual.axes), ...usual.numbers.map((e) => bin('>=', at.expr(e), int(0))))
    out.push({ k: 'if', cond, body, otherwise })
    return
  }
  if (seldom === undefined || holds === undefined) {
    nest(new Map(), out)
    return
  }
  const [body, otherwise]: [Block, Block] = [[], []]
  nest(new Map(), body)
  nest(new Map([[seldom.id, no]]), otherwise)
  out.push({ k: 'if', cond: holds, body, otherwise: isIdle(otherwise) ? [] : otherwise })
}

/** The same values where blocks of some axes are whole. */
export const whole = (scope: Scope, axes: readonly string[]): Scope =>
  axes.length === 0 ? scope : scope.child({ exact: new Set([...scope.exact, ...axes]) })

/** Whether the blocks of some axes are whole; all threads agree. */
export const isWhole = (scope: Scope, axes: readonly string[]): Ex =>
  and(
    ...axes.map((a) => {
      const { start, end } = scope.range(a)
      return bin('>=', cast('i32', sub(end, start)), int(scope.part.axis(a).size))
    }),
  )

/** Whether this thread's indices include the one for which a condition holds. */
function holdsHere(scope: Scope, { axis, index, number }: Seldom): Ex | undefined {
  invariant(index.op.kind === 'index', 'an index that is none')
  const { reps, vec } = scope.layout.axis(axis)
  const target = new Point(scope, new Map()).read(number)
  let holds: Ex | undefined
  for (let r = 0; r < reps; r++) {
    const at = new Point(scope, new Map([[axis, { rep: int(r), lane: int(0) }]])).expr(index.op.expr)
    const here = lt(cast('u32', sub(target, at)), uint(vec))
    holds = holds === undefined ? here : bin('||', holds, here)
  }
  return holds
}

/** Whether statements only name values. */
const isIdle = (stmts: readonly S[]): boolean =>
  stmts.every((s) => s.k === 'let' || ((s.k === 'for' || s.k === 'if') && bodiesOf(s).every(isIdle)))

interface NestFacts {
  readonly arrays: ReadonlyMap<ValueId, Registers>
  /** Values that are known beforehand. */
  readonly known: ReadonlyMap<ValueId, Ex>
  readonly sliding: SlidingNest | undefined
}

/** One nest with the code of all steps. */
function emitLoopNest(
  scope: Scope,
  steps: readonly PointStep[],
  { arrays, known, sliding }: NestFacts,
  emit: EmitStep,
  out: Block,
): void {
  const loops = steps[0]?.loops ?? []
  const emitPoint: EmitPoint = (at, lanes, here, body) => {
    const point = new Point(scope, lanes, here)
    for (const s of at) {
      if (s.gives !== undefined && known.has(s.gives)) continue
      const registers = s.gives === undefined ? undefined : arrays.get(s.gives)
      const value = emit(s, point, body, registers)
      if (s.gives === undefined || s.wide === true) continue
      invariant(value !== undefined, `${s.name} gives no value`)
      const named = value.k === 'lit' || value.k === 'var' ? value : nameIt(scope, s, value, body)
      if (loops.length === 0) scope.held.set(s.gives, { kind: 'scalar', value: named })
      else here.set(s.gives, named)
      if (registers !== undefined) {
        const axes = scope.part.axesOf(s.gives)
        body.push({ k: 'assign', to: registerAt(registers, registerIndex(scope.layout, axes, lanes)), value: named })
      }
    }
  }
  if (sliding !== undefined) emitSliding(scope, steps, sliding, known, emitPoint, out)
  else emitLoops(scope, loops, out, (lanes, body) => emitPoint(steps, lanes, new Map(known), body))
}

function nameIt(scope: Scope, s: PointStep, value: Ex, body: Block): Ex {
  const name = scope.unit.name(s.name)
  body.push({ k: 'let', name, value })
  return v(value.type, name)
}
