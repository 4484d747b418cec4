/** Schedules of loops: their laws on every kind of kernel, what breaks a law is found, their text, and what they follow of a machine. */
import { describe, expect, test } from 'vitest'
import type { LoopSchedule, LoopStep, Slide } from '../../src/schedule/loop/ir/schedule.ts'
import { printLoopSchedule } from '../../src/schedule/loop/print.ts'
import { scheduleKernel, verifyKernelSchedule } from '../../src/schedule/loop/scheduleKernel.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { seedsOf } from '../support/nightly.ts'
import { samples } from './programs.ts'
import { linesOf, scheduled } from './scheduled.ts'

/** A machine nobody has: arithmetic is dear, memory is near. */
const madeUp: Machine = {
  ...wasmTarget,
  name: 'made up',
  memories: wasmTarget.memories.map((m) => ({ ...m, bandwidth: 4 * m.bandwidth })),
}

describe.each([wasmTarget, madeUp])('on $name', (machine) => {
  test('schedules of all kinds of kernels keep the laws', () => {
    let parts = 0
    const count = seedsOf('SINTER_SCHEDULES', 40, 120)
    for (const { name, kernel, facts } of samples(machine, count)) {
      const schedules = scheduleKernel(kernel, facts)
      expect(
        verifyKernelSchedule(schedules, facts),
        `${name}\n${printLoopSchedule(kernel.name, schedules).join('\n')}`,
      ).toEqual([])
      parts += schedules.length
    }
    expect(parts).toBeGreaterThan((5 / 3) * count)
  })
})

const product = `kernel matmul {
  param x: f32[64, 256] read
  param w: f32[256, 512] read
  param b: f32[512] read
  param y: f32[64, 512] write
  part {
    axes i: 64, j: 512, k: 256
    grid i/32, j/64
    %0 f32{i, k} = load x[i, k]
    %1 f32{k, j} = load w[k, j]
    %2 f32{i, j} = dot %0, %1 over k
    %3 f32{j} = load b[j]
    %4 f32{i, j} = add %2, %3
    store y[i, j] = %4
  }
}`

const softmax = `kernel softmax {
  param x: f32[8, 1000] read
  param y: f32[8, 1000] write
  part {
    axes r: 8, c: 1000
    grid r
    %0 f32{r, c} = load x[r, c]
    %1 f32{r} = reduce max %0 over c
    %2 f32{r, c} = sub %0, %1
    %3 f32{r, c} = exp %2
    %4 f32{r} = reduce sum %3 over c
    %5 f32{r, c} = div %3, %4
    store y[r, c] = %5
  }
}`

const scan = `kernel cumsum {
  param x: f32[300, 70] read
  param y: f32[300, 70] write
  part {
    axes r: 300, c: 70
    grid c/70
    %0 f32{r, c} = load x[r, c]
    %1 f32{r, c} = scan sum %0 along r
    store y[r, c] = %1
  }
}`

const strictSum = `kernel sum strict {
  param x: f32[40, 64] read
  param y: f32[40] write
  part {
    axes r: 40, c: 64
    grid r/40
    %0 f32{r, c} = load x[r, c]
    %1 f32{r} = reduce sum %0 over c
    store y[r] = %1
  }
}`

const inPlace = `kernel twice {
  param x: f32[40] update
  part {
    axes r: 40
    grid r/40
    %0 f32{r} = load x[r]
    %1 f32{r} = add %0, %0
    store x[r] = %1
  }
}`

/** A window of three by three over channels apart, whose result may stand over its image or not, with what follows. */
const window = (end = '%3', more = ''): string => `kernel window {
  param x: f32[4, 30, 20] read
  param w: f32[4, 3, 3] read
  param y: f32[4, 30, 20] write
  part {
    axes i: 4, j: 30, k: 20, l: 3, m: 3
    grid i
    %1 f32{i, j, k, l, m} = load x[i, j + l - 1, k + m - 1] where 0 <= j + l - 1 < 30 and 0 <= k + m - 1 < 20 else 0
    %2 f32{i, l, m} = load w[i, l, m]
    %3 f32{i, j, k} = dot %1, %2 over l, m
    ${more}
    store y[i, j, k] = ${end}
  }
}`

