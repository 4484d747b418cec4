/** Tensors around 2^31 and 2^32 elements and bytes: what programs over them are asked, and the answers in float64. */
import * as c from '../../src/compose/index.ts'
import { parseKernels } from '../../src/kernel/parse.ts'
import { randomElement } from '../../src/scalar/threefry.ts'
import { dtypeBytes } from '../../src/types/dtype.ts'

export const [G2, G4] = [2 ** 31, 2 ** 32]
const product = (shape) => shape.reduce((a, b) => a * b, 1)

/** The value at a position of every input: a whole number from 0 to 102 that all dtypes hold. */
export const period = 8191
const pattern = (p) => ((p % period) * 37) % 101
const valueAt = (p) => pattern(p) + Math.floor(p / G2)
const boolAt = (p) => valueAt(p) % 2 === 1

/** The sum of the first `n` values. */
function sumTo(n) {
  const all = Array.from({ length: period }, (_, i) => pattern(i))
  const whole = all.reduce((a, b) => a + b, 0)
  let sum = whole * Math.floor(n / period) + all.slice(0, n % period).reduce((a, b) => a + b, 0)
  for (let from = G2; from < n; from += G2) sum += n - from
  return sum
}

/** Positions to look at: the ends, around the limits in elements and in bytes, and some between. */
function places(n, bytes = 1) {
  const around = [G2, G4, G2 / bytes, G4 / bytes, G2 / 2, n / 3, (2 * n) / 3].flatMap((x) => {
    const at = Math.floor(x)
    return [at - 2, at - 1, at, at + 1, at + 4099]
  })
  const all = [0, 1, 2, 5, 4097, ...around, n - 4098, n - 3, n - 2, n - 1]
  return [...new Set(all.filter((p) => p >= 0 && p < n))].sort((a, b) => a - b)
}

/** Why sampled elements differ from what they should be; undefined where none does. */
function compare(at, got, expected, tolerance = 0) {
  const wrong = at.flatMap((p, i) => {
    const want = expected(p)
    return Math.abs(got[i] - want) <= tolerance * Math.max(1, Math.abs(want))
      ? []
      : [`[${p}] is ${got[i]}, expected ${want}`]
  })
  return wrong.length === 0 ? undefined : `${wrong.length} of ${at.length} wrong: ${wrong.slice(0, 4).join('; ')}`
}

/**
 * A program of one input of `shape` and `dtype` (that stands on the device), whose result of `out` (shape and dtype) is compared with
 * `expected` at `at`. `others`: more inputs, as [shape, dtype, values].
 */
const unary =
  ({ shape, dtype, out, build, expected, at, others = [], tolerance = 0, target = (t) => t, kinds }) =>
  async (r, inputs) => {
    const x = inputs(shape, dtype)
    const more = others.map(([, , data]) => r.upload(data))
    const specs = [[shape, dtype], ...others.map(([s, d]) => [s, d])]
    let y
    try {
      ;[y] = r.run(specs, build, [x, ...more], target(r.target))
      if (kinds !== undefined && !r.kinds.includes(kinds)) return `no ${kinds} among the steps ${r.kinds.join(', ')}`
      const n = product(out[0])
      const where = at ?? places(n, dtypeBytes(out[1]))
      return compare(where, await r.sample(y, n, out[1], where), expected, tolerance)
    } finally {
      r.free(...more, ...(y === undefined ? [] : [y]))
    }
  }

const elementwise = (n, dtype) => {
  const isBool = dtype === 'bool'
  return {
    name: `elementwise ${dtype}[${n}]`,
    run: unary({
      shape: [n],
      dtype,
      out: [[n], dtype],
      build: (x) => (isBool ? c.unary('not', x) : c.add(x, 7)),
      expected: (p) => (isBool ? Number(!boolAt(p)) : valueAt(p) + 7),
    }),
  }
}

const sum = (n, dtype) => ({
  name: `sum ${dtype}[${n}]`,
  run: unary({
    shape: [n],
    dtype,
    out: [[1], 'f64'],
    build: (x) => c.reshape(c.sum(c.cast(x, 'f64')), [1]),
    expected: () => sumTo(n),
    at: [0],
  }),
})

