/** Loops over 128-bit words in WebAssembly, assembled by hand: what this machine can do without any compiler of ours. */
type Bytes = readonly number[]

const leb = (n: number): number[] => {
  const out: number[] = []
  let v = n
  do {
    out.push((v & 127) | (v > 127 ? 128 : 0))
    v >>>= 7
  } while (v > 0)
  return out
}
/** A signed constant that is not negative. */
const constant = (n: number): number[] => {
  const out: number[] = [0x41]
  let v = n
  for (;;) {
    const low = v & 127
    v >>= 7
    if (v === 0 && (low & 64) === 0) return [...out, low]
    out.push(low | 128)
  }
}
const section = (id: number, body: Bytes): Bytes => [id, ...leb(body.length), ...body]
const vector = (items: readonly Bytes[]): Bytes => [...leb(items.length), ...items.flat()]
const simd = (op: number): Bytes => [0xfd, ...leb(op)]
const [I32, V128, ADD, SUB] = [0x7f, 0x7b, 0x6a, 0x6b]
const get = (i: number): Bytes => [0x20, i]
const set = (i: number): Bytes => [0x21, i]
const load = (offset: number): Bytes => [...simd(0), 4, ...leb(offset)]
const store = (offset: number): Bytes => [...simd(11), 4, ...leb(offset)]
/** Ends at zero of local `counter`, lowered by `step` each turn. */
const loop = (body: Bytes, counter: number, step: number): Bytes => [
  ...[0x03, 0x40, ...body, ...get(counter), ...constant(step)],
  ...[SUB, 0x22, counter, 0x0d, 0, 0x0b],
]

/** Bytes a turn. */
const stride = 128
const offsets = Array.from({ length: stride / 16 }, (_, i) => 16 * i)
const accumulators = 12
/** Parameters: where to write, read, and read besides; bytes; repeats. Then pointers and a counter, then vectors. */
const P = { to: 0, from: 1, other: 2, bytes: 3, repeats: 4, a: 5, b: 6, c: 7, left: 8, vectors: 9 } as const
const literal = (bits: Bytes): Bytes => [...simd(12), ...bits, ...bits, ...bits, ...bits]
const half: Bytes = [0, 0, 0, 0x3f]

const step = (p: number): Bytes => [...get(p), ...constant(stride), ADD, ...set(p)]
const walk = (body: Bytes, pointers: readonly (readonly [number, number])[]): Bytes =>
  loop(
    [
      ...pointers.flatMap(([p, start]) => [...get(start), ...set(p)]),
      ...[...get(P.bytes), ...set(P.left)],
      ...loop([...body, ...pointers.flatMap(([p]) => step(p))], P.left, stride),
    ],
    P.repeats,
    1,
  )
const vectors = Array.from({ length: accumulators }, (_, i) => P.vectors + i)
const keep: Bytes = vectors.flatMap((v, i) => [...get(P.to), ...get(v), ...store(16 * i)])

/** Bodies of loops over memory. */
const memoryLoops = {
  read: [
    ...walk(
      offsets.flatMap((o, i) => [...get(P.b), ...load(o), ...get(P.vectors + i), ...simd(80), ...set(P.vectors + i)]),
      [[P.b, P.from]],
    ),
    ...keep,
  ],
  mixed: walk(
    offsets.flatMap((o) => [...get(P.a), ...get(P.b), ...load(o), ...get(P.c), ...load(o), ...simd(80), ...store(o)]),
    [
      [P.a, P.to],
      [P.b, P.from],
      [P.c, P.other],
    ],
  ),
  copy: walk(
    offsets.flatMap((o) => [...get(P.a), ...get(P.b), ...load(o), ...store(o)]),
    [
      [P.a, P.to],
      [P.b, P.from],
    ],
  ),
  write: walk(
    offsets.flatMap((o) => [...get(P.a), ...get(P.vectors), ...store(o)]),
    [[P.a, P.to]],
  ),
} as const

const arithmetic = (operation: (v: number) => Bytes): Bytes => [
  ...vectors.flatMap((v) => [...literal(half), ...set(v)]),
  ...loop(
    vectors.flatMap((v) => [...operation(v), ...set(v)]),
    P.repeats,
    1,
  ),
  ...keep,
]
const x = P.vectors + accumulators
const arithmeticLoops = {
  fma: arithmetic((v) => [...get(v), ...get(x), ...get(x), ...simd(0x105)]),
  apart: arithmetic((v) => [...get(v), ...get(x), ...simd(0xe6), ...get(x), ...simd(0xe4)]),
  divide: arithmetic((v) => [...literal(half), ...get(v), ...simd(0xe7)]),
} as const

export const loops = { ...memoryLoops, ...arithmeticLoops } as const
export type LoopName = keyof typeof loops

/** Operations of a turn of an arithmetic loop; multiply-adds count two. */
export const turnOperations = { fma: 8 * accumulators, apart: 8 * accumulators, divide: 4 * accumulators } as const

/** A module of one loop on an imported shared memory of so many pages. */
export function moduleOf(name: LoopName, pages: number): Uint8Array<ArrayBuffer> {
  const locals = [2, 4, I32, accumulators + 1, V128]
  const half4 = [...literal(half), ...set(x)]
  const body = [...locals, ...half4, ...loops[name], 0x0b]
  const text = (s: string): Bytes => [...leb(s.length), ...Buffer.from(s)]
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, vector([[0x60, 5, I32, I32, I32, I32, I32, 0]])),
    ...section(2, vector([[...text('m'), ...text('m'), 2, 3, ...leb(pages), ...leb(pages)]])),
    ...section(3, vector([[0]])),
    ...section(7, vector([[...text('f'), 0, 0]])),
    ...section(10, vector([[...leb(body.length), ...body]])),
  ])
}
