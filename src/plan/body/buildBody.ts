/** Building a region's body: its results bound to axes, every node evaluated, axes split until the index maps are affine. */

import * as ix from '../../affine/expr.ts'
import { invariant } from '../../diagnostics/errors.ts'
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { foldAxes } from '../../kernel/folds.ts'
import type { LetStmt, NumericsMode, TileOp } from '../../kernel/ir.ts'
import { expressionsOf, liveLets } from '../../kernel/walk.ts'
import { sizeOf } from '../../types/shape.ts'
import { Refusal, type Refused, refuse } from '../refusal.ts'
import { coversOnce } from './bijection.ts'
import type { Body, BodyStore } from './body.ts'
import { Instances } from './instances.ts'
import { inStoringOrder, isFree, type Region, sumsOverResult } from './region.ts'
import { roundedWhereStored } from './roundedStores.ts'
import { type Bindings, type BoundDim, type Rebind, Tiles } from './tiles.ts'

/** A dimension of a result: the ranges it is stored in, one that is whole or several. */
interface RootDim {
  readonly extent: number
  readonly pieces: readonly BoundDim[]
}

/** Stores of one result at most. */
export const mostPieces = 8

/** Attempts at one body: each is told by the one before how a dimension is to be bound. Recursions of many levels would take more. */
const mostAttempts = 64

interface Attempt {
  readonly body: Body
  /** Whether results or folds in pieces might make another kernel of it. */
  readonly branches: boolean
  /** Whether folds run over axes that nothing but an equal extent ties them to; axes of their own might make another kernel of it. */
  readonly ties: boolean
  /** Whether digits that count beyond a result might make another kernel of it: a fold's result is read at quotients that do not divide. */
  readonly overhangs: boolean
}

/** Builds a body under some bindings, or says what is to be bound otherwise. Throws a `Refusal` where no body can be built. */
function buildOnce(region: Region, b: Instances, firsts: ReadonlySet<Node>): Attempt | Rebind {
  const { tiles } = b
  const all = region.order ?? inStoringOrder(region.outputs)
  const roots = firsts.size === 0 ? all : [...firsts, ...all.filter((n) => !firsts.has(n))]
  const stores: BodyStore[] = []
  const rootDims: RootDim[][] = []
  for (const root of roots) {
    const found = b.instancesOf(root).find((s) => s.mask.length === 0 && coversOnce(s.index, root.shape))
    if (found !== undefined) {
      stores.push({ node: root, shape: root.shape, value: found.value, index: found.index })
      continue
    }
    const dims = reducedAlongside(b, tiles, region, root, rootDims) ?? bindRoot(tiles, root, rootDims)
    if (dims === undefined) {
      const earlier = stores.map((s) => s.node)
      if (!firsts.has(root) && sumsOverResult(region, root, earlier)) return { kind: 'first', result: root }
      throw new Refusal(
        refuse(
          'unaligned-output',
          `a result of shape [${root.shape.join(', ')}] does not line up with the kernel's axes`,
        ),
      )
    }
    rootDims.push(dims)
    for (const [d, { pieces }] of dims.entries()) for (const p of pieces) b.folds.bind(p, root, d)
    const cut = new Set(dims.flatMap((d) => (d.pieces.length > 1 ? d.pieces.flatMap((p) => p.axes) : [])))
    const indexes = dims.reduce<readonly (readonly ix.Expr[])[]>(
      (all, d) => all.flatMap((index) => d.pieces.map((p) => [...index, p.expr])),
      [[]],
    )
    if (indexes.length > mostPieces)
      throw new Refusal(refuse('too-many-live-values', `a result would be stored in ${indexes.length} pieces`))
    for (const index of indexes) {
      const mask = tiles.guards.inside(index, root.shape)
      const value = b.value(root, index, mask)
      if (tiles.rebind !== undefined) return tiles.rebind
      const pieces = [...cut].filter((a) => index.some((e) => ix.axesOf(e).has(a)))
      stores.push({
        node: root,
        shape: root.shape,
        value,
        index,
        ...(mask.length > 0 ? { mask } : {}),
        ...(indexes.length > 1 ? { pieces } : {}),
      })
    }
  }
  const cover = b.folds.findCover()
  if (cover !== undefined && tiles.mayCut) return cover
  const body = bodyOf(b, tiles, stores)
  if ('kind' in body) return body
  return { body, branches: b.branches || cover !== undefined, ties: b.folds.ties, overhangs: tiles.overhangs }
}

