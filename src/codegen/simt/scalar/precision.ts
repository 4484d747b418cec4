/**
 * Values computed to what their uses ask for (src/schedule/simt/precision/precision.ts, oddFunctions.ts): coarse forms of functions, and what becomes of
 * products with odd ones.
 */
import type { LetStmt } from '../../../kernel/ir.ts'
import { erfExponent } from '../../../scalar/polynomials.ts'
import type { ValueForm } from '../../../schedule/simt/precision/oddFunctions.ts'
import type { CoarseAt, CoarseForm } from '../../../schedule/simt/precision/precision.ts'
import { bin, call, type Ex, lit, neg } from '../ir/ir.ts'
import type { Point } from '../nest/point.ts'

/** The function of `scale` times an operand. */
type Form = (x: Ex, scale: number, guard: CoarseAt['guard']) => Ex

const f32 = (x: number): Ex => lit('f32', Math.fround(x))

/** A library function of an operand and numbers that hold its scale. */
const scaledCall =
  (name: string, numbers: (scale: number) => readonly number[]): Form =>
  (x, scale, guard) =>
    call('f32', `f32_${name}_${guard}`, x, ...numbers(scale).map(f32))

/** A library function that passes NaN on. */
const plainCall =
  (name: string): Form =>
  (x, scale) =>
    call('f32', `f32_${name}`, scale === 1 ? x : bin('*', x, f32(scale)))

/** The same of the operand's magnitude. */
const ofMagnitude =
  (form: Form): Form =>
  (x, scale, guard) =>
    form(call('f32', 'f32_abs', x), scale, guard)

const erfNumbers = (scale: number): readonly number[] => erfExponent.map((c, i) => c * scale ** (i + 1))

const forms: Readonly<Record<CoarseForm, Form>> = {
  erf: scaledCall('erf', erfNumbers),
  erf_rest: ofMagnitude(scaledCall('erf_rest', erfNumbers)),
  exp: scaledCall('exp', (s) => [s * Math.LOG2E]),
  sigmoid: scaledCall('sigmoid', (s) => [-s * Math.LOG2E]),
  tanh: scaledCall('tanh', (s) => [2 * s * Math.LOG2E]),
  tanh_near: plainCall('tanh_near'),
  expm1: plainCall('expm1_coarse'),
  log: plainCall('log_coarse'),
  log1p: plainCall('log1p_coarse'),
}

const one = lit('f32', 1)

/** An operation in the form that is scheduled for it. */
export function inForm(p: Point, l: LetStmt, form: ValueForm): Ex {
  switch (form.kind) {
    case 'coarse':
      return forms[form.form](p.read(form.of), form.by, form.guard)
    case 'oddSum':
      return form.isSame ? bin('-', p.read(form.rest), one) : bin('-', one, p.read(form.rest))
    case 'oddProduct': {
      const x = p.read(form.factor)
      return call('f32', 'f32_fma', neg(call('f32', 'f32_abs', x)), p.read(form.sum), form.isNegative ? neg(x) : x)
    }
    case 'multiple':
      return bin('*', p.read(form.of), f32(form.by))
    case 'normalLog':
      return call('f32', 'f32_log_normal', p.read(l.op.kind === 'scalar' ? (l.op.args[0] ?? l.id) : l.id))
  }
}