const argmax = (n, dtype, at) => ({
  name: `argmax and argmin ${dtype}[${n}], at ${at}`,
  run: unary({
    shape: [n],
    dtype,
    out: [[2], 'i64'],
    build: (x) => {
      const here = c.compare('eq', c.iota([n], 0, 'i64'), at)
      const place = (y) => c.reshape(c.cast(y, 'i64'), [1])
      return c.concat([place(c.argmax(c.where(here, 120, x), 0)), place(c.argmin(c.where(here, 0, c.add(x, 1)), 0))], 0)
    },
    expected: () => at,
    at: [0, 1],
  }),
})

const bigSlice = (n, dtype) => ({
  name: `slices and concatenation ${dtype}[${n}]`,
  run: unary({
    shape: [n],
    dtype,
    out: [[n], dtype],
    build: (x) => c.roll(x, 12345, 0),
    expected: (p) => valueAt((((p - 12345) % n) + n) % n),
  }),
})

const gather = (n, dtype) => {
  const at = places(n, dtypeBytes(dtype))
  return {
    name: `gather ${dtype}[${n}]`,
    run: unary({
      shape: [n],
      dtype,
      out: [[at.length], dtype],
      build: (x, i) => c.take(x, i, 0),
      others: [[[at.length], 'i64', BigInt64Array.from(at, (p, i) => BigInt(i % 2 === 0 ? p : p - n))]],
      expected: (k) => valueAt(at[k]),
      at: at.map((_, k) => k),
    }),
  }
}

const gatherRows = (rows, columns, dtype) => {
  const at = places(rows)
  return {
    name: `gather of rows ${dtype}[${rows}, ${columns}]`,
    run: unary({
      shape: [rows, columns],
      dtype,
      out: [[at.length, columns], dtype],
      build: (x, i) => c.take(x, i, 0),
      others: [[[at.length], 'i32', Int32Array.from(at)]],
      expected: (k) => valueAt(at[Math.floor(k / columns)] * columns + (k % columns)),
    }),
  }
}

const scatter = (n, dtype) => {
  const at = places(n, dtypeBytes(dtype)).filter((_, i) => i % 2 === 0)
  const set = new Set(at)
  return {
    name: `scatter ${dtype}[${n}]`,
    run: unary({
      shape: [n],
      dtype,
      out: [[n], dtype],
      build: (x, i) => c.scatterElements(x, i, c.full([at.length], 111, dtype), 0),
      others: [[[at.length], 'i64', BigInt64Array.from(at, BigInt)]],
      expected: (p) => (set.has(p) ? 111 : valueAt(p)),
    }),
  }
}

const transpose = (rows, columns, dtype) => ({
  name: `transpose ${dtype}[${rows}, ${columns}]`,
  run: unary({
    shape: [rows, columns],
    dtype,
    out: [[columns, rows], dtype],
    build: (x) => c.add(c.transpose(x), 3),
    expected: (p) => valueAt((p % rows) * columns + Math.floor(p / rows)) + 3,
  }),
})

const rowsLessGreatest = (rows, columns, dtype) => ({
  name: `rows less their greatest ${dtype}[${rows}, ${columns}]`,
  run: unary({
    shape: [rows, columns],
    dtype,
    out: [[rows, columns], 'f32'],
    build: (x) => c.sub(c.cast(x, 'f32'), c.reduceMax(c.cast(x, 'f32'), 1, true)),
    expected: (p) => {
      const row = Math.floor(p / columns) * columns
      let most = 0
      for (let j = 0; j < columns; j++) most = Math.max(most, valueAt(row + j))
      return valueAt(p) - most
    },
  }),
})

const columnSums = (rows, columns, dtype) => ({
  name: `sums of columns ${dtype}[${rows}, ${columns}]`,
  run: unary({
    shape: [rows, columns],
    dtype,
    out: [[columns], 'f64'],
    build: (x) => c.sum(c.cast(x, 'f64'), 0),
    expected: (p) => {
      let s = 0
      for (let i = 0; i < rows; i++) s += valueAt(i * columns + p)
      return s
    },
    at: [0, 1, Math.floor(columns / 2), columns - 1],
  }),
})

