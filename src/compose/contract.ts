/**
 * Contractions: matmul, tensordot, outer, and the einsum of two operands (einsum.ts has the notation). An axis of extent 1 that broadcasts is dropped from its operand's labels,
 * so no broadcast operand is ever materialised.
 */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import type { Precision } from '../types/product.ts'
import { normaliseAxis, showShape } from '../types/shape.ts'
import { expandDims, reshape } from './broadcast.ts'
import { cast, commonDType, mul } from './elementwise.ts'
import { sum } from './reduce.ts'
import { permute } from './views.ts'

/** A tensor whose axes carry single-character labels. */
export interface Labelled {
  readonly node: Node
  readonly labels: string
}

const alphabet = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'

/** The n-th fresh label. */
export const labelAt = (n: number): string => alphabet[n] ?? String.fromCharCode(0x100 + n)

const extentOf = (x: Labelled, label: string): number | undefined => {
  const i = x.labels.indexOf(label)
  return i < 0 ? undefined : x.node.shape[i]
}

/** Takes labels out of an operand: axes of extent 1 by reshaping, the rest by summing. */
export function dropLabels(x: Labelled, drop: (label: string) => boolean, how: 'squeeze' | 'sum'): Labelled {
  const axes = [...x.labels].flatMap((l, i) => (drop(l) ? [i] : []))
  if (axes.length === 0) return x
  const labels = [...x.labels].filter((l) => !drop(l)).join('')
  if (how === 'sum') return { node: sum(x.node, axes), labels }
  return {
    node: reshape(
      x.node,
      x.node.shape.filter((_, i) => !axes.includes(i)),
    ),
    labels,
  }
}

/** Axes of an operand in the order of `out`, with axes of extent 1 where a label is missing. */
export function arrange(x: Labelled, out: string): Node {
  const present = [...out].filter((l) => x.labels.includes(l))
  const ordered = permute(
    x.node,
    present.map((l) => x.labels.indexOf(l)),
  )
  return expandDims(
    ordered,
    [...out].flatMap((l, i) => (x.labels.includes(l) ? [] : [i])),
  )
}

export function checkLabels(x: Labelled): void {
  if ([...x.labels].length !== x.node.shape.length)
    throw new UserError('E_SHAPE', `labels "${x.labels}" for an operand of shape ${showShape(x.node.shape)}`, {
      help: 'one label an axis',
    })
  if (new Set(x.labels).size !== x.labels.length)
    throw new UserError('E_UNSUPPORTED', `label repeated within one operand: "${x.labels}"`, {
      help: 'take the diagonal first',
    })
}

/**
 * Einsum of two operands by labels: labels absent from `out` are summed, an extent of 1 broadcasts. Operands promote; bool
 * becomes i32; `precision` of f32 is the program's unless given. Throws E_SHAPE where extents differ, E_ARGUMENT for an output label nobody has.
 */
export function contractLabelled(
  a: Node,
  aLabels: string,
  b: Node,
  bLabels: string,
  out: string,
  precision?: Precision,
): Node {
  const common = commonDType([a, b])
  const dtype = common === 'bool' ? 'i32' : common
  let lhs: Labelled = { node: cast(a, dtype), labels: aLabels }
  let rhs: Labelled = { node: cast(b, dtype), labels: bLabels }
  checkLabels(lhs)
  checkLabels(rhs)
  for (const l of out)
    if (!aLabels.includes(l) && !bLabels.includes(l))
      throw new UserError('E_ARGUMENT', `output label "${l}" is in no operand`, {
        help: 'every letter of the output stands in an operand',
      })
  for (const l of aLabels) {
    const m = extentOf(lhs, l)
    const n = extentOf(rhs, l)
    if (m !== undefined && n !== undefined && m !== n && m !== 1 && n !== 1)
      throw new UserError(
        'E_SHAPE',
        `the extents ${m} and ${n} of shapes ${showShape(a.shape)} and ${showShape(b.shape)} must agree`,
        {
          help: 'the inner extents of a matrix product must be equal',
        },
      )
  }
  const [left, right] = [lhs, rhs]
  const broadcasts =
    (x: Labelled, y: Labelled) =>
    (l: string): boolean =>
      extentOf(x, l) === 1 && (extentOf(y, l) ?? 1) !== 1
  lhs = dropLabels(left, broadcasts(left, right), 'squeeze')
  rhs = dropLabels(right, broadcasts(right, left), 'squeeze')
  lhs = dropLabels(lhs, (l) => !rhs.labels.includes(l) && !out.includes(l), 'sum')
  rhs = dropLabels(rhs, (l) => !lhs.labels.includes(l) && !out.includes(l), 'sum')
  // Nothing left to sum: an elementwise product.
  if ([...lhs.labels, ...rhs.labels].every((l) => out.includes(l))) return mul(arrange(lhs, out), arrange(rhs, out))
  const precise = precision === undefined ? {} : { precision }
  return makeNode('contract', [lhs.node, rhs.node], { lhs: lhs.labels, rhs: rhs.labels, out, ...precise })
}

