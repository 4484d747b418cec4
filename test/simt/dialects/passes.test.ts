/** Passes over thread code: in which order, for which languages, and what each makes of statements by hand. */
import { describe, expect, test } from 'vitest'
import {
  add,
  and,
  bin,
  call,
  type Ex,
  elem,
  ge,
  int,
  lit,
  lt,
  mul,
  type S,
  select,
  v,
} from '../../../src/codegen/simt/ir/ir.ts'
import { visitExpressions, visitStatements } from '../../../src/codegen/simt/ir/walk.ts'
import { threadCodeOf } from '../../../src/codegen/simt/kernel.ts'
import { alignedQuotients } from '../../../src/codegen/simt/passes/alignedQuotients.ts'
import { calledFunctions } from '../../../src/codegen/simt/passes/calledFunctions.ts'
import { hoistCopyAddresses } from '../../../src/codegen/simt/passes/copyAddresses.ts'
import { foldExtremes } from '../../../src/codegen/simt/passes/foldExtremes.ts'
import { groupLoads } from '../../../src/codegen/simt/passes/groupLoads.ts'
import { repeatLoops } from '../../../src/codegen/simt/passes/repeatLoops.ts'
import { shareReciprocals } from '../../../src/codegen/simt/passes/shareReciprocals.ts'
import { passes, runPasses } from '../../../src/codegen/simt/passes.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'

const loop = (name: string, to: number, body: S[]): S => ({
  k: 'for',
  name,
  from: int(0),
  to: int(to),
  step: 1,
  unroll: true,
  body,
})
const i = v('i32', 'i')
const at = (array: string, index: Ex = i): Ex => elem('f32', array, index)
const best = v('f32', 'best')
const assign = (to: Ex, value: Ex): S => ({ k: 'assign', to, value })
const kinds = (body: readonly S[]): string[] => {
  const out: string[] = []
  visitStatements(body, (s) => out.push(s.k))
  return out
}
const calls = (body: readonly S[]): string[] => {
  const out: string[] = []
  visitExpressions(body, (e) => {
    if (e.k === 'call') out.push(e.fn)
  })
  return out
}

test('the page', () => {
  expect(passes.map((p) => p.name)).toEqual([
    'idleBarriers',
    'copyAddresses',
    'calledFunctions',
    'foldExtremes',
    'shareReciprocals',
    'movedHalves',
    'repeatLoops',
    'alignedQuotients',
    'groupLoads',
  ])
})

describe('loads before code with branches', () => {
  const load = (index: Ex): Ex => ({ k: 'load', type: 'f32', param: 'x', index })
  /** A guarded load into a variable, and what is made of it. */
  const point = (index: Ex, made: (x: Ex) => Ex): S[] => [
    { k: 'var', name: 'x_0', type: 'f32', value: lit('f32', 0) },
    { k: 'if', cond: lt(index, int(100)), body: [assign(v('f32', 'x_0'), load(index))], otherwise: [] },
    { k: 'let', name: 'y_0', value: made(v('f32', 'x_0')) },
    assign(at('y', index), v('f32', 'y_0')),
  ]
  const sine = (x: Ex): Ex => call('f32', 'f32_sin', x)
  /** What statements do, loops written out: loads and sines, in order. */
  const order = (stmts: readonly S[]): string[] => {
    const out: string[] = []
    visitStatements(repeatLoops(stmts), (s) => {
      if (s.k === 'if') out.push('load')
      else if (s.k === 'let' && s.value.k === 'call') out.push('sine')
    })
    return out
  }

  test('several points load at once', () => {
    const body = groupLoads([loop('i', 6, point(i, sine))])
    expect(order(body)).toEqual([...Array(6).fill('load'), ...Array(6).fill('sine')])
  })

  test('of many points eight do, and a rest', () => {
    const body = groupLoads([loop('i', 19, point(i, sine))])
    const groups = [7, 7, 5].flatMap((n) => [...Array(n).fill('load'), ...Array(n).fill('sine')])
    expect(kinds(body).filter((k) => k === 'array')).toHaveLength(2)
    expect(body[0]).toMatchObject({ k: 'for', step: 7 })
    expect(order(body.flatMap((s) => (s.k === 'for' && s.step > 1 ? [...s.body, ...s.body] : [s])))).toEqual(groups)
  })

  test('inner loops stand in a group whole', () => {
    const place = add(mul(i, int(4)), v('i32', 'j'))
    const [outer] = groupLoads([loop('i', 8, [loop('j', 4, point(place, sine))])])
    expect(outer).toMatchObject({ k: 'for', step: 2 })
    expect(order(outer?.k === 'for' ? outer.body : [])).toEqual([...Array(8).fill('load'), ...Array(8).fill('sine')])
  })

  test('not without branches, nor what the loop computes or writes itself', () => {
    const plain = [
      loop(
        'i',
        6,
        point(i, (x) => call('f32', 'f32_exp', x)),
      ),
    ]
    expect(groupLoads(plain)).toEqual(plain)
    const chained: S[] = [
      loop('i', 6, [
        { k: 'let', name: 'next', value: load(v('i32', 'last')) },
        assign(v('i32', 'last'), add(v('i32', 'last'), i)),
        assign(at('y'), sine(v('f32', 'next'))),
      ]),
    ]
    expect(groupLoads(chained)).toEqual(chained)
    const stored: S[] = [
      loop('i', 6, [
        { k: 'let', name: 'next', value: load(i) },
        { k: 'store', param: 'x', index: add(i, int(1)), value: sine(v('f32', 'next')) },
      ]),
    ]
    expect(groupLoads(stored)).toEqual(stored)
  })
})

