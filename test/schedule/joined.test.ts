/** Loops along axes that stand beside each other: where nests have them, where they may not, and what they compute. */
import { describe, expect, test } from 'vitest'
import type { NestSchedule } from '../../src/schedule/loop/ir/schedule.ts'
import { verifyKernelSchedule } from '../../src/schedule/loop/scheduleKernel.ts'
import { nightly } from '../support/nightly.ts'
import { compare } from '../wasm/compare.ts'
import { linesOf, scheduled } from './scheduled.ts'

const kernel = (params: string, axes: string, grid: string, body: string): string =>
  `kernel t {\n${params}\n axes ${axes}\n grid ${grid}\n${body}\n}`

const rows = (n: number, grid = 'i/20', dtype = 'f32'): string =>
  kernel(
    ` param x: ${dtype}[50, ${n}] read\n param y: ${dtype}[50, ${n}] write`,
    `i: 50, j: ${n}`,
    grid,
    ` %0 ${dtype}{i, j} = load x[i, j]\n %1 ${dtype}{i, j} = mul %0, %0\n store y[i, j] = %1`,
  )

/** Rows of functions beside folds. */
const softened = (n: number, grid: string, dtype = 'f32'): string =>
  kernel(
    ` param x: ${dtype}[50, ${n}] read\n param y: ${dtype}[50, ${n}] write\n param s: ${dtype}[50] write`,
    `i: 50, j: ${n}`,
    grid,
    ` %0 ${dtype}{i, j} = load x[i, j]\n %1 ${dtype}{i, j} = tanh %0\n %2 ${dtype}{i} = reduce max %1 over j
 %3 ${dtype}{i, j} = sub %1, %2\n %4 ${dtype}{i, j} = exp %3\n %5 ${dtype}{i} = reduce sum %4 over j
 store y[i, j] = %4\n store s[i] = %5`,
  )

describe('axes beside each other', () => {
  test('are one loop, in a block of the outer one', () => {
    expect(linesOf(rows(7))).toContain('nest i j(140 by 16)')
    expect(linesOf(rows(64))).toContain('nest i j(1280 by 16)')
  })
  test('are one loop where there are three', () => {
    const text = kernel(
      ' param x: f32[9, 5, 3] read\n param y: f32[9, 5, 3] write',
      'a: 9, b: 5, c: 3',
      'a/4',
      ' %0 f32{a, b, c} = load x[a, b, c]\n %1 f32{a, b, c} = neg %0\n store y[a, b, c] = %1',
    )
    expect(linesOf(text)).toContain('nest a b c(60 by 16)')
    compare(text)
  })
  test('are not where an access has gaps, is turned, lacks one of them, or is masked along one', () => {
    const read = (load: string, extra = ''): string =>
      linesOf(
        kernel(
          ` param x: f32[50, 7] read\n param z: f32[50, 9] read\n param w: f32[7] read\n param y: f32[50, 7] write${extra}`,
          'i: 50, j: 7',
          'i/20',
          `${load}\n store y[i, j] = %0`,
        ),
      )
    expect(read(' %0 f32{i, j} = load x[i, j]')).toContain('nest i j(')
    for (const load of [
      ' %0 f32{i, j} = load z[i, j + 1]',
      ' %0 f32{i, j} = load x[i, 6 - j]',
      ' %1 f32{j} = load w[j]\n %2 f32{i, j} = load x[i, j]\n %0 f32{i, j} = add %1, %2',
      ' %0 f32{i, j} = load x[i, j] where 0 <= j < 5 else 0',
      ' %1 i32{j} = index j\n %2 f32{j} = cast %1\n %3 f32{i, j} = load x[i, j]\n %0 f32{i, j} = add %2, %3',
    ])
      expect(read(load), load).not.toContain('nest i j(')
  })
  test('are found out where they do not stand so', () => {
    const text = kernel(
      ' param z: f32[50, 9] read\n param y: f32[50, 7] write',
      'i: 50, j: 7',
      'i/20',
      ' %0 f32{i, j} = load z[i, j]\n store y[i, j] = %0',
    )
    const [part, facts] = scheduled(text)
    const [nest] = part.schedule.body.steps
    if (nest?.kind !== 'nest') throw new Error('no nest')
    const wrong: NestSchedule = { ...nest, order: ['j'], vector: 'j', joined: { axis: 'j', with: ['i'] } }
    const schedule = { ...part.schedule, body: { early: [], steps: [wrong] } }
    expect(verifyKernelSchedule([{ ...part, schedule }], facts)).toEqual(['part 0: nest over j: i not beside j'])
  })
  test('folds of rows stand beside each other too', () => {
    const text = kernel(
      ' param x: f32[5, 50, 7] read\n param y: f32[50, 7] write',
      'i: 50, j: 7, k: 5',
      'i/20',
      ' %0 f32{i, j, k} = load x[k, i, j]\n %1 f32{i, j} = reduce max %0 over k\n store y[i, j] = %1',
    )
    expect(linesOf(text)).toMatch(/nest i j\(140 by \d+\) k\(fold 5\)/)
    compare(text)
  })
})

describe('functions of short rows', () => {
  test('get loops along all rows, and what they take is kept where rows share something; they are stored there', () => {
    expect(linesOf(softened(41, 'i/24'))).toMatchInlineSnapshot(`
      "schedule of k: 3 programs of i/24, 4480 bytes of scratch
        nest i j(984 by 16): %1 in turn, fetching x[164*i + 4*j]
          keep %1 in tile 64 (j:4 i:164) f32
        nest i(24) j(fold 41 by 16)
          fold %2 = max %1 into tile 4096 (i:4) f32
        nest i(24) j(fold 41 by 8): %4 in turn
          fold %5 = sum %4 into tile 4288 (i:4) f32
          store y = %4
        nest i(24 by 16)
          store s = %5"
    `)
    expect(linesOf(softened(64, 'i/16')).match(/^ {2}nest/gm)).toHaveLength(4)
  })
})

const lengths = [2, 3, 5, 7, 12, 13, 31, 41, 64, 65]
const dtypes = ['f32', 'f16', 'bf16', 'f64', 'i8', 'i64']

describe.each(lengths)('rows of %i', (n) => {
  // By day one dtype of each length, in turn.
  const own = dtypes.filter((_, i) => nightly || (i + lengths.indexOf(n)) % 6 === 0)
  test.each(own)('of %s', (dtype) => {
    for (const grid of ['i/20', 'i/50', 'i/7', '1']) {
      compare(rows(n, grid, dtype))
      if (dtype.includes('f')) compare(softened(n, grid, dtype))
    }
  })
})
