/**
 * Graphs that are one but for numbers (anti-unification: G. D. Plotkin: A note on inductive generalization, 1970). Nodes in their order are
 * taken side by side; what they are is compared, and each number that is not the same everywhere is a formula in the dimensions. Repeated literals
 * are part of what reads them: two that are equal at some extents alone are one node there.
 */

import { lcm } from '../../affine/gcd.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { operationOf } from '../../graph/tooLarge.ts'
import { nodesOf } from '../../graph/traverse.ts'
import {
  type Dimension,
  divisorOf,
  type Extents,
  type Formula,
  formulaAt,
  type RealFormula,
  realAt,
} from '../../runtime/extents.ts'
import { readElement, toHost } from '../../scalar/host.ts'
import { type DType, isFloat } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import type { Fitter } from './fit.ts'
import type { NoFormula } from './noFormula.ts'

/** A node as what is the same for all extents, and the numbers that may not be. */
interface Form {
  readonly node: Node
  readonly skeleton: string
  /** Numbers in the order in which they stand; a real one has its dtype. */
  readonly numbers: readonly { readonly value: number; readonly dtype: DType | undefined }[]
  readonly data: readonly HostArray[]
  /** Functions and the like, which are themselves alone. */
  readonly identities: readonly unknown[]
  /** Repeated literals among its inputs, in order. */
  readonly literals: readonly Node[]
}

/** Whether a node is a literal that repeats a number, which is part of what reads it. */
const isRepeated = (n: Node): boolean => n.op === 'full'

const isHostArray = (x: object): x is HostArray => ArrayBuffer.isView(x)

/** The nodes of a graph in order, those of graphs inside behind the node that holds them. */
function formsOf(graph: Graph): Form[] {
  const out: Form[] = []
  const add = (g: Graph): void => {
    const own = nodesOf(g).filter((n) => !isRepeated(n))
    const numberOf = new Map(own.map((n, i) => [n, i]))
    const ends = [...g.params, ...g.outputs, ...g.effects]
    for (const node of [...own, ...ends.filter(isRepeated)]) {
      const inner: Graph[] = []
      out.push(formOf(node, numberOf, inner))
      inner.forEach(add)
    }
    const places = ends.map((n) => numberOf.get(n) ?? -1)
    const last = out.at(-1)
    if (last !== undefined) out[out.length - 1] = { ...last, skeleton: `${last.skeleton}; ends ${places.join()}` }
  }
  add(graph)
  return out
}

function formOf(node: Node, numberOf: ReadonlyMap<Node, number>, inner: Graph[]): Form {
  const numbers: { value: number; dtype: DType | undefined }[] = []
  const data: HostArray[] = []
  const identities: unknown[] = []
  const literals = node.inputs.filter(isRepeated)
  let skeleton = `${node.op} ${node.dtype} ${node.inputs.map((x) => numberOf.get(x) ?? x.dtype).join()} `
  for (const owner of [node, ...literals]) {
    const real = isFloat(owner.dtype) ? owner.dtype : undefined
    const walk = (x: unknown, dtype: DType | undefined): void => {
      if (typeof x === 'number' || (typeof x === 'bigint' && Number.isSafeInteger(Number(x)))) {
        numbers.push({ value: Number(x), dtype })
        skeleton += '#'
      } else if (typeof x === 'function') identities.push(x)
      else if (typeof x !== 'object' || x === null) skeleton += typeof x === 'bigint' ? `${x}n` : JSON.stringify(x)
      else if (isHostArray(x)) {
        // A literal of one element is a number like others.
        if (x.length === 1) walk(Number(readElement(x, owner.dtype, 0)), real)
        else data.push(x)
      } else if (Array.isArray(x)) {
        skeleton += '['
        for (const y of x) walk(y, dtype)
        skeleton += ']'
      } else if ('params' in x && 'outputs' in x) inner.push(x as unknown as Graph)
      // In the order of names: whoever makes a node writes attributes in an order of its own.
      else
        for (const [k, y] of Object.entries(x).sort(([a], [b]) => (a < b ? -1 : 1))) {
          skeleton += ` ${k}:`
          walk(y, k === 'value' ? (real ?? dtype) : dtype)
        }
    }
    walk(owner.shape, undefined)
    walk(owner.attrs, undefined)
  }
  return { node, skeleton, numbers, data, identities, literals }
}

const sameData = (a: HostArray, b: HostArray | undefined): boolean =>
  b !== undefined && (a === b || (a.length === b.length && a.every((v, i) => Object.is(v, b[i]))))

/** Why two nodes are not one but for numbers; undefined: they are. */
function difference(a: Form, b: Form | undefined): string | undefined {
  if (b === undefined || a.skeleton !== b.skeleton || a.identities.some((x, i) => x !== b.identities[i]))
    return b === undefined || a.node.op === b.node.op
      ? `${operationOf(a.node)} is another one`
      : `${operationOf(a.node)} is ${a.node.op} at one length and ${b.node.op} at another`
  return a.data.every((d, i) => sameData(d, b.data[i]))
    ? undefined
    : `the literal of ${operationOf(a.node)} is another one`
}

/** Instances that are not one but for numbers. */
export class Misaligned extends UserError {
  /** The number of the sample that is unlike the first. */
  readonly sample: number
  constructor({ code, summary, where, help }: UserError, sample: number) {
    super(code, summary, { ...(where === undefined ? {} : { where }), ...(help === undefined ? {} : { help }) })
    this.sample = sample
  }
}

