/** Which sums stream, and that the terms of those that do obey the law of rescaling, in double precision. */
import { describe, expect, test } from 'vitest'
import type { ValueId } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { type Streamed, streamedSum } from '../../src/kernel/streams.ts'
import { makeRng } from '../random/rng.ts'
import { type Lets, letsOf, rowsOf, streamed, termOf, valueAt } from './streamedSums.ts'

/** Statements after x (%0), w (%1), the row's v (%2), and the greatest x (%3); the last one is the sum. */
const bodyOf = (text: string, fold = 'max'): Lets => rowsOf(`  %3 f32{r} = reduce ${fold} %0 over c\n${text}`)

/** The rate of a sum of exponentials. */
function rateOf(s: Streamed | undefined): number {
  return s?.law.kind === 'exponential' ? s.law.rate : Number.NaN
}

/** A term of the sum at a point, in double precision, against a given value. */
const termAt = (lets: Lets, s: Streamed, known: ReadonlyMap<ValueId, number>, against: number): number =>
  valueAt(lets, termOf(lets), new Map([...known, [s.against, against]]))

/** F(x, b) = F(x, a) r(a, b), r(a, a) = 1, r(a, b) r(b, e) = r(a, e), and no r grows towards the anchor. */
function checkLaw(lets: Lets, s: Streamed, seed: number): void {
  const rng = makeRng(seed)
  const number = (): number => rng.real(-4, 4)
  const r = (a: number, b: number): number => Math.exp(rateOf(s) * (a - b))
  for (let i = 0; i < 20; i++) {
    const known = new Map([
      [0, number()],
      [1, number()],
      [2, number()],
    ])
    const [a, b, e] = [number(), number(), number()]
    const [fa, fb] = [termAt(lets, s, known, a), termAt(lets, s, known, b)]
    expect(Math.abs(fb - fa * r(a, b))).toBeLessThanOrEqual(1e-12 * Math.abs(fb))
    expect(r(a, a)).toBe(1)
    expect(Math.abs(r(a, b) * r(b, e) - r(a, e))).toBeLessThanOrEqual(1e-12 * r(a, e))
    const fold = lets.get(s.anchor)?.op
    if (fold?.kind !== 'reduce') throw new Error('the anchor is no fold')
    const [far, near] = fold.combiner === 'max' ? [Math.max(a, b), Math.min(a, b)] : [Math.min(a, b), Math.max(a, b)]
    expect(r(near, far)).toBeLessThanOrEqual(1)
  }
}

const exponential = `  %10 f32{r, c} = sub %0, %3
  %11 f32{r, c} = exp %10`
const plain = `${exponential}\n  %99 f32{r} = reduce sum %11 over c`

/** The sum of exp(x - m) where m is what statements make of the anchor (value 20). */
const against = (text: string): string => `${text}
  %21 f32{r, c} = sub %0, %20
  %22 f32{r, c} = exp %21
  %99 f32{r} = reduce sum %22 over c`