describe('quotients of neighbours', () => {
  const place = v('i32', 'place')
  const over = (from: Ex, op: '>>' | '&' | '/' | '%', by: number): readonly S[] => [
    { k: 'let', name: 'place', value: from },
    assign(at('q'), bin(op, add(place, int(3)), int(by))),
  ]
  const quotientOf = (body: readonly S[]): Ex | undefined => {
    const [, last] = alignedQuotients(body)
    return last?.k === 'assign' ? last.value : undefined
  }
  const eights = add(mul(i, int(8)), int(16))

  test('are those of the multiple of eight below them', () => {
    expect(quotientOf(over(eights, '>>', 5))).toEqual(bin('>>', place, int(5)))
    expect(quotientOf(over(eights, '/', 24))).toEqual(bin('/', place, int(24)))
    expect(quotientOf(over(eights, '&', 31))).toEqual(add(bin('&', place, int(31)), int(3)))
    expect(quotientOf(over(eights, '%', 24))).toEqual(add(bin('%', place, int(24)), int(3)))
  })

  test('stay where the place is a multiple of less, or the divisor is', () => {
    for (const [from, op, by] of [
      [add(mul(i, int(8)), int(4)), '>>', 5],
      [mul(i, int(4)), '%', 24],
      [eights, '>>', 2],
      [eights, '/', 12],
      [eights, '&', 6],
    ] as const) {
      const body = over(from, op, by)
      expect(alignedQuotients(body)).toEqual(body)
    }
  })

  test('of floats stay', () => {
    const x = v('f32', 'x')
    const body: readonly S[] = [
      { k: 'let', name: 'x', value: bin('*', at('r'), lit('f32', 16)) },
      assign(at('q'), bin('/', bin('+', x, lit('f32', 3)), lit('f32', 8))),
    ]
    expect(alignedQuotients(body)).toEqual(body)
  })

  test('counters of loops are multiples of their steps', () => {
    const body = (step: number): readonly S[] => [
      {
        k: 'for',
        name: 'i',
        from: int(0),
        to: int(96),
        step,
        unroll: false,
        body: [assign(at('q'), bin('>>', add(i, int(1)), int(3)))],
      },
    ]
    expect(alignedQuotients(body(4))).toEqual(body(4))
    const [loop] = alignedQuotients(body(32))
    expect(loop?.k === 'for' && loop.body).toEqual([assign(at('q'), bin('>>', i, int(3)))])
  })
})

test('a language that unrolls keeps its loops, one that does not has none left', () => {
  const kernel = parseKernel(`kernel row {
  param x: f32[3, 4096] read
  param y: f32[3, 4096] write
  axes i: 3, j: 4096
  grid i/1
  %0 f32{i, j} = load x[i, j]
  %1 f32{i} = reduce max %0 over j
  %2 f32{i, j} = div %0, %1
  store y[i, j] = %2
}`)
  const unrolled = (machine: typeof cudaSimt): number => {
    let n = 0
    visitStatements(runPasses(threadCodeOf(scheduleThreads(kernel, machine))).body, (s) => {
      if (s.k === 'for' && s.unroll) n++
    })
    return n
  }
  expect(unrolled(cudaSimt)).toBeGreaterThan(0)
  expect(unrolled(webgpuSimt)).toBe(0)
})

