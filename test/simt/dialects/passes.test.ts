/** Passes over thread code: in which order, for which languages, and what each makes of statements by hand. */
import { describe, expect, test } from 'vitest'
import { call, type Ex, elem, int, lit, type S, select, v } from '../../../src/codegen/simt/ir/ir.ts'
import { visitExpressions, visitStatements } from '../../../src/codegen/simt/ir/walk.ts'
import { threadCodeOf } from '../../../src/codegen/simt/kernel.ts'
import { calledFunctions } from '../../../src/codegen/simt/passes/calledFunctions.ts'
import { foldExtremes } from '../../../src/codegen/simt/passes/foldExtremes.ts'
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
    'calledFunctions',
    'foldExtremes',
    'shareReciprocals',
    'repeatLoops',
  ])
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
