/** Which sums of polynomials stream against a mean, and that they obey the law of moving, in double precision. */
import { describe, expect, test } from 'vitest'
import type { ValueId } from '../../src/kernel/ir.ts'
import { type Moments, momentsOf, type Polynomial } from '../../src/kernel/moments.ts'
import type { Streamed } from '../../src/kernel/streams.ts'
import { makeRng } from '../random/rng.ts'
import { type Lets, rowsOf, streamed, termOf, valueAt } from './streamedSums.ts'

/** Statements after x (%0), w (%1), the row's v (%2), the sum of x (%3) and its mean (%5); the last one is the sum. */
const bodyOf = (text: string, dtype?: string): Lets =>
  rowsOf(
    `  %3 f32{r} = reduce sum %0 over c
  %4 f32 = const 0.125
  %5 f32{r} = mul %3, %4
  %8 f32{r, c} = sub %0, %5
${text}`,
    dtype,
  )

function movesOf(s: Streamed | undefined): Moments {
  if (s?.law.kind !== 'polynomial') throw new Error('does not stream against a mean')
  return s.law.moments
}

/** The sums of a stream: its own, those of its products, and the number of terms. */
interface State {
  readonly own: number
  readonly products: readonly number[]
  readonly count: number
}

/** Moves a state to an anchor that lies `by` further, as the code does. */
function moved(m: Moments, s: State, by: number): State {
  const sum = ({ of }: Polynomial[number]): number => {
    const at = m.products.findIndex((p) => p.of.join() === of.join())
    return of.length === 0 ? s.count : (s.products[at] ?? Number.NaN)
  }
  const far = (series: readonly Polynomial[]): number =>
    series.reduce((n, p, i) => n + by ** (i + 1) * p.reduce((t, x) => t + x.by * sum(x), 0), 0)
  const products = m.products.map((p, i) => (s.products[i] ?? Number.NaN) + far(p.series))
  return { own: s.own + far(m.series), products, count: s.count }
}

/** Sums of a few points against any anchor are sums against any other one, moved; moving twice is moving once; not at all, nothing. */
function checkLaw(lets: Lets, seed: number): void {
  const s = streamed(lets)
  const m = movesOf(s)
  const rng = makeRng(seed)
  const number = (): number => rng.real(-4, 4)
  if (s === undefined) throw new Error('no sum')
  const v = number()
  const points = Array.from({ length: 7 }, () => [number(), number()] as const)
  const against = (d: number): State => {
    const sum = (ids: readonly ValueId[]): number =>
      points.reduce((n, [x, w]) => {
        const known = new Map([
          [0, x],
          [1, w],
          [2, v],
          [s.against, d],
        ])
        return n + ids.reduce((y, id) => y * valueAt(lets, id, known), 1)
      }, 0)
    return { own: sum([termOf(lets)]), products: m.products.map((p) => sum(p.of)), count: points.length }
  }
  const near = (a: State, b: State): void => {
    const [p, q] = [
      [a.own, ...a.products, a.count],
      [b.own, ...b.products, b.count],
    ]
    p.forEach((x, i) => {
      expect(Math.abs(x - (q[i] ?? Number.NaN))).toBeLessThanOrEqual(1e-9)
    })
  }
  const [a, b, e] = [number(), number(), number()]
  near(moved(m, against(a), b - a), against(b))
  near(moved(m, moved(m, against(a), b - a), e - b), moved(m, against(a), e - a))
  expect(moved(m, against(a), 0)).toEqual(against(a))
}

