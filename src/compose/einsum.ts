/** Einsum in NumPy's notation: ellipses and labels that an operand repeats become plain labels, then operands contract from left to right. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { showShape } from '../types/shape.ts'
import { arrange, checkLabels, contractLabelled, dropLabels, type Labelled } from './contract.ts'
import { diagonal } from './indexing.ts'
import { moveAxis } from './views.ts'

const dots = '...'

/** Labels of the axes that ellipses stand for: no letters, so that no equation has them. The last `count` of `all` are those of the last axes. */
const ellipsisLabels = (all: number, count: number): string =>
  Array.from({ length: all }, (_, i) => String.fromCharCode(0x2460 + i))
    .slice(all - count)
    .join('')

/** How many axes an ellipsis stands for in an operand. Throws E_SHAPE where the operand has fewer than letters. */
function axesOfEllipsis(spec: string, term: string, x: Node): number {
  if (!term.includes(dots)) return 0
  const count = x.shape.length - (term.length - dots.length)
  if (count >= 0) return count
  throw new UserError('E_SHAPE', `einsum "${spec}": labels "${term}" for an operand of shape ${showShape(x.shape)}`, {
    help: 'one letter an axis, and the ellipsis for those that are left',
  })
}

/** An operand that has each of its labels once: those that it repeats are diagonals, in place of their first axis. Throws E_SHAPE. */
function withDiagonals(operand: Labelled): Labelled {
  let { node, labels } = operand
  for (;;) {
    const twice = [...labels].findIndex((l, i) => labels.indexOf(l, i + 1) >= 0)
    if (twice < 0) return { node, labels }
    const again = labels.indexOf(labels.charAt(twice), twice + 1)
    if (node.shape[twice] !== node.shape[again])
      throw new UserError(
        'E_SHAPE',
        `the diagonal of axes ${twice} and ${again} of ${showShape(node.shape)}: their extents differ`,
        { help: 'axes with one label have one extent' },
      )
    const last = moveAxis(moveAxis(node, again, -1), twice, -2)
    node = moveAxis(diagonal(last), -1, twice)
    labels = labels.slice(0, again) + labels.slice(again + 1)
  }
}

/**
 * Einsum with NumPy's notation: `"ij,jk->ik"`; without `->`, the axes of the ellipsis and then the labels that occur once, sorted. An ellipsis stands for
 * the axes that have no letters, which broadcast; a letter repeated within an operand takes the diagonal. Several operands contract left to right, each
 * label summed once no later operand needs it. Throws E_ARGUMENT for an equation that is none, E_SHAPE.
 */
export function einsum(spec: string, operands: readonly Node[]): Node {
  const text = spec.replace(/\s+/g, '')
  const term = '[a-zA-Z]*(?:\\.{3}[a-zA-Z]*)?'
  if (!new RegExp(`^${term}(,${term})*(->${term})?$`).test(text))
    throw new UserError('E_ARGUMENT', `einsum "${spec}" is not of the form "ij,jk->ik"`, {
      help: 'write a term for each operand, commas between them, and the result behind "->"; "..." stands for other axes',
    })
  const [left = '', right] = text.split('->')
  const written = left.split(',')
  if (written.length !== operands.length)
    throw new UserError('E_ARGUMENT', `einsum "${spec}" names ${written.length} operands, not ${operands.length}`, {
      help: 'write one term for each operand',
    })
  const counts = operands.map((x, i) => axesOfEllipsis(spec, written[i] ?? '', x))
  const most = Math.max(0, ...counts)
  const named = written.join('').replaceAll(dots, '')
  const once = [...new Set(named)].filter((l) => named.indexOf(l) === named.lastIndexOf(l)).sort()
  const out = right?.replace(dots, ellipsisLabels(most, most)) ?? ellipsisLabels(most, most) + once.join('')
  if (most > 0 && right !== undefined && !right.includes(dots))
    throw new UserError('E_ARGUMENT', `einsum "${spec}": the result lacks the ellipsis of the operands`, {
      help: 'write "..." behind "->" too, or name the axes to sum over them',
    })
  if (new Set(out).size !== out.length)
    throw new UserError('E_ARGUMENT', `einsum "${spec}" repeats an output label`, {
      help: 'name each axis of the result once',
    })
  for (const l of right?.replace(dots, '') ?? '')
    if (!named.includes(l))
      throw new UserError('E_ARGUMENT', `einsum "${spec}": output label "${l}" is in no operand`, {
        help: 'every letter of the output stands in an operand',
      })
  const terms = operands.map((node, i): Labelled => {
    const labels = (written[i] ?? '').replace(dots, ellipsisLabels(most, counts[i] ?? 0))
    if (labels.length !== node.shape.length) checkLabels({ node, labels })
    return withDiagonals({ node, labels })
  })
  return contracted(terms, out)
}

/** Terms contracted from left to right, and what is left in the order of `out`. */
function contracted([first, ...rest]: readonly Labelled[], out: string): Node {
  if (first === undefined)
    throw new UserError('E_ARGUMENT', 'einsum of no operands', { help: 'pass a tensor for each term' })
  const done = rest.reduce<Labelled>((a, b, i) => {
    const later =
      rest
        .slice(i + 1)
        .map((t) => t.labels)
        .join('') + out
    const labels =
      i === rest.length - 1 ? out : [...new Set(a.labels + b.labels)].filter((l) => later.includes(l)).join('')
    return { node: contractLabelled(a.node, a.labels, b.node, b.labels, labels), labels }
  }, first)
  return arrange(
    dropLabels(done, (l) => !out.includes(l), 'sum'),
    out,
  )
}
