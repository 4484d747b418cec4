/** Control flow over extents that vary: its graphs are programs of the range too, and give what the static program gives, bit for bit in strict mode. */
import { expect, test } from 'vitest'
import {
  cond,
  dim,
  foriLoop,
  grad,
  jit,
  scan,
  setDevice,
  spec,
  type Tensor,
  vmap,
  whileLoop,
  zeros,
} from '../../src/index.ts'
import { some, turn } from '../support/nightly.ts'
import { uniform } from './numbers.ts'

setDevice('wasm', { threads: 1 })

const [n, m] = [dim('length', 1, 64), dim('width', 1, 40)]

type Results = Tensor | readonly Tensor[]
type Case = readonly [
  name: string,
  f: (...args: Tensor[]) => Results,
  dynamic: readonly unknown[],
  at: (k: number, j: number) => Tensor[],
]

const rows = [spec([n, 4])]
const both = [spec([n, m])]
const ofRows = (k: number): Tensor[] => [uniform(k, [k, 4])]
const ofBoth = (k: number, j: number): Tensor[] => [uniform(k, [k, j])]
const decaying = (c: Tensor, y: Tensor): [Tensor, Tensor] => [c.mul(0.5).add(y).tanh(), c.mul(y)]

const cases: readonly Case[] = [
  ['a scan over an open length', (x) => scan(decaying, zeros([4]), x as Tensor), rows, ofRows],
  ['a scan from the end', (x) => scan(decaying, zeros([4]), x as Tensor, { reverse: true }), rows, ofRows],
  ['a scan of which the last state is read', (x) => scan(decaying, zeros([4]), x as Tensor)[0], rows, ofRows],
  ['a scan of which the elements are read', (x) => scan(decaying, zeros([4]), x as Tensor)[1], rows, ofRows],
  [
    'a scan of open elements over an open length',
    (x) =>
      scan(
        (c: Tensor, y: Tensor): [Tensor, Tensor] => [c.mul(0.5).add(y), c.sub(y.mean())],
        (x as Tensor).max(0),
        x as Tensor,
      ),
    both,
    ofBoth,
  ],
  [
    'a loop of known steps over an open carry',
    (x) => foriLoop(0, 40, (_: Tensor, y: Tensor) => y.mul(0.5).add(y.mean()), x as Tensor),
    rows,
    ofRows,
  ],
  [
    'a loop of as many steps as there are rows, less three',
    (x) => foriLoop(0, ((x as Tensor).shape[0] ?? 3) - 3, (i: Tensor, y: Tensor) => y.mul(0.5).add(i), x as Tensor),
    rows,
    ofRows,
  ],
  [
    'a branch with products',
    (x, w) =>
      cond(
        (x as Tensor).sum().greater(200),
        (y: Tensor) => y.mul(2).matmul(w as Tensor),
        (y: Tensor) => y.sub(y.mean(0)).matmul(w as Tensor),
        x as Tensor,
      ),
    [spec([n, m]), spec([m, 3])],
    (k, j) => [uniform(k, [k, j]), uniform(1, [j, 3])],
  ],
  [
    'a loop that ends by its values',
    (x) =>
      whileLoop(
        ([y]: [Tensor, Tensor]) => y.sum().less(5000),
        ([y, z]: [Tensor, Tensor]): [Tensor, Tensor] => [y.mul(1.5).add(z.mean(0)), z.add(1)],
        [x as Tensor, (x as Tensor).mul(2)],
      ),
    both,
    ofBoth,
  ],
  [
    'loops and branches in a loop',
    (x) =>
      scan(
        (c: Tensor, y: Tensor): [Tensor, Tensor] => [
          foriLoop(0, 3, (_: Tensor, z: Tensor) => z.mul(0.5).add(y).add(z.mean()), c),
          cond(
            y.sum().greater(1),
            (q: Tensor) => q.div(q.mean()),
            (q: Tensor) => q,
            y,
          ),
        ],
        (x as Tensor).max(0),
        x as Tensor,
      ),
    both,
    ofBoth,
  ],
  [
    'the derivative of a scan',
    (x) => grad((z: Tensor) => scan(decaying, zeros([4]), z)[1].sum())(x as Tensor),
    rows,
    ofRows,
  ],
  [
    'a scan of each of several rows',
    (x) => vmap((r: Tensor) => scan(decaying, zeros([]), r)[1])(x as Tensor),
    both,
    ofBoth,
  ],
  [
    'a scan of fixed extents beside an open one',
    (x, h) => (x as Tensor).add(scan(decaying, zeros([4]), h as Tensor)[0]),
    rows,
    (k) => [uniform(k, [k, 4]), uniform(1, [9, 4])],
  ],
]

const listOf = (x: Results): readonly Tensor[] => (Array.isArray(x) ? x : [x as Tensor])

// By day each in one of the modes.
test.for(cases.map((x, i) => [...x, i] as const))('%s is open', ([, f, dynamic, at, i]) => {
  for (const mode of turn(['strict', 'fast'] as const, i)) {
    const [varying, closed] = [jit(f, { dynamic, mode }), jit(f, { mode })]
    for (const [k, j] of some(
      [
        [17, 23],
        [23, 17],
        [64, 31],
        [33, 40],
        [5, 6],
      ] as const,
      2,
    )) {
      const got = listOf(varying(...at(k, j)))
      const want = listOf(closed(...at(k, j)))
      for (const [o, t] of got.entries()) {
        const [a, b] = [t.dataSync() as Float32Array, want[o]?.dataSync() as Float32Array]
        if (mode === 'strict') expect(a, `${k} by ${j}`).toEqual(b)
        else
          for (const [e, v] of a.entries())
            expect(Math.abs(v - (b[e] ?? 0)), `${k} by ${j}`).toBeLessThan(1e-5 * Math.max(1, Math.abs(v)))
      }
    }
    const { closed: why, open } = varying.explain(...at(23, 18))
    expect(why).toBeUndefined()
    expect(open?.[0]?.name).toBe('length')
    varying.dispose()
    closed.dispose()
  }
})
