/** Ends of expressions over blocks of axes, by where the blocks start (`NAME.start`). */
import * as ix from './expr.ts'

/** An axis of which a program holds so many indices, of so many in all. */
export interface BlockedAxis {
  readonly block: number
  readonly extent: number
}

/** The least or greatest of an expression over a block of each axis; undefined where an axis has no block, or it is not known. */
export function endOfBlocks(
  e: ix.Expr,
  blockOf: (axis: string) => BlockedAxis | undefined,
  which: 'least' | 'most',
): ix.Expr | undefined {
  let out = ix.constant(e.offset)
  for (const { atom, coef } of e.terms) {
    const end = endOfAtom(atom, blockOf, coef > 0 === (which === 'most'))
    if (end === undefined) return undefined
    out = ix.add(out, ix.mul(end, coef))
  }
  return out
}

function endOfAtom(
  atom: ix.Atom,
  blockOf: (axis: string) => BlockedAxis | undefined,
  top: boolean,
): ix.Expr | undefined {
  const last = (block: number): number => (top ? block - 1 : 0)
  if (atom.kind === 'axis') {
    const at = blockOf(atom.name)
    return at === undefined ? undefined : ix.addConst(ix.axis(`${atom.name}.start`, at.extent), last(at.block))
  }
  if (atom.kind !== 'mod' && atom.kind !== 'div') return undefined
  const [only, more] = atom.of.terms
  if (only === undefined || more !== undefined || only.coef !== 1 || only.atom.kind !== 'axis') return undefined
  const at = blockOf(only.atom.name)
  if (at === undefined) return undefined
  const start = ix.axis(`${only.atom.name}.start`, at.extent)
  if (atom.kind === 'div') return ix.div(ix.addConst(start, last(at.block) + atom.of.offset), atom.by)
  // The remainder of an axis whose blocks stand in whole ones.
  if (atom.of.offset !== 0 || atom.by % at.block !== 0) return undefined
  return ix.addConst(ix.mod(start, atom.by), last(at.block))
}