/** Pairs of neighbours in one row: no axis that windows slide along beside the lanes. */
const neighbours = `kernel neighbours {
  param x: f32[40, 30] read
  param y: f32[40, 29] write
  part {
    axes r: 40, c: 29, t: 2
    grid r/40
    %0 f32{r, c, t} = load x[r, c + t]
    %1 f32{r, c} = reduce sum %0 over t
    store y[r, c] = %1
  }
}`

/** Few rows, each less the sum of all. */
const columns = `kernel columns {
  param x: f32[5, 64] read
  param y: f32[5, 64] write
  part {
    axes r: 5, t: 5, c: 64
    grid c/64
    %0 f32{t, c} = load x[t, c]
    %1 f32{c} = reduce sum %0 over t
    %2 f32{r, c} = load x[r, c]
    %3 f32{r, c} = sub %2, %1
    store y[r, c] = %3
  }
}`

describe('text', () => {
  test('a matrix product', () =>
    expect(linesOf(product)).toMatchInlineSnapshot(`
      "schedule of k: 16 programs of i/32, j/64, 90304 bytes of scratch
        copy %1 = w into tile 8320 (j:4 k:320) f32: runs of j (4 to 4 bytes)
        product %2 rows i; columns j; depth k: 4 rows by two vectors, %0 from x in place, %1 from its tile, from zero in tile 64 (j:4 i:256) f32
        nest i(32) j(64 by 16)
          store y = %4"
    `))
  test('a softmax', () =>
    expect(linesOf(softmax)).toMatchInlineSnapshot(`
      "schedule of k: 8 programs of r/1, 4160 bytes of scratch
        nest c(fold 1000 by 16 chunks of 32 rounds)
          fold %1 = max %0 into a register
        nest c(fold 1000 by 8 chunks of 32 rounds): %3 in turn, fetching x[4*c + 4000*r]
          keep %3 in tile 64 (c:4) f32
          fold %4 = sum %3 into a register
        nest c(1000 by 16)
          store y = %5"
    `))
  test('a scan', () =>
    expect(linesOf(scan)).toMatchInlineSnapshot(`
      "schedule of k: 1 program of c/70, 84160 bytes of scratch
        scan %1: loops none, 16 lanes along c, into tile 64 (c:4 r:280) f32
        nest r c(21000 by 16)
          store y = %1"
    `))
  test('windows that slide, what follows computed as they leave', () =>
    expect(linesOf(window('%4', '%4 f32{i, j, k} = mul %3, %3'))).toMatchInlineSnapshot(`
      "schedule of k: 4 programs of i/1, 64 bytes of scratch
        nest k(20 by 4) j(30) l(fold 3) m(fold 3): windows sliding along j, 3 windows under way, unmasked inside
          fold %3 = sum %1 * %2 into a register
          store y = %4"
    `))
  test('windows that slide, with a function of their sums in loops of its own', () =>
    expect(linesOf(window('%4', '%4 f32{i, j, k} = exp %3'))).toMatchInlineSnapshot(`
      "schedule of k: 4 programs of i/1, 2560 bytes of scratch
        nest k(20 by 4) j(30) l(fold 3) m(fold 3): windows sliding along j, 3 windows under way, unmasked inside
          fold %3 = sum %1 * %2 into tile 64 (k:4 j:80) f32
        nest j k(600 by 8): %4 in turn
          store y = %4"
    `))
  test('windows that slide, whose sums a fold reads too', () =>
    expect(
      linesOf(window('%5', '%4 f32{i, j} = reduce max %3 over k\n    %5 f32{i, j, k} = sub %3, %4')),
    ).toMatchInlineSnapshot(`
      "schedule of k: 4 programs of i/1, 2752 bytes of scratch
        nest k(20 by 4) j(30) l(fold 3) m(fold 3): windows sliding along j, 3 windows under way, unmasked inside
          fold %3 = sum %1 * %2 into tile 64 (k:4 j:80) f32
        nest j(30) k(fold 20 by 16)
          fold %4 = max %3 into tile 2560 (j:4) f32
        nest j(30) k(20 by 16)
          store y = %5"
    `))
  test('windows that slide beside a sum written out: what they read stays', () => {
    const both = window('%4', '%4 f32{i, j, k} = mul %3, %3')
      .replace(
        '  param y: f32[4, 30, 20] write\n',
        '  param y: f32[4, 30, 20] write\n  param z: f32[4, 30, 19] write\n',
      )
      .replace('axes i: 4, j: 30, k: 20, l: 3, m: 3', 'axes i: 4, j: 30, k: 20, l: 3, m: 3, c: 19, t: 2')
      .replace(
        '    store y',
        '    %5 f32{i, j, c, t} = load x[i, j, c + t]\n    %6 f32{i, j, c} = reduce sum %5 over t\n    store z[i, j, c] = %6\n    store y',
      )
    const [part, facts] = scheduled(both)
    expect(verifyKernelSchedule([part], facts)).toEqual([])
    const lines = linesOf(both)
    expect(lines).toContain('windows sliding along j')
    expect(lines).not.toContain('fold %6')
  })
  test('a sum written out', () =>
    expect(linesOf(neighbours)).toMatchInlineSnapshot(`
    "schedule of k: 1 program of r/40, 64 bytes of scratch
      nest r(40) c(29 by 16)
        store y = %1"
  `))
  test('a sum of rows whose lines do not stand beside the core together, in a loop over them', () => {
    const rows = (count: number, length: number): string => `kernel rows {
  param x: f32[${count}, ${length}] read
  param y: f32[${length}] write
  part {
    axes t: ${count}, c: ${length}
    grid c/128
    %0 f32{t, c} = load x[t, c]
    %1 f32{c} = reduce sum %0 over t
    store y[c] = %1
  }
}`
    const isWritten = (text: string): boolean => !linesOf(text).includes('fold')
    expect(isWritten(rows(31, 2048))).toBe(false)
    expect(isWritten(rows(31, 2048 + 1))).toBe(false)
    expect(isWritten(rows(31, 2048 + 16))).toBe(true)
    expect(isWritten(rows(8, 2048))).toBe(true)
    expect(isWritten(rows(31, 2000))).toBe(true)
  })
  test('a sum written out in a place of its own, since it is used at more points', () =>
    expect(linesOf(columns)).toMatchInlineSnapshot(`
      "schedule of k: 1 program of c/64, 384 bytes of scratch
        nest c(64 by 16)
          keep %1 in tile 64 (c:4) f32
        nest r(5) c(64 by 16)
          store y = %3"
    `))
  test('a strict sum', () =>
    expect(linesOf(strictSum)).toMatchInlineSnapshot(`
      "schedule of k: 1 program of r/40, 320 bytes of scratch
        nest r(40 by 16) c(fold 64)
          fold %1 = sum %0 into tile 64 (r:4) f32
        nest r(40 by 16)
          store y = %1"
    `))
})