/** A dimension for an extent: the whole of an earlier result's, or the axes its ranges share. */
function fits(tiles: Tiles, d: RootDim | undefined, extent: number): RootDim | undefined {
  if (d === undefined || d.extent === extent) return d
  const range = d.pieces.length > 1 ? d.pieces.find((p) => p.extent === extent) : undefined
  const piece = range === undefined ? undefined : tiles.pieceOf(range.expr)
  return piece === undefined ? undefined : { extent, pieces: [{ expr: piece.base, axes: piece.axes, extent }] }
}

/** The body of some stores: what they need of what was evaluated. */
function bodyOf(b: Instances, tiles: Tiles, stores: readonly BodyStore[]): Body | Rebind {
  const used = liveLets(
    tiles.lets,
    stores.map((s) => s.value),
  )
  const split = tiles.splitFor(used.flatMap((l) => (asksForSplits(l.op) ? expressionsOf(l.op) : [])))
  if (split !== undefined) return split
  const names = axesOfStatements(used)
  for (const s of stores) for (const e of s.index) for (const a of ix.axesOf(e)) names.add(a)
  const loaded = new Set<string>()
  for (const { op } of used) if (op.kind === 'load') loaded.add(op.param)
  const stored = new Set(stores.map((s) => s.value))
  const round = (l: LetStmt): LetStmt => {
    const node = tiles.origin.get(l.id)
    invariant(node !== undefined, `value %${l.id} comes from nothing`)
    return tiles.letOf(tiles.emit({ kind: 'scalar', op: 'cast', args: [l.id] }, l.dtype, l.axes, node))
  }
  return {
    axes: [...tiles.extents].filter(([name]) => names.has(name)).map(([name, extent]) => ({ name, extent })),
    lets: b.mode === 'fast' ? roundedWhereStored(used, stored, round) : used,
    stores,
    loads: new Map(
      [...b.loads].filter(([name]) => loaded.has(name)).map(([name, node]) => [name, { node, shape: node.shape }]),
    ),
    origin: tiles.origin,
  }
}

/** Whether an operation is better off without quotients of axes: not random bits, nor positions that a bit operation gives. */
const asksForSplits = (op: TileOp): boolean =>
  op.kind === 'index' ? !ix.isBitwise(op.expr) : op.kind !== 'scalar' && op.kind !== 'random'

function axesOfStatements(lets: readonly LetStmt[]): Set<string> {
  const out = new Set<string>()
  // Statements share their lists of axes.
  const seen = new Set<readonly string[]>()
  const take = (axes: readonly string[]): void => {
    if (seen.has(axes)) return
    seen.add(axes)
    for (const a of axes) out.add(a)
  }
  for (const l of lets) {
    take(l.axes)
    take(foldAxes(l))
  }
  return out
}

/**
 * Axes for a result of a reduction whose operand is evaluated already: those the operand keeps, so that it need not be
 * evaluated at another index map. The way down to the reduction leads through elementwise operations and reshapes.
 */
function reducedAlongside(
  b: Instances,
  tiles: Tiles,
  region: Region,
  root: Node,
  earlier: readonly (readonly RootDim[])[],
): RootDim[] | undefined {
  let known: readonly RootDim[] | undefined
  const dimOf = (e: ix.Expr): RootDim | undefined => {
    known ??= earlier.flat().filter((d) => d.pieces.length > 1)
    const cut = known
    const whole = tiles.dimOf(e)
    if (whole !== undefined && !cut.some((d) => d.pieces.some((p) => p.expr.key === e.key)))
      return { extent: whole.extent, pieces: [whole] }
    return cut.find((d) => d.pieces.some((p) => p.expr.key === e.key))
  }
  const size = sizeOf(root.shape)
  const stack = [root]
  const seen = new Set<Node>()
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (seen.has(n) || sizeOf(n.shape) !== size || !(region.members.has(n) || isFree(n))) continue
    seen.add(n)
    if (n.op !== 'reduce') {
      if (n.op === 'reshape' || familyOf(n) === 'elementwise') stack.push(...n.inputs)
      continue
    }
    const [x] = n.inputs
    const { axes } = n.attrs
    for (const { index, mask } of x === undefined ? [] : b.instancesNear(x)) {
      const kept = index.filter((_, d) => !axes.includes(d) && x?.shape[d] !== 1)
      const dims = kept.flatMap((e) => dimOf(e) ?? [])
      const wide = root.shape.filter((e) => e !== 1)
      if (mask.length > 0 || dims.length !== wide.length || dims.some((d, i) => d.extent !== wide[i])) continue
      const rest = [...dims]
      return root.shape.map((e) => (e === 1 ? undefined : rest.shift()) ?? single)
    }
  }
  return undefined
}

