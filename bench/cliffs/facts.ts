/**
 * What a lower bound may assume of every value of a graph, from the graph alone: how many of its elements can differ (a value that is
 * repeated along an axis is computed once along it), and which are known to be zero (padding around a convolution).
 */
import type { Node, NodeOf } from '../../src/graph/node.ts'
import { familyOf, scalarOf } from '../../src/graph/table.ts'
import { sizeOf } from '../../src/types/shape.ts'

export interface Facts {
  /** Follows from no input of the program. */
  readonly constant: boolean
  /** Per axis, whether elements may differ along it. */
  readonly varying: readonly boolean[]
  /** Elements that are enough to know all of them. */
  readonly distinct: number
  /** Per axis, the positions (0 or 1) that may hold anything but zero; undefined where all may. */
  readonly masks: readonly (Uint8Array | undefined)[]
  /** Beside the masks, the share of elements that may be anything but zero. */
  readonly live: number
}

export const product = (list: readonly number[]): number => list.reduce((n, d) => n * d, 1)
const share = (mask: Uint8Array | undefined): number =>
  mask === undefined || mask.length === 0 ? 1 : mask.reduce((n, x) => n + x, 0) / mask.length

/** The share of a value's elements that may be anything but zero. */
export const liveShare = (f: Facts): number => f.live * product(f.masks.map(share))

const none = (shape: readonly number[]): undefined[] => shape.map(() => undefined)
const extended = (shape: readonly number[]): boolean[] => shape.map((d) => d > 1)
/** Elements in the space of the axes along which something differs. */
const span = (shape: readonly number[], varying: readonly boolean[]): number =>
  product(shape.filter((_, i) => varying[i] === true))

/** Runs of axes of two shapes of one size that hold the same elements. */
export function axisGroups(from: readonly number[], to: readonly number[]): (readonly [number[], number[]])[] {
  const groups: [number[], number[]][] = []
  let [i, j] = [0, 0]
  while (i < from.length || j < to.length) {
    const group: [number[], number[]] = [[], []]
    let [a, b] = [1, 1]
    do {
      if (i < from.length && (a <= b || j >= to.length)) {
        a *= from[i] ?? 1
        group[0].push(i++)
      } else if (j < to.length) {
        b *= to[j] ?? 1
        group[1].push(j++)
      } else break
    } while (a !== b)
    groups.push(group)
  }
  return groups
}

function reshaped(x: Node, f: Facts, to: readonly number[]): Facts {
  const varying = to.map(() => false)
  const masks: (Uint8Array | undefined)[] = none(to)
  let live = f.live
  for (const [from, into] of axisGroups(x.shape, to)) {
    const differs = from.some((i) => f.varying[i])
    for (const j of into) varying[j] = differs && (to[j] ?? 1) > 1
    const long = from.filter((i) => (x.shape[i] ?? 1) > 1)
    const target = into.filter((j) => (to[j] ?? 1) > 1)
    const [only, place] = [long[0], target[0]]
    if (long.length === 1 && target.length === 1 && only !== undefined && place !== undefined)
      masks[place] = f.masks[only]
    else for (const i of from) live *= share(f.masks[i])
  }
  return { ...f, varying, masks, live, distinct: Math.min(f.distinct, span(to, varying)) }
}

function padded(n: NodeOf<'pad'>, x: Node, f: Facts): Facts {
  const { low, high, interior, value } = n.attrs
  const zero = Number(value) === 0
  const grows = n.shape.map((_, i) => (low[i] ?? 0) + (high[i] ?? 0) > 0 || (interior[i] ?? 0) > 0)
  const masks = n.shape.map((d, i) => {
    if (grows[i] !== true) return f.masks[i]
    if (!zero) return undefined
    const mask = new Uint8Array(d)
    for (let k = 0; k < (x.shape[i] ?? 0); k++)
      mask[(low[i] ?? 0) + k * ((interior[i] ?? 0) + 1)] = f.masks[i]?.[k] ?? 1
    return mask
  })
  const varying = f.varying.map((v, i) => (v || grows[i] === true) && (n.shape[i] ?? 1) > 1)
  return { ...f, varying, masks, live: zero ? f.live : 1 }
}

