/** Which dimensions of a region's values are one axis: those that its operations evaluate at one index. */

import type { Node, NodeOf } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { isFree, type Region } from './region.ts'

/** A dimension of a value. */
type Place = `${number}.${number}`

const place = (node: Node, d: number): Place => `${node.id}.${d}`

/** Dimensions of two shapes of one size that have the same place in both: as many elements before them, and one extent. */
function keptByReshape(from: readonly number[], to: readonly number[]): [number, number][] {
  const at = new Map<string, number>()
  let before = 1
  for (const [d, n] of from.entries()) {
    if (n !== 1) at.set(`${before},${n}`, d)
    before *= n
  }
  before = 1
  return to.flatMap((n, d) => {
    const have = at.get(`${before},${n}`)
    before *= n
    return have === undefined ? [] : [[have, d]]
  })
}

/** A node's dimensions and those of an operand, by number, that are evaluated at one index. */
export function pairsOf(node: Node, x: Node, i: number): [number, number][] {
  const own = x.shape.map((_, d) => d)
  switch (node.op) {
    case 'reshape':
      return keptByReshape(node.shape, x.shape)
    case 'permute':
      return node.attrs.perm.map((p, d) => [d, p])
    case 'broadcast':
      return node.attrs.dims.map((d, k) => [d, k])
    case 'window':
      return own.flatMap((d) => (d === node.attrs.axis ? [] : [[d < node.attrs.axis ? d : d + 1, d]]))
    case 'reduce':
      return own.filter((d) => !node.attrs.axes.includes(d)).map((d, at) => [at, d])
    case 'gather':
      if (i === 0) return node.attrs.sources.flatMap((s, d) => ('axis' in s ? [[s.axis, d]] : []))
      return own.map((d) => [d, d])
  }
  return own.filter((d) => node.shape[d] === x.shape[d]).map((d) => [d, d])
}

/** Labels of a contraction and the dimensions they name. */
function labelled({ inputs: [a, b], attrs }: NodeOf<'contract'>): [string, Node, number][] {
  const of = (labels: string, x: Node | undefined): [string, Node, number][] =>
    x === undefined ? [] : [...labels].map((l, d) => [l, x, d])
  return [...of(attrs.lhs, a), ...of(attrs.rhs, b)]
}

/** The dimensions of a region's values, in classes of one axis each. */
export class Alignment {
  private readonly parent = new Map<Place, Place>()

  constructor({ members, outputs }: Region) {
    const stack = [...outputs]
    const seen = new Set<Node>()
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      if (seen.has(n) || !(members.has(n) || isFree(n))) continue
      seen.add(n)
      stack.push(...n.inputs)
      if (n.op === 'contract') this.joinLabels(n)
      else if (familyOf(n) !== 'random')
        for (const [i, x] of n.inputs.entries())
          for (const [d, e] of pairsOf(n, x, i)) this.join(place(n, d), place(x, e))
    }
  }

  private joinLabels(node: NodeOf<'contract'>): void {
    const at = new Map<string, Place>([...node.attrs.out].map((l, d) => [l, place(node, d)]))
    for (const [label, x, d] of labelled(node)) {
      const have = at.get(label)
      if (have === undefined) at.set(label, place(x, d))
      else this.join(have, place(x, d))
    }
  }

  private join(a: Place, b: Place): void {
    const [p, q] = [this.find(a), this.find(b)]
    if (p !== q) this.parent.set(p, q)
  }

  private find(a: Place): Place {
    let root = a
    for (let up = this.parent.get(root); up !== undefined; up = this.parent.get(root)) root = up
    for (let at = a; at !== root; ) {
      const up = this.parent.get(at) ?? root
      this.parent.set(at, root)
      at = up
    }
    return root
  }

  /** Which axis a dimension is. */
  axisOf(node: Node, d: number): Place {
    return this.find(place(node, d))
  }
}
