/** Index algebra against brute force: every expression is compared with its plain meaning at all points of small spaces. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  add,
  addConst,
  asConstant,
  axesOf,
  axis,
  constant,
  div,
  dividend,
  type Expr,
  evaluate,
  flatten,
  isBitwise,
  mod,
  mul,
  rangeOf,
  reshape,
  strideOf,
  sub,
  substitute,
  unflatten,
  zero,
} from '../../src/affine/expr.ts'
import { conjoin, decideBound, holds, isNever, predicateKey, substitutePredicate } from '../../src/affine/predicate.ts'
import { nightly } from '../support/nightly.ts'

const names = ['i', 'j', 'k']
type Point = readonly number[]

/** An expression with its meaning written out apart from the algebra. */
interface Pair {
  readonly e: Expr
  readonly at: (p: Point) => number
}

type Tree =
  | { readonly op: 'axis'; readonly n: number }
  | { readonly op: 'const'; readonly n: number }
  | { readonly op: 'add' | 'sub'; readonly a: Tree; readonly b: Tree }
  | { readonly op: 'mul' | 'div' | 'mod' | 'plus'; readonly a: Tree; readonly n: number }

const trees: fc.Arbitrary<Tree> = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 5, depthIdentifier: 'index' },
    { weight: 3, arbitrary: fc.record({ op: fc.constant('axis' as const), n: fc.integer({ min: 0, max: 2 }) }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant('const' as const), n: fc.integer({ min: -9, max: 9 }) }) },
    {
      weight: 3,
      arbitrary: fc.record({ op: fc.constantFrom('add' as const, 'sub' as const), a: tie('tree'), b: tie('tree') }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ op: fc.constant('mul' as const), a: tie('tree'), n: fc.integer({ min: -6, max: 12 }) }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ op: fc.constant('plus' as const), a: tie('tree'), n: fc.integer({ min: -9, max: 9 }) }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        op: fc.constantFrom('div' as const, 'mod' as const),
        a: tie('tree'),
        n: fc.integer({ min: 1, max: 12 }),
      }),
    },
  ),
})).tree

const extents = fc.tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 4 }))

function build(t: Tree, shape: Point): Pair {
  switch (t.op) {
    case 'axis':
      return { e: axis(names[t.n] ?? '', shape[t.n] ?? 1), at: (p) => p[t.n] ?? 0 }
    case 'const':
      return { e: constant(t.n), at: () => t.n }
    case 'add':
    case 'sub': {
      const a = build(t.a, shape)
      const b = build(t.b, shape)
      return t.op === 'add'
        ? { e: add(a.e, b.e), at: (p) => a.at(p) + b.at(p) }
        : { e: sub(a.e, b.e), at: (p) => a.at(p) - b.at(p) }
    }
    default: {
      const a = build(t.a, shape)
      const { n } = t
      if (t.op === 'mul') return { e: mul(a.e, n), at: (p) => a.at(p) * n }
      if (t.op === 'plus') return { e: addConst(a.e, n), at: (p) => a.at(p) + n }
      if (t.op === 'div') return { e: div(a.e, n), at: (p) => Math.floor(a.at(p) / n) }
      return { e: mod(a.e, n), at: (p) => ((a.at(p) % n) + n) % n }
    }
  }
}

function points(shape: Point): Point[] {
  return shape.reduce<Point[]>((all, n) => all.flatMap((p) => Array.from({ length: n }, (_, i) => [...p, i])), [[]])
}

const noValues = (): number => 0
const valueAt = (e: Expr, p: Point): number => evaluate(e, (name) => p[names.indexOf(name)] ?? 0, noValues)
const meaning = (e: Expr, shape: Point): string =>
  points(shape)
    .map((p) => valueAt(e, p))
    .join()
const check = <T extends [unknown, ...unknown[]]>(property: fc.IProperty<T>, numRuns = 2000): void => {
  fc.assert(property, { numRuns: nightly ? numRuns : Math.ceil(numRuns / 4), seed: 20240607 })
}

