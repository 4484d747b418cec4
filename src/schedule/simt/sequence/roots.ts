/**
 * Values of a statement list along axes that are cut into chunks. Such a value is not computed where it is defined but inside the
 * loop over chunks of whatever needs it: a fold over the axis, a store, a filling. Those are the roots (order.ts puts them in order).
 */
import { invariant } from '../../../diagnostics/errors.ts'
import { foldAxes } from '../../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../../kernel/ir.ts'
import type { Place } from '../access/place.ts'
import { plainTile, tileArray } from '../access/tiles.ts'
import { streamingOf } from '../fold/onlineSums.ts'
import type { Order } from './order.ts'
import type { Item, Preparation, Token } from './sequence.ts'

/** Work whose points run over chunked axes. */
export interface RootWork {
  readonly item: Item
  /** The axes of its points. */
  readonly nest: readonly string[]
  readonly operands: readonly ValueId[]
  readonly before?: readonly Token[]
  readonly after?: readonly Token[]
  readonly isStore: boolean
  /** Axes whose chunks are walked in this order. */
  readonly order?: readonly string[]
}

export class Roots {
  private readonly place: Place
  private readonly order: Order
  private readonly prepare: Preparation[]
  private readonly virtual = new Map<ValueId, LetStmt>()

  constructor(place: Place, order: Order, prepare: Preparation[]) {
    this.place = place
    this.order = order
    this.prepare = prepare
  }

  /** The axes among some that are cut into chunks whose loop is not open. */
  chunked(axes: Iterable<string>): string[] {
    return this.place.layout
      .spread(axes)
      .map((a) => a.name)
      .filter(this.place.isChunked)
  }

  isChunked(axes: Iterable<string>): boolean {
    return this.chunked(axes).length > 0
  }

  /** Takes a value that varies along chunked axes. */
  define(l: LetStmt): void {
    this.virtual.set(l.id, l)
  }

  /** What must stand before values can be read: chunked ones are replaced by what they rest on. */
  needsOf(ids: Iterable<ValueId>): { readonly needs: Token[]; readonly closure: LetStmt[] } {
    const needs = new Set<Token>()
    const closure = new Set<ValueId>()
    const stack = [...ids]
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      const l = this.virtual.get(id)
      if (l === undefined) needs.add(id)
      else if (!closure.has(id)) {
        closure.add(id)
        stack.push(...operandsOf(l.op))
      }
    }
    return { needs: [...needs], closure: [...this.virtual.values()].filter((l) => closure.has(l.id)) }
  }

  add(work: RootWork): void {
    const { item, nest, operands, before = [], after = [], isStore, order = [] } = work
    const { needs, closure } = this.needsOf(operands)
    const inside = new Set(closure.flatMap((l) => this.chunked(foldAxes(l))))
    const over = this.chunked(nest).filter((a) => !inside.has(a))
    if (over.length === 0) {
      // Folds along these axes need each other: one of them is made whole in shared memory first.
      const fold = closure.find((l) => this.chunked(foldAxes(l)).some((a) => nest.includes(a)))
      invariant(fold !== undefined, 'no axis to walk and no fold in the way')
      this.materialise(fold)
      this.add(work)
      return
    }
    const rank = (a: string): number => order.indexOf(a)
    over.sort((a, b) => (rank(a) >= 0 && rank(b) >= 0 ? rank(a) - rank(b) : 0))
    const store = item.kind === 'stmt' && item.stmt.kind === 'store' ? item.stmt : undefined
    const isLate = store !== undefined && this.overwrites(store.param)
    const streaming = item.kind === 'accumulate' ? streamingOf(this.place, item.let, closure, before) : undefined
    const root = { item, over, needs: [...needs, ...before], closure, after, isStore, isLate }
    this.order.roots.push(streaming === undefined ? root : { ...root, streaming })
  }

  /** Computes a value that varies along cut axes once, into shared memory. */
  private materialise(l: LetStmt): void {
    const { place, order } = this
    const tile = plainTile(place, l)
    place.shared.share(tileArray(tile))
    this.prepare.push({ kind: 'tile', tile })
    const [free, filled] = [order.token(), order.token()]
    order.block([], [free], 1, () => ({ kind: 'barrier' }))
    const item: Item = { kind: 'fill', tile, of: l.id }
    const nest = place.part.axesOf(l.id)
    this.add({ item, nest, operands: [l.id], before: [free], after: [filled], isStore: false })
    order.block([filled], [l.id], 0, () => {
      place.holds(l.id, 'shared')
      return { kind: 'filled', let: l, meets: true }
    })
    this.virtual.delete(l.id)
  }

  /** Whether a parameter shares memory with one that is read. */
  private overwrites(param: string): boolean {
    const { part, setting } = this.place
    if (setting.mayAlias(param)) return true
    return [...part.lets.values()].some((l) => l.op.kind === 'load' && l.op.param === param)
  }
}
