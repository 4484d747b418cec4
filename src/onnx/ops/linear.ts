/** Matrix products: MatMul, Gemm, Einsum, determinants of small matrices. */
import { UserError } from '../../diagnostics/errors.ts'
import type { IndexSource } from '../../graph/node.ts'
import { isFloat } from '../../types/dtype.ts'
import { broadcastShapes, type Shape } from '../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/** alpha A' B' + beta C. */
export function gemm(c: OpContext): n.Node {
  const a = c.need(0)
  const transA = c.flag('transA', false) ? 'ki' : 'ik'
  const transB = c.flag('transB', false) ? 'jk' : 'kj'
  const product = n.contractLabelled(a, transA, c.need(1), transB, 'ij')
  const factor = (x: n.Node, by: number): n.Node => (by === 1 ? x : n.mul(x, isFloat(x.dtype) ? by : Math.trunc(by)))
  const y = factor(product, c.float('alpha', 1))
  const bias = c.opt(2)
  return bias === undefined ? y : n.add(y, factor(bias, c.float('beta', 1)))
}

/** The diagonal of two axes of one operand as a single axis, in place of the first. */
function takeDiagonal(x: n.Node, first: number, second: number): n.Node {
  const shape = x.shape.filter((_, i) => i !== second)
  const sources = x.shape.map((_, i): IndexSource => {
    if (i === second) return { input: 0 }
    return { axis: i < second ? i : i - 1 }
  })
  return n.gather(x, [n.iota(shape, first, 'i32')], shape, sources)
}

interface Term {
  readonly node: n.Node
  readonly labels: string
}

/** Labels for the axes an ellipsis stands for: letters the equation does not use. */
function expandEllipsis(terms: readonly Term[], equation: string): { terms: Term[]; ellipsis: string } {
  const free = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'].filter((l) => !equation.includes(l))
  const counts = terms.map((t) => (t.labels.includes('...') ? t.node.shape.length - t.labels.length + 3 : 0))
  const all = free.slice(0, Math.max(0, ...counts)).join('')
  return {
    ellipsis: all,
    terms: terms.map((t, i) => {
      const count = counts[i] ?? 0
      return { node: t.node, labels: t.labels.replace('...', count === 0 ? '' : all.slice(-count)) }
    }),
  }
}

/** Repeated labels within an operand become diagonals. */
function diagonals({ node, labels }: Term): Term {
  if (labels.length !== node.shape.length)
    throw new UserError(
      'E_ONNX_MALFORMED',
      `einsum names ${labels.length} axes of an operand of [${node.shape.join(', ')}]`,
    )
  let [of, left] = [node, labels]
  for (let i = 0; i < left.length; i++)
    for (let again = left.indexOf(left.charAt(i), i + 1); again >= 0; again = left.indexOf(left.charAt(i), i + 1)) {
      if (of.shape[i] !== of.shape[again])
        throw new UserError(
          'E_SHAPE',
          `einsum takes the diagonal of axes of extents ${of.shape[i]} and ${of.shape[again]}`,
        )
      of = takeDiagonal(of, i, again)
      left = left.slice(0, again) + left.slice(again + 1)
    }
  return { node: of, labels: left }
}

const einsum: Handler = (c) => {
  const equation = c.string('equation', '').replace(/\s+/g, '')
  const [left = '', right] = equation.split('->')
  const inputs = c.all()
  const names = left.split(',')
  if (names.length !== inputs.length)
    throw new UserError('E_ONNX_MALFORMED', `einsum "${equation}" of ${inputs.length} operands`)
  const raw = inputs.map((node, i) => ({ node, labels: names[i] ?? '' }))
  const { terms, ellipsis } = expandEllipsis(raw, equation)
  const once = left.replaceAll('...', '').replaceAll(',', '')
  const implicit = [...new Set(once)].filter((l) => once.indexOf(l) === once.lastIndexOf(l)).sort()
  const out = right === undefined ? ellipsis + implicit.join('') : right.replace('...', ellipsis)
  const plain = terms.map(diagonals)
  return n.einsum(
    `${plain.map((t) => t.labels).join(',')}->${out}`,
    plain.map((t) => t.node),
  )
}

/** Extent up to which determinants are expanded. */
const maxDeterminant = 6

/** Determinant by expansion along the first row: sums over permutations of products, shared by column sets. */
const det: Handler = (c) => {
  const x = c.need(0)
  const size = x.shape.at(-1) ?? 0
  if (x.shape.at(-2) !== size) throw new UserError('E_SHAPE', 'the determinant of a matrix that is not square')
  if (size > maxDeterminant) c.fail(`a determinant of a ${size} x ${size} matrix (at most ${maxDeterminant})`)
  const rank = x.shape.length
  const lead: Shape = x.shape.slice(0, -2)
  const cell = (i: number, j: number): n.Node => n.indexAxis(n.indexAxis(x, rank - 2, i), rank - 2, j)
  const known = new Map<string, n.Node>()
  const minor = (row: number, columns: readonly number[]): n.Node => {
    if (columns.length === 0) return n.filled(x, lead, 1)
    const key = columns.join()
    const have = known.get(key)
    if (have !== undefined) return have
    const terms = columns.map((j, k) => {
      const term = n.mul(
        cell(row, j),
        minor(
          row + 1,
          columns.filter((o) => o !== j),
        ),
      )
      return k % 2 === 0 ? term : n.neg(term)
    })
    const total = terms.reduce((a, b) => n.add(a, b))
    known.set(key, total)
    return total
  }
  return minor(
    0,
    Array.from({ length: size }, (_, i) => i),
  )
}

/** Broadcast of the batch axes of two matrices. */
export const batchShape = (a: n.Node, b: n.Node): number[] =>
  broadcastShapes(a.shape.slice(0, -2), b.shape.slice(0, -2))

const matMul = (c: OpContext): n.Node => n.matmul(c.need(0), c.need(1))

export const linearHandlers: HandlerTable = {
  Det: det,
  Einsum: einsum,
  Gemm: gemm,
  MatMul: matMul,
}