/** Throws E_UNSUPPORTED: what an operation is does not follow from the dimensions by a formula. */
export function cannotBeOpen(
  dimensions: readonly Dimension[],
  why: string,
  node: Node | undefined,
  cause?: NoFormula,
): UserError {
  const names = dimensions.map((d) => d.name).join(', ')
  const where = node?.origin.where
  return new UserError('E_UNSUPPORTED', `${names} cannot be open here: ${why}`, {
    help: 'close the dimension, or write the operation so that extents and numbers are sums and products of dimensions',
    ...(where === undefined ? {} : { where }),
    ...(cause === undefined ? {} : { cause }),
  })
}

/** How the nodes of a graph at one sample are those at another. */
export interface Aligned {
  /** By sample, the nodes in the order of the first sample's. */
  readonly nodes: readonly (readonly Node[])[]
}

/** What nodes of a graph are in one that is the same but for numbers; undefined where one would be two. */
function correspondence(first: readonly Form[], forms: readonly Form[]): ReadonlyMap<Node, Node> | undefined {
  const there = new Map<Node, Node>()
  for (const [i, a] of first.entries()) {
    const [own, others] = [a, forms[i]].map((f) => (f === undefined ? [] : [f.node, ...f.literals]))
    for (const [j, node] of (own ?? []).entries()) {
      const other = others?.[j]
      if (other === undefined || (there.get(node) ?? other) !== other) return undefined
      there.set(node, other)
    }
  }
  return there
}

/**
 * The nodes of graphs that are one but for numbers, side by side; `graphs` may be made one after another. Throws E_UNSUPPORTED at the first that
 * is not like the others.
 */
export function alignGraphs(graphs: Iterable<Graph>, dimensions: readonly Dimension[]): Aligned {
  let first: { readonly forms: readonly Form[]; readonly nodes: readonly Node[] } | undefined
  const nodes: Node[][] = []
  for (const graph of graphs) {
    const forms = formsOf(graph)
    first ??= { forms, nodes: nodesOf(graph) }
    const misaligned = (why: string, node: Node | undefined): Misaligned =>
      new Misaligned(cannotBeOpen(dimensions, why, node), nodes.length)
    for (const [i, form] of first.forms.entries()) {
      const found = difference(form, forms[i])
      if (found !== undefined) throw misaligned(found, form.node)
    }
    const there = forms.length === first.forms.length ? correspondence(first.forms, forms) : undefined
    if (there === undefined) throw misaligned('there are more operations at one length than at another', undefined)
    nodes.push(first.nodes.map((n) => there.get(n) ?? n))
  }
  return { nodes }
}

/** By node and axis, the extents of graphs that are one but for numbers: what formulas may be products of. */
export function* extentsOf(graphs: readonly (readonly Node[])[]): Generator<readonly number[]> {
  const [first = []] = graphs
  for (const [i, { shape }] of first.entries())
    for (const a of shape.keys()) yield graphs.map((nodes) => nodes[i]?.shape[a] ?? 0)
}

type Site = number | Formula | { readonly real: RealFormula; readonly dtype: DType }

const siteAt = (s: Site, at: Extents): number =>
  typeof s === 'number' ? s : 'real' in s ? rounded(realAt(s.real, at), s.dtype) : formulaAt(s, at)

const rounded = (v: number, dtype: DType): number => Number(readElement(toHost([v], dtype), dtype, 0))

/** What a function is traced to at any extents of the dimensions: a graph whose numbers are formulas. */
export class TraceTemplate {
  private readonly forms: readonly Form[]
  private readonly sites: readonly (readonly Site[])[]
  /** The least common multiple of what numbers are quotients of dimensions by; 1: none is a quotient. */
  readonly divisor: number

  /** Of graphs at the samples of a fitter. Throws E_UNSUPPORTED naming the operation whose numbers follow no formula. */
  constructor(graphs: readonly Graph[], fitter: Fitter, dimensions: readonly Dimension[]) {
    alignGraphs(graphs, dimensions)
    const all = graphs.map(formsOf)
    const [first = []] = all
    this.forms = first
    this.sites = first.map((form, i) =>
      form.numbers.map(({ value, dtype }, j): Site => {
        const values = all.map((forms) => forms[i]?.numbers[j]?.value ?? Number.NaN)
        if (values.every((v) => Object.is(v, value))) return value
        const found = dtype === undefined ? fitter.whole(values) : fitter.real(values, dtype)
        if (found === undefined)
          throw cannotBeOpen(
            dimensions,
            `a number of ${operationOf(form.node)} (${values.slice(0, 3).join(', ')}) follows from them by no formula`,
            form.node,
          )
        return 'through' in found && dtype !== undefined ? { real: found, dtype } : (found as Formula)
      }),
    )
    this.divisor = this.sites
      .flat()
      .reduce<number>((n, s) => (typeof s === 'number' ? n : lcm(n, 'real' in s ? divisorOf(s.real) : divisorOf(s))), 1)
  }

  /** Why a graph traced at some extents is not what the template says; undefined: it is. */
  mismatch(graph: Graph, at: Extents): string | undefined {
    const forms = formsOf(graph)
    if (forms.length !== this.forms.length) return `${forms.length} operations, not ${this.forms.length}`
    for (const [i, form] of this.forms.entries()) {
      const found = difference(form, forms[i])
      if (found !== undefined) return found
      for (const [j, site] of (this.sites[i] ?? []).entries()) {
        const [want, have] = [siteAt(site, at), forms[i]?.numbers[j]]
        const value = have?.dtype === undefined || have === undefined ? have?.value : rounded(have.value, have.dtype)
        if (!Object.is(typeof site === 'number' ? have?.value : value, want))
          return `a number of ${operationOf(form.node)} is ${have?.value}, not ${want}`
      }
    }
    return undefined
  }
}