/**
 * NumPy's matmul: matrices in the last two axes, leading axes broadcast, a vector counts as one row or column. Throws
 * E_SHAPE for scalars and inner extents that differ.
 */
export function matmul(a: Node, b: Node): Node {
  const ra = a.shape.length
  const rb = b.shape.length
  if (ra === 0 || rb === 0)
    throw new UserError('E_SHAPE', `matmul of shapes ${showShape(a.shape)} and ${showShape(b.shape)}`, {
      help: 'multiply by a scalar with mul',
    })
  const inner: readonly [number | undefined, number | undefined] = [a.shape.at(-1), b.shape.at(rb === 1 ? -1 : -2)]
  if (inner[0] !== inner[1])
    throw new UserError(
      'E_SHAPE',
      `matmul of shapes ${showShape(a.shape)} and ${showShape(b.shape)}: inner extents ${inner[0]} and ${inner[1]} differ`,
      {
        help: 'the last extent of the first must equal the next-to-last of the second',
      },
    )
  const batch = Math.max(ra, rb) - 2
  const lead = (rank: number): string =>
    Array.from({ length: Math.max(0, rank - 2) }, (_, i) => labelAt(3 + batch - (rank - 2) + i)).join('')
  const rows = ra === 1 ? '' : 'a'
  const columns = rb === 1 ? '' : 'b'
  const wide = ra >= rb ? lead(ra) : lead(rb)
  return contractLabelled(a, `${lead(ra)}${rows}c`, b, `${lead(rb)}c${columns}`, `${wide}${rows}${columns}`)
}

/** Sums over pairs of axes: `axes` last of the first with as many first of the second, or the two lists of axes. Throws E_SHAPE, E_AXIS. */
export function tensordot(a: Node, b: Node, axes: number | readonly [readonly number[], readonly number[]] = 2): Node {
  const ra = a.shape.length
  const [left, right] =
    typeof axes === 'number'
      ? [Array.from({ length: axes }, (_, i) => ra - axes + i), Array.from({ length: axes }, (_, i) => i)]
      : [axes[0], axes[1]]
  if (left.length !== right.length)
    throw new UserError('E_ARGUMENT', `tensordot over ${left.length} and ${right.length} axes`, {
      help: 'name as many axes of the first as of the second',
    })
  const aAxes = left.map((x) => normaliseAxis(x, ra))
  const bAxes = right.map((x) => normaliseAxis(x, b.shape.length))
  aAxes.forEach((x, i) => {
    const y = bAxes[i] ?? 0
    if (a.shape[x] !== b.shape[y])
      throw new UserError(
        'E_SHAPE',
        `tensordot of axis ${x} of ${showShape(a.shape)} with axis ${y} of ${showShape(b.shape)}: extents differ`,
        { help: 'axes that are summed together have one extent' },
      )
  })
  const aLabels = a.shape.map((_, i) => labelAt(i))
  const bLabels = b.shape.map((_, i) => {
    const at = bAxes.indexOf(i)
    return at < 0 ? labelAt(ra + i) : labelAt(aAxes[at] ?? 0)
  })
  const free = [...aLabels.filter((_, i) => !aAxes.includes(i)), ...bLabels.filter((_, i) => !bAxes.includes(i))]
  return contractLabelled(a, aLabels.join(''), b, bLabels.join(''), free.join(''))
}

/** Product of every element of the (flattened) first with every element of the second. */
export const outer = (a: Node, b: Node): Node => mul(reshape(a, [-1, 1]), reshape(b, [1, -1]))

/** Sum of products of two vectors, or NumPy's dot: matmul, but scalars multiply. */
export const dot = (a: Node, b: Node): Node => (a.shape.length === 0 || b.shape.length === 0 ? mul(a, b) : matmul(a, b))
