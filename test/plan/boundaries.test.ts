/** What is stored is whole, and steps that read a stored view come after the kernel that stores it. */
import { describe, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { at, check, trace } from '../compile/support.ts'

/** Doubles and adds the position, so that an order of elements shows. */
const kernel = {
  name: 'mine',
  shapeRule: (inputs: readonly { shape: readonly number[]; dtype: 'f32' }[]) => at(inputs, 0),
  run: (inputs: readonly ArrayLike<number>[], output: { length: number; [i: number]: number }) => {
    for (let i = 0; i < output.length; i++) output[i] = 2 * (inputs[0]?.[i] ?? Number.NaN) + i
  },
}
const opaque = (x: Node): Node => c.opaque(kernel as never, x)

describe('results', () => {
  const cut = (x: Node): Node => c.pad(c.sliceAxis(x, 0, 0, 7), [[0, 1]])

  test('a value read under a mask is not what is stored of it', () => {
    const build = (order: (e: Node) => Node[]) => check(trace([{ shape: [8] }], (p) => order(c.exp(at(p, 0)))))
    expect(build((e) => [cut(e), e]).report.totals.kernels).toBe(1)
    expect(build((e) => [e, cut(e)]).report.totals.kernels).toBe(1)
  })
})

describe('boundaries', () => {
  test.each([8, 512])('a view that an opaque op reads is stored before it (%i rows)', (rows) => {
    check(
      trace([{ shape: [rows, 6] }], (p) => {
        const t = c.permute(at(p, 0), [1, 0])
        return [c.add(c.unary('sin', t), c.tanh(opaque(t))), t]
      }),
    )
  })

  test.each([8, 512])('a view of a computed value, read by an opaque op (%i rows)', (rows) => {
    check(
      trace([{ shape: [rows, 6] }], (p) => {
        const t = c.permute(c.exp(at(p, 0)), [1, 0])
        return c.mul(c.unary('sin', t), c.tanh(opaque(t)))
      }),
    )
  })

  test('a generated value, read by an opaque op', () => {
    check(trace([{ shape: [8, 6] }], (p) => [c.mul(at(p, 0), opaque(c.full([8, 6], 3, 'f32')))]))
  })

  test('a scatter onto a view', () => {
    const r = check(
      trace([{ shape: [64, 6] }, { shape: [3], dtype: 'i32' }, { shape: [3, 64] }], (p) => {
        const t = c.permute(c.exp(at(p, 0)), [1, 0])
        const s = c.scatterND(t, c.reshape(at(p, 1), [3, 1]), at(p, 2))
        return [c.mul(c.unary('sin', t), c.tanh(s)), t]
      }),
    ).report
    expect(r.kernels.map((k) => k.kind)).toContain('scatter')
  })
})
