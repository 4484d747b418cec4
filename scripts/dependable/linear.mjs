/**
 * Compile times of large programs in a process that has compiled a small one of the kind: processor time of all threads (the engine compiles
 * and collects on some of its own), which is no less than the wall's clock on a quiet machine, and the same on one that others use.
 */
import * as s from '../../dist/index.js'

const range = (n) => Array.from({ length: n }, (_, i) => i)
const x = s.spec([4])

/** Seconds of processor time for compiling the program of `n`, after one of `warm`. */
function seconds(program, warm, n, input = () => x) {
  s.setDevice('wasm', { threads: 1 })
  for (let i = 0; i < 3; i++) s.jit(program(warm)).compile(input(warm))
  const large = s.jit(program(n))
  const start = process.cpuUsage()
  large.compile(input(n))
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1e6
}

const concatenated = (n) => (t) =>
  s.concat(
    range(n).map((i) => s.mul(t, i + 1)),
    0,
  )
const outputs = (n) => (t) => range(n).map((i) => s.mul(t, i + 1))
const scanned = () => (t) => s.associativeScan((a, b) => s.add(a, b), t)
const summed = (n) => (t) => range(n).reduce((y) => s.add(y, s.sum(y)), t)
const chained = (n) => (t) => range(n).reduce((y, i) => (i % 2 === 0 ? s.mul(y, 1 + i * 1e-6) : s.sin(y)), t)

const unit = 's'

export const items = [
  {
    id: 'compile-concat-1000',
    what: 'compiling a concatenation of 1,000 computed parts',
    unit,
    bound: 1,
    measure: () => seconds(concatenated, 200, 1000),
  },
  {
    id: 'compile-outputs-4000',
    what: 'compiling a function of 4,000 outputs',
    unit,
    bound: 3,
    measure: () => seconds(outputs, 200, 4000),
  },
  {
    id: 'compile-scan-2048',
    what: 'compiling an associativeScan of 2,048 steps',
    unit,
    bound: 1,
    measure: () => seconds(scanned, 256, 2048, (n) => s.spec([n])),
  },
  {
    id: 'compile-sums-300',
    what: 'compiling 300 dependent x + sum(x)',
    unit,
    bound: 0.2,
    measure: () => seconds(summed, 150, 300, () => s.spec([64])),
  },
  {
    id: 'compile-concat-10000',
    what: 'compiling a concatenation of 10,000 computed parts',
    unit,
    bound: 10,
    measure: () => seconds(concatenated, 200, 10_000),
  },
  {
    id: 'compile-chain-10000',
    what: 'compiling 10,000 elementwise operations one after another',
    unit,
    bound: 5,
    measure: () => seconds(chained, 200, 10_000),
  },
]
