/**
 * Masks, eight neighbours of which share a word of random bits, against the kernel interpreter: steps that begin at multiples of
 * all alignments, and elsewhere; what the place of an element decides is known in some of them only.
 */
import { describe, test } from 'vitest'
import { some, turn } from '../support/nightly.ts'
import { compare } from './compare.ts'

/** A mask whose elements have consecutive places along `i`; `more` reads it as %30. */
function mask(place: string, more: string, axes = 'i'): string {
  const lines = [
    '%0 u32 = const 7',
    '%1 u32 = const 9',
    `%2 u32{${axes}} = random %0, %1 at (${place}) / 8 rounds 13`,
    `%3 i32{${axes}} = index (${place}) % 8`,
    `%4 u32{${axes}} = cast %3`,
    '%5 u32 = const 2',
    '%6 u32 = const 854994473',
    '%7 u32 = const 1',
    `%8 u32{${axes}} = and %4, %5`,
    `%9 u32{${axes}} = mul %8, %6`,
    `%10 u32{${axes}} = add %9, %7`,
    `%11 u32{${axes}} = mul %2, %10`,
    '%12 u32 = const 4',
    '%13 u32 = const 992483405',
    `%14 u32{${axes}} = and %4, %12`,
    `%15 u32{${axes}} = mul %14, %13`,
    `%16 u32{${axes}} = add %15, %7`,
    `%17 u32{${axes}} = mul %11, %16`,
    `%18 u32{${axes}} = and %4, %7`,
    '%19 u32 = const 900000000',
    `%20 u32{${axes}} = mul %18, %19`,
    `%21 u32{${axes}} = sub %17, %20`,
    '%22 u32 = const 2900000000',
    `%30 bool{${axes}} = lt %21, %22`,
    more,
  ]
  return lines.map((l) => ` ${l}`).join('\n')
}

const k = (body: string, params: string, axes: string, grid: string): string =>
  `kernel t {\n${params}\n axes ${axes}\n grid ${grid}\n${body}\n}`

describe.each(['i', 'i + 3', 'i + 4', 'i + 8', '2 * i', '100 - i'])('places %s', (place) => {
  test.each(some([9, 31, 63, 64, 65, 67, 100], 2))('%i elements', (n) => {
    // Programs of twelve elements would share bytes of bits.
    for (const format of ['', ' bits'])
      for (const grid of ['1', 'i/8', 'i/64', ...(format === '' ? ['i/12'] : [])])
        compare(
          k(
            mask(
              place,
              'store o[i] = %30\n %31 f32{i} = load x[i]\n %32 f32{i} = cast %30\n %33 f32{i} = mul %31, %32\n store y[i] = %33',
            ),
            ` param x: f32[${n}] read\n param o: bool[${n}] write${format}\n param y: f32[${n}] write`,
            `i: ${n}`,
            grid,
          ),
        )
  })
})

test.each([5, 24, 64, 68, 80])('rows of %i, summed along either axis', (n) => {
  const row = `${n} * j + i`
  const x = '%31 f32{j, i} = load x[j, i]\n %32 f32{j, i} = cast %30\n %33 f32{j, i} = mul %31, %32\n'
  for (const [over, kept, extent] of [
    ['i', 'j', 9],
    ['j', 'i', n],
  ] as const)
    compare(
      k(
        mask(row, `${x} %34 f32{${kept}} = reduce sum %33 over ${over}\n store y[${kept}] = %34`, 'j, i'),
        ` param x: f32[9, ${n}] read\n param y: f32[${extent}] write`,
        `j: 9, i: ${n}`,
        '1',
      ),
    )
})

test('integers that places decide, by every simple operation', () => {
  for (const d of ['u8', 'i8', 'u16', 'i16', 'i32', 'u32'])
    for (const [i, op] of ['add', 'sub', 'mul', 'and', 'or', 'xor', 'shl', 'shr', 'max', 'min'].entries())
      for (const by of turn([0, 1, 3], i))
        compare(
          k(
            ` %0 i32{i} = index i % 4\n %1 ${d}{i} = cast %0\n %2 ${d} = const ${by}\n %3 ${d}{i} = ${op} %1, %2\n %4 ${d}{i} = ${op} %2, %3\n %5 ${d}{i} = load x[i]\n %6 ${d}{i} = mul %5, %3\n %7 ${d}{i} = sub %6, %4\n %8 bool{i} = lt %7, %2\n store o[i] = %8\n store y[i] = %7`,
            ` param x: ${d}[70] read\n param o: bool[70] write\n param y: ${d}[70] write`,
            'i: 70',
            '1',
          ),
        )
})