const scanRows = (rows, columns, dtype) => ({
  name: `running sums of rows ${dtype}[${rows}, ${columns}]`,
  run: unary({
    shape: [rows, columns],
    dtype,
    out: [[rows, columns], 'i32'],
    build: (x) => c.cumsum(c.cast(x, 'i32'), 1),
    expected: (p) => {
      let s = 0
      for (let j = Math.floor(p / columns) * columns; j <= p; j++) s += valueAt(j)
      return s
    },
  }),
})

const random = (n, dtype) => ({
  name: `random bits ${dtype}[${n}]`,
  run: async (r) => {
    const key = r.upload(Uint32Array.of(123456789, 987654321))
    let y
    try {
      ;[y] = r.run([[[2], 'u32']], (k) => c.randomBits(k, [n], dtype), [key])
      const at = places(n, dtypeBytes(dtype))
      return compare(at, await r.sample(y, n, dtype, at), (p) => randomElement(dtype, 123456789, 987654321, p))
    } finally {
      r.free(key, ...(y === undefined ? [] : [y]))
    }
  },
})

const pooling = (stride) => {
  const side = Math.floor((2048 - 11) / stride) + 1
  return {
    name: `averages of 11 x 11 windows of f32[16, 64, 2048, 2048], ${stride} apart`,
    run: unary({
      shape: [16, 64, 2048, 2048],
      dtype: 'f32',
      out: [[16, 64, side, side], 'f32'],
      build: (x) => c.averagePool(x, [11, 11], { stride }),
      expected: (p) => {
        const [plane, row, column] = [Math.floor(p / side ** 2), Math.floor(p / side) % side, p % side]
        let s = 0
        for (let i = 0; i < 11; i++)
          for (let j = 0; j < 11; j++) s += valueAt(plane * 2048 ** 2 + (row * stride + i) * 2048 + column * stride + j)
        return s / 121
      },
      tolerance: 1e-5,
    }),
  }
}

/** A product [batches, m, k] x [k, n] by the library or by a kernel of our own; the second operand holds small numbers. */
const matmul = (batches, m, k, n, dtype, by) => {
  const second = (j, column) => ((j * 3 + column) % 5) - 2
  const lead = batches === 1 ? [] : [batches]
  const bits = { f32: Float32Array, f64: Float64Array }[dtype] ?? Float32Array
  const host = bits.from({ length: k * n }, (_, i) => second(Math.floor(i / n), i % n))
  const eager = (t) => ({
    ...t,
    matrixRate: 1e3,
    plainMatrixRate: 1e3,
    library: t.library && { ...t.library, leastFlops: 1, launch: 1e-9 },
  })
  const own = ({ library: _, ...t }) => t
  const given = dtype === 'f64' ? 'f64' : 'f32'
  return {
    name: `product ${dtype}[${[...lead, m, k].join(', ')}] x [${k}, ${n}] by ${by === 'product' ? 'the library' : 'a kernel'}`,
    run: unary({
      shape: [...lead, m, k],
      dtype,
      out: [[...lead, m, n], dtype],
      build: (x, w) => c.matmul(x, c.cast(w, dtype)),
      others: [[[k, n], given, host]],
      target: by === 'product' ? eager : own,
      kinds: by,
      expected: (p) => {
        const [row, column] = [Math.floor(p / n), p % n]
        let s = 0
        for (let j = 0; j < k; j++) s += valueAt(row * k + j) * second(j, column)
        return s
      },
      // Sums of hundreds of terms up to 200, rounded to the dtype of the result.
      tolerance: { bf16: 0.02, f16: 0.01, f32: 1e-4, f64: 1e-12 }[dtype],
    }),
  }
}