function windowed(n: NodeOf<'window'>, f: Facts): Facts {
  const { axis, size, stride, dilation } = n.attrs
  const mask = f.masks[axis]
  const positions = n.shape[axis] ?? 0
  let hits = 0
  if (mask !== undefined)
    for (let o = 0; o < positions; o++) for (let k = 0; k < size; k++) hits += mask[o * stride + k * dilation] ?? 0
  const split = <T>(list: readonly T[], pair: readonly T[]): T[] => list.toSpliced(axis, 1, ...pair)
  const differs = f.varying[axis] === true
  return {
    ...f,
    varying: split(f.varying, [differs && positions > 1, differs && size > 1]),
    masks: split<Uint8Array | undefined>(f.masks, [undefined, undefined]),
    live: mask === undefined || positions * size === 0 ? f.live : (f.live * hits) / (positions * size),
    distinct: Math.min(f.distinct, sizeOf(n.shape)),
  }
}

const meet = (a: Uint8Array | undefined, b: Uint8Array | undefined): Uint8Array | undefined =>
  a === undefined ? b : b === undefined ? a : a.map((x, i) => x & (b[i] ?? 1))

function elementwise(n: Node, inputs: readonly Facts[]): Facts {
  const varying = n.shape.map((d, i) => d > 1 && inputs.some((f) => f.varying[i]))
  const [a, b] = inputs
  const op = scalarOf(n)?.op
  const keeps = op === 'cast' || op === 'neg' || op === 'abs'
  const multiplies = op === 'mul' && b !== undefined
  const masks =
    a === undefined
      ? none(n.shape)
      : keeps
        ? a.masks
        : multiplies
          ? a.masks.map((m, i) => meet(m, b.masks[i]))
          : none(n.shape)
  return {
    constant: inputs.every((f) => f.constant),
    varying,
    distinct: Math.min(span(n.shape, varying), product(inputs.map((f) => f.distinct))),
    masks,
    live: keeps && a !== undefined ? a.live : multiplies && a !== undefined ? Math.min(a.live, b.live) : 1,
  }
}

function joined(n: NodeOf<'concat'>, inputs: readonly Facts[]): Facts {
  const varying = n.shape.map((d, i) => d > 1 && (i === n.attrs.axis || inputs.some((f) => f.varying[i])))
  const size = Math.max(1, sizeOf(n.shape))
  const live = n.inputs.reduce((sum, x, i) => sum + (sizeOf(x.shape) * liveShare(inputs[i] ?? plain(x))) / size, 0)
  return {
    constant: inputs.every((f) => f.constant),
    varying,
    distinct: Math.min(
      span(n.shape, varying),
      inputs.reduce((sum, f) => sum + f.distinct, 0),
    ),
    masks: none(n.shape),
    live,
  }
}

/** A value of which nothing is known. */
const plain = (n: Node, constant = false): Facts => ({
  constant,
  varying: extended(n.shape),
  distinct: sizeOf(n.shape),
  masks: none(n.shape),
  live: 1,
})

