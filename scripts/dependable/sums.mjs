/** Accuracy of long sums: measured errors in units of what docs/numerics.md promises in fast mode, 4 log2(n) 2^-24 sum|x|. */
import * as sinter from '../../dist/index.js'

const unit = (n) => 4 * Math.log2(n) * 2 ** -24

/** One, then what a single accumulator swallows: a sum of 1 + (n - 1) 2^-24. */
const swallowed = (n) => Float32Array.from({ length: n }, (_, i) => (i === 0 ? 1 : 2 ** -24))

/** Numbers near 10,000 that a fixed generator gives. */
function nearTenThousand(n) {
  let state = 12345
  return Float32Array.from({ length: n }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return 10_000 + (2 * state) / 2 ** 32 - 1
  })
}

const alternating = (n) => nearTenThousand(n).map((x, i) => (i % 2 === 0 ? x : -x))

const exactly = (x) => x.reduce((t, y) => t + y, 0)
const magnitude = (x) => x.reduce((t, y) => t + Math.abs(y), 0)

/** The error of a sum of all elements in bounds. */
async function errorOfSum(make, n) {
  const x = make(n)
  const [y] = await sinter
    .jit((t) => t.sum())(sinter.tensor(x))
    .data()
  return Math.abs(y - exactly(x)) / (unit(n) * magnitude(x))
}

/** The greatest error of a running sum in bounds. */
async function errorOfRunningSum(make, n) {
  const x = make(n)
  const y = await sinter
    .jit((t) => t.cumsum(0))(sinter.tensor(x))
    .data()
  let [sum, size, worst] = [0, 0, 0]
  for (let i = 0; i < n; i++) {
    sum += x[i]
    size += Math.abs(x[i])
    worst = Math.max(worst, Math.abs(y[i] - sum) / (unit(n) * size))
  }
  return worst
}

/** How far a variance near 10,000 is off, as a share of it. */
async function errorOfVariance(spread) {
  const x = nearTenThousand(100_000).map((y) => 10_000 + spread * (y - 10_000))
  const mean = exactly(x) / x.length
  const exact = x.reduce((t, y) => t + (y - mean) ** 2, 0) / x.length
  const [y] = await sinter
    .jit((t) => t.var())(sinter.tensor(x))
    .data()
  return Math.abs(y / exact - 1)
}

/** What each row, or each column, of a matrix sums to, in bounds: the first number of it is one, or what gives one, the others swallowed. */
async function errorOfLines([rows, columns], axis, f, value = (x) => x) {
  const n = axis === 0 ? rows : columns
  const at = (i) => (axis === 0 ? Math.floor(i / columns) : i % columns)
  const [first, other] = [value(1), Math.fround(value(2 ** -24))]
  const x = Float32Array.from({ length: rows * columns }, (_, i) => (at(i) === 0 ? first : other))
  const y = await sinter
    .jit(f)(sinter.tensor(x, { shape: [rows, columns] }))
    .data()
  const exact = 1 + (n - 1) * 2 ** -24
  return y.reduce((worst, z) => Math.max(worst, Math.abs(z - exact) / (unit(n) * exact)), 0)
}

const kept = { keepdims: true }
const ones = (n) => new Float32Array(n).fill(1)
const of = (id, what, measure, bound = 1, u = 'bounds') => ({ id, what, unit: u, bound, measure, seconds: 120 })

/** Sums along lines, which are lowered in ways of their own on each device. */
const lines = [
  of('sums-rows', 'error of sums along rows of 2^20, beside their greatest value', () =>
    errorOfLines([16, 2 ** 20], 1, (x) => x.sub(x.max(-1, kept)).exp().sum(-1), Math.log),
  ),
  of('sums-means', 'error of means of rows of 2^20 that are normalised', () =>
    errorOfLines([16, 2 ** 20], 1, (x) =>
      x
        .mean(-1)
        .add(x.var(-1).mul(0))
        .mul(2 ** 20),
    ),
  ),
  of('sums-carried', 'error of sums over 2^19 rows that a program holds one by one', () =>
    errorOfLines([2 ** 19, 64], 0, (x) => x.max(-1, kept).maximum(x).sum(0)),
  ),
]

const sums = [
  of('sums-ones', 'error of the sum of 2^25 ones', () => errorOfSum(ones, 2 ** 25)),
  of('sums-swallowed', 'error of the sum of 1 and 2^25 numbers of 2^-24', () => errorOfSum(swallowed, 2 ** 25)),
  of('sums-near', 'error of the sum of 100,000 numbers near 10,000', () => errorOfSum(nearTenThousand, 100_000)),
  of('sums-signs', 'error of the sum of 2^20 numbers of alternating signs', () => errorOfSum(alternating, 2 ** 20)),
  of('sums-running-ones', 'greatest error of the running sum of 2^25 ones', () => errorOfRunningSum(ones, 2 ** 25)),
  of('sums-running-swallowed', 'greatest error of the running sum of 1 and 2^22 numbers of 2^-24', () =>
    errorOfRunningSum(swallowed, 2 ** 22),
  ),
  of(
    'sums-variance',
    'error of the variance of 100,000 numbers near 10,000, 0.03 apart',
    () => errorOfVariance(0.03),
    1e-3,
    'of it',
  ),
  ...lines,
]

/** The same on a GPU. */
const on = (device, open) =>
  sums.map((item) => ({
    ...item,
    id: `${item.id}-${device}`,
    device,
    async measure() {
      sinter.setDevice(await open())
      return item.measure()
    },
  }))

export const items = [
  ...sums,
  ...on('cuda', async () => (await import('../../dist/cuda.js')).cuda()),
  ...on('webgpu', async () => (await import('../../dist/webgpu.js')).webgpu()),
]
