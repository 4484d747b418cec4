/** Special functions of f32 over a dense sweep of bit patterns: the worst error in ulp is printed and held to its bound. */
import { describe, expect, test } from 'vitest'
import { boundOf, ulpOf, withinBound } from '../../src/scalar/bounds.ts'
import { floatUnary } from '../../src/scalar/float.ts'
import type { UnaryName } from '../../src/scalar/ops.ts'
import { nightly } from '../support/nightly.ts'
import { runOp } from './harness.ts'

const functions = Object.keys(floatUnary).filter((n): n is keyof typeof floatUnary => boundOf(n as UnaryName).ulp > 0)

/** Every `stride`-th bit pattern, both signs. */
function patterns(stride: number): Float32Array {
  const n = Math.floor(2 ** 32 / stride) & ~3
  const bits = new Uint32Array(n)
  for (let i = 0; i < n; i++) bits[i] = i * stride
  return new Float32Array(bits.buffer)
}

const dense = Number(process.env.SWEEP_STRIDE ?? (nightly ? 16411 : 100003))
const x = patterns(dense)

describe('sweep', () => {
  for (const op of functions)
    test(op, () => {
      const exact = floatUnary[op]
      const expected = Float64Array.from(x, (v) => exact(v))
      const { within = Number.POSITIVE_INFINITY, absolute = 0, ulp } = boundOf(op)
      for (const [mode, relaxed] of [
        ['fast', true],
        ['strict', false],
      ] as const) {
        const spec = { op, operand: 'f32', result: 'f32', mode, relaxed } as const
        const got = runOp({ ...spec, lanes: 4 }, [x])
        let worst = 0
        let at = 0
        let outside: string | undefined
        for (let i = 0; i < x.length; i++) {
          const [v = 0, e = 0, g] = [x[i], expected[i], Number(got[i])]
          if (Math.abs(v) > within) continue
          if (!withinBound(op, 'f32', g, e)) outside ??= `${op}(${v}) = ${g}, not ${e}`
          const error = Math.abs(g - e)
          if (!Number.isFinite(e) || Math.abs(e) < 2 ** -126 || !Number.isFinite(g) || (ulp > 0.5 && error <= absolute))
            continue
          const units = error / ulpOf('f32', e)
          if (units > worst) {
            worst = units
            at = v
          }
        }
        console.log(`${op} ${mode}: worst ${worst.toFixed(3)} ulp at ${at}`)
        expect(outside).toBeUndefined()
        const single = runOp({ ...spec, lanes: 1 }, [x.subarray(0, 4096)])
        expect(new Uint32Array(single.buffer)).toEqual(new Uint32Array(got.buffer.slice(0, 4 * 4096)))
      }
    })
})