function viewFacts(n: Node, x: Node, f: Facts, inputs: readonly Facts[]): Facts {
  switch (n.op) {
    case 'reshape':
      return reshaped(x, f, n.shape)
    case 'permute':
      return {
        ...f,
        varying: n.attrs.perm.map((p) => f.varying[p] === true),
        masks: n.attrs.perm.map((p) => f.masks[p]),
      }
    case 'flip':
      return { ...f, masks: f.masks.map((m, i) => (n.attrs.axes.includes(i) ? m?.toReversed() : m)) }
    case 'slice': {
      const varying = f.varying.map((v, i) => v && (n.shape[i] ?? 1) > 1)
      const { start, step } = n.attrs
      const masks = f.masks.map((m, i) =>
        m === undefined
          ? undefined
          : Uint8Array.from({ length: n.shape[i] ?? 0 }, (_, k) => m[(start[i] ?? 0) + k * (step[i] ?? 1)] ?? 0),
      )
      return { ...f, varying, masks, distinct: Math.min(f.distinct, span(n.shape, varying)) }
    }
    case 'broadcast': {
      const varying = n.shape.map(() => false)
      const masks: (Uint8Array | undefined)[] = none(n.shape)
      n.attrs.dims.forEach((d, i) => {
        varying[d] = f.varying[i] === true
        if (x.shape[i] === n.shape[d]) masks[d] = f.masks[i]
      })
      return { ...f, varying, masks }
    }
    case 'pad':
      return padded(n, x, f)
    case 'window':
      return windowed(n, f)
    case 'concat':
      return joined(n, inputs)
    default:
      throw new Error(`the floor knows no view ${n.op}`)
  }
}

function factsOfNode(n: Node, inputs: readonly Facts[]): Facts {
  const constant = inputs.every((f) => f.constant)
  const [x] = n.inputs
  const [f] = inputs
  switch (familyOf(n)) {
    case 'source':
      if (n.op === 'param') return plain(n)
      if (n.op === 'full') return { ...plain(n, true), varying: n.shape.map(() => false), distinct: 1 }
      if (n.op === 'iota') return { ...plain(n, true), varying: n.shape.map((d, i) => d > 1 && i === n.attrs.axis) }
      return plain(n, true)
    case 'random':
      return plain(n)
    case 'elementwise':
      return elementwise(n, inputs)
    case 'view':
      if (x === undefined || f === undefined) throw new Error('a view without input')
      return viewFacts(n, x, f, inputs)
    case 'gather':
      return {
        ...plain(n, constant),
        distinct: Math.min(sizeOf(n.shape), f?.constant === true ? sizeOf(n.shape) : (f?.distinct ?? 1)),
      }
    case 'reduction': {
      if (n.op !== 'reduce' || f === undefined) throw new Error('a reduction without input')
      const { axes } = n.attrs
      const varying = f.varying.filter((_, i) => !axes.includes(i))
      return { constant, varying, distinct: span(n.shape, varying), masks: none(n.shape), live: 1 }
    }
    case 'scan': {
      if (n.op !== 'scan' || f === undefined) throw new Error('a scan without input')
      const varying = f.varying.map((v, i) => v || (i === n.attrs.axis && (n.shape[i] ?? 1) > 1))
      return { constant, varying, distinct: span(n.shape, varying), masks: none(n.shape), live: 1 }
    }
    case 'contraction': {
      if (n.op !== 'contract') throw new Error('a contraction')
      const differs = differingLabels(n, inputs)
      const varying = [...n.attrs.out].map((l, i) => (n.shape[i] ?? 1) > 1 && differs.has(l))
      return { constant, varying, distinct: span(n.shape, varying), masks: none(n.shape), live: 1 }
    }
    case 'scatter':
      return plain(n, constant)
    case 'boundary':
    case 'region':
      throw new Error(`the floor knows no ${n.op}: the programs have none`)
  }
}

/** Labels of a contraction along which an operand differs. */
export function differingLabels(n: NodeOf<'contract'>, inputs: readonly Facts[]): Set<string> {
  const labels = [n.attrs.lhs, n.attrs.rhs]
  return new Set(labels.flatMap((s, side) => [...s].filter((_, i) => inputs[side]?.varying[i])))
}

/** The facts of every node, in topological order. */
export function factsOf(nodes: readonly Node[]): Map<Node, Facts> {
  const facts = new Map<Node, Facts>()
  for (const n of nodes)
    facts.set(
      n,
      factsOfNode(
        n,
        n.inputs.map((x) => facts.get(x) ?? plain(x)),
      ),
    )
  return facts
}
