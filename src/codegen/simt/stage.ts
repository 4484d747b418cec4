/** Staging: tiles in shared memory, filled under the layout that suits their loads. */
import { invariant } from '../../diagnostics/errors.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { rowMajorStrides } from '../../types/shape.ts'
import { and, type Block, regType, shared } from './ir.ts'
import { itemsOf, type LowerItems } from './items.ts'
import { spanOf } from './layout.ts'
import type { Point } from './point.ts'
import { inside, type Scope, type SharedTile, sharedIndex } from './scope.ts'

/** The shared array of a stage: row-major, with room behind it for what registers beyond the range may ask for. */
export function makeStage(scope: Scope, l: LetStmt): SharedTile {
  const { part, unit } = scope
  const axes = part.axesOf(l.id)
  const strides = rowMajorStrides(axes.map((a) => part.axis(a).size))
  const length = axes.reduce((n, name, i) => {
    const a = scope.layout.find(name)
    const most = Math.max(part.axis(name).size, a === undefined ? 1 : spanOf(a) * a.chunks)
    return n + (most - 1) * (strides[i] ?? 1)
  }, 1)
  const array = unit.share(`tile_${l.id}`, regType(l.dtype), length)
  return { kind: 'shared', array, axes, strides }
}

/** Writes one point of a tile. */
export function fillPoint(p: Point, axes: readonly string[], of: ValueId, to: SharedTile, out: Block): void {
  const { scope, lanes } = p
  const cond = and(inside(scope, axes, lanes), scope.owner(axes))
  const place = shared(
    to.array,
    sharedIndex(scope, to, () => undefined, lanes),
  )
  const body: Block = [{ k: 'assign', to: place, value: p.read(of) }]
  if (cond.k === 'lit' && cond.value === true) out.push(...body)
  else out.push({ k: 'if', cond, body, otherwise: [] })
}

/** Fills a tile under a layout of its own: everything pure that it needs is computed there. */
export function lowerOwnStage(scope: Scope, l: LetStmt, lower: LowerItems, out: Block): SharedTile {
  invariant(l.op.kind === 'stage', 'not a stage')
  const { part, unit } = scope
  const layout = part.stageLayout(l, unit.limits, scope.layout.threads)
  const to = makeStage(scope, l)
  const { lets } = part.closureOf([l.op.of])
  const inner = scope.child({ layout, bases: new Map() })
  for (const x of lets) if (part.axesOf(x.id).length > 0) inner.held.delete(x.id)
  out.push({ k: 'comment', text: `stage %${l.id} {${l.axes.join(', ')}}` })
  const open = inner.openWhole(layout.axes.keys(), out)
  lower(open, [...itemsOf(lets), { kind: 'fill', let: l, to }], new Set(), out)
  out.push({ k: 'barrier' })
  return to
}
