/** Programs over tensors beyond 2^31 and 2^32 elements and bytes, and what single elements of their results are. */
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import type { Scalar } from '../../src/scalar/ops.ts'
import { randomElement } from '../../src/scalar/threefry.ts'
import type { DType } from '../../src/types/dtype.ts'

export const [G2, G4] = [2 ** 31, 2 ** 32]

export type Spec = readonly [shape: readonly number[], dtype?: DType]
/** An element of an input, by its flat position. */
export type Read = (input: number, at: number) => Scalar

export interface Case {
  readonly name: string
  readonly specs: readonly Spec[]
  readonly build: (...inputs: readonly Node[]) => Node
  /** Elements of the result to look at, by flat position. */
  readonly at: readonly number[]
  readonly expected: (read: Read, at: number) => Scalar
  /** Values of an input; small integers unless given. */
  readonly value?: (input: number, at: number) => Scalar
  readonly tolerance?: number
  /** Elements of views that no kernel stores. */
  readonly through?: number
}

/** Odd sizes end in a tail. */
const long = G4 + 7
/** Around the limits, and the ends. */
const places = (n: number, ...more: readonly number[]): number[] =>
  [0, 1, G2 - 1, G2, G2 + 1, G4 - 1, G4, G4 + 1, n - 1, ...more].filter((p) => p >= 0 && p < n)

/** Small integers that differ from place to place, none of them zero. */
export const pattern = (input: number, at: number): number => {
  const x = (at % 61) + 7 * (Math.floor(at / 65536) % 5) + 3 * (Math.floor(at / G2) % 3) + input
  return (x % 50) + 1
}
export const num = (x: Scalar): number => Number(x)

const moved = 12345
/** Elements that move by a part of a block, in two parts of a kernel, one of them, and behind a mask. */
const movements = (dtype: DType, n: number): readonly Case[] => {
  const value: Case['value'] = (i, at) => (dtype === 'bool' ? at % 3 === 0 : pattern(i, at))
  const zero = dtype === 'bool' ? false : 0
  const at = places(n, moved - 1, moved, moved + 4099, n - 2, n - 1024, n - moved)
  const one = (name: string, extent: number, build: Case['build'], from: (at: number) => number | undefined): Case => ({
    name: `${name} ${dtype}[${extent}]`,
    specs: [[[extent], dtype]],
    build,
    at,
    value,
    expected: (read, p) => {
      const q = from(p)
      const x = q === undefined ? zero : read(0, q)
      return name === 'cut' && typeof x === 'boolean' ? !x : x
    },
  })
  return [
    one(
      'rolled',
      n,
      (x) => c.roll(x, moved, 0),
      (p) => (p < moved ? n - moved + p : p - moved),
    ),
    ...(dtype === 'u8' || n === long
      ? [
          one(
            'padded',
            n - moved - 7,
            (x) => c.pad(x, [[moved, 7]]),
            (p) => (p < moved || p >= n - 7 ? undefined : p - moved),
          ),
          one(
            'cut',
            n + moved,
            (x) =>
              dtype === 'bool'
                ? c.unary('not', c.sliceAxis(x, 0, moved, n + moved))
                : c.neg(c.neg(c.sliceAxis(x, 0, moved, n + moved))),
            (p) => p + moved,
          ),
        ]
      : []),
  ]
}

