/**
 * A scatter in one program walks all updates alone. On machines where a program is a share of the machine, programs share out the places
 * instead: each goes through all updates, in order, and stores those into places of its own. Inside a program, residues of the place are
 * shared out in the same way. So every place has its updates in their order, whatever runs side by side. Axes that updates and target have in common are shared
 * out too: all of those that the indices vary along (a program goes through the updates of one index of them), the others, columns, where they are many, or programs
 * would be few.
 */
import { axis, type Expr, flatten, mod, strideOf, sub, substitute, unflatten, valuesOf } from '../affine/expr.ts'
import { mapPredicate } from '../affine/predicate.ts'
import type { GridAxis, KernelAxis, KernelPart, LetStmt, StoreStmt } from '../kernel/ir.ts'
import { mapExpressions } from '../kernel/walk.ts'
import { blocksOf, scatterBlocks } from '../plan/axes/scatterBlocks.ts'
import type { Machine } from '../target/machine.ts'

/** What a scatter does before its places are shared out. */
export interface Walk {
  readonly axes: readonly KernelAxis[]
  readonly lets: readonly LetStmt[]
  readonly store: StoreStmt
  /** The row-major position of an update. */
  readonly update: Expr
  /** The dimensions whose coordinates come from data. */
  readonly places: readonly { readonly index: Expr; readonly extent: number }[]
  /** Axes that lead to columns of a place, whatever the data. */
  readonly columns: ReadonlySet<string>
}

/** Fewer updates are walked by all programs. */
const fewestUpdates = 64
const sizeOf = (axes: readonly { readonly extent: number }[]): number => axes.reduce((n, a) => n * a.extent, 1)

/** The part of a scatter whose programs share out its places; undefined where one program walks as well. */
export function sharePlaces(walk: Walk, { programShare, simt, elementBlock }: Machine): KernelPart | undefined {
  if (programShare === undefined || simt === undefined) return undefined
  const joined = joinUpdates(walk)
  const extent = sizeOf(walk.places)
  if (joined === undefined || extent < 2) {
    const grid = gridOf(columnsOf(walk), elementBlock)
    const { axes, lets, store } = walk
    return grid.some((g, i) => g.block < (columnsOf(walk)[i]?.extent ?? 1))
      ? { axes, grid, body: [...lets, store] }
      : undefined
  }
  const { axes, lets, store, places } = joined
  const indexed = batchOf(joined)
  const batch = columnsOf(joined).filter((a) => indexed.has(a.name))
  const columns = columnsOf(joined).filter((a) => !indexed.has(a.name))
  const shape = {
    batch: sizeOf(batch),
    columns: columns.map((a) => a.extent),
    places: extent,
    updates: updatesOf(joined),
  }
  const blocks = scatterBlocks(shape, programShare.computing, simt)
  const { block, residues } = blocks
  const [p, r] = [fresh(axes, 'p'), fresh(axes, 'r')]
  const place = flatten(
    places.map((d) => d.index),
    places.map((d) => d.extent),
  )
  const own = { expr: sub(place, axis(`${p}.start`, extent)), lo: 0, hi: block }
  const residue = { expr: sub(mod(place, residues), axis(r, residues)), lo: 0, hi: 1 }
  const shared = columns
    .map((a, i): GridAxis => ({ axis: a.name, block: blocks.columns[i] ?? 1 }))
    .filter((g, i) => g.block < (columns[i]?.extent ?? 1))
  return {
    axes: [{ name: p, extent }, ...(residues > 1 ? [{ name: r, extent: residues }] : []), ...axes],
    grid: [...batch.map((a) => ({ axis: a.name, block: 1 })), ...shared, { axis: p, block }],
    body: [...lets, { ...store, mask: [...store.mask, own, ...(residues > 1 ? [residue] : [])] }],
  }
}

/** A grid of blocks of so many points. */
export function gridOf(axes: readonly KernelAxis[], points: number): GridAxis[] {
  const blocks = blocksOf(
    axes.map((a) => a.extent),
    points,
  )
  return axes.map(({ name }, i) => ({ axis: name, block: blocks[i] ?? 1 }))
}

/** Columns that coordinates from data vary along. */
function batchOf({ lets, places, columns }: Walk): ReadonlySet<string> {
  const read = new Set(places.flatMap((d) => [...valuesOf(d.index)]))
  return new Set(lets.flatMap((l) => (read.has(l.id) ? l.axes.filter((a) => columns.has(a)) : [])))
}

/** Updates that a program goes through. */
const updatesOf = ({ axes, columns }: Walk): number => sizeOf(axes.filter((a) => !columns.has(a.name)))

const columnsOf = ({ axes, columns }: Walk): KernelAxis[] => axes.filter((a) => columns.has(a.name))

/** A scatter whose updates are numbered along one axis; undefined where there are few. */
function joinUpdates(walk: Walk): Walk | undefined {
  const walked = walk.axes
    .filter((a) => !walk.columns.has(a.name) && a.extent > 1)
    .map((a) => ({ ...a, stride: strideOf(walk.update, a.name) ?? 0 }))
    .sort((a, b) => b.stride - a.stride)
  if (sizeOf(walked) < fewestUpdates || walked.some((a) => a.stride <= 0)) return undefined
  if (walked.length === 1) return walk
  // What is joined is told apart again by extents, which must be numbers.
  if (walked.some((a) => a.open !== undefined)) return undefined
  const u = fresh(walk.axes, 'u')
  const extents = walked.map((a) => a.extent)
  const coordinates = unflatten(axis(u, sizeOf(walked)), extents)
  const at = new Map(walked.map((a, i) => [a.name, coordinates[i]]))
  const move = (e: Expr): Expr => substitute(e, (a) => (a.kind === 'axis' ? at.get(a.name) : undefined))
  const name = (a: string): string => (at.has(a) ? u : a)
  return {
    ...walk,
    axes: [{ name: u, extent: sizeOf(walked) }, ...walk.axes.filter((a) => !at.has(a.name))],
    lets: walk.lets.map((l) => ({ ...l, axes: [...new Set(l.axes.map(name))], op: mapExpressions(l.op, move) })),
    store: { ...walk.store, index: walk.store.index.map(move), mask: mapPredicate(walk.store.mask, move) },
  }
}

/** A name that no axis has. */
function fresh(axes: readonly KernelAxis[], wish: string): string {
  const taken = new Set(axes.map((a) => a.name))
  let name = wish
  for (let i = 2; taken.has(name); i++) name = `${wish}${i}`
  return name
}
