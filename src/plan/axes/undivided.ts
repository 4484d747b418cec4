/** Divisions of positions by extents that vary from launch to launch, which kernels have no form for: bodies that have them are no candidates where a target says so. */
import { type Expr, flatten, visitAtoms } from '../../affine/expr.ts'
import type { Predicate } from '../../affine/predicate.ts'
import { expressionsOf } from '../../kernel/walk.ts'
import type { Body, BodyTensor } from '../body/body.ts'

/** What of a body is divided by a multiple of one of some extents: the divisor, if any. */
export function dividedBy(body: Body, extents: ReadonlySet<number>): number | undefined {
  const varies = (n: number): boolean => [...extents].some((e) => n % e === 0)
  // A tensor whose shape varies is read at its row-major position, where quotients and remainders may come together again.
  const place = (index: readonly Expr[], { shape }: Pick<BodyTensor, 'shape'>): readonly Expr[] =>
    shape.some(varies) ? [flatten(index, shape)] : index
  const masks = (p: Predicate | undefined): readonly Expr[] => (p ?? []).map((b) => b.expr)
  const exprs = [
    ...body.stores.flatMap((s) => [...place(s.index, s), ...masks(s.mask)]),
    ...body.lets.flatMap(({ op }) => {
      const shape = op.kind === 'load' ? body.loads.get(op.param)?.shape : undefined
      return op.kind === 'load' && shape !== undefined
        ? [...place(op.index, { shape }), ...masks(op.mask)]
        : expressionsOf(op)
    }),
  ]
  let found: number | undefined
  for (const e of exprs)
    visitAtoms(e, (a) => {
      if ((a.kind === 'div' || a.kind === 'mod') && varies(a.by)) found ??= a.by
    })
  return found
}