describe('expressions', () => {
  it('mean at every point what their construction means', () => {
    check(
      fc.property(trees, extents, (t, shape) => {
        const { e, at } = build(t, shape)
        for (const p of points(shape)) expect(valueAt(e, p)).toBe(at(p) + 0)
      }),
    )
  })

  it('have sound ranges', () => {
    check(
      fc.property(trees, extents, (t, shape) => {
        const { e } = build(t, shape)
        const { lo, hi } = rangeOf(e)
        for (const p of points(shape)) {
          const v = valueAt(e, p)
          expect(v >= lo && v <= hi).toBe(true)
        }
      }),
    )
  })

  it('of equal keys are equal, and constants are seen as such where one term suffices', () => {
    check(
      fc.property(fc.array(trees, { minLength: 2, maxLength: 30 }), extents, (list, shape) => {
        const byKey = new Map<string, string>()
        for (const t of list) {
          const { e } = build(t, shape)
          const m = meaning(e, shape)
          expect(byKey.get(e.key) ?? m).toBe(m)
          byKey.set(e.key, m)
          const c = asConstant(e)
          if (c !== undefined) expect(e.key).toBe(String(c))
        }
      }),
      400,
    )
  })

  it('do not depend on the order of a sum', () => {
    check(
      fc.property(trees, trees, extents, (s, t, shape) => {
        const a = build(s, shape).e
        const b = build(t, shape).e
        expect(add(a, b).key).toBe(add(b, a).key)
        expect(meaning(sub(add(a, b), b), shape)).toBe(meaning(a, shape))
      }),
    )
  })

  it('stay themselves when rebuilt', () => {
    check(
      fc.property(trees, extents, (t, shape) => {
        const { e } = build(t, shape)
        const again = substitute(e, () => undefined)
        expect(meaning(again, shape)).toBe(meaning(e, shape))
        expect(substitute(again, () => undefined).key).toBe(again.key)
      }),
    )
  })

  it('substitute as functions compose', () => {
    check(
      fc.property(trees, trees, extents, (t, s, shape) => {
        const outer = build(t, [40, shape[1] ?? 1, shape[2] ?? 1])
        const { e: raw, at } = build(s, shape)
        const inner = mod(raw, 40)
        const e = substitute(outer.e, (a) => (a.kind === 'axis' && a.name === 'i' ? inner : undefined))
        for (const p of points(shape)) {
          const i = ((at(p) % 40) + 40) % 40
          expect(valueAt(e, p)).toBe(outer.at([i, p[1] ?? 0, p[2] ?? 0]) + 0)
        }
      }),
    )
  })

  it('know what they are the quotient of', () => {
    let found = 0
    check(
      fc.property(trees, extents, fc.integer({ min: 2, max: 4 }), (t, shape, by) => {
        const { e, at } = build({ op: 'div', a: t, n: by }, shape)
        const of = dividend(e, by)
        if (of === undefined) return
        found++
        for (const p of points(shape)) expect(Math.floor(valueAt(of, p) / by)).toBe(at(p) + 0)
      }),
    )
    expect(found).toBeGreaterThan(nightly ? 200 : 50)
    expect(dividend(axis('i', 6), 2)).toBeUndefined()
    expect(dividend(mul(div(axis('i', 6), 2), 3), 2)).toBeUndefined()
  })

  it('are bitwise where every quotient and remainder is by a power of two', () => {
    const i = axis('i', 64)
    expect([add(i, mul(axis('j', 3), 3)), mod(i, 8), div(add(i, mod(axis('j', 9), 4)), 2)].every(isBitwise)).toBe(true)
    expect([mod(i, 3), div(i, 6), add(mod(i, 2), div(axis('j', 9), 3))].some(isBitwise)).toBe(false)
  })

  it('tell strides truly', () => {
    check(
      fc.property(trees, extents, (t, shape) => {
        const { e } = build(t, shape)
        const stride = strideOf(e, 'i')
        if (stride === undefined) return
        if (!axesOf(e).has('i')) expect(stride).toBe(0)
        for (const p of points(shape)) {
          const next = [(p[0] ?? 0) + 1, ...p.slice(1)]
          if ((next[0] ?? 0) < (shape[0] ?? 1)) expect(valueAt(e, next) - valueAt(e, p)).toBe(stride)
        }
      }),
    )
  })
})