const streams: readonly {
  readonly name: string
  readonly text: string
  readonly fold?: string
  readonly rate: number
}[] = [
  { name: 'exp(x - m)', text: plain, rate: 1 },
  {
    name: 'w exp(x - m) / v',
    text: `${exponential}
  %12 f32{r, c} = mul %1, %11
  %13 f32{r, c} = div %12, %2
  %99 f32{r} = reduce sum %13 over c`,
    rate: 1,
  },
  {
    name: 'w exp(x - m) - exp(x - m)',
    text: `${exponential}
  %12 f32{r, c} = mul %1, %11
  %13 f32{r, c} = sub %12, %11
  %99 f32{r} = reduce sum %13 over c`,
    rate: 1,
  },
  {
    name: 'the square of exp(x - m)',
    text: `${exponential}
  %12 f32{r, c} = mul %11, %11
  %99 f32{r} = reduce sum %12 over c`,
    rate: 2,
  },
  {
    name: 'exp(x - m) where w is positive',
    text: `${exponential}
  %12 f32 = const 0
  %13 bool{r, c} = gt %1, %12
  %14 f32{r, c} = select %13, %11, %12
  %99 f32{r} = reduce sum %14 over c`,
    rate: 1,
  },
  {
    name: 'w exp(x - m), rounded to 16 bits on the way as it may not be',
    text: `${exponential}
  %12 bf16{r, c} = cast %11 loose
  %13 f32{r, c} = cast %12
  %14 f32{r, c} = mul %1, %13
  %99 f32{r} = reduce sum %14 over c`,
    rate: 1,
  },
  {
    name: 'exp(-(m - x) / 4)',
    text: `  %10 f32{r, c} = sub %3, %0
  %11 f32{r, c} = neg %10
  %12 f32 = const 4
  %13 f32{r, c} = div %11, %12
  %14 f32{r, c} = exp %13
  %99 f32{r} = reduce sum %14 over c`,
    rate: 0.25,
  },
  {
    name: '2^(x - m)',
    text: `  %9 f32 = const 2
  %10 f32{r, c} = sub %0, %3
  %11 f32{r, c} = pow %9, %10
  %99 f32{r} = reduce sum %11 over c`,
    rate: Math.LN2,
  },
  {
    name: '0.5^(x - m) against the least value',
    text: `  %9 f32 = const 0.5
  %10 f32{r, c} = sub %0, %3
  %11 f32{r, c} = pow %9, %10
  %99 f32{r} = reduce sum %11 over c`,
    fold: 'min',
    rate: -Math.LN2,
  },
  {
    name: 'exp(m - x) against the least value',
    text: `  %10 f32{r, c} = sub %3, %0
  %11 f32{r, c} = exp %10
  %99 f32{r} = reduce sum %11 over c`,
    fold: 'min',
    rate: -1,
  },
  {
    name: 'an anchor that is zero where infinite',
    text: against(`  %18 bool{r} = isinf %3
  %19 f32 = const 0
  %20 f32{r} = select %18, %19, %3`),
    rate: 1,
  },
  {
    name: 'an anchor that is zero where equal to -infinity',
    text: against(`  %17 f32 = const -inf
  %18 bool{r} = eq %3, %17
  %19 f32 = const 0
  %20 f32{r} = select %18, %19, %3`),
    rate: 1,
  },
  {
    name: 'an anchor where above -infinity, v elsewhere',
    text: against(`  %17 f32 = const -inf
  %18 bool{r} = lt %17, %3
  %20 f32{r} = select %18, %3, %2`),
    rate: 1,
  },
  { name: 'an anchor no less than v', text: against('  %20 f32{r} = max %2, %3'), rate: 1 },
]

const walksAgain: readonly { readonly name: string; readonly text: string; readonly fold?: string }[] = [
  { name: 'what does not depend on an anchor', text: '  %99 f32{r} = reduce sum %1 over c' },
  { name: 'exp(x - m) against the least value', text: plain, fold: 'min' },
  { name: 'a product', text: plain.replace('sum', 'prod') },
  { name: 'exp(x + m)', text: plain.replace('sub', 'add') },
  { name: 'the anchor of another value', text: plain.replace('sub %0', 'sub %1') },
  { name: 'x - m', text: `${exponential}\n  %99 f32{r} = reduce sum %10 over c` },
  {
    name: 'exp(x - m) - w',
    text: `${exponential}\n  %12 f32{r, c} = sub %11, %1\n  %99 f32{r} = reduce sum %12 over c`,
  },
  {
    name: 'w / exp(x - m)',
    text: `${exponential}\n  %12 f32{r, c} = div %1, %11\n  %99 f32{r} = reduce sum %12 over c`,
  },
  { name: 'm exp(x - m)', text: `${exponential}\n  %12 f32{r, c} = mul %3, %11\n  %99 f32{r} = reduce sum %12 over c` },
  {
    name: 'exp(x - m) where w is positive, else one',
    text: `${exponential}
  %12 f32 = const 1
  %13 bool{r, c} = gt %1, %12
  %14 f32{r, c} = select %13, %11, %12
  %99 f32{r} = reduce sum %14 over c`,
  },
  {
    name: 'exp(x - m) where x is m',
    text: `${exponential}
  %12 f32 = const 0
  %13 bool{r, c} = eq %0, %3
  %14 f32{r, c} = select %13, %11, %12
  %99 f32{r} = reduce sum %14 over c`,
  },
  {
    name: 'exp(2 x - 2 m), whose 2 m may overflow where m does not',
    text: `  %9 f32 = const 2
  %10 f32{r, c} = mul %0, %9
  %11 f32{r} = mul %3, %9
  %12 f32{r, c} = sub %10, %11
  %13 f32{r, c} = exp %12
  %99 f32{r} = reduce sum %13 over c`,
  },
  { name: 'an anchor no more than v', text: against('  %20 f32{r} = min %2, %3') },
  {
    name: 'an anchor that is zero where positive',
    text: against(`  %17 f32 = const 0
  %18 bool{r} = gt %3, %17
  %20 f32{r} = select %18, %17, %3`),
  },
  {
    name: 'an anchor where it is infinite, zero elsewhere',
    text: against(`  %18 bool{r} = isinf %3
  %19 f32 = const 0
  %20 f32{r} = select %18, %3, %19`),
  },
  { name: 'an anchor rounded to half precision', text: against('  %19 bf16{r} = cast %3\n  %20 f32{r} = cast %19') },
  {
    name: 'two readings of an anchor',
    text: `${exponential}
  %20 f32{r} = max %2, %3
  %21 f32{r, c} = sub %0, %20
  %22 f32{r, c} = exp %21
  %23 f32{r, c} = mul %22, %11
  %99 f32{r} = reduce sum %23 over c`,
  },
]