describe('folds by max and min', () => {
  const fold = (value: Ex): S => assign(best, call('f32', 'f32_max', best, value))

  test('several values into one place are one', () => {
    const [one, ...none] = foldExtremes([loop('i', 3, [fold(at('x'))])])
    expect(none).toEqual([])
    expect(one).toMatchObject({ k: 'extreme', by: 'max', to: best })
    expect(one?.k === 'extreme' && one.of.map((x) => x.value)).toEqual([0, 1, 2].map((n) => at('x', int(n))))
  })

  test('a value that may be missing keeps its test', () => {
    const taken = select(v('bool', 'isThere'), at('x'), lit('f32', Number.NEGATIVE_INFINITY))
    const [one] = foldExtremes([loop('i', 2, [fold(taken)])])
    expect(one?.k === 'extreme' && one.of[1]).toEqual({
      taken: select(v('bool', 'isThere'), at('x', int(1)), lit('f32', Number.NEGATIVE_INFINITY)),
      value: at('x', int(1)),
    })
  })

  test.for<[string, S[]]>([
    ['one value alone', [loop('i', 1, [fold(at('x'))])]],
    ['other work beside', [loop('i', 3, [fold(at('x')), assign(at('y'), best)])]],
    ['the place is read', [loop('i', 3, [assign(at('x'), call('f32', 'f32_max', at('x'), at('x', int(0))))])]],
  ])('left as it is: %s', ([, body]) => {
    expect(foldExtremes(body)).toEqual(body)
  })
})

describe('shared reciprocals', () => {
  const total = v('f32', 'total')
  const divide = (by: Ex): S => assign(at('y'), call('f32', 'f32_div', at('x'), by))

  test('one before the outermost loop', () => {
    const body = shareReciprocals([loop('j', 2, [loop('i', 3, [divide(total)])])])
    expect(body.map((s) => s.k)).toEqual(['let', 'let', 'let', 'for'])
    expect(calls(body)).toEqual(['divisor_scale', 'f32_div_by'])
  })

  test('what the loop assigns is divided by as it stands', () => {
    const body = [loop('i', 3, [assign(total, at('x')), divide(total)])]
    expect(calls(shareReciprocals(body))).toEqual(['f32_div'])
  })

  test('a division outside loops stays', () => {
    expect(shareReciprocals([divide(total)])).toEqual([divide(total)])
  })
})

describe('loops written out', () => {
  test('places are constants, names have scopes', () => {
    const body = repeatLoops([loop('i', 2, [{ k: 'let', name: 'a', value: at('x') }, assign(at('y'), v('f32', 'a'))])])
    expect(kinds(body)).toEqual(['scope', 'let', 'assign', 'scope', 'let', 'assign'])
    const places: number[] = []
    visitExpressions(body, (e) => {
      if (e.k === 'elem' && e.index.k === 'lit') places.push(Number(e.index.value))
    })
    expect(places).toEqual([0, 0, 1, 1])
  })

  test('without names there are no scopes; an empty loop is nothing', () => {
    expect(kinds(repeatLoops([loop('i', 2, [assign(at('y'), at('x'))])]))).toEqual(['assign', 'assign'])
    expect(repeatLoops([loop('i', 0, [assign(at('y'), at('x'))])])).toEqual([])
  })

  test('inside other statements', () => {
    const branch: S = { k: 'if', cond: v('bool', 'b'), body: [loop('i', 2, [assign(at('y'), at('x'))])], otherwise: [] }
    expect(kinds(repeatLoops([branch]))).toEqual(['if', 'assign', 'assign'])
  })
})

test('the function with most code is called first, and none where there is little', () => {
  const of = (fn: string, times: number): S => loop('i', times, [assign(at('y'), call('f32', fn, at('x')))])
  expect(calledFunctions([of('f32_sin', 16), of('f32_exp', 16)])).toEqual(new Set())
  expect(calledFunctions([of('f32_sin', 64), of('f32_exp', 64)])).toEqual(new Set(['f32_sin']))
})

