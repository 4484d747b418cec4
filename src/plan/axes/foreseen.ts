/**
 * Refusals that the graph tells before a body is built: what a window reads of a fold's result would be folded again for every window, and a fold in front
 * of a matrix product for every block of it. Networks of depthwise convolutions offer such pairs at every layer, and a body costs ten times as much. Says nothing
 * where it is not certain that the body would be refused with these very words: other reasons that may come first, views that regroup axes, several results.
 */
import type { Node, NodeOf } from '../../graph/node.ts'
import { labelExtents } from '../../graph/ops/contraction.ts'
import { familyOf } from '../../graph/table.ts'
import type { Machine } from '../../target/machine.ts'
import { computeDType } from '../../types/dtype.ts'
import { mostPieces } from '../body/buildBody.ts'
import { recomputed } from '../body/folds.ts'
import { foldsElements, inStoringOrder, isFree, type Region, shallowFirst } from '../body/region.ts'
import type { Refused } from '../refusal.ts'
import { inPrologue } from './fusedReductions.ts'
import { isServed, servesSides } from './matrixRole.ts'

/** Larger regions are built: what they take is not known from their nodes. */
const mostNodes = 128
/** Statements that a node becomes, and buffers that a tensor is bound as, at most. */
const [statementsEach, buffersEach] = [4, 2]

/** At which coordinates a node is evaluated: each an axis of its own, or some along windows that overlap. */
type Coordinates = 'whole' | 'windows'

/** What is certain of an evaluation: that it comes through, or how it is refused; undefined: nothing. */
type Known = 'built' | Refused | undefined

/** Whether a view only adds or leaves out dimensions of one element. */
const keepsDims = (n: Node, x: Node): boolean => {
  const wide = (shape: readonly number[]): string => shape.filter((d) => d !== 1).join()
  return n.op === 'reshape' && wide(n.shape) === wide(x.shape)
}

/** Whether several elements of a window are those of the next one too, along more of them than a result is ever stored in pieces. */
function isOverlapping({ attrs: { axis, stride, dilation }, shape }: NodeOf<'window'>): boolean {
  const [count, taps] = [shape[axis] ?? 0, shape[axis + 1] ?? 0]
  return count > mostPieces && stride % dilation === 0 && stride / dilation < taps
}

/** Goes through a region as its evaluation does (`Instances`), in its order. */
class Walk {
  private readonly members: ReadonlySet<Node>
  private readonly holding = new Map<Node, boolean>()
  private readonly built = new Map<Node, Coordinates>()
  readonly loads = new Set<Node>()

  constructor({ members }: Region) {
    this.members = members
  }

  get nodes(): number {
    return this.holding.size
  }

  /** Whether the region folds something for a node. */
  holdsFold(n: Node): boolean {
    const have = this.holding.get(n)
    if (have !== undefined) return have
    const isComputed = this.members.has(n) || isFree(n)
    if (!isComputed) this.loads.add(n)
    let holds = isComputed && foldsElements(n)
    this.holding.set(n, holds)
    if (isComputed && this.nodes <= mostNodes) for (const x of n.inputs) if (this.holdsFold(x)) holds = true
    this.holding.set(n, holds)
    return holds
  }

  at(n: Node, coordinates: Coordinates): Known {
    if (!this.holdsFold(n) || this.built.get(n) === coordinates) return 'built'
    const [x] = n.inputs
    const known = x === undefined || n.shape.includes(0) ? undefined : this.evaluated(n, x, coordinates)
    if (known === 'built') this.built.set(n, coordinates)
    return known
  }

