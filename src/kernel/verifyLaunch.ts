/** The verifier's rules for launch scalars and the axes that they open. */

import { axis, launched, sub } from '../affine/expr.ts'
import type { Predicate } from '../affine/predicate.ts'
import { UserError } from '../diagnostics/errors.ts'
import { sizeOf } from '../types/shape.ts'
import type { Kernel, KernelAxis, KernelParam, LaunchScalar } from './ir.ts'
import { isIdentifier, showLaunchScalar } from './print.ts'

/** A kernel's launch scalars by name. Throws E_KERNEL_INVALID naming the one that is wrong. */
export function verifyScalars(
  kernel: Kernel,
  params: ReadonlyMap<string, KernelParam>,
): ReadonlyMap<string, LaunchScalar> {
  const out = new Map<string, LaunchScalar>()
  for (const s of kernel.scalars ?? []) {
    const fault = out.has(s.by) ? `${s.by} is declared twice` : scalarFault(s, params.get(s.param))
    if (fault !== undefined)
      throw new UserError('E_KERNEL_INVALID', fault, { where: `kernel ${kernel.name}: ${showLaunchScalar(s)}` })
    out.set(s.by, s)
  }
  return out
}

const isNatural = (v: number): boolean => Number.isInteger(v) && v >= 0

function scalarFault(s: LaunchScalar, param: KernelParam | undefined): string | undefined {
  const { by, least, most, multiple } = s
  if (!by.startsWith('$') || !isIdentifier(by.slice(1)))
    return `${JSON.stringify(by)} is not the name of a launch scalar`
  if (![least, most, multiple].every(isNatural) || multiple === 0 || least > most)
    return `[${least}, ${most}] in multiples of ${multiple} is no range of whole numbers`
  if (least % multiple !== 0 || most % multiple !== 0) return `the bounds of ${by} are no multiples of ${multiple}`
  if (most >= 2 ** 31) return `${by} may be ${most}, which i32 does not hold`
  if (param === undefined) return `there is no parameter ${s.param}`
  if (param.dtype !== 'i32' || param.format !== 'plain' || param.access !== 'read')
    return `launch scalars are read from i32 that is read only, not from ${param.name}`
  if (!isNatural(s.at) || s.at >= sizeOf(param.shape)) return `${param.name} has no element ${s.at}`
  return undefined
}

/** What holds of every index along the open axes of a part. */
export const belowEnds = (axes: readonly KernelAxis[], scalars: ReadonlyMap<string, LaunchScalar>): Predicate =>
  axes.flatMap(({ name, extent, open }) => {
    const s = open === undefined ? undefined : scalars.get(open)
    return s === undefined ? [] : [{ expr: sub(launched(s), axis(name, extent)), lo: 1, hi: extent + 1 }]
  })

/** What is wrong with an open axis, if something is. */
export function openFault(
  { name, extent, open }: KernelAxis,
  scalars: ReadonlyMap<string, LaunchScalar>,
): string | undefined {
  if (open === undefined) return undefined
  const s = scalars.get(open)
  if (s === undefined) return `axis ${name} has the extent ${open}, which is not declared`
  if (s.most !== extent) return `axis ${name} is at most ${extent}, but ${open} at most ${s.most}`
  return s.most < 2 ? `axis ${name} is open, but never longer than ${s.most}` : undefined
}
