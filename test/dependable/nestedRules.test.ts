/**
 * Issue: compile time is near-linear. Here: functions with derivative rules (`customJvp`, `customVjp`) that call one another, from their bodies
 * and from their rules: what is traced grows as a power of the levels, not twofold with each.
 * Sites looked at: `applyCustom`; `checkpoint`, `cond`, `foriLoop`, `vmap`, `grad` and `jit` inside themselves (each traces its body once).
 */
import { expect, test } from 'vitest'
import { customJvp, customVjp, foriLoop, grad, jit, mul, sin, sum, type Tensor, tensor } from '../../src/index.ts'
import { atNight, nightly } from '../support/nightly.ts'

type Unary = (x: Tensor) => Tensor

/** Functions that call the one before from the body and from the rule; counts calls of the innermost. */
function nested(kind: 'jvp' | 'vjp', levels: number): { readonly f: Unary; readonly calls: () => number } {
  let calls = 0
  let f: Unary = (x) => {
    calls++
    return sin(x)
  }
  for (let i = 0; i < levels; i++) {
    const inner = f
    f =
      kind === 'jvp'
        ? customJvp(
            (x: Tensor) => inner(x),
            ([x], [t]) => [inner(x), mul(t, grad((y: Tensor) => sum(inner(y)))(x))],
          )
        : customVjp(
            (x: Tensor) => inner(x),
            (x: Tensor) => [inner(x), x] as const,
            (x: Tensor, c: Tensor) => [mul(c, grad((y: Tensor) => sum(inner(y)))(x))],
          )
  }
  return { f, calls: () => calls }
}

for (const kind of ['jvp', 'vjp'] as const) {
  test(`${kind}: work grows as a power of the levels`, () => {
    const counted = (levels: number): number => {
      const { f, calls } = nested(kind, levels)
      jit(f)(tensor(0.5))
      return calls()
    }
    const [few, many] = nightly ? [counted(4), counted(8)] : [counted(3), counted(6)]
    expect(many).toBeGreaterThan(8)
    // A third power is 8 times.
    expect(many / few).toBeLessThan(16)
  })
  const byDay = kind === 'jvp' ? test : atNight
  byDay(`${kind}: values and derivatives through rules within rules`, () => {
    const { f } = nested(kind, 5)
    const x = tensor(0.5)
    expect(jit(f)(x).item()).toBeCloseTo(Math.sin(0.5), 5)
    expect(jit(grad(f))(x).item()).toBeCloseTo(Math.cos(0.5), 5)
    expect(jit(grad(grad(f)))(x).item()).toBeCloseTo(-Math.sin(0.5), 5)
    const repeated = jit((y: Tensor) => foriLoop(0, 2, (_, z: Tensor) => f(z), y))
    expect(repeated(x).item()).toBeCloseTo(Math.sin(Math.sin(0.5)), 5)
  })
}
