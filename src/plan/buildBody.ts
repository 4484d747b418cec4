/** Building a region's body: its results bound to axes, every node evaluated, axes split until the index maps are affine. */
import { invariant } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { familyOf } from '../graph/table.ts'
import * as ix from '../index/expr.ts'
import { always } from '../index/predicate.ts'
import type { LetStmt } from '../kernel/ir.ts'
import { expressionsOf, liveLets } from '../kernel/walk.ts'
import { sizeOf } from '../types/shape.ts'
import { coversOnce } from './bijection.ts'
import type { Body, BodyStore } from './body.ts'
import { Instances, Refusal } from './instances.ts'
import { type Refused, refuse } from './refusal.ts'
import { isFree, type Region } from './region.ts'
import { type BoundDim, KeepAxis, SplitAxis, Tiles } from './tiles.ts'

function buildOnce(region: Region, splits: ReadonlyMap<string, readonly number[]>, kept: ReadonlySet<string>): Body {
  const tiles = new Tiles(splits, kept)
  const b = new Instances(region, tiles)
  const roots = [...region.outputs].sort((p, q) => sizeOf(q.shape) - sizeOf(p.shape) || q.id - p.id)
  const stores: BodyStore[] = []
  const rootDims: BoundDim[][] = []
  for (const root of roots) {
    const found = b.instancesOf(root).find((s) => s.mask.length === 0 && coversOnce(s.index, root.shape))
    if (found !== undefined) {
      stores.push({ node: root, shape: root.shape, value: found.value, index: found.index })
      continue
    }
    const dims = reducedAlongside(b, tiles, region, root) ?? bindRoot(tiles, root, rootDims)
    if (dims === undefined)
      throw new Refusal(
        refuse(
          'unaligned-output',
          `a result of shape [${root.shape.join(', ')}] does not line up with the kernel's axes`,
        ),
      )
    rootDims.push(dims)
    const index = dims.map((d) => d.expr)
    stores.push({ node: root, shape: root.shape, value: b.value(root, index, always), index })
  }
  return bodyOf(b, tiles, stores)
}

/** The body of some stores: what they need of what was evaluated. */
function bodyOf(b: Instances, tiles: Tiles, stores: readonly BodyStore[]): Body {
  const used = liveLets(
    tiles.lets,
    stores.map((s) => s.value),
  )
  for (const l of used) if (l.op.kind !== 'scalar') tiles.checkSplits(expressionsOf(l.op))
  const names = axesOfStatements(used)
  for (const s of stores) for (const e of s.index) for (const a of ix.axesOf(e)) names.add(a)
  const loaded = new Set<string>()
  for (const { op } of used) if (op.kind === 'load') loaded.add(op.param)
  return {
    axes: [...tiles.extents].filter(([name]) => names.has(name)).map(([name, extent]) => ({ name, extent })),
    lets: used,
    stores,
    loads: new Map(
      [...b.loads].filter(([name]) => loaded.has(name)).map(([name, node]) => [name, { node, shape: node.shape }]),
    ),
    origin: tiles.origin,
  }
}

function axesOfStatements(lets: readonly LetStmt[]): Set<string> {
  const out = new Set<string>()
  // Statements share their lists of axes.
  const seen = new Set<readonly string[]>()
  const take = (axes: readonly string[]): void => {
    if (seen.has(axes)) return
    seen.add(axes)
    for (const a of axes) out.add(a)
  }
  for (const { axes, op } of lets) {
    take(axes)
    if (op.kind === 'reduce' || op.kind === 'dot') take(op.axes)
  }
  return out
}

/**
 * Axes for a result of a reduction whose operand is evaluated already: those the operand keeps, so that it need not be
 * evaluated at another index map. The way down to the reduction leads through elementwise operations and reshapes.
 */
function reducedAlongside(b: Instances, tiles: Tiles, region: Region, root: Node): BoundDim[] | undefined {
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
      const dims = kept.flatMap((e) => tiles.dimOf(e) ?? [])
      const wide = root.shape.filter((e) => e !== 1)
      if (mask.length > 0 || dims.length !== wide.length || dims.some((d, i) => d.extent !== wide[i])) continue
      const rest = [...dims]
      return root.shape.map((e) => (e === 1 ? undefined : rest.shift()) ?? { expr: ix.zero, axes: [], extent: 1 })
    }
  }
  return undefined
}

/** Axes for a result: those of an earlier result where extents line up, else (for the first, or a scalar) fresh ones. */
function bindRoot(tiles: Tiles, root: Node, earlier: readonly BoundDim[][]): BoundDim[] | undefined {
  if (earlier.length === 0) return root.shape.map((n, d) => tiles.freshDim(`root.${d}`, n))
  if (root.shape.every((n) => n === 1)) return root.shape.map(() => ({ expr: ix.zero, axes: [], extent: 1 }))
  for (const dims of earlier) {
    const out: BoundDim[] = []
    let at = 0
    for (const n of root.shape) {
      if (n === 1) {
        out.push({ expr: ix.zero, axes: [], extent: 1 })
        continue
      }
      while (at < dims.length && dims[at]?.extent !== n) at++
      const d = dims[at++]
      if (d === undefined) break
      out.push(d)
    }
    if (out.length === root.shape.length) return out
  }
  return undefined
}

/** Builds a region's body, or says why it cannot be one kernel. */
export function buildBody(region: Region): { readonly ok: true; readonly body: Body } | Refused {
  const splits = new Map<string, readonly number[]>()
  const kept = new Set<string>()
  for (let attempt = 0; ; attempt++) {
    try {
      return { ok: true, body: buildOnce(region, splits, kept) }
    } catch (e) {
      if (e instanceof Refusal) return e.refused
      invariant(attempt < 64, 'splitting of axes does not end')
      if (e instanceof SplitAxis) splits.set(e.key, e.factors)
      else if (e instanceof KeepAxis) {
        kept.add(e.key)
        splits.delete(e.key)
      } else throw e
    }
  }
}