describe('addresses of background copies', () => {
  const m = v('i32', 'm')
  const place = add(v('i32', 'l'), mul(i, int(16)))
  const quotients = (body: readonly S[]): number => {
    let n = 0
    visitExpressions(body, (e) => {
      if (e.k === 'bin' && (e.op === '/' || e.op === '%')) n++
    })
    return n
  }
  const copy = (at: Ex, there: Ex): S => ({
    k: 'call',
    fn: 'copy_async',
    args: [{ k: 'address', type: 'u32', of: 'x', index: select(there, at, int(0)) }, there],
  })
  const steps = (body: S[]): Extract<S, { k: 'for' }> => ({
    k: 'for',
    name: 'm',
    from: int(0),
    to: v('i32', 'end'),
    step: 32,
    unroll: false,
    body,
  })
  const row = add(bin('/', place, int(518)), int(-2))
  const column = bin('%', place, int(518))
  const inside = and(ge(add(row, m), int(0)), lt(add(row, m), int(512)))
  const at = add(add(mul(row, int(512)), bin('/', m, int(7))), column)

  test('quotients that no step changes are taken before the loop, one a register; of ranges one comparison is left', () => {
    const first: S = { k: 'let', name: 'l', value: add(v('i32', 'start'), int(3)) }
    const [array, other, taken, looped, ...more] = hoistCopyAddresses([
      steps([{ k: 'if', cond: lt(m, int(9)), body: [first, loop('i', 8, [copy(at, inside)])], otherwise: [] }]),
    ])
    expect(more).toEqual([])
    expect([array, other].map((s) => s?.k === 'array' && s.length)).toEqual([8, 8])
    // Values declared inside are seen through.
    const before = taken === undefined ? [] : [taken]
    const names = new Set<string>()
    visitExpressions(before, (e) => {
      if (e.k === 'var') names.add(e.name)
    })
    expect([...names].sort()).toEqual(['i', 'start'])
    const after = looped === undefined ? [] : [looped]
    let conditions = 0
    visitExpressions(after, (e) => {
      if (e.k === 'bin' && (e.op === '&&' || e.op === '>=')) conditions++
    })
    expect([quotients(before), quotients(after), conditions]).toEqual([3, 1, 0])
  })

  test('what steps change, what divides by no constant, and what is no copy stay', () => {
    const changed: S[] = [
      steps([copy(bin('/', m, int(7)), lt(m, int(9)))]),
      steps([{ k: 'assign', to: v('i32', 'l'), value: m }, copy(bin('/', v('i32', 'l'), int(7)), lt(m, int(9)))]),
      steps([copy(add(bin('/', v('i32', 'l'), v('i32', 'c')), m), lt(m, int(9)))]),
      steps([{ k: 'store', param: 'y', index: add(row, m), value: lit('f32', 0) }]),
      loop('m', 8, [copy(add(row, m), lt(m, int(9)))]),
    ]
    for (const s of changed) expect(hoistCopyAddresses([s])).toEqual([s])
  })

  test('copies before such a loop are without branches too; loops of few steps, and what is before them, stay', () => {
    const loops = (to: number): S[] => [copy(at, inside), { ...steps([copy(add(row, m), lt(m, int(9)))]), to: int(to) }]
    const [made] = hoistCopyAddresses(loops(12 * 32))
    let conditions = 0
    visitExpressions(made === undefined ? [] : [made], (e) => {
      if (e.k === 'bin' && (e.op === '&&' || e.op === '>=')) conditions++
    })
    expect([made?.k, conditions]).toEqual(['call', 0])
    expect(hoistCopyAddresses(loops(11 * 32))).toEqual(loops(11 * 32))
  })

  test('only so many registers are taken', () => {
    const [array, taken, looped] = hoistCopyAddresses([
      steps([loop('i', 40, [copy(add(row, m), lt(m, int(9))), copy(add(column, m), lt(m, int(9)))])]),
    ])
    expect([array?.k, taken === undefined ? 0 : quotients([taken])]).toEqual(['array', 1])
    expect(looped === undefined ? 0 : quotients([looped])).toBe(1)
  })
})
