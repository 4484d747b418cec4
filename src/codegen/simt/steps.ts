/**
 * Steps and runs: the work of a scope as steps with the values they need and give. Steps over the same loops become one loop
 * nest; a value used beyond its run lies in a register array, others are names inside the loop.
 */
import { invariant } from '../../diagnostics/errors.ts'
import type { ValueId } from '../../kernel/ir.ts'
import type { Accumulator } from './accumulator.ts'
import { type Block, type Ex, no, regType, type S, v } from './ir.ts'
import { Point } from './point.ts'
import { declare, emitLoops, type Loop, type Registers, registerAt, registerIndex } from './registers.ts'
import type { Scope } from './scope.ts'
import { bodiesOf } from './walk.ts'

/** What a step waits for: a value, or (below zero) the end of another step. */
export type Token = number

export interface Step {
  /** Loops of the nest, outermost first; a block step has none and stands alone. */
  readonly kind: 'point' | 'block'
  readonly loops: readonly Loop[]
  readonly needs: readonly Token[]
  /** The value computed at each point, if the step computes one. */
  readonly gives?: ValueId
  /** Its registers are written lane by lane: `emit` does it, into the given array. */
  readonly wide?: boolean
  /** It shares nests with its like alone. */
  readonly like?: string
  /** Available once the nest is done. */
  readonly after: readonly Token[]
  /** Lower goes first among ready steps. */
  readonly rank: number
  /** A point step's code; its value, if it gives one that is not wide. */
  readonly emit: (point: Point, out: Block, to?: Registers) => Ex | undefined
  readonly name: string
  /** A block step that merges the threads' parts of a fold: those that are ready share their barriers. */
  readonly closes?: Accumulator
}

export const keyOf = (s: Step): string =>
  s.kind === 'block' ? '' : `${s.like ?? ''}|${s.loops.map((l) => `${l.axis}.${l.over}`).join(' ')}`

/**
 * Emits steps that share loops as one nest; `later` says which values are needed afterwards. Where a condition holds seldom the
 * nest is there twice, with and without it.
 */
export function emitRun(
  scope: Scope,
  run: readonly Step[],
  later: (id: ValueId) => boolean,
  out: Block,
  seldom?: { readonly id: ValueId; readonly holds: Ex },
): void {
  const [first] = run
  invariant(first !== undefined, 'an empty run')
  if (first.kind === 'block') {
    first.emit(new Point(scope, new Map()), out)
    return
  }
  const arrays = new Map<ValueId, Registers>()
  for (const s of run) {
    if (s.gives === undefined) continue
    const axes = scope.part.axesOf(s.gives)
    const length = scope.registers(axes)
    if (s.wide !== true && (first.loops.length === 0 || !later(s.gives))) continue
    const registers: Registers = {
      name: scope.unit.name(s.name),
      type: regType(scope.part.dtypeOf(s.gives)),
      length,
    }
    declare(registers, out)
    arrays.set(s.gives, registers)
    scope.held.set(s.gives, { kind: 'registers', registers, layout: scope.layout, axes })
  }
  const nest = (known: ReadonlyMap<ValueId, Ex>, to: Block): void => emitNest(scope, run, arrays, known, to)
  if (seldom === undefined || arrays.has(seldom.id)) {
    nest(new Map(), out)
    return
  }
  const [body, otherwise]: [Block, Block] = [[], []]
  nest(new Map(), body)
  nest(new Map([[seldom.id, no]]), otherwise)
  out.push({ k: 'if', cond: seldom.holds, body, otherwise: isIdle(otherwise) ? [] : otherwise })
}

/** Whether statements only name values. */
const isIdle = (stmts: readonly S[]): boolean =>
  stmts.every((s) => s.k === 'let' || ((s.k === 'for' || s.k === 'if') && bodiesOf(s).every(isIdle)))

/** One nest with the code of all steps; `known`: values that are known beforehand. */
function emitNest(
  scope: Scope,
  run: readonly Step[],
  arrays: ReadonlyMap<ValueId, Registers>,
  known: ReadonlyMap<ValueId, Ex>,
  out: Block,
): void {
  const loops = run[0]?.loops ?? []
  emitLoops(scope, loops, out, (lanes, body) => {
    const here = new Map(known)
    const point = new Point(scope, lanes, here)
    for (const s of run) {
      if (s.gives !== undefined && known.has(s.gives)) continue
      const registers = s.gives === undefined ? undefined : arrays.get(s.gives)
      const value = s.emit(point, body, registers)
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
  })
}

function nameIt(scope: Scope, s: Step, value: Ex, body: Block): Ex {
  const name = scope.unit.name(s.name)
  body.push({ k: 'let', name, value })
  return v(value.type, name)
}
