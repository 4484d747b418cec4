/** The price of loop schedules: what it follows of the machine's record, and of how a kernel's accesses and loops stand. */
import { describe, expect, test } from 'vitest'
import { parseKernel } from '../../src/kernel/parse.ts'
import { type LoopPrice, loopSeconds } from '../../src/schedule/loop/price/seconds.ts'
import { factsOf, scheduleKernel } from '../../src/schedule/loop/scheduleKernel.ts'
import type { LoopMachine } from '../../src/target/loops.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { samples } from './programs.ts'

/** A machine nobody has: operations cost ten times as much, memory is slow and small, a round of a loop is free. */
const madeUp: Machine = {
  ...wasmTarget,
  name: 'made up',
  memories: [
    { bytes: 4096, bandwidth: 1e9 },
    { bytes: Number.POSITIVE_INFINITY, bandwidth: 1e8 },
  ],
  overlap: 0,
  loops: loopsWith({ round: 0, entry: 0 }),
}

function loopsWith(changes: Partial<LoopMachine>): LoopMachine {
  const { loops } = wasmTarget
  if (loops === undefined) throw new Error('WebAssembly has loops')
  return { ...loops, ...changes }
}

const withLoops = (changes: Partial<LoopMachine>): Machine => ({ ...wasmTarget, loops: loopsWith(changes) })

/** A machine with one operation at another price of f32. */
function priced(op: 'exp' | 'tanh', factor: number): Machine {
  const { scalar } = wasmTarget.prices
  const price = scalar[op]
  return {
    ...wasmTarget,
    prices: {
      ...wasmTarget.prices,
      scalar: { ...scalar, [op]: { ...price, f32: factor * (price.f32 ?? 0) } },
    },
  }
}

/** The price of the schedule that `planned` makes, on `machine`. */
function priceOf(text: string, machine: Machine = wasmTarget, planned: Machine = machine): LoopPrice {
  const kernel = parseKernel(text)
  return loopSeconds(
    kernel,
    scheduleKernel(
      kernel,
      factsOf(kernel, planned, (i, j) => i === j),
    ),
    machine,
  )
}

const softmax = `kernel softmax {
  param x: f32[8, 1000] read
  param y: f32[8, 1000] write
  axes r: 8, c: 1000
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{r} = reduce max %0 over c
  %2 f32{r, c} = sub %0, %1
  %3 f32{r, c} = exp %2
  %4 f32{r} = reduce sum %3 over c
  %5 f32{r, c} = div %3, %4
  store y[r, c] = %5
}`

/** Every second, or every seventeenth, element of a row times a number. */
const spaced = (step: number): string => `kernel spaced {
  param x: f32[${step * 4096}] read
  param y: f32[4096] write
  axes i: 4096
  grid i/4096
  %0 f32{i} = load x[${step === 1 ? 'i' : `${step}*i`}]
  %1 f32{i} = mul %0, %0
  store y[i] = %1
}`

const gathered = `kernel gathered {
  param x: f32[4096] read
  param at: i32[4096] read
  param y: f32[4096] write
  axes i: 4096
  grid i/4096
  %0 i32{i} = load at[i]
  %1 f32{i} = load x[%0:4096]
  %2 f32{i} = mul %1, %1
  store y[i] = %2
}`

/** Functions of a row one after another. */
const chain = (first: string, second: string): string => `kernel chain {
  param x: f32[4096] read
  param y: f32[4096] write
  axes i: 4096
  grid i/4096
  %0 f32{i} = load x[i]
  %1 f32{i} = ${first} %0
  %2 f32{i} = ${second} %1
  store y[i] = %2
}`

/** Sums of 8 rows a program, in a loop that begins where the program's rows do. */
const ranges = (length: number): string => `kernel ranges {
  param x: f32[${8 * length}, 256] read
  param p: f32[${length}, 256] write
  axes q: ${length}, r: ${8 * length}, c: 256
  grid q
  %0 f32{c} = const 0
  %1 i32 = index 8*q
  %2 i32 = index 8*q + 8
  %3 = loop r from %1 to %2 {
    carry %4 f32{c} = %0
    %5 f32{r, c} = load x[r, c]
    %6 f32{c} = reduce sum %5 over r
    %7 f32{c} = add %4, %6
    next %7
  }
  store p[q, c] = %3
}`

/** Sums of 256 rows of some length. */
const rows = (length: number): string => `kernel rows {
  param x: f32[256, ${length}] read
  param y: f32[256] write
  axes r: 256, c: ${length}
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{r} = reduce sum %0 over c
  store y[r] = %1
}`