describe('what streams', () => {
  test.each(streams)('$name', ({ text, fold, rate }) => {
    const lets = bodyOf(text, fold)
    const s = streamed(lets)
    expect(rateOf(s)).toBeCloseTo(rate, 12)
    expect(s?.anchor).toBe(3)
    if (s !== undefined) checkLaw(lets, s, 11)
  })

  test.each(walksAgain)('not $name', ({ text, fold }) => expect(streamed(bodyOf(text, fold))).toBeUndefined())

  test('what a sum is taken against, and what lies between', () => {
    const s = streamed(
      bodyOf(
        against(`  %18 bool{r} = isinf %3
  %19 f32 = const 0
  %20 f32{r} = select %18, %19, %3`),
      ),
    )
    expect(s?.against).toBe(20)
    expect([...(s?.through ?? [])].sort()).toEqual([21, 22])
  })

  test('a sum over other axes than its anchor', () => {
    const k = parseKernel(`kernel k {
  param x: f32[4, 9, 5] read
  axes r: 4, c: 9, d: 5
  grid r
  %0 f32{r, c, d} = load x[r, c, d]
  %1 f32{r, d} = reduce max %0 over c
  %2 f32{r, c, d} = sub %0, %1
  %3 f32{r, c, d} = exp %2
  %4 f32{r} = reduce sum %3 over c, d
  %5 f32{r, d} = reduce sum %3 over c
}`)
    const lets = letsOf(k)
    const at = (id: number): Streamed | undefined => {
      const l = lets.get(id)
      return l === undefined ? undefined : streamedSum(l, lets)
    }
    expect(at(4)).toBeUndefined()
    expect(at(5)?.anchor).toBe(1)
  })
})

describe('random terms', () => {
  /** A random expression of x, w, v and the anchor, as statements; the sum of it is the last. */
  function randomTerm(seed: number): Lets {
    const rng = makeRng(seed)
    const tiles = ['%0', '%1', '%8', '%9']
    const scalars = ['%2', '%3']
    const lines = ['  %8 f32{r, c} = sub %0, %3', '  %9 f32{r, c} = exp %8']
    const { pick } = rng
    const length = rng.int(2, 6)
    for (let i = 0; i < length; i++) {
      const id = `%${10 + i}`
      const [a, b] = [pick([...tiles.slice(-2), '%0']), pick([...scalars, '%1', ...tiles.slice(-3)])]
      const op = pick(['sub', 'sub', 'mul', 'add', 'div', 'exp', 'exp', 'neg'])
      lines.push(`  ${id} f32{r, c} = ${op} ${op === 'exp' || op === 'neg' ? a : `${a}, ${b}`}`)
      tiles.push(id)
    }
    return bodyOf([...lines, `  %99 f32{r} = reduce sum ${tiles.at(-1)} over c`].join('\n'), pick(['max', 'min']))
  }

  test('those that stream obey the law', () => {
    let found = 0
    for (let seed = 0; seed < 4000; seed++) {
      const lets = randomTerm(seed)
      const s = streamed(lets)
      if (s === undefined) continue
      found++
      checkLaw(lets, s, seed)
    }
    expect(found).toBeGreaterThan(50)
  })
})
