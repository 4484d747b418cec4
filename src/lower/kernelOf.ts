/** Kernels of statements under a grid, and what a finishing stage computes again. */
import type { Expr } from '../affine/expr.ts'
import * as ix from '../affine/expr.ts'
import { foldAxes } from '../kernel/folds.ts'
import type { GridAxis, KernelPart, LetStmt, NumericsMode, Stmt } from '../kernel/ir.ts'
import type { Body } from '../plan/body/body.ts'
import type { BoundKernel } from './launch.ts'
import type { Params } from './params.ts'

/** A kernel of statements, the body's stores among `storesOf` (all, unless told) and further stores. */
export function kernelOf(
  name: string,
  body: Body,
  grid: readonly GridAxis[],
  lets: readonly LetStmt[],
  mode: NumericsMode,
  params: Params,
  extra: readonly Stmt[],
  stores: Body['stores'] = body.stores,
): BoundKernel {
  params.loads(body, lets)
  const tail: Stmt[] = stores.map((s) => ({
    kind: 'store',
    param: params.stored(s),
    index: s.index,
    mask: s.mask ?? [],
    value: s.value,
  }))
  const named = axesUsed(lets, [...extra, ...tail])
  const part: KernelPart = {
    axes: body.axes.filter((a) => named.has(a.name)),
    grid: grid.filter((g) => named.has(g.axis)),
    body: [...lets, ...extra, ...tail],
  }
  return { kernel: { name, params: params.list, mode, parts: [part] }, bindings: params.bindings }
}

/** Axes that statements and stores name. */
export function axesUsed(lets: readonly LetStmt[], stores: readonly Stmt[]): Set<string> {
  const out = new Set<string>()
  const take = (e: Expr): void => {
    for (const a of ix.axesOf(e)) out.add(a.replace(/\.start$/, ''))
  }
  for (const l of lets) for (const a of [...l.axes, ...foldAxes(l)]) out.add(a)
  for (const s of stores) if (s.kind === 'store') s.index.forEach(take)
  return out
}

/** Zero of a statement's dtype. */
export const zeroOf = (l: LetStmt): boolean | number | bigint =>
  l.dtype === 'bool' ? false : l.dtype === 'i64' || l.dtype === 'u64' ? 0n : 0
