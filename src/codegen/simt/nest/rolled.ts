/** Nests as a loop over an axis' repeats (src/schedule/simt/sequence/rolledEnd.ts): what they read along it stands in the threads' own cells. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { spanOf } from '../../../schedule/simt/layout/layout.ts'
import type { NestEntry, RolledEntry } from '../../../schedule/simt/sequence/sequence.ts'
import { add, type Block, int, mul, type SharedArray, shared, typeBytes, v } from '../ir/ir.ts'
import { registerAt } from '../ir/registers.ts'
import { eachKept } from '../reduce/fold.ts'
import { type Held, type Scope, tid } from './scope.ts'

/** Emits one of the nests. */
type EmitOne = (scope: Scope, nest: NestEntry, out: Block) => void

export function emitRolled(scope: Scope, { axis, layout, kept, nests }: RolledEntry, emit: EmitOne, out: Block): void {
  const { unit, part } = scope
  const { threads } = scope.layout
  const cells = new Map<ValueId, SharedArray>()
  // What the cells stand over may be read by others until here.
  out.push({ k: 'barrier' })
  let over = 0
  for (const id of kept) {
    const from = scope.held.get(id)
    invariant(from?.kind === 'registers' && from.layout === scope.layout, `%${id} stands in no registers of the layout`)
    const { name, type, length } = from.registers
    const array: SharedArray = { name: unit.name(`${name}_cells`), type, length: length * threads, own: true, over }
    unit.shared.push(array)
    over += length * threads * typeBytes(type)
    cells.set(id, array)
    eachKept(scope, from.axes)(out, (i, body) => {
      const to = shared(array, add(mul(i, int(threads)), tid))
      body.push({ k: 'assign', to, value: registerAt(from.registers, i) })
    })
  }
  const counter = unit.name(`${axis}_chunk`)
  const at = v('i32', counter)
  const body: Block = []
  const first = scope.bases.get(axis)
  invariant(first !== undefined, `axis ${axis} is at no definite chunk`)
  const base = unit.name(`${axis}0`)
  body.push({ k: 'let', name: base, value: add(first, mul(at, int(spanOf(layout.axis(axis))))) })
  const firstRepeat = mul(at, int(layout.axis(axis).reps))
  const inner = scope.child({ layout, bases: new Map([...scope.bases, [axis, v(first.type, base)]]) })
  for (const [id, h] of scope.held) {
    const array = cells.get(id)
    if (h.kind !== 'registers' || h.layout !== scope.layout) continue
    const axes = part.axesOf(id)
    const moved: Held =
      array === undefined
        ? { ...h, layout }
        : { kind: 'cells', array, layout: h.layout, axes: h.axes, axis, rep: firstRepeat }
    if (array !== undefined || !axes.includes(axis)) inner.held.set(id, moved)
  }
  for (const nest of nests) emit(inner, nest, body)
  const rounds = int(layout.axis(axis).chunks)
  out.push({ k: 'for', name: counter, from: int(0), to: rounds, step: 1, unroll: false, storesApart: true, body })
}