/** A comparison stored one bit an element, and read again. */
const bitsOf = (n) => ({
  name: `bits of bool[${n}]`,
  run: async (r, inputs) => {
    const source = `kernel pack {
  param x: u8[${n}] read
  param m: bool[${n}] write bits
  axes i: ${n}
  grid i/2048
  %0 u8{i} = load x[i]
  %1 u8 = const 50
  %2 bool{i} = gt %0, %1
  store m[i] = %2
}
kernel unpack {
  param m: bool[${n}] read bits
  param y: u8[${n}] write
  axes i: ${n}
  grid i/2048
  %0 bool{i} = load m[i]
  %1 u8{i} = cast %0
  store y[i] = %1
}`
    const bytes = 16 * Math.ceil(n / 128)
    const buffer = (dtype, format, size, source) => ({ dtype, shape: [n], format, bytes: size, source })
    const kernels = parseKernels(source)
    const program = {
      name: 'bits',
      buffers: [
        buffer('u8', 'plain', n, { kind: 'input', index: 0 }),
        buffer('bool', 'bits', bytes, { kind: 'temp', offset: 0 }),
        buffer('u8', 'plain', n, { kind: 'output' }),
      ],
      steps: kernels.map((kernel, i) => ({ kind: 'kernel', stage: 'main', launch: i, kernel, buffers: [i, i + 1] })),
      inputs: [0],
      donated: [false],
      outputs: [2],
      arenaBytes: bytes,
    }
    const executable = r.backend.prepare(program)
    const [y] = executable.run([inputs([n], 'u8')])
    try {
      const at = places(n)
      return compare(at, await r.sample(y, n, 'u8', at), (p) => Number(valueAt(p) > 50))
    } finally {
      r.free(y)
      executable.dispose()
    }
  },
})

const long = G4 + 7
/** For each element size: elements and bytes around the limits. */
const sizes = (dtype) => {
  const bytes = dtypeBytes(dtype)
  const around = [G2 - 1, G2, G2 + 1, G4, long]
  return [...new Set([...around, ...[G2 - 1, long].map((b) => Math.ceil(b / bytes))])].sort((a, b) => a - b)
}

/** Items by what they read: inputs are made once for those that follow each other. */
export const items = (subset) => {
  if (subset)
    return [
      elementwise(long, 'u8'),
      sum(long, 'u8'),
      gather(long, 'u8'),
      scatter(long, 'u8'),
      bigSlice(G2 + 5, 'u8'),
      bitsOf(G2 + 13),
      argmax(G2 + 5, 'u8', G2 + 3),
      random(G2 + 5, 'u8'),
      transpose(46349, 46341, 'u8'),
      scanRows(2097153, 1031, 'u8'),
      pooling(11),
      matmul(1, 4194307, 1024, 16, 'bf16', 'kernel'),
    ]
  const whole = ['u8', 'bf16', 'f32', 'f64'].flatMap((dtype) =>
    sizes(dtype).flatMap((n) => [
      elementwise(n, dtype),
      ...(n === long || n === G2 - 1 || n === G2 + 1
        ? [sum(n, dtype), gather(n, dtype), bigSlice(n, dtype), scatter(n, dtype)]
        : []),
      ...(n === long && dtype !== 'f64' ? [argmax(n, dtype, n - 2), argmax(n, dtype, G2 + 1)] : []),
      ...(n === long && dtype === 'u8' ? [bitsOf(n)] : []),
    ]),
  )
  return [
    ...whole,
    elementwise(long, 'bool'),
    elementwise(long, 'i16'),
    elementwise(G2 + 1, 'i64'),
    random(long, 'u32'),
    random(long, 'u16'),
    random(2 ** 35 + 19, 'u8'),
    transpose(65549, 65539, 'u8'),
    transpose(65549, 65539, 'bf16'),
    transpose(65549, 65539, 'f32'),
    rowsLessGreatest(1048583, 4099, 'bf16'),
    columnSums(131077, 32771, 'f32'),
    scanRows(1048583, 4099, 'u8'),
    gatherRows(4194311, 1027, 'bf16'),
    pooling(11),
    pooling(1),
    ...['product', 'kernel'].flatMap((by) => [
      matmul(1, 4194319, 1024, 64, 'bf16', by),
      matmul(4099, 1024, 1024, 16, 'bf16', by),
      matmul(1, 131088, 64, 32776, 'bf16', by),
      matmul(1, 2097169, 2056, 16, 'f32', by),
    ]),
    matmul(1, 1048601, 2056, 8, 'f64', 'product'),
  ]
}
