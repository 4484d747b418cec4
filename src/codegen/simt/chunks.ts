/** Loops over the chunks of axes that registers do not hold at once. */
import { type Block, v } from './ir.ts'
import type { Item, LowerItems } from './items.ts'
import { spanOf } from './layout.ts'
import type { Scope } from './scope.ts'

/** Loops over the chunks of axes, outermost first, with items inside. */
export function emitChunks(
  scope: Scope,
  over: readonly string[],
  items: readonly Item[],
  lower: LowerItems,
  out: Block,
): void {
  const [axis, ...rest] = over
  if (axis === undefined) {
    lower(scope, items, new Set(), out)
    return
  }
  const a = scope.layout.axis(axis)
  const span = spanOf(a)
  const { start, end } = scope.range(axis)
  const name = scope.unit.name(`${axis}_at`)
  const body: Block = []
  const bases = new Map(scope.bases)
  bases.set(axis, scope.baseOf(a, v('i32', name), body))
  const exact = span === 1 ? new Set([...scope.exact, axis]) : scope.exact
  emitChunks(scope.child({ bases, exact }), rest, items, lower, body)
  const from = start
  out.push({ k: 'for', name, from, to: end, step: span, unroll: false, body })
}
