/**
 * Programs and packed bits: no two programs may write one byte, so each program's stores must cover whole bytes of a
 * parameter in the format `bits`. Here: how the grid may cut the axes of such a store. Asked by the planner, which decides
 * what is packed, by the lowering, which chooses blocks, and by the verifier.
 */
import { type Expr, flatten, valuesOf } from '../affine/expr.ts'
import { gcd } from '../affine/gcd.ts'
import type { GridAxis, KernelParam, KernelPart, Stmt, StoreStmt } from './ir.ts'

/** By axis, what its block must be a multiple of unless one program holds the whole axis; axes left out are cut anywhere. */
export type WholeByteBlocks = Map<string, number>

/**
 * How the axes of a store at row-major position `flat` of `elements` elements may be cut. Going outwards from the contiguous
 * axis, the bits of a run of whole axes fill bytes at last, or end with the tensor; undefined where they do neither.
 */
export function wholeByteBlocks(
  flat: Expr,
  elements: number,
  extents: ReadonlyMap<string, number>,
): WholeByteBlocks | undefined {
  const axes: { name: string; stride: number; extent: number }[] = []
  for (const { atom, coef } of flat.terms) {
    const extent = atom.kind === 'axis' ? extents.get(atom.name) : undefined
    if (atom.kind !== 'axis' || extent === undefined || coef < 0) return undefined
    if (extent !== 1) axes.push({ name: atom.name, stride: coef, extent })
  }
  if (flat.offset % 8 !== 0 || valuesOf(flat).size > 0) return undefined
  axes.sort((a, b) => a.stride - b.stride)
  const out: WholeByteBlocks = new Map()
  // Bits of the axes so far.
  let run = 1
  for (const [i, { name, stride, extent }] of axes.entries()) {
    if (run % 8 === 0) {
      if (stride % 8 !== 0) return undefined
      continue
    }
    if (stride !== run) return undefined
    const ends = i === axes.length - 1 && flat.offset + run * extent === elements
    const block = (run * extent) % 8 === 0 || ends ? 8 / gcd(8, run) : extent
    out.set(name, Math.min(block, extent))
    run *= extent
  }
  return run % 8 === 0 || flat.offset + run === elements ? out : undefined
}

/** Blocks that suit several stores; `extents` as in `wholeByteBlocks`. */
export function joinBlocks(all: readonly WholeByteBlocks[], extents: ReadonlyMap<string, number>): WholeByteBlocks {
  const out: WholeByteBlocks = new Map()
  for (const blocks of all)
    for (const [axis, block] of blocks) {
      const have = out.get(axis) ?? 1
      out.set(axis, Math.min((have * block) / gcd(have, block), extents.get(axis) ?? 1))
    }
  return out
}

/** The grid with blocks enlarged to what stores of whole bytes ask. */
export function alignGrid(
  grid: readonly GridAxis[],
  blocks: WholeByteBlocks,
  extents: ReadonlyMap<string, number>,
): GridAxis[] {
  return grid.map((g) => {
    const unit = blocks.get(g.axis) ?? 1
    const extent = extents.get(g.axis) ?? 1
    return g.block >= extent || g.block % unit === 0
      ? g
      : { axis: g.axis, block: Math.min(extent, Math.ceil(g.block / unit) * unit) }
  })
}

/** Extents of axes that are not open. */
export const extentsOf = (part: KernelPart): Map<string, number> =>
  new Map(part.axes.flatMap((a) => (a.open === undefined ? [[a.name, a.extent] as const] : [])))

/** Stores into the given parameters, those inside loops among them. */
export function storesTo(body: readonly Stmt[], params: ReadonlySet<string>): StoreStmt[] {
  return body.flatMap((s): StoreStmt[] =>
    s.kind === 'loop' ? storesTo(s.body, params) : s.kind === 'store' && params.has(s.param) ? [s] : [],
  )
}

/** Whether the programs of a part write whole bytes with a store into a parameter of bits. */
export function writesWholeBytes(s: StoreStmt, param: KernelParam, part: KernelPart): boolean {
  const extents = extentsOf(part)
  const elements = param.shape.reduce((n, d) => n * d, 1)
  const blocks = wholeByteBlocks(flatten(s.index, param.shape), elements, extents)
  if (blocks === undefined) return false
  return part.grid.every(
    ({ axis, block }) => block >= (extents.get(axis) ?? 1) || block % (blocks.get(axis) ?? 1) === 0,
  )
}
