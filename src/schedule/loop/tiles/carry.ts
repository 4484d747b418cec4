/** Where the state of a loop stands: registers for single elements, tiles otherwise; and which tiles update in place. */
import { type Carry, type LoopStmt, operandsOf, type Stmt, type ValueId } from '../../../kernel/ir.ts'
import { storeOperands } from '../../../kernel/walk.ts'
import { type Product, resultLayoutOf } from '../ir/product.ts'
import type { TileCarry } from '../ir/schedule.ts'
import type { Axes, Tile } from '../ir/tile.ts'

export interface CarryPlan {
  readonly registers: readonly Carry[]
  readonly tiles: readonly TileCarry[]
}

export function carryPlan(
  axes: Axes,
  loop: LoopStmt,
  products: ReadonlyMap<ValueId, Product>,
  place: (layout: Omit<Tile, 'offset'>) => Tile,
): CarryPlan {
  const registers: Carry[] = []
  const tiles: TileCarry[] = []
  const readers = readersIn(loop)
  for (const carry of loop.carries) {
    if (axes.varying(carry.axes).length === 0) {
      registers.push(carry)
      continue
    }
    const product = products.get(carry.next)
    const alone = product !== undefined && leadsTo(loop, readers, carry, product)
    const layout = product === undefined ? axes.layout(carry.axes, carry.dtype) : resultLayoutOf(product, axes)
    const tile = place(layout)
    if (alone) {
      tiles.push({ carry, tile, write: undefined, product: product.id })
      continue
    }
    if (carry.next === carry.param) {
      tiles.push({ carry, tile, write: undefined, product: undefined })
      continue
    }
    const inPlace = product === undefined && updatesInPlace(loop, readers, carry)
    tiles.push({ carry, tile, write: inPlace ? tile : place(layout), product: undefined })
  }
  return { registers, tiles }
}

type Reader = Stmt | 'next'

/** Direct readers of each value in a loop's body. */
function readersIn(loop: LoopStmt): Map<ValueId, Reader[]> {
  const out = new Map<ValueId, Reader[]>()
  const note = (id: ValueId, r: Reader): void => {
    const have = out.get(id)
    if (have === undefined) out.set(id, [r])
    else have.push(r)
  }
  for (const s of loop.body) {
    if (s.kind === 'let') for (const id of operandsOf(s.op)) note(id, s)
    else for (const id of s.kind === 'store' ? storeOperands(s) : innerReads(s)) note(id, s)
  }
  for (const c of loop.carries) note(c.next, 'next')
  return out
}

/** Everything an inner loop names. */
function innerReads(loop: LoopStmt): ValueId[] {
  const own = loop.carries.flatMap((c) => [c.init, c.next])
  const body = loop.body.flatMap((s): readonly ValueId[] => {
    if (s.kind === 'let') return operandsOf(s.op)
    if (s.kind === 'loop') return innerReads(s)
    return [s.value, ...(s.maskValue === undefined ? [] : [s.maskValue])]
  })
  return [...own, ...body, ...(loop.from === undefined ? [] : [loop.from]), ...(loop.to === undefined ? [] : [loop.to])]
}

/** The only reader of a value, if it has one. */
function onlyReader(readers: ReadonlyMap<ValueId, Reader[]>, id: ValueId): Reader | undefined {
  const list = readers.get(id) ?? []
  return list.length === 1 ? list[0] : undefined
}

/** Whether the carried tile is read by nothing but the accumulator of the product that replaces it. */
function leadsTo(loop: LoopStmt, readers: ReadonlyMap<ValueId, Reader[]>, carry: Carry, product: Product): boolean {
  let id = carry.param
  for (let i = 0; i <= loop.body.length; i++) {
    const r = onlyReader(readers, id)
    if (r === undefined || r === 'next' || r.kind !== 'let') return false
    if (r.id === product.id) return product.acc === id && carry.dtype === product.compute
    if (r.op.kind !== 'scalar' || r.axes.length !== carry.axes.length) return false
    id = r.id
  }
  return false
}

/** Whether the next state is an elementwise function of the old one, which nothing else reads. */
function updatesInPlace(loop: LoopStmt, readers: ReadonlyMap<ValueId, Reader[]>, carry: Carry): boolean {
  let id = carry.param
  for (let i = 0; i <= loop.body.length; i++) {
    if (id === carry.next) return true
    const r = onlyReader(readers, id)
    if (r === undefined || r === 'next' || r.kind !== 'let') return false
    if (r.op.kind !== 'scalar' || r.axes.length !== carry.axes.length) return false
    id = r.id
  }
  return false
}
