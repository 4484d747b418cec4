/** Substitution in many expressions: what each of them alone becomes, and lists and predicates that stay what they were. */
import { describe, expect, test } from 'vitest'
import * as ix from '../../src/affine/expr.ts'
import { conjoin, predicateKey, substitutePredicate } from '../../src/affine/predicate.ts'
import { Substitution } from '../../src/affine/substitution.ts'

const [i, j, k] = [ix.axis('i', 6), ix.axis('j', 10), ix.axis('k', 15)] as const
/** i and j as the digits of one axis. */
const [outer, inner] = ix.unflatten(ix.axis('j', 60), [6, 10])
const digits = (a: ix.Atom): ix.Expr | undefined =>
  a.kind !== 'axis' ? undefined : a.name === 'i' ? outer : a.name === 'j' ? inner : undefined

const at = [ix.add(ix.mul(i, 10), j), ix.div(ix.add(i, k), 4), ix.mod(ix.add(j, ix.mul(k, 3)), 7), ix.value(3, 9), k]

describe('a substitution', () => {
  test('makes of an expression what it becomes by itself, however often it stands there', () => {
    const by = new Substitution(digits)
    for (const e of [...at, ...at]) {
      expect(by.of(e).key).toBe(ix.substitute(e, digits).key)
      expect(by.of(e)).toBe(by.of(e))
    }
    expect(by.of(k)).toBe(k)
  })

  test('keeps values that share a key apart', () => {
    const by = new Substitution((a) =>
      a.kind === 'value' ? ix.addConst(ix.value(a.id, a.extent), a.extent) : undefined,
    )
    expect(by.of(ix.value(1, 4)).offset).toBe(4)
    expect(by.of(ix.value(1, 8)).offset).toBe(8)
  })

  test('gives the same list for a list, and the very one where nothing is replaced', () => {
    const by = new Substitution(digits)
    expect(by.ofList(at)).toBe(by.ofList(at))
    expect(by.ofList(at).map((e) => e.key)).toEqual(at.map((e) => ix.substitute(e, digits).key))
    const rest = [k, ix.zero]
    expect(by.ofList(rest)).toBe(rest)
  })

  test('of predicates is that of their bounds', () => {
    const by = new Substitution(digits)
    const mask = conjoin([], { expr: ix.add(i, k), lo: 2, hi: 12 }, { expr: j, lo: 1, hi: 9 })
    expect(predicateKey(by.ofPredicate(mask))).toBe(predicateKey(substitutePredicate(mask, digits)))
    expect(by.ofPredicate([...mask])).toBe(by.ofPredicate(mask))
    const data = conjoin([], { expr: ix.add(ix.value(2, 5), i), lo: 2, hi: 12 })
    expect(predicateKey(by.ofPredicate(data))).toBe(predicateKey(substitutePredicate(data, digits)))
  })
})