const product = (depth: number): string => `kernel matmul {
  param x: f32[64, ${depth}] read
  param w: f32[${depth}, 64] read
  param y: f32[64, 64] write
  axes i: 64, j: 64, k: ${depth}
  grid i/64, j/64
  %0 f32{i, k} = load x[i, k]
  %1 f32{k, j} = load w[k, j]
  %2 f32{i, j} = dot %0, %1 over k
  store y[i, j] = %2
}`

describe('operations', () => {
  test('functions one after another wait for each other, those beside each other do not', () => {
    // Planned where nothing waits, so by one group of lanes at a time.
    const alone = withLoops({ latency: 0 })
    const one = priceOf(chain('neg', 'exp'), wasmTarget, alone).waiting
    const two = priceOf(chain('exp', 'tanh'), wasmTarget, alone).waiting
    expect(two).toBeGreaterThan(0)
    expect(two).toBeGreaterThan(10 * one)
    const beside = chain('exp', 'tanh')
      .replace('tanh %1', 'tanh %0\n  %3 f32{i} = add %1, %2')
      .replace('= %2\n}', '= %3\n}')
    expect(priceOf(beside).operations.get('tanh')).toBe(priceOf(chain('exp', 'tanh')).operations.get('tanh'))
    expect(priceOf(beside, wasmTarget, alone).waiting).toBeLessThan(two / 3)
    // Groups in turn fill each other's waiting.
    expect(priceOf(chain('exp', 'tanh')).waiting).toBeLessThan(two / 8)
  })
  test('the greater of a value and a known number takes one instruction, of two values several', () => {
    const max = (other: string): number =>
      priceOf(`kernel bounded {
  param x: f32[4096] read
  param z: f32[4096] read
  param y: f32[4096] write
  axes i: 4096
  grid i/4096
  %0 f32{i} = load x[i]
  %1 f32${other}
  %2 f32{i} = max %0, %1
  store y[i] = %2
}`).operations.get('max') ?? 0
    expect(max(' = const 0.25')).toBeCloseTo(4096 * (wasmTarget.prices.scalar.add.f32 ?? 0), 15)
    expect(max('{i} = load z[i]')).toBeCloseTo(4096 * (wasmTarget.prices.scalar.max.f32 ?? 0), 15)
  })
  test('integers of 64 bits are cut to 32 for less than they become floats', () => {
    const cast = (to: string): number =>
      priceOf(`kernel casts {
  param x: i64[4096] read
  param y: ${to}[4096] write
  axes i: 4096
  grid i/4096
  %0 i64{i} = load x[i]
  %1 ${to}{i} = cast %0
  store y[i] = %1
}`).operations.get('cast') ?? 0
    expect(cast('i32')).toBeGreaterThan(0)
    expect(cast('i32')).toBeLessThan(cast('f32') / 4)
  })
  test('what is combined with memory is read and combined there, one by one where lanes are no neighbours', () => {
    const scatter = (place: string, combined: boolean): LoopPrice =>
      priceOf(`kernel scatter {
  param at: i32[64] read
  param x: f16[64, 128] read
  param y: f16[${place.startsWith('j') ? '128, 64' : '64, 128'}] update
  axes i: 64, j: 128
  grid 1
  %0 i32{i} = load at[i]
  %1 f16{i, j} = load x[i, j]
  store y[${place}] ${combined ? '+=' : '='} %1
}`)
    const of = (place: string): number => scatter(place, true).operations.get('combine sum') ?? 0
    const { read, scalar, write } = wasmTarget.prices
    const each = read.f16 + (scalar.add.f32 ?? 0)
    expect(of('%0:64, j')).toBeCloseTo(64 * 128 * each, 12)
    expect(of('j, %0:64')).toBeCloseTo(64 * 128 * (4 * each + 3 * write.f16), 12)
    expect(scatter('%0:64, j', false).operations.get('combine sum')).toBeUndefined()
  })
  test('windows that slide in several programs go over the places of each', () => {
    const windows = (block: number): number =>
      priceOf(`kernel windows {
  param x: f32[66, 64] read
  param y: f32[64, 64] write
  axes i: 64, j: 64, t: 3
  grid i/${block}
  %0 f32{i, j, t} = load x[i + t, j]
  %1 f32{i, j} = reduce sum %0 over t
  store y[i, j] = %1
}`).operations.get('fold sum') ?? 0
    // Each program goes over the places of its windows and two more.
    expect(windows(16) / windows(64)).toBeCloseTo((4 * 18) / 66, 6)
  })
  test('what follows a sum that slides is computed once a window', () => {
    const windows = (rows: number): LoopPrice =>
      priceOf(`kernel windows {
  param x: f32[${rows + 2}, 64] read
  param y: f32[${rows}, 64] write
  axes i: ${rows}, j: 64, t: 3
  grid i/${rows}
  %0 f32{i, j, t} = load x[i + t, j]
  %1 f32{i, j} = reduce sum %0 over t
  %2 f32{i, j} = mul %1, %1
  store y[i, j] = %2
}`)
    const { mul = 0, ...rest } = Object.fromEntries(windows(64).operations)
    expect(rest['fold sum']).toBeGreaterThan(0)
    expect(windows(16).operations.get('mul')).toBeCloseTo(mul / 4, 12)
  })
  test('the record says how long results take, and how far the processor looks ahead', () => {
    const waiting = (changes: Partial<LoopMachine>): number =>
      priceOf(chain('exp', 'tanh'), withLoops(changes), wasmTarget).waiting
    expect(waiting({ latency: 1 })).toBe(0)
    expect(waiting({ window: 1 })).toBe(0)
    expect(waiting({ window: 0 })).toBeGreaterThan(waiting({}))
  })
  test('a cast within one arithmetic is nothing; one into another has its price', () => {
    const cast = (dtype: string): number | undefined =>
      priceOf(
        softmax
          .replace('load x', 'load h')
          .replace('param x: f32', `param h: ${dtype}`)
          .replace('%0 f32', `%9 ${dtype}`)
          .replace('%1 f32{r}', '%0 f32{r, c} = cast %9\n    %1 f32{r}'),
      ).operations.get('cast')
    expect(cast('bf16')).toBeUndefined()
    expect(cast('i32')).toBeGreaterThan(0)
  })
  test('a loop between positions goes through what lies between them', () => {
    const folds = (length: number): number => priceOf(ranges(length)).operations.get('add') ?? 0
    expect(folds(64)).toBe(8 * folds(8))
  })
  test('a loop that ends where a block of the grid does goes through half of its axis on average', () => {
    const triangle = (end: string, block = 8): string => `kernel triangle {
  param x: f32[512, 256] read
  param y: f32[512, 256] write
  axes q: 512, r: 512, c: 256
  grid q
  %0 f32{c} = const 0
  %1 i32 = index ${end}
  %2 i32 = index 512
  %3 i32 = min %1, %2
  %4 = loop r/${block} to %3 {
    carry %5 f32{c} = %0
    %6 f32{r, c} = load x[r, c]
    %7 f32{c} = reduce sum %6 over r
    %8 f32{c} = add %5, %7
    next %8
  }
  store y[q, c] = %4
}`
    const folds = (end: string, block?: number): number => priceOf(triangle(end, block)).operations.get('fold sum') ?? 0
    expect(folds('q + 1') / folds('512')).toBeCloseTo(0.5, 2)
    // Also where that is less than one of its blocks.
    expect(folds('q + 1', 512) / folds('512', 512)).toBeCloseTo(0.5, 2)
  })
  test('twice the price of exp is twice its seconds, and leaves the others as they are', () => {
    const planned = wasmTarget
    const [once, twice] = [priceOf(softmax), priceOf(softmax, priced('exp', 2), planned)]
    const exp = once.operations.get('exp') ?? 0
    expect(exp).toBeGreaterThan(0)
    expect(twice.operations.get('exp')).toBe(2 * exp)
    for (const [name, s] of once.operations) if (name !== 'exp') expect(twice.operations.get(name), name).toBe(s)
    expect(twice.arithmetic - once.arithmetic).toBeCloseTo(exp, 15)
    expect([twice.accesses, twice.loops, twice.memory]).toEqual([once.accesses, once.loops, once.memory])
  })
  test('an operation that a kernel does not have costs it nothing', () =>
    expect(priceOf(softmax, priced('tanh', 10), wasmTarget)).toEqual(priceOf(softmax)))
  test('exponentials of 8000 elements, in lanes, at their price', () => {
    const each = wasmTarget.prices.scalar.exp.f32 ?? 0
    expect((priceOf(softmax).operations.get('exp') ?? 0) / (8000 * each)).toBeCloseTo(1, 6)
  })
  test('twice the depth of a product is twice its arithmetic', () => {
    const arithmetic = (depth: number): number => priceOf(product(depth)).arithmetic
    expect(arithmetic(512) / arithmetic(256)).toBeCloseTo(2, 6)
  })
})