export const allCases: readonly Case[] = [
  ...(['u8', 'bool', 'f16', 'bf16', 'f32', 'f64'] as const).flatMap((dtype) =>
    [G2 - 1, G2 + 5, long].flatMap((n) => movements(dtype, n)),
  ),
  ...(
    [
      ['f32', long],
      ['f64', G2 + 9],
      ['bf16', G4 + 5],
      ['i8', G4 + 3],
      ['i64', G2 - 1],
      ['i16', G2],
      ['bool', G4 + 1],
    ] as const
  ).map(
    ([dtype, n]): Case => ({
      name: `elementwise ${dtype}[${n}]`,
      specs: [[[n], dtype]],
      build: (x) => (dtype === 'bool' ? c.unary('not', x) : c.add(x, 3)),
      at: places(n, 4099, G2 + 4095),
      value: (i, at) => (dtype === 'bool' ? at % 3 === 0 : dtype === 'i64' ? BigInt(pattern(i, at)) : pattern(i, at)),
      expected: (read, at) => {
        const x = read(0, at)
        return typeof x === 'boolean' ? !x : typeof x === 'bigint' ? x + 3n : num(x) + 3
      },
    }),
  ),
  {
    name: 'positions as f64 and i64',
    specs: [[[long], 'i8']],
    build: (x) => c.add(c.cast(x, 'i64'), c.iota([long], 0, 'i64')),
    at: places(long),
    expected: (read, at) => BigInt(at) + BigInt(num(read(0, at))),
  },
  {
    name: 'a slice at the end',
    specs: [[[long], 'f32']],
    build: (x) => c.mul(c.sliceAxis(x, 0, G4 - 100, long), 2),
    at: [0, 99, 100, 106],
    expected: (read, at) => 2 * num(read(0, G4 - 100 + at)),
  },
  {
    name: 'joined pieces',
    specs: [
      [[G2 + 5], 'i8'],
      [[G2 + 5], 'i8'],
    ],
    build: (x, y) => c.concat([x, y], 0),
    at: places(2 * G2 + 10, G2 + 4, G2 + 5, G2 + 6),
    expected: (read, at) => (at < G2 + 5 ? read(0, at) : read(1, at - G2 - 5)),
  },
  {
    name: 'a strided view, turned round',
    specs: [[[65536, 65537], 'bf16']],
    build: (x) => c.flip(c.sliceAxis(x, 1, 1, 65537, 2), [0]),
    at: [0, 32767, 32768, G2 - 1],
    expected: (read, at) => {
      const [row, column] = [Math.floor(at / 32768), at % 32768]
      return read(0, (65535 - row) * 65537 + 1 + 2 * column)
    },
  },
  {
    name: 'a transposed matrix',
    specs: [[[65536, 65540], 'f32']],
    build: (x) => c.add(c.transpose(x), 1),
    at: places(65536 * 65540),
    expected: (read, at) => num(read(0, (at % 65536) * 65540 + Math.floor(at / 65536))) + 1,
  },
  {
    name: 'a reshaped sum of a row and a column',
    specs: [
      [[65536, 3, 21847], 'i16'],
      [[65536 * 3], 'i16'],
    ],
    build: (x, y) => c.add(c.reshape(x, [65536 * 3, 21847]), c.expandDims(y, 1)),
    at: places(65536 * 3 * 21847),
    expected: (read, at) => num(read(0, at)) + num(read(1, Math.floor(at / 21847))),
  },
  {
    name: 'rows gathered by i64 indices',
    specs: [
      [[long], 'f32'],
      [[64], 'i64'],
    ],
    build: (x, i) => c.take(x, i, 0),
    at: [0, 5, 63],
    value: (input, at) => (input === 1 ? BigInt(at === 5 ? -3 : long - 1 - 40 * at) : pattern(input, at)),
    expected: (read, at) => {
      const i = num(read(1, at))
      return read(0, i < 0 ? i + long : i)
    },
  },
  {
    name: 'rows gathered by i32 indices from more than i32 holds',
    specs: [
      [[long], 'u8'],
      [[64], 'i32'],
    ],
    build: (x, i) => c.take(x, i, 0),
    at: [0, 5, 63],
    value: (input, at) => (input === 1 ? (at === 5 ? -2 : G2 - 1 - at) : pattern(input, at)),
    expected: (read, at) => {
      const i = num(read(1, at))
      return read(0, i < 0 ? i + long : i)
    },
  },
  {
    name: 'sums of short rows',
    specs: [[[G2 / 16, 33], 'bf16']],
    build: (x) => c.sum(c.cast(x, 'f32'), 1),
    at: [0, G2 / 33 - 1, G2 / 33 + 1, G2 / 16 - 1].map(Math.floor),
    expected: (read, at) => Array.from({ length: 33 }, (_, j) => num(read(0, at * 33 + j))).reduce((a, b) => a + b),
  },
  {
    name: 'the places of the greatest of rows',
    specs: [[[G2 / 512, 1025], 'i8']],
    build: (x) => c.argmax(x, 1),
    at: [0, 2 ** 21, G2 / 512 - 1],
    value: (_, at) => (at * 37) % 113,
    expected: (read, at) => {
      const row = Array.from({ length: 1025 }, (_, j) => num(read(0, at * 1025 + j)))
      return row.indexOf(Math.max(...row))
    },
  },
  {
    name: 'running sums of rows',
    specs: [[[G2 / 128, 257], 'i32']],
    build: (x) => c.cumsum(x, 1),
    at: [0, 256, G2 + 300, 2 * G2 + 5, (G2 / 128) * 257 - 1],
    expected: (read, at) => {
      const row = Math.floor(at / 257) * 257
      let sum = 0
      for (let j = row; j <= at; j++) sum += num(read(0, j))
      return sum
    },
  },
  ...(['u8', 'u32'] as const).map(
    (dtype): Case => ({
      name: `random bits ${dtype} with counters beyond 32 bits`,
      specs: [[[2], 'u32']],
      build: (key) => c.randomBits(key, [dtype === 'u8' ? 2 ** 35 + 64 : 2 ** 33 + 64], dtype),
      at:
        dtype === 'u8'
          ? [0, G2, G4, 2 ** 35 - 1, 2 ** 35, 2 ** 35 + 63]
          : [0, G2 - 1, G4 + 1, 2 ** 33 - 1, 2 ** 33, 2 ** 33 + 63],
      value: (_, at) => 1234567 + at,
      expected: (read, at) => randomElement(dtype, num(read(0, 0)), num(read(0, 1)), at),
    }),
  ),
  ...([11, 1] as const).map((stride): Case => {
    const side = Math.floor((2048 - 11) / stride) + 1
    return {
      name: `averages of 11 x 11 windows of [16, 64, 2048, 2048], ${stride} apart`,
      specs: [[[16, 64, 2048, 2048]]],
      build: (x) => c.averagePool(x, [11, 11], { stride }),
      at: [0, 16 * 32 * side * side - 1, 16 * 32 * side * side + 5, 16 * 64 * side * side - 1],
      expected: (read, at) => {
        const [plane, row, column] = [Math.floor(at / side ** 2), Math.floor(at / side) % side, at % side]
        let sum = 0
        for (let i = 0; i < 11; i++)
          for (let j = 0; j < 11; j++)
            sum += num(read(0, plane * 2048 ** 2 + (row * stride + i) * 2048 + column * stride + j))
        return sum / 121
      },
      tolerance: 1e-5,
      through: 2 ** 40,
    }
  }),
  {
    name: 'a product of many matrices on tensor cores',
    specs: [
      [[4097, 1024, 1024], 'bf16'],
      [[1024, 64], 'bf16'],
    ],
    build: (x, y) => c.matmul(x, y),
    at: [0, 4097 * 1024 * 64 - 1],
    value: (input, at) => (((at * 7 + input) % 5) - 2) / 4,
    expected: (read, at) => {
      const [row, column] = [Math.floor(at / 64), at % 64]
      return Array.from(
        { length: 1024 },
        (_, k) => num(read(0, row * 1024 + k)) * num(read(1, k * 64 + column)),
      ).reduce((a, b) => a + b)
    },
    tolerance: 0.01,
  },
]
