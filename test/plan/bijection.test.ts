/** Index maps that visit every element once, against a count of what they visit. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as ix from '../../src/affine/expr.ts'
import { coversOnce } from '../../src/plan/body/bijection.ts'

interface Axis {
  readonly name: string
  readonly extent: number
}

/** How often each element of a shape is visited while the axes that the index names run; undefined outside the shape. */
function visits(index: readonly ix.Expr[], shape: readonly number[], axes: readonly Axis[]): number[] | undefined {
  const named = new Set(index.flatMap((e) => [...ix.axesOf(e)]))
  const running = axes.filter((a) => named.has(a.name))
  const counts = new Array<number>(shape.reduce((a, b) => a * b, 1)).fill(0)
  const points = running.reduce((n, a) => n * a.extent, 1)
  for (let p = 0; p < points; p++) {
    const at = new Map<string, number>()
    let rest = p
    for (const a of running) {
      at.set(a.name, rest % a.extent)
      rest = Math.floor(rest / a.extent)
    }
    let flat = 0
    for (const [d, e] of index.entries()) {
      const v = ix.evaluate(
        e,
        (name) => at.get(name) ?? 0,
        () => 0,
      )
      const n = shape[d] ?? 1
      if (v < 0 || v >= n) return undefined
      flat = flat * n + v
    }
    counts[flat] = (counts[flat] ?? 0) + 1
  }
  return counts
}

const once = (index: readonly ix.Expr[], shape: readonly number[], axes: readonly Axis[]): boolean =>
  visits(index, shape, axes)?.every((n) => n === 1) ?? false

const axesArb = fc
  .array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 })
  .map((extents) => extents.map((extent, i): Axis => ({ name: 'ijkl'[i] ?? 'z', extent })))

const expr = (axes: readonly Axis[]): fc.Arbitrary<ix.Expr> =>
  fc
    .tuple(
      fc.array(fc.tuple(fc.constantFrom(...axes), fc.constantFrom(-1, 1, 1, 2, 3, 4)), { maxLength: 3 }),
      fc.constantFrom(0, 0, 0, 1),
      fc.constantFrom('', '', 'div', 'mod'),
      fc.integer({ min: 2, max: 4 }),
    )
    .map(([terms, offset, op, by]) => {
      const e = ix.addConst(
        terms.reduce((sum, [a, c]) => ix.add(sum, ix.mul(ix.axis(a.name, a.extent), c)), ix.zero),
        offset,
      )
      return op === 'div' ? ix.div(e, by) : op === 'mod' ? ix.mod(e, by) : e
    })

describe('coversOnce', () => {
  test('never accepts a map that leaves out, repeats or leaves the shape', () => {
    const cases = axesArb.chain((axes) =>
      fc
        .array(fc.tuple(expr(axes), fc.integer({ min: 1, max: 6 })), { minLength: 1, maxLength: 3 })
        .map((dims) => ({ axes, index: dims.map(([e]) => e), shape: dims.map(([, n]) => n) })),
    )
    fc.assert(
      fc.property(cases, ({ axes, index, shape }) => {
        // A map that leaves the shape never comes to be: builders stay inside or mask.
        if (visits(index, shape, axes) === undefined) return
        if (coversOnce(index, shape)) expect(once(index, shape, axes)).toBe(true)
      }),
      { numRuns: 2000 },
    )
  })

  test('accepts axes in any order and any split of them', () => {
    const cases = fc
      .array(fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 0, maxLength: 3 }), { minLength: 1, maxLength: 3 })
      .chain((dims) =>
        fc.tuple(fc.constant(dims), fc.shuffledSubarray([...'ijklmnpqr'], { minLength: 9, maxLength: 9 })),
      )
    fc.assert(
      fc.property(cases, ([dims, names]) => {
        let next = 0
        const axes: Axis[] = []
        const shape = dims.map((digits) => digits.reduce((a, b) => a * b, 1))
        const index = dims.map((digits) =>
          digits.reduce((e, extent) => {
            const name = names[next++] ?? 'z'
            axes.push({ name, extent })
            return ix.add(ix.mul(e, extent), ix.axis(name, extent))
          }, ix.zero),
        )
        expect(coversOnce(index, shape)).toBe(true)
        expect(once(index, shape, axes)).toBe(true)
      }),
      { numRuns: 300 },
    )
  })

  test('accepts a reshape of what covers once', () => {
    const index = ix.unflatten(ix.flatten([ix.axis('i', 4), ix.axis('j', 6)], [4, 6]), [8, 3])
    expect(coversOnce([ix.axis('i', 4), ix.axis('j', 6)], [4, 6])).toBe(true)
    expect(coversOnce(index, [8, 3])).toBe(true)
  })

  test.each([
    ['a diagonal', [ix.axis('i', 4), ix.axis('i', 4)], [4, 4]],
    ['a fixed row', [ix.zero, ix.axis('i', 4)], [4, 4]],
    ['a stride', [ix.mul(ix.axis('i', 4), 2)], [8]],
    ['a shift', [ix.addConst(ix.axis('i', 4), 1)], [5]],
    ['a window', [ix.add(ix.axis('i', 4), ix.axis('k', 2))], [5]],
    ['half of an axis', [ix.div(ix.axis('i', 8), 2)], [4]],
    ['a gathered position', [ix.value(0, 4)], [4]],
  ])('refuses %s', (_, index, shape) => {
    expect(coversOnce(index, shape)).toBe(false)
  })

  test('nothing to cover is covered', () => {
    expect(coversOnce([ix.axis('i', 0), ix.axis('j', 3)], [0, 3])).toBe(true)
    expect(coversOnce([], [])).toBe(true)
  })
})