describe('accesses', () => {
  test('elements apart cost more than neighbours, and so do gathered ones', () => {
    const [near, apart, anywhere] = [spaced(1), spaced(17), gathered].map((text) => priceOf(text).accesses)
    expect(apart).toBeGreaterThan(near ?? 0)
    expect(anywhere).toBeGreaterThan(near ?? 0)
  })
  test('the record says by how much', () => {
    const dear = withLoops({ strided: 100 * loopsWith({}).strided })
    expect(priceOf(spaced(17), dear, wasmTarget).accesses).toBeGreaterThan(10 * priceOf(spaced(17)).accesses)
    expect(priceOf(spaced(1), dear, wasmTarget)).toEqual(priceOf(spaced(1)))
  })
  test('lines that are touched are moved whole', () => {
    const far: Machine = {
      ...wasmTarget,
      memories: [{ bytes: 4096, bandwidth: 60e9 }, ...wasmTarget.memories.slice(-1)],
    }
    expect(priceOf(spaced(16), far, wasmTarget).memory).toBeGreaterThan(4 * priceOf(spaced(1), far, wasmTarget).memory)
  })
})

describe('lines and divisions', () => {
  /** Sums down the columns of 2048 rows, 64 columns a program. */
  const columns = (row: number): string => `kernel columns {
  param x: f32[2048, ${row}] read
  param y: f32[${row}] write
  axes r: 2048, c: ${row}
  grid c/64
  %0 f32{r, c} = load x[r, c]
  %1 f32{c} = reduce sum %0 over r
  store y[c] = %1
}`
  const late = (text: string, changes: Partial<LoopMachine> = {}): number =>
    priceOf(text, withLoops({ late: 1e-6, ...changes }), wasmTarget).nearer - priceOf(text).nearer
  test('lines on a page of their own come late; rows one behind the other do not', () => {
    expect(late(columns(1024))).toBeCloseTo(2048 * 64 * (1e-6 - (wasmTarget.loops?.late ?? 0)), 4)
    expect(late(columns(16), { own: 1 })).toBe(0)
    expect(late(rows(4096))).toBe(0)
  })
  test('of long runs the first lines alone come late', () => {
    const runs = columns(4096).replace('grid c/64', 'grid c/1024')
    // Four of four lines, and four of sixty-four.
    expect(late(columns(4096)) / late(runs)).toBeCloseTo(16, 6)
  })
  test('lines that stay in the core’s own memories do not come late', () =>
    expect(late(columns(1024), { own: 1 << 30 })).toBeLessThanOrEqual(0))
  test('indices divided by a power of two are shifted', () => {
    const divided = (by: number, changes: Partial<LoopMachine>): number =>
      priceOf(spaced(1).replace('load x[i]', `load x[(i/${by})]`), withLoops(changes), wasmTarget).accesses
    const dear = { divided: 100 * loopsWith({}).divided }
    expect(divided(7, dear)).toBeGreaterThan(10 * divided(7, {}))
    expect(divided(8, dear)).toBe(divided(8, {}))
    expect(divided(8, {})).toBeLessThan(divided(7, {}))
  })
})