/** Shapes of one size: a random factorisation of it. */
const factorisation = (size: number): fc.Arbitrary<number[]> =>
  fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 4 }).map((wanted) => {
    const out: number[] = []
    let rest = size
    for (const w of wanted) {
      let d = w
      while (rest % d !== 0) d--
      out.push(d)
      rest /= d
    }
    return [...out, rest]
  })
const reshapes = fc
  .constantFrom(1, 6, 12, 24, 36, 60, 64, 72, 120)
  .chain((size) => fc.tuple(factorisation(size), factorisation(size), factorisation(size)))

const axesFor = (shape: Point): Expr[] => shape.map((n, d) => axis(`a${d}`, n))
const at = (e: Expr, p: Point): number => evaluate(e, (name) => p[Number(name.slice(1))] ?? 0, noValues)
const flat = (p: Point, shape: Point): number => p.reduce((v, x, d) => v * (shape[d] ?? 1) + x, 0)

describe('reshapes', () => {
  it('unflatten what flatten flattens', () => {
    check(
      fc.property(reshapes, ([from, to]) => {
        const index = unflatten(flatten(axesFor(from), from), to)
        for (const p of points(from)) {
          const q = index.map((e) => at(e, p))
          expect(q.every((v, d) => v >= 0 && v < (to[d] ?? 1))).toBe(true)
          expect(flat(q, to)).toBe(flat(p, from))
        }
      }),
      500,
    )
  })

  it('of positions that masks keep in bounds are without remainder along the first axis, and the same in bounds', () => {
    const i = axis('a0', 100)
    expect(flatten(unflatten(i, [3, 4, 6]), [3, 4, 6]).key).not.toBe(i.key)
    expect(flatten(unflatten(i, [3, 4, 6], true), [3, 4, 6]).key).toBe(i.key)
    expect(flatten(reshape([i], [72], [1, 3, 4, 6], true), [1, 3, 4, 6]).key).toBe(i.key)
    check(
      fc.property(reshapes, ([from, to]) => {
        const [index, inside] = [false, true].map((is) => reshape(axesFor(from), from, to, is))
        for (const p of points(from)) expect(inside?.map((e) => at(e, p))).toEqual(index?.map((e) => at(e, p)))
      }),
      200,
    )
  })

  it('are what flatten and unflatten give in bounds', () => {
    check(
      fc.property(reshapes, ([from, to]) => {
        const index = reshape(axesFor(from), from, to)
        expect(index.map((e) => e.key)).toEqual(unflatten(flatten(axesFor(from), from), to).map((e) => e.key))
      }),
      500,
    )
    expect(reshape([axis('i', 4), axis('j', 0)], [4, 0], [0, 2]).map((e) => e.key)).toEqual(
      unflatten(flatten([axis('i', 4), axis('j', 0)], [4, 0]), [0, 2]).map((e) => e.key),
    )
  })

  it('keep what is out of bounds in its dimension', () => {
    const [i, j, k] = [axis('i', 8), addConst(axis('j', 9), -1), addConst(axis('k', 7), -1)]
    expect(reshape([i, j, k], [8, 7, 5], [8, 1, 7, 5]).map((e) => e.key)).toEqual([i.key, '0', j.key, k.key])
    expect(reshape([i, j, k], [8, 7, 5], [2, 4, 7, 1, 5]).map((e) => e.key)).toEqual([
      '(i)/4',
      '(i)%4',
      j.key,
      '0',
      k.key,
    ])
    expect(reshape([zero, j, k], [1, 7, 5], [7, 5, 1]).map((e) => e.key)).toEqual([j.key, k.key, '0'])
  })

  it('there and back again is nothing', () => {
    check(
      fc.property(reshapes, ([from, to, third]) => {
        const axes = axesFor(from)
        const there = unflatten(flatten(axes, from), to)
        const on = unflatten(flatten(there, to), third)
        const back = unflatten(flatten(on, third), from)
        expect(back.map((e) => e.key)).toEqual(axes.map((e) => e.key))
      }),
      500,
    )
  })

  it('simplify to axes where extents line up', () => {
    const [i, j, k] = [axis('i', 4), axis('j', 6), axis('k', 5)]
    const keys = unflatten(flatten([i, j, k], [4, 6, 5]), [24, 5]).map((e) => e.key)
    expect(keys).toEqual(['6*i+j', 'k'])
    expect(unflatten(flatten([i, j, k], [4, 6, 5]), [4, 2, 3, 5]).map((e) => e.key)).toEqual([
      'i',
      '(j)/3',
      '(j)%3',
      'k',
    ])
  })
})