/** The errors of a schedule whose steps are changed. */
function errorsWith(
  text: string,
  change: (steps: readonly LoopStep[]) => readonly LoopStep[],
  more: Partial<LoopSchedule> = {},
): string[] {
  const [part, facts] = scheduled(text)
  const { schedule } = part
  expect(verifyKernelSchedule([part], facts)).toEqual([])
  const changed = { ...schedule, ...more, body: { ...schedule.body, steps: change(schedule.body.steps) } }
  return verifyKernelSchedule([{ ...part, schedule: changed }], facts)
}

const nestsChanged =
  (change: (nest: Extract<LoopStep, { kind: 'nest' }>) => Partial<LoopStep>) =>
  (steps: readonly LoopStep[]): LoopStep[] =>
    steps.map((s) => (s.kind === 'nest' ? ({ ...s, ...change(s) } as LoopStep) : s))

describe('what breaks a law is found', () => {
  test('a step is missing, or there twice', () => {
    expect(errorsWith(softmax, (steps) => steps.slice(1))).toMatchInlineSnapshot(`
      [
        "part 0: reduce %1 is in 0 steps",
        "part 0: nest over c reads %1 before the step that folds it",
        "part 0: nest over c reads %1 before the step that folds it",
      ]
    `)
    expect(errorsWith(softmax, (steps) => [...steps, ...steps.slice(-1)])).toMatchInlineSnapshot(`
      [
        "part 0: store into y is in 2 steps",
      ]
    `)
  })
  test('a step stands before what it reads', () => {
    expect(errorsWith(product, (steps) => [...steps].reverse())).toMatchInlineSnapshot(`
      [
        "part 0: nest over i, j reads %2 before the step that folds it",
        "part 0: product %2 reads %1, which has no tile yet",
      ]
    `)
  })
  test('an axis is missing, twice, or in the wrong place', () => {
    expect(
      errorsWith(
        softmax,
        nestsChanged(() => ({ order: [] })),
      ),
    ).toMatchInlineSnapshot(`
      [
        "part 0: nest over : lanes along c",
        "part 0: nest over : cut",
        "part 0: nest over : lanes along c",
        "part 0: nest over : cut",
        "part 0: nest over , keeping %3, loops over , not over c",
        "part 0: nest over : lanes along c",
      ]
    `)
    expect(
      errorsWith(
        scan,
        nestsChanged(({ order }) => ({ order: [...order, 'c'] })),
      ),
    ).toMatchInlineSnapshot(`
      [
        "part 0: nest over c, c: an axis twice",
      ]
    `)
    expect(
      errorsWith(
        strictSum,
        nestsChanged(({ order }) => ({ order: [...order].reverse() })),
      ),
    ).toMatchInlineSnapshot(`
      [
        "part 0: nest over c, r: folded axes are not inside",
      ]
    `)
  })
  test('a strict sum across lanes', () => {
    expect(
      errorsWith(
        strictSum,
        nestsChanged(() => ({ vector: 'c' })),
      ),
    ).toMatchInlineSnapshot(`
      [
        "part 0: nest over r, c: a strict sum across lanes",
        "part 0: nest over r: lanes along c",
      ]
    `)
  })
  test('windows that slide otherwise than they may', () => {
    const slides = (change: (slide: Slide) => Partial<Slide>): readonly string[] =>
      errorsWith(
        window(),
        nestsChanged(({ slide }) => (slide === undefined ? {} : { slide: { ...slide, ...change(slide) } })),
      )
    expect(slides(() => ({}))).toEqual([])
    expect(slides(() => ({ axis: 'k' }))).toMatchInlineSnapshot(`
      [
        "part 0: nest over k, j, l, m: sliding along k",
        "part 0: nest over k, j, l, m: places along j_l_2",
        "part 0: nest over k, j, l, m: places along j_l_2_inner",
      ]
    `)
    expect(slides(() => ({ lag: 40 }))).toMatchInlineSnapshot(`
      [
        "part 0: nest over k, j, l, m: windows longer than j",
        "part 0: nest over k, j, l, m: places along j_l_2",
        "part 0: nest over k, j, l, m: places along j_l_2_inner",
      ]
    `)
    expect(
      slides(({ terms }) => ({ terms: terms.map((t) => ({ ...t, behind: t.behind + 1 })) })).slice(0, 1),
    ).toMatchInlineSnapshot(`
      [
        "part 0: nest over k, j, l, m: a window 3 behind",
      ]
    `)
  })
  test('tiles over each other, or outside', () => {
    expect(errorsWith(scan, (steps) => steps, { scratch: 128 })).toMatchInlineSnapshot(`
      [
        "part 0: tile 64 of 84000 bytes reaches over 128",
      ]
    `)
  })
  test('a load after a store into its memory', () => {
    const again = (steps: readonly LoopStep[]): LoopStep[] => [...steps, ...steps]
    expect(errorsWith(inPlace, again)).toMatchInlineSnapshot(`
      [
        "part 0: store into x is in 2 steps",
        "part 0: nest over r loads %0 from x after a store into x",
      ]
    `)
  })
})
