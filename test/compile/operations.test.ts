/** Bytes of operations run alone: what each reads and writes by itself. */
import { describe, expect, test } from 'vitest'
import { operationTraffic } from '../../src/compile/operations.ts'
import * as c from '../../src/compose/index.ts'
import { inOrigin, makeOrigin } from '../../src/diagnostics/origin.ts'
import type { Node } from '../../src/graph/node.ts'
import { at, type Input, trace } from './support.ts'

const named = (name: string, build: () => Node): Node => inOrigin(makeOrigin(name), build)
const traffic = (inputs: readonly Input[], build: (p: readonly Node[]) => Node | Node[]) =>
  operationTraffic(trace(inputs, build))

const x: Input = { shape: [10, 20] }
const size = 200 * 4

describe('operationTraffic', () => {
  test('an operation reads and writes', () => {
    expect(traffic([x], (p) => named('exp', () => c.exp(at(p, 0))))).toEqual({ operations: 1, bytes: 2 * size })
  })

  test('one call of many primitives keeps what is between them', () => {
    expect(traffic([x], (p) => named('softmax', () => c.softmax(at(p, 0), -1)))).toEqual({
      operations: 1,
      bytes: 2 * size,
    })
  })

  test('what is between two calls is written and read', () => {
    expect(
      traffic([x], (p) => {
        const y = named('exp', () => c.exp(at(p, 0)))
        return named('tanh', () => c.tanh(y))
      }),
    ).toEqual({ operations: 2, bytes: 4 * size })
  })

  test('views are free, and no operations', () => {
    expect(
      traffic([x], (p) => {
        const y = named('transpose', () => c.permute(at(p, 0)))
        return named('exp', () => c.exp(named('reshape', () => c.reshape(y, [40, 5]))))
      }),
    ).toEqual({ operations: 1, bytes: 2 * size })
  })

  test('a slice is read as far as it goes, a row vector once', () => {
    expect(traffic([x], (p) => named('exp', () => c.exp(c.sliceAxis(at(p, 0), 0, 0, 3))))).toEqual({
      operations: 1,
      bytes: 2 * 60 * 4,
    })
    expect(traffic([x, { shape: [20] }], (p) => named('add', () => c.add(at(p, 0), at(p, 1))))).toEqual({
      operations: 1,
      bytes: 2 * size + 20 * 4,
    })
  })

  test('an operand used twice by one call is read once', () => {
    expect(traffic([x], (p) => named('square', () => c.mul(at(p, 0), at(p, 0)))).bytes).toBe(2 * size)
    expect(traffic([x], (p) => named('gram', () => c.matmul(at(p, 0), c.permute(at(p, 0))))).bytes).toBe(size + 400)
  })

  test('a value with two users is written once and read twice', () => {
    const build = (p: readonly Node[]): Node[] => {
      const y = named('exp', () => c.exp(at(p, 0)))
      return [named('tanh', () => c.tanh(y)), named('sqrt', () => c.sqrt(y))]
    }
    expect(traffic([x], build)).toEqual({ operations: 3, bytes: (2 + 2 + 2) * size })
  })

  test('every result of a call is written', () => {
    const build = (p: readonly Node[]): Node[] => {
      const out: Node[] = []
      named('meanAndVariance', () => {
        const mean = c.mean(at(p, 0), 1)
        const d = c.sub(at(p, 0), c.mean(at(p, 0), 1, true))
        out.push(mean, c.mean(c.mul(d, d), 1))
        return mean
      })
      return out
    }
    expect(traffic([x], build)).toEqual({ operations: 1, bytes: size + 2 * 10 * 4 })
  })

  test('concatenated parts are read whole by who reads the whole', () => {
    expect(traffic([x, x], (p) => named('exp', () => c.exp(c.concat([at(p, 0), at(p, 1)], 0))))).toEqual({
      operations: 1,
      bytes: 4 * size,
    })
  })

  test('large constants are read, scalars are not', () => {
    const table = (n: number): Node => c.constant(new Float32Array(n), [n], 'f32')
    expect(traffic([{ shape: [50] }], (p) => named('add', () => c.add(at(p, 0), table(50)))).bytes).toBe(3 * 50 * 4)
    expect(traffic([{ shape: [50] }], (p) => named('add', () => c.add(at(p, 0), 2))).bytes).toBe(2 * 50 * 4)
  })

  test('bytes follow the dtype', () => {
    const half: Input = { shape: [50], dtype: 'f16' }
    expect(traffic([half], (p) => named('cast', () => c.cast(at(p, 0), 'f64'))).bytes).toBe(50 * (2 + 8))
  })

  test('nothing to do costs nothing', () => {
    expect(traffic([x], (p) => at(p, 0))).toEqual({ operations: 0, bytes: 0 })
  })
})
