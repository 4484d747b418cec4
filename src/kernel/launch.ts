/**
 * Kernels with launch scalars: what a launch means is what the closed kernel means, the one with each scalar's value in its place. The
 * interpreter runs that; code generators make one code for all values.
 */

import { axis, type Expr, mul, substitute, value } from '../affine/expr.ts'
import { mapPredicate } from '../affine/predicate.ts'
import { UserError } from '../diagnostics/errors.ts'
import { readElement } from '../scalar/host.ts'
import type { HostArray } from '../types/host.ts'
import { startOf } from './axes.ts'
import type { Kernel, KernelPart, LaunchScalar, Stmt } from './ir.ts'
import { mapExpressions } from './walk.ts'

/**
 * The values of a kernel's launch scalars by name, read from its buffers. Throws E_ARGUMENT where one is missing or is not what the kernel
 * declares of it.
 */
export function launchValues(kernel: Kernel, buffers: Readonly<Record<string, HostArray>>): Map<string, number> {
  return new Map((kernel.scalars ?? []).map((s) => [s.by, launchValue(kernel, s, buffers[s.param])]))
}

function launchValue(kernel: Kernel, s: LaunchScalar, data: HostArray | undefined): number {
  const where = `kernel ${kernel.name}: launch ${s.by}`
  if (data === undefined || data.length <= s.at)
    throw new UserError('E_ARGUMENT', `no buffer holds ${s.param}[${s.at}]`, { where })
  const v = Number(readElement(data, 'i32', s.at))
  if (v >= s.least && v <= s.most && v % s.multiple === 0) return v
  const multiple = s.multiple === 1 ? '' : `, a multiple of ${s.multiple}`
  throw new UserError('E_ARGUMENT', `${s.by} is ${v}, not in [${s.least}, ${s.most}]${multiple}`, { where })
}

/** The kernel with values in the place of its launch scalars. */
export function closeKernel(kernel: Kernel, values: ReadonlyMap<string, number>): Kernel {
  if (kernel.scalars === undefined) return kernel
  const { scalars: _, ...rest } = kernel
  return { ...rest, parts: kernel.parts.map((p) => closePart(p, values)) }
}

function closePart(part: KernelPart, values: ReadonlyMap<string, number>): KernelPart {
  const axes = part.axes.map(({ name, extent, open }) => ({
    name,
    extent: open === undefined ? extent : (values.get(open) ?? extent),
  }))
  const extents = new Map(axes.map((a) => [a.name, a.extent]))
  const close = (e: Expr): Expr =>
    substitute(e, (a) => {
      if (a.kind === 'axis') return axis(a.name, extents.get(startOf(a.name) ?? a.name) ?? a.extent)
      if (a.kind === 'value') return a.open === undefined ? undefined : value(a.id, values.get(a.open) ?? a.extent)
      const by = a.kind === 'scaled' ? values.get(a.by) : undefined
      return a.kind !== 'scaled' || by === undefined ? undefined : mul(close(a.of), by)
    })
  return { axes, grid: part.grid, body: closeBody(part.body, close) }
}

const closeBody = (body: readonly Stmt[], close: (e: Expr) => Expr): Stmt[] =>
  body.map((s): Stmt => {
    if (s.kind === 'let') return { ...s, op: mapExpressions(s.op, close) }
    if (s.kind === 'loop') return { ...s, body: closeBody(s.body, close) }
    return { ...s, index: s.index.map(close), mask: mapPredicate(s.mask, close) }
  })
