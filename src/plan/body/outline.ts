/** What a kernel's code is apart from the tensors it works on: kernels with equal outlines can share code over a table. */
import type { Expr } from '../../affine/expr.ts'
import type { KernelGroup } from '../plan.ts'
import type { Body } from './body.ts'

/** Index expressions are written by their keys, which leave the extents of axes out. */
const text = (x: unknown): string =>
  JSON.stringify(x, (_, v: unknown) => {
    if (typeof v === 'bigint') return `${v}n`
    if (typeof v === 'number' && !Number.isSafeInteger(v)) return `${Object.is(v, -0) ? '-0' : v}`
    return isExpr(v) ? v.key : v
  })

const isExpr = (v: unknown): v is Expr => typeof v === 'object' && v !== null && 'terms' in v && 'key' in v

/**
 * Text that is equal for kernels whose code differs at most in how far it goes along the first axis of the grid: statements,
 * dtypes and formats, and the extents of the other axes.
 */
export function outlineOf(g: KernelGroup): string {
  const [first] = g.roles.parallel
  const ofBody = (body: Body): unknown => [
    body.axes.map((a) => [a.name, a.name === first && g.segments.length === 1 ? 0 : a.extent]),
    body.lets,
    body.stores.map((s) => [s.value, s.index, s.mask ?? [], s.node.dtype, s.format ?? 'plain']),
    [...body.loads].map(([name, t]) => [name, t.node.dtype, t.format ?? 'plain']),
  ]
  return text([g.roles.kind, g.segments.map(ofBody)])
}