describe('loops', () => {
  const loops = (length: number): number => priceOf(rows(length)).loops
  test('an element of a short row costs more than one of a long row', () =>
    expect(loops(8) / 8).toBeGreaterThan((4 * loops(4096)) / 4096))
  test('rows that are not whole have a last step', () => expect(loops(127)).toBeGreaterThan(loops(128)))
})

describe.each([wasmTarget, madeUp])('on $name', (machine) => {
  test('every kernel has a price, the sum of what it names', () => {
    let kernels = 0
    for (const { name, kernel, facts } of samples(machine, 40)) {
      const p = loopSeconds(kernel, scheduleKernel(kernel, facts), machine)
      expect(Number.isFinite(p.seconds), name).toBe(true)
      const parts = [p.arithmetic, p.waiting, p.accesses, p.loops, p.nearer, p.memory, p.launch]
      for (const s of parts) expect(s, name).toBeGreaterThanOrEqual(0)
      const sum = parts.reduce((a, b) => a + b)
      expect(p.seconds, name).toBeLessThanOrEqual(sum * (1 + 1e-9))
      expect(p.seconds, name).toBeGreaterThanOrEqual(Math.max(...parts))
      kernels++
    }
    expect(kernels).toBeGreaterThan(100)
  })
})

test('what a slow machine with free loops asks for', () => {
  const [here, there] = [priceOf(softmax), priceOf(softmax, madeUp, wasmTarget)]
  expect(there.memory).toBeGreaterThan(10 * here.memory)
  expect(there.loops).toBeLessThan(here.loops)
  expect(there.arithmetic).toBe(here.arithmetic)
})
