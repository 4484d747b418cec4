/**
 * Products whose operands are made of products themselves and are larger than what they give: weights and their adjoints in the gradients of an attention. What
 * each would make again instead of reading it, and which of them share that.
 */
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { sizeOf } from '../../types/shape.ts'
import { dataInputs, readAs } from '../body/region.ts'
import type { Group } from './groups.ts'
import type { Planner } from './planner.ts'

/** Values that are followed from one product at most. */
const mostTiles = 256

export const isProduct = (n: Node): boolean => familyOf(n) === 'contraction'

/** Values without folds: computed again wherever they are needed, element by element. */
function isElementwise(n: Node): boolean {
  const family = familyOf(n)
  return family === 'elementwise' || family === 'random'
}

export const isFold = (n: Node): boolean => familyOf(n) === 'reduction'

/** A product, the group that computes it, and the values that it would sum over without reading them. */
export interface Sum {
  readonly group: Group
  readonly tiles: ReadonlySet<Node>
}

/** Which values can be made again, of one size: what memo knows of them. */
export class Tiles {
  private readonly known = new Map<Node, ReadonlySet<Node> | undefined>()
  private readonly size: number

  constructor(size: number) {
    this.size = size
  }

  /**
   * A value and all it is made of, down to products of its size, and to what has folds below it; of smaller values those that have none.
   * Undefined: it is not to be made again.
   */
  of(n: Node): ReadonlySet<Node> | undefined {
    const stack = [n]
    for (let x = stack.at(-1); x !== undefined; x = stack.at(-1)) {
      const open = isElementwise(x) ? dataInputs(x).filter((y) => !this.known.has(y)) : []
      if (open.length > 0 && !this.known.has(x)) stack.push(...open)
      else {
        stack.pop()
        if (!this.known.has(x)) this.known.set(x, this.find(x))
      }
    }
    return this.known.get(n)
  }

  /** The same, where it is known of all that a value is computed from. */
  private find(n: Node): ReadonlySet<Node> | undefined {
    const whole = sizeOf(n.shape) === this.size
    if (isProduct(n)) return whole ? new Set([n]) : undefined
    if (!isElementwise(n)) return undefined
    const out = new Set([n])
    for (const x of dataInputs(n)) {
      const made = this.known.get(x)
      if (made === undefined && !whole && x.op !== 'param') return undefined
      for (const m of made ?? []) out.add(m)
      if (out.size > mostTiles) return undefined
    }
    return out
  }
}

/** Products that sum over something larger than their operands and results, with what is between it and other products. */
export function sumsIn(planner: Planner): { readonly size: number; readonly sums: readonly Sum[] }[] {
  const bySize = new Map<number, { readonly tiles: Tiles; readonly sums: Sum[] }>()
  for (const group of planner.groups.all.values()) {
    if (group.made === undefined || group.boundary !== undefined) continue
    const [product, other] = [...group.members].filter((n) => isProduct(n) && !isWithin(n, group))
    if (product === undefined || other !== undefined) continue
    const [x, y] = product.inputs
    if (x === undefined || y === undefined) continue
    const [wide, narrow] = sizeOf(x.shape) > sizeOf(y.shape) ? [x, y] : [y, x]
    const size = sizeOf(wide.shape)
    if (size <= Math.max(sizeOf(narrow.shape), sizeOf(product.shape))) continue
    const found = bySize.get(size) ?? { tiles: new Tiles(size), sums: [] }
    bySize.set(size, found)
    const tiles = new Set(readAs(wide).flatMap((n) => [...(found.tiles.of(n) ?? [])]))
    if ([...tiles].some(isProduct)) found.sums.push({ group, tiles })
  }
  return [...bySize].map(([size, { sums }]) => ({ size, sums }))
}

/** Whether a product of a group is summed over by another of it. */
function isWithin(n: Node, group: Group): boolean {
  const [first] = [...group.members].filter((m) => m !== n && isProduct(m) && reaches(m, n, group))
  return first !== undefined
}

function reaches(from: Node, to: Node, { members }: Group): boolean {
  const seen = new Set<Node>([from])
  const stack = [from]
  for (let n = stack.pop(); n !== undefined; n = stack.pop())
    for (const x of dataInputs(n)) {
      if (x === to) return true
      if (!members.has(x) || seen.has(x)) continue
      seen.add(x)
      stack.push(x)
    }
  return false
}

/** Products that share values with each other, directly or through others. */
export function related(sums: readonly Sum[]): Sum[][] {
  const out: Sum[][] = []
  for (const s of sums) {
    const [near, far] = [[s], [] as Sum[][]]
    for (const others of out)
      if (others.some((o) => [...o.tiles].some((n) => s.tiles.has(n)))) near.push(...others)
      else far.push(others)
    out.splice(0, out.length, ...far, near)
  }
  return out
}
