/**
 * A scatter in one program walks all updates alone. On machines where a program is a share of the machine, programs share out the places
 * instead: each goes through all updates, in order, and stores those into places of its own. Inside a program, residues of the place are
 * shared out in the same way. So every place has its updates in their order, whatever runs side by side.
 */
import { axis, type Expr, flatten, mod, strideOf, sub, substitute, unflatten } from '../affine/expr.ts'
import { mapPredicate } from '../affine/predicate.ts'
import type { KernelAxis, KernelPart, LetStmt, StoreStmt } from '../kernel/ir.ts'
import { mapExpressions } from '../kernel/walk.ts'
import { filterThreads } from '../schedule/simt/part/filter.ts'
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

/** Fewer updates are walked in one program. */
const fewestUpdates = 64

const sizeOf = (axes: readonly { readonly extent: number }[]): number => axes.reduce((n, a) => n * a.extent, 1)

const powerWithin = (n: number): number => 2 ** Math.floor(Math.log2(Math.max(1, n)))

/** The part of a scatter whose programs share out its places; undefined where one program walks as well. */
export function sharePlaces(walk: Walk, { programShare, simt }: Machine): KernelPart | undefined {
  if (programShare === undefined || simt === undefined) return undefined
  const joined = joinUpdates(walk)
  if (joined === undefined) return undefined
  const { axes, lets, store, places } = joined
  const extent = sizeOf(places)
  if (extent < 2) return undefined
  const block = Math.ceil(extent / Math.min(extent, Math.round(1 / programShare.computing)))
  const residues = Math.min(powerWithin(block), powerWithin(filterThreads(simt) / sizeOf(columnsOf(joined))))
  const [p, r] = [fresh(axes, 'p'), fresh(axes, 'r')]
  const place = flatten(
    places.map((d) => d.index),
    places.map((d) => d.extent),
  )
  const own = { expr: sub(place, axis(`${p}.start`, extent)), lo: 0, hi: block }
  const residue = { expr: sub(mod(place, residues), axis(r, residues)), lo: 0, hi: 1 }
  return {
    axes: [{ name: p, extent }, ...(residues > 1 ? [{ name: r, extent: residues }] : []), ...axes],
    grid: [{ axis: p, block }],
    body: [...lets, { ...store, mask: [...store.mask, own, ...(residues > 1 ? [residue] : [])] }],
  }
}

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
