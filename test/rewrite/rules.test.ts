/** Every rule against the oracle: on programs that contain what it rewrites, results before and after must agree. */
import { describe, expect, test } from 'vitest'
import { verifyGraph } from '../../src/graph/verify.ts'
import { rewriteWith } from '../../src/rewrite/driver.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import type { PatternRule } from '../../src/rewrite/pattern.ts'
import type { Rule } from '../../src/rewrite/rule.ts'
import { allRules } from '../../src/rewrite/rules.ts'
import { nightly } from '../support/nightly.ts'
import { contractionExamples, convolutionExamples, reductionExamples } from './examples/folds.ts'
import { regionExamples } from './examples/regions.ts'
import { valueExamples } from './examples/values.ts'
import { broadcastExamples, viewExamples } from './examples/views.ts'
import { patternExample } from './pattern-examples.ts'
import { bitDifference, Draw, type Example, evaluate, foldIn, roundingDifference } from './support.ts'

const examples: Readonly<Record<string, Example>> = {
  ...viewExamples,
  ...broadcastExamples,
  ...valueExamples,
  ...reductionExamples,
  ...contractionExamples,
  ...convolutionExamples,
  ...regionExamples,
}

const isPatternRule = (r: Rule): r is PatternRule => 'from' in r
const exampleOf = (r: Rule): Example | undefined => (isPatternRule(r) ? (d) => patternExample(r, d) : examples[r.name])

const seeds = nightly ? 60 : 20

/** Checks one drawn program rewritten by `rules`; whether the rule under test fired. */
function check(r: Rule, example: Example, seed: number, rules: readonly Rule[]): boolean {
  const d = new Draw(seed)
  const graph = example(d)
  const isExact = r.kind === 'exact'
  const inputs = d.inputs(!isExact)
  let fired = false
  for (const rounding of isExact ? (['dtype', 'strict'] as const) : (['f64'] as const)) {
    const options = { mode: isExact ? 'strict' : 'fast', fold: foldIn(rounding) } as const
    const { graph: after, applied } = rewriteWith(rules, graph, options)
    verifyGraph(after)
    expect(after.params).toEqual(graph.params)
    fired ||= applied.some((x) => x.rule === r.name)
    const want = evaluate(graph, inputs, rounding)
    const got = evaluate(after, inputs, rounding)
    graph.outputs.forEach((o, i) => {
      const [a, b] = [want[i], got[i]]
      if (a === undefined || b === undefined) throw new Error('an output is missing')
      const difference = isExact ? bitDifference(a, b, o.dtype) : roundingDifference(a, b, o.dtype)
      if (difference !== undefined)
        throw new Error(`${r.name}, seed ${seed}, output ${i} (${o.dtype}, ${rounding}): ${difference}`)
    })
  }
  return fired
}

describe('every rule', () => {
  test('has a name of its own and an example', () => {
    const names = allRules.map((r) => r.name)
    expect(names.filter((n, i) => names.indexOf(n) !== i)).toEqual([])
    expect(allRules.filter((r) => exampleOf(r) === undefined).map((r) => r.name)).toEqual([])
    const known = new Set(names)
    expect(Object.keys(examples).filter((n) => !known.has(n))).toEqual([])
  })

  test.each(allRules.map((r) => [r.name, r] as const))('%s keeps results', (_, r) => {
    const example = exampleOf(r)
    if (example === undefined) throw new Error('no example')
    let fired = 0
    for (let seed = 0; seed < seeds; seed++) {
      if (check(r, example, seed, [r])) fired++
      check(r, example, seed, allRules)
    }
    expect(fired, 'the rule fires on its own example').toBeGreaterThanOrEqual(seeds / 10)
  })
})

test('rewriting twice changes nothing more', () => {
  const fold = foldIn('dtype')
  for (const r of allRules)
    for (let seed = 0; seed < (nightly ? 3 : 1); seed++) {
      const example = exampleOf(r)
      if (example === undefined) continue
      for (const mode of ['fast', 'strict'] as const) {
        const once = rewriteGraph(example(new Draw(seed)), { mode, fold }).graph
        expect(rewriteGraph(once, { mode, fold }).applied, `${r.name}, seed ${seed}, ${mode}`).toEqual([])
      }
    }
})
