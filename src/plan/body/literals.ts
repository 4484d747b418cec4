/** Literals of products that meet inside a kernel, where rounding between them was left out (`unrounded`). */
import type { Node } from '../../graph/node.ts'
import type { ValueId } from '../../kernel/ir.ts'
import { isModerate } from '../../scalar/moderate.ts'
import type { Tiles } from './tiles.ts'

/** (x K) y L -> (x K L) y; undefined where a product has another form. In `fast`, as the rewrite rules do it between nodes. */
export function joinLiterals(tiles: Tiles, args: readonly ValueId[], node: Node): ValueId | undefined {
  if (node.dtype !== 'f32' && node.dtype !== 'f64') return undefined
  const [product, l] = withLiteral(tiles, args) ?? []
  if (product === undefined || l === undefined) return undefined
  const [a, b] = factorsOf(tiles, product) ?? []
  if (a === undefined || b === undefined) return undefined
  for (const [scaled, y] of [
    [a, b],
    [b, a],
  ] as const) {
    const [x, k] = withLiteral(tiles, factorsOf(tiles, scaled) ?? []) ?? []
    if (x === undefined || k === undefined) continue
    const once = tiles.scalar('mul', [x, tiles.constant(k * l, node.dtype, node)], node.dtype, node)
    return tiles.scalar('mul', [once, y], node.dtype, node)
  }
  return undefined
}

function factorsOf(tiles: Tiles, id: ValueId): readonly ValueId[] | undefined {
  const { op } = tiles.letOf(id)
  return op.kind === 'scalar' && op.op === 'mul' ? op.args : undefined
}

/** The factor that is no literal, and the literal: one whose product with another loses nothing. */
function withLiteral(tiles: Tiles, args: readonly ValueId[]): readonly [ValueId, number] | undefined {
  const [a, b] = args
  if (a === undefined || b === undefined) return undefined
  for (const [x, k] of [
    [a, b],
    [b, a],
  ] as const) {
    const { op } = tiles.letOf(k)
    if (op.kind === 'const' && typeof op.value === 'number' && isModerate(op.value)) return [x, op.value]
  }
  return undefined
}