const single: RootDim = { extent: 1, pieces: [{ expr: ix.zero, axes: [], extent: 1 }] }

/** Axes for a result: those of an earlier result where extents line up, else (for the first, or a scalar) fresh ones. */
function bindRoot(tiles: Tiles, root: Node, earlier: readonly (readonly RootDim[])[]): RootDim[] | undefined {
  if (earlier.length === 0) return root.shape.map((n, d) => ({ extent: n, pieces: tiles.rootDim(`root.${d}`, n) }))
  if (root.shape.every((n) => n === 1)) return root.shape.map(() => single)
  for (const dims of earlier) {
    const out: RootDim[] = []
    let at = 0
    for (const n of root.shape) {
      if (n === 1) {
        out.push(single)
        continue
      }
      while (at < dims.length && fits(tiles, dims[at], n) === undefined) at++
      const d = fits(tiles, dims[at++], n)
      if (d === undefined) break
      out.push(d)
    }
    if (out.length === root.shape.length) return out
  }
  return undefined
}

export type Built = { readonly ok: true } & Attempt

export interface BodyOptions {
  readonly mode?: NumericsMode
  /** Results are stored range by range where branches change, and folds run over the pieces in which the kernel reads what they fold. */
  readonly inPieces?: boolean
  /** Folds never run over axes that nothing but an equal extent ties them to. */
  readonly untied?: boolean
  /** Dimensions of results are split where quotients do not divide them, too; what stands beyond is computed and not stored. */
  readonly overhang?: boolean
  /** Positions behind reshapes are taken for places in bounds, where masks stand for others: fewer remainders. */
  readonly isInside?: boolean
  /** A body is given up where many times that many statements stand. */
  readonly most?: number
}

/**
 * Builds a region's body, or says why it cannot be one kernel. `branches` tells of a body built whole (or refused) that pieces might make a
 * difference, `ties` that axes of their own might, `overhangs` that digits might that count beyond a result.
 */
export function buildBody(
  region: Region,
  {
    mode = 'fast',
    inPieces = false,
    untied = false,
    overhang = false,
    isInside = false,
    most = Number.POSITIVE_INFINITY,
  }: BodyOptions = {},
): Built | (Refused & Omit<Attempt, 'body'>) {
  const bindings: Bindings = {
    splits: new Map(),
    kept: new Set(),
    covers: new Map(),
    firsts: new Set(),
    ...(inPieces ? { cuts: new Map<string, readonly number[]>() } : {}),
    ...(overhang ? { overhang } : {}),
  }
  for (let attempt = 0; attempt < mostAttempts; attempt++) {
    const tiles = new Tiles(bindings, most)
    const instances = new Instances(region, tiles, mode, !untied, isInside)
    try {
      const made = buildOnce(region, instances, bindings.firsts)
      if (!('kind' in made)) return { ok: true, ...made }
      rebind(bindings, made)
    } catch (e) {
      if (!(e instanceof Refusal)) throw e
      // What is refused after something was asked to be bound otherwise is refused of no body.
      if (tiles.rebind === undefined) {
        const { branches, folds } = instances
        return { ...e.refused, branches, ties: folds.ties, overhangs: tiles.overhangs }
      }
      rebind(bindings, tiles.rebind)
    }
  }
  const why = `the axes of a kernel would be bound anew more than ${mostAttempts} times`
  return { ...refuse('regrouped-axes', why), branches: false, ties: false, overhangs: false }
}

/** Notes what an attempt found. */
function rebind(bindings: Bindings, found: Rebind): void {
  if (found.kind === 'cover') {
    bindings.covers.set(found.key, found.pieces)
    return
  }
  // Axes get other names: what folds run over is found again.
  bindings.covers.clear()
  switch (found.kind) {
    case 'split':
      bindings.splits.set(found.key, found.factors)
      return
    case 'cut':
      bindings.cuts?.set(found.key, found.edges)
      return
    case 'first':
      bindings.firsts.add(found.result)
      return
    case 'keep':
      bindings.kept.add(found.key)
      bindings.splits.delete(found.key)
  }
}