  private evaluated(n: Node, x: Node, coordinates: Coordinates): Known {
    switch (familyOf(n)) {
      case 'elementwise':
        return this.all(n, shallowFirst(n), coordinates)
      case 'reduction':
      case 'contraction':
        if (coordinates === 'windows') return recomputed(n)
        if (n.op === 'reduce' && n.attrs.axes.every((d) => x.shape[d] === 1)) return undefined
        return this.all(n, [0, 1], 'whole')
      case 'view':
        if (n.op === 'window') return isOverlapping(n) ? this.at(x, 'windows') : undefined
        if (n.op === 'pad' && (coordinates === 'whole' || n.attrs.interior.some((d) => d > 0))) return undefined
        if (n.op === 'broadcast' && coordinates === 'windows') return undefined
        return n.op === 'permute' || n.op === 'pad' || n.op === 'broadcast' || keepsDims(n, x)
          ? this.at(x, coordinates)
          : undefined
      default:
        return undefined
    }
  }

  private all(n: Node, order: readonly number[], coordinates: Coordinates): Known {
    for (const i of order) {
      const x = n.inputs[i]
      const known = x === undefined ? 'built' : this.at(x, coordinates)
      if (known !== 'built') return known
    }
    return 'built'
  }

  /** The folds from which a result follows element by element; undefined: others stand between. */
  foldsBehind(root: Node): ReadonlySet<Node> | undefined {
    const found = new Set<Node>()
    const seen = new Set<Node>()
    const stack = [root]
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      if (seen.has(n) || !this.holdsFold(n)) continue
      seen.add(n)
      const [x] = n.inputs
      if (foldsElements(n)) found.add(n)
      else if (familyOf(n) === 'elementwise' || (x !== undefined && keepsDims(n, x))) stack.push(...n.inputs)
      else return undefined
    }
    return found
  }

  /** Contractions that the region computes. */
  contractions(): NodeOf<'contract'>[] {
    return [...this.holding.keys()].flatMap((n) => (n.op === 'contract' && this.members.has(n) ? [n] : []))
  }
}

/** Whether a contraction has the dtype and the sides of a matrix product. */
function hasSides({ inputs: [a, b], attrs: { lhs, rhs, out }, dtype }: NodeOf<'contract'>, target: Machine): boolean {
  if (a === undefined || b === undefined) return false
  const extents = labelExtents(lhs, a.shape, rhs, b.shape)
  const size = (is: (label: string) => boolean): number => {
    let n = 1
    for (const [label, extent] of extents) if (is(label)) n *= extent
    return n
  }
  return (
    isServed(computeDType(dtype), target) &&
    size((l) => !out.includes(l)) >= 2 &&
    servesSides(
      size((l) => out.includes(l) && !rhs.includes(l)),
      size((l) => out.includes(l) && !lhs.includes(l)),
    )
  )
}

/** Why no kernel of a target computes a region, where that is certain. */
export function foreseen(region: Region, target: Machine): Refused | undefined {
  // One of the folds is a contraction: others fold one value together, as a softmax does.
  let [folds, contractions] = [0, 0]
  for (const n of region.members)
    if (foldsElements(n)) {
      folds++
      if (n.op === 'contract') contractions++
    }
  const [root, other] = region.order ?? inStoringOrder(region.outputs)
  if (folds < 2 || contractions === 0 || root === undefined) return undefined
  const walk = new Walk(region)
  // Asked of all that the region evaluates for its first result.
  walk.holdsFold(root)
  if (walk.nodes > mostNodes || statementsEach * walk.nodes > target.maxStatements) return undefined
  const known = walk.at(root, 'whole')
  if (known !== 'built') return known
  // The body is built. What is beside a product, or behind it, may have another reason.
  if (other !== undefined || target.undivided !== undefined) return undefined
  if (buffersEach * walk.loads.size + 1 > target.maxBuffers) return undefined
  const [product, more] = walk.foldsBehind(root) ?? []
  if (product?.op !== 'contract' || more !== undefined || !product.inputs.some((x) => walk.holdsFold(x)))
    return undefined
  return walk.contractions().every((c) => hasSides(c, target) === (c === product)) ? inPrologue : undefined
}
