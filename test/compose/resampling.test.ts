/** Resampling along axes against plain loops over taps: whole factors, by views, and others; derivatives and batches of it. */
import { describe, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { param } from '../../src/graph/build.ts'
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { runGraph } from '../support/runGraph.ts'
import { checkBatch, checkProgram, countOps } from '../transforms/support.ts'
import { lit, numbers } from './run.ts'

interface Case {
  readonly from: number
  readonly to: number
  /** The coordinate of result o is (o + offset) / scale. */
  readonly scale: number
  readonly offset: number
  readonly cubic?: boolean
}

const keys = (x: number): number => {
  const [t, a] = [Math.abs(x), -0.75]
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0
}

/** Taps of each result by the definition, those of one element as one. */
function tapsOf({ from, to, scale, offset, cubic = false }: Case): c.Taps[] {
  return Array.from({ length: to }, (_, o) => {
    const x = (o + offset) / scale
    const by = new Map<number, number>()
    for (let i = Math.floor(x) - 2; i <= Math.floor(x) + 3; i++) {
      const w = cubic ? keys(i - x) : Math.max(0, 1 - Math.abs(i - x))
      const at = Math.min(from - 1, Math.max(0, i))
      if (Math.abs(w) > 1e-12) by.set(at, (by.get(at) ?? 0) + w)
    }
    return [...by].sort((a, b) => a[0] - b[0])
  })
}

const halfPixel = (from: number, s: number): Case => ({ from, to: from * s, scale: s, offset: (1 - s) / 2 })
const asymmetric = (from: number, s: number): Case => ({ from, to: from * s, scale: s, offset: 0 })
const shrunk = (from: number, s: number, offset: number): Case => ({
  from,
  to: Math.floor(from / s),
  scale: 1 / s,
  offset,
})

const whole: readonly Case[] = [
  ...[2, 3, 4, 5, 8].flatMap((s) => [halfPixel(5, s), halfPixel(1, s), asymmetric(7, s), asymmetric(2, s)]),
  { from: 6, to: 11, scale: 2, offset: 0.5 },
  { from: 6, to: 9, scale: 2, offset: 1.25 },
  { ...halfPixel(6, 2), cubic: true },
  { ...halfPixel(7, 3), cubic: true },
  { ...asymmetric(5, 4), cubic: true },
  shrunk(9, 2, 0.25),
  shrunk(9, 3, 1 / 3),
  shrunk(12, 4, 0),
]
const others: readonly Case[] = [
  { from: 5, to: 8, scale: 1.6, offset: -0.3 },
  { from: 4, to: 9, scale: 8 / 3, offset: 0 },
  { from: 9, to: 5, scale: 5 / 9, offset: -0.2, cubic: true },
]
const nameOf = ({ from, to, scale, offset, cubic }: Case): string =>
  `${from} to ${to} by ${scale.toFixed(2)} from ${offset.toFixed(2)}${cubic === true ? ', cubic' : ''}`

const valuesOf = (n: number): number[] => Array.from({ length: n }, (_, i) => ((i * 7) % 11) - 5 + i / 8)
const gradientOf = (x: NodeOf<'param'>, y: Node): Graph => vjpGraph({ params: [x], outputs: [y], effects: [] }, [0])
const indexed = (g: Graph): number => (countOps(g).get('gather') ?? 0) + (countOps(g).get('scatter') ?? 0)

describe('weighted sums', () => {
  test.each([...whole, ...others].map((k) => [nameOf(k), k] as const))('%s', (_, k) => {
    const rows = tapsOf(k)
    const x = valuesOf(2 * k.from * 3)
    const want: number[] = []
    for (let a = 0; a < 2; a++)
      for (const row of rows)
        for (let b = 0; b < 3; b++) want.push(row.reduce((s, [i, w]) => s + w * (x[(a * k.from + i) * 3 + b] ?? 0), 0))
    const got = numbers(c.resample(lit(x, [2, k.from, 3], 'f64'), 1, rows, k.scale))
    expect(got.length).toBe(want.length)
    got.forEach((g, i) => {
      expect(g).toBeCloseTo(want[i] ?? Number.NaN, 10)
    })
  })

  test.each(whole.map((k) => [nameOf(k), k] as const))('by a whole factor is views, and its gradient: %s', (_, k) => {
    const x = param(0, [2, k.from, 3], 'f32')
    const y = c.resample(x, 1, tapsOf(k), k.scale)
    expect(indexed({ params: [x], outputs: [y], effects: [] })).toBe(0)
    expect(indexed(gradientOf(x, y))).toBe(0)
  })

  test.each([...whole, ...others].map((k) => [nameOf(k), k] as const))('derivatives and batches: %s', (_, k) => {
    const program = {
      inputs: [{ shape: [k.from, 2] }],
      build: (x: Node): Node => c.mul(c.resample(x, 0, tapsOf(k), k.scale), c.resample(x, 0, tapsOf(k), k.scale)),
    }
    checkProgram(program, 1, 2)
    checkBatch(program, [1], 2)
  })

  test('two axes, compiled', () => {
    const [rows, columns] = [halfPixel(5, 8), halfPixel(7, 3)]
    for (const dtype of ['f32', 'bf16', 'f16'] as const) {
      const x = param(0, [2, 3, rows.from, columns.from], dtype)
      const wide = c.cast(x, 'f32')
      const down = c.resample(wide, 2, tapsOf(rows), rows.scale)
      const y = c.cast(c.resample(down, 3, tapsOf(columns), columns.scale), dtype)
      runGraph({ params: [x], outputs: [y], effects: [] }, 3, wasmTarget)
      runGraph(gradientOf(x, y), 3, wasmTarget)
    }
  })

  test('an infinity is seen by the results that read it alone', () => {
    for (const k of [...whole, ...others]) {
      const rows = tapsOf(k)
      for (let at = 0; at < k.from; at++) {
        const x = Array.from({ length: k.from }, (_, i) => (i === at ? Number.POSITIVE_INFINITY : 1))
        const got = numbers(c.resample(lit(x, [k.from], 'f64'), 0, rows, k.scale))
        const want = rows.map((row) => row.every(([i]) => i !== at))
        expect(got.map(Number.isFinite), `${nameOf(k)}, ${at}`).toEqual(want)
        expect(got.some(Number.isNaN)).toBe(false)
      }
    }
  })

  test('of nothing', () => {
    expect(numbers(c.resample(lit([], [0, 3], 'f64'), 1, tapsOf(halfPixel(3, 2)), 2))).toEqual([])
    expect(numbers(c.resample(lit([1, 2, 3], [3], 'f64'), 0, [], 2))).toEqual([])
  })
})

describe('the nearest element', () => {
  const held = (n: number, i: number): number => Math.min(n - 1, Math.max(0, i))
  const picks: readonly (readonly [string, number, number, number[]])[] = [
    ['each twice', 4, 2, [0, 0, 1, 1, 2, 2, 3, 3]],
    ['rounded, by 3', 3, 3, Array.from({ length: 9 }, (_, o) => held(3, Math.round(o / 3)))],
    ['up, by 2', 4, 2, Array.from({ length: 8 }, (_, o) => held(4, Math.ceil(o / 2)))],
    ['of one', 1, 5, [0, 0, 0, 0, 0]],
    ['every second', 7, 1 / 2, [1, 3, 5]],
    ['every third, held', 7, 1 / 3, [2, 5, 6]],
    ['from before', 5, 2, [0, 0, 0, 0, 0, 1, 1, 2, 2]],
  ]

  test.each(picks)('%s', (_, n, scale, indices) => {
    for (const dtype of ['f32', 'i32', 'f16'] as const) {
      const x = lit([...valuesOf(n), ...valuesOf(n)].map(Math.round), [2, n], dtype)
      const y = c.pickAt(x, 1, indices, scale)
      const all = numbers(x)
      expect(numbers(y)).toEqual([0, 1].flatMap((a) => indices.map((i) => all[a * n + i])))
    }
    const x = param(0, [2, n], 'f32')
    expect(indexed(gradientOf(x, c.pickAt(x, 1, indices, scale)))).toBe(0)
    checkProgram({ inputs: [{ shape: [n, 2] }], build: (x: Node): Node => c.square(c.pickAt(x, 0, indices, scale)) })
  })

  test('of no period is a gather', () => {
    const x = param(0, [5], 'f32')
    expect(indexed({ params: [x], outputs: [c.pickAt(x, 0, [0, 0, 1, 2, 2, 3, 4, 4], 1.6)], effects: [] })).toBe(1)
  })
})