describe('simplification', () => {
  const i = axis('i', 10)
  const j = axis('j', 4)
  it.each<[string, Expr, string]>([
    ['a quotient and its remainder meet again', add(mul(div(i, 3), 3), mod(i, 3)), 'i'],
    [
      'also when the quotient is merged into another',
      add(add(mul(div(i, 6), 6), mul(mod(div(i, 2), 3), 2)), mod(i, 2)),
      'i',
    ],
    ['also scaled', add(mul(div(i, 3), 21), mul(mod(i, 3), 7)), '7*i'],
    ['multiples leave a quotient', div(add(mul(i, 4), j), 4), 'i'],
    ['multiples leave a remainder', mod(add(mul(i, 4), j), 4), 'j'],
    ['coefficients beyond the divisor split', mod(mul(i, 5), 4), '(i)%4'],
    ['quotients nest', div(div(i, 2), 3), '(i)/6'],
    ['remainders nest', mod(mod(i, 6), 3), '(i)%3'],
    ['remainders within range vanish', mod(i, 10), 'i'],
    ['differences cancel', sub(add(i, j), add(j, i)), '0'],
  ])('%s', (_, e, key) => {
    expect(e.key).toBe(key)
  })
})

describe('predicates', () => {
  const bounds = fc.record({ t: trees, lo: fc.integer({ min: -8, max: 8 }), width: fc.integer({ min: -1, max: 12 }) })
  it('hold where their bounds hold, decided truly, in any order', () => {
    check(
      fc.property(fc.array(bounds, { maxLength: 4 }), extents, (list, shape) => {
        const made = list.map(({ t, lo, width }) => ({ pair: build(t, shape), lo, hi: lo + width }))
        const asBounds = made.map(({ pair, lo, hi }) => ({ expr: pair.e, lo, hi }))
        const p = conjoin([], ...asBounds)
        expect(predicateKey(conjoin([], ...asBounds.reverse()))).toBe(predicateKey(p))
        const renamed = substitutePredicate(p, () => undefined)
        for (const x of points(shape)) {
          const truth = made.every(({ pair, lo, hi }) => pair.at(x) >= lo && pair.at(x) < hi)
          const axisAt = (name: string): number => x[names.indexOf(name)] ?? 0
          expect(holds(p, axisAt, noValues)).toBe(truth)
          expect(holds(renamed, axisAt, noValues)).toBe(truth)
          if (isNever(p)) expect(truth).toBe(false)
          for (const b of asBounds) {
            const v = valueAt(b.expr, x)
            const inside = v >= b.lo && v < b.hi
            const said = decideBound(b)
            if (said !== 'unknown') expect(said).toBe(inside ? 'true' : 'false')
          }
        }
      }),
      1000,
    )
  })

  it('knows an empty bound', () => {
    expect(decideBound({ expr: axis('i', 9), lo: 3, hi: 3 })).toBe('false')
  })
})