/** How often each value is in the products that are carried, and how far the series of the sum goes. */
const streams: readonly {
  readonly name: string
  readonly text: string
  readonly products: readonly (readonly number[])[]
  readonly degree: number
  readonly nonnegative?: boolean
}[] = [
  {
    name: '(x - m)^2',
    text: '  %9 f32{r, c} = mul %8, %8\n  %99 f32{r} = reduce sum %9 over c',
    products: [[8]],
    degree: 2,
    nonnegative: true,
  },
  {
    name: 'w (x - m)',
    text: '  %9 f32{r, c} = mul %1, %8\n  %99 f32{r} = reduce sum %9 over c',
    products: [[1]],
    degree: 1,
  },
  { name: 'x - m', text: '  %99 f32{r} = reduce sum %8 over c', products: [], degree: 1 },
  {
    name: 'w (x - m)^2 / 4 - v (x - m)',
    text: `  %9 f32{r, c} = mul %8, %8
  %10 f32{r, c} = mul %9, %1
  %11 f32 = const 4
  %12 f32{r, c} = div %10, %11
  %13 f32{r, c} = mul %2, %8
  %14 f32{r, c} = sub %12, %13
  %99 f32{r} = reduce sum %14 over c`,
    products: [[1, 8], [1], [2]],
    degree: 2,
  },
  {
    name: '(m - x) (x - m + x - m)',
    text: `  %9 f32{r, c} = sub %5, %0
  %10 f32{r, c} = add %8, %8
  %11 f32{r, c} = mul %9, %10
  %99 f32{r} = reduce sum %11 over c`,
    products: [[9], [10]],
    degree: 2,
  },
  {
    name: 'exp(w) v^2 (m - x) (x - m) / -2',
    text: `  %9 f32{r, c} = sub %5, %0
  %10 f32{r, c} = mul %9, %8
  %11 f32{r, c} = exp %1
  %12 f32{r, c} = mul %11, %10
  %13 f32{r} = mul %2, %2
  %14 f32{r, c} = mul %12, %13
  %15 f32 = const -2
  %16 f32{r, c} = div %14, %15
  %99 f32{r} = reduce sum %16 over c`,
    products: [
      [8, 11, 13],
      [9, 11, 13],
      [11, 13],
    ],
    degree: 2,
    nonnegative: true,
  },
  {
    name: '(x - (v - m))^2, and what does not depend on the mean',
    text: `  %9 f32{r} = sub %2, %5
  %10 f32{r, c} = sub %0, %9
  %11 f32{r, c} = mul %10, %10
  %12 f32{r, c} = mul %1, %0
  %13 f32{r, c} = exp %12
  %14 f32{r, c} = add %11, %13
  %99 f32{r} = reduce sum %14 over c`,
    products: [[10]],
    degree: 2,
    nonnegative: true,
  },
]

const walksAgain: readonly { readonly name: string; readonly text: string }[] = [
  { name: 'what does not depend on the mean', text: '  %99 f32{r} = reduce sum %1 over c' },
  { name: '|x - m|', text: '  %9 f32{r, c} = abs %8\n  %99 f32{r} = reduce sum %9 over c' },
  { name: 'exp(x - m)', text: '  %9 f32{r, c} = exp %8\n  %99 f32{r} = reduce sum %9 over c' },
  {
    name: '(x - m)^3',
    text: '  %9 f32{r, c} = mul %8, %8\n  %10 f32{r, c} = mul %9, %8\n  %99 f32{r} = reduce sum %10 over c',
  },
  { name: 'w / (x - m)', text: '  %9 f32{r, c} = div %1, %8\n  %99 f32{r} = reduce sum %9 over c' },
  { name: 'the greatest (x - m)^2', text: '  %9 f32{r, c} = mul %8, %8\n  %99 f32{r} = reduce max %9 over c' },
  {
    name: '(w - m)^2, where w may be far closer to m than x is',
    text: '  %9 f32{r, c} = sub %1, %5\n  %10 f32{r, c} = mul %9, %9\n  %99 f32{r} = reduce sum %10 over c',
  },
  {
    name: '(2 x - m)^2',
    text: `  %9 f32{r, c} = add %0, %0
  %10 f32{r, c} = sub %9, %5
  %11 f32{r, c} = mul %10, %10
  %99 f32{r} = reduce sum %11 over c`,
  },
  { name: 'm (x - m)', text: '  %9 f32{r, c} = mul %5, %8\n  %99 f32{r} = reduce sum %9 over c' },
  {
    name: 'two readings of the sum',
    text: `  %9 f32{r, c} = sub %0, %3
  %10 f32{r, c} = mul %8, %9
  %99 f32{r} = reduce sum %10 over c`,
  },
  {
    name: 'a choice',
    text: `  %9 f32 = const 0
  %10 bool{r, c} = gt %8, %9
  %11 f32{r, c} = select %10, %8, %9
  %99 f32{r} = reduce sum %11 over c`,
  },
  {
    name: 'differences rounded to half precision',
    text: `  %9 bf16{r, c} = cast %8
  %10 f32{r, c} = cast %9
  %11 f32{r, c} = mul %10, %10
  %99 f32{r} = reduce sum %11 over c`,
  },
  {
    name: 'sums in another dtype than the mean',
    text: `  %9 f64{r, c} = cast %8
  %10 f64{r, c} = mul %9, %9
  %99 f64{r} = reduce sum %10 over c`,
  },
]

describe('what streams', () => {
  test.each(streams)('$name', ({ text, products, degree, nonnegative = false }) => {
    const lets = bodyOf(text)
    const s = streamed(lets)
    const m = movesOf(s)
    expect(s?.anchor).toBe(3)
    expect([...m.products.map((p) => p.of.join())].sort()).toEqual(products.map((p) => p.join()).sort())
    expect(m.series).toHaveLength(degree)
    expect(m.nonnegative).toBe(nonnegative)
    for (let seed = 0; seed < 20; seed++) checkLaw(lets, seed)
  })

  test.each(walksAgain)('not $name', ({ text }) => expect(streamed(bodyOf(text))).toBeUndefined())

  test('in half precision, as it is computed, and in doubles; not in integers', () => {
    const text = '  %9 f32{r, c} = mul %8, %8\n  %99 f32{r} = reduce sum %9 over c'
    for (const dtype of ['f16', 'bf16', 'f64']) expect(streamed(bodyOf(text, dtype))?.anchor).toBe(3)
    expect(streamed(bodyOf(text.replaceAll('%8', '%0'), 'i32'))).toBeUndefined()
  })

  test('products with more factors come first, since they move by those with fewer', () => {
    const m = movesOf(
      streamed(
        bodyOf(`  %9 f32{r, c} = mul %8, %8
  %10 f32{r, c} = mul %9, %1
  %99 f32{r} = reduce sum %10 over c`),
      ),
    )
    expect(m.products.map((p) => p.of)).toEqual([[1, 8], [1]])
    expect(m.series).toEqual([[{ by: -2, of: [1, 8] }], [{ by: 1, of: [1] }]])
  })

  test('polynomials of many products are left alone', () => {
    const lines = ['  %20 f32{r, c} = mul %8, %1']
    // (w (x - m) + 1) (w (x - m) + w) ... of ever more factors.
    for (let i = 1; i < 8; i++) lines.push(`  %${20 + i} f32{r, c} = mul %${19 + i}, %1`)
    const lets = bodyOf([...lines, '  %99 f32{r} = reduce sum %27 over c'].join('\n'))
    expect(streamed(lets)).toBeUndefined()
    expect(
      momentsOf(8, {
        lets,
        isLate: () => true,
        slopeOf: (id) => (id === 8 ? 1 : undefined),
        constantOf: () => undefined,
        isWidening: () => false,
      })?.series,
    ).toEqual([[{ by: -1, of: [] }]])
  })
})

describe('random terms', () => {
  function randomTerm(seed: number): Lets {
    const rng = makeRng(seed)
    const tiles = ['%0', '%1', '%8', '%8']
    const lines: string[] = []
    const length = rng.int(1, 5)
    for (let i = 0; i < length; i++) {
      const id = `%${20 + i}`
      const [a, b] = [rng.pick(tiles.slice(-3)), rng.pick([...tiles, '%2', '%4', '%5'])]
      const op = rng.pick(['sub', 'mul', 'mul', 'add', 'div', 'neg'])
      lines.push(`  ${id} f32{r, c} = ${op} ${op === 'neg' ? a : `${a}, ${b}`}`)
      tiles.push(id)
    }
    return bodyOf([...lines, `  %99 f32{r} = reduce sum ${tiles.at(-1)} over c`].join('\n'))
  }

  test('those that stream obey the law', () => {
    let found = 0
    for (let seed = 0; seed < 2000; seed++) {
      const lets = randomTerm(seed)
      if (streamed(lets) === undefined) continue
      found++
      checkLaw(lets, seed)
    }
    expect(found).toBeGreaterThan(200)
  })
})
