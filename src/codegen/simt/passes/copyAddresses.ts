/**
 * Addresses of background copies, and whether there is something to copy: a loop along the depth of a product moves windows of one place to
 * the next, and the quotients that say which place a thread copies for are the same in all its iterations. Compilers take those again in each
 * iteration, where they stand under conditions; here they are taken before the loop, into registers. (Loop-invariant code motion, of sums
 * whose invariant terms are put together first.)
 */
import {
  add,
  bin,
  bitcast,
  constantOf,
  type Ex,
  elem,
  indexConstantOf,
  int,
  lit,
  mul,
  neg,
  type S,
  sub,
  typeBytes,
  v,
} from '../ir/ir.ts'
import { countOf, mapBodies, mapOperands, substituteVars, visitIn, visitStatements } from '../ir/walk.ts'

/** Most 32-bit registers that a loop's places take. */
const mostRegisters = 48
/** Steps from which places pay: shorter loops copy most of what they read before they begin. */
const leastSteps = 12

type Loop = Extract<S, { k: 'for' }>

/** Statements whose loops find the places of their copies before they begin, if they have many steps. */
export function hoistCopyAddresses(stmts: readonly S[]): S[] {
  let count = 0
  const within = (body: readonly S[], isBefore: boolean): S[] => {
    // Copies before a loop find their places as it does, so that compilers see the same quotients.
    const before = isBefore || body.some(hasManySteps)
    return body.flatMap((s) => {
      if (isCopy(s)) return [before ? { ...s, args: s.args.map(withoutBranches) } : s]
      if (s.k === 'for' && s.storesApart === true) {
        const places = new Places(s, () => `place_${count++}`, true)
        const moved: S = { ...s, body: places.rewrite(s.body, new Map(), []) }
        return [...places.before(), moved]
      }
      const inner = mapBodies(s, (b) => within(b, before))
      if (inner.k !== 'for' || !hasManySteps(inner)) return [inner]
      const places = new Places(inner, () => `place_${count++}`)
      const moved: S = { ...inner, body: places.rewrite(inner.body, new Map(), []) }
      return [...places.before(), moved]
    })
  }
  return within(stmts, false)
}

/** Whether a statement is a loop of many steps, or of any number of them. */
function hasManySteps(s: S): boolean {
  if (s.k !== 'for' || s.unroll) return false
  const [from, to] = [indexConstantOf(s.from), indexConstantOf(s.to)]
  return from === undefined || to === undefined || (to - from) / s.step >= leastSteps
}

/** A value taken before a loop: for every index of some register loops. */
interface Place {
  readonly name: string
  readonly value: Ex
  readonly loops: readonly Loop[]
}

/** The places of one loop. */
class Places {
  readonly #name: () => string
  /** Whether stores and their conditions are asked, else copies. */
  readonly #ofStores: boolean
  /** Names that the loop declares or assigns. */
  readonly #changing: Set<string>
  readonly #places = new Map<string, Place>()
  #registers = 0

  constructor(loop: Loop, name: () => string, ofStores = false) {
    this.#name = name
    this.#ofStores = ofStores
    this.#changing = new Set([loop.name])
    visitStatements(loop.body, (s) => {
      if ('name' in s) this.#changing.add(s.name)
      if (s.k === 'vector' && 'name' in s.of) this.#changing.add(s.of.name)
      if (s.k === 'assign' && s.to.k === 'var') this.#changing.add(s.to.name)
      // Procedures may assign what they are given.
      if (s.k === 'call') for (const e of s.args) if (e.k === 'var') this.#changing.add(e.name)
    })
  }

  /**
   * The loop's statements with places in their copies' arguments; `known`: values declared inside that no iteration changes, in terms of
   * what is known outside and of the register loops around.
   */
  rewrite(stmts: readonly S[], around: ReadonlyMap<string, Ex>, loops: readonly Loop[]): S[] {
    const known = new Map(around)
    return stmts.map((s) => {
      if (s.k === 'let' && this.#isInvariant(s.value, known, loops)) known.set(s.name, substituteVars(s.value, known))
      if (isCopy(s)) return { ...s, args: s.args.map((e) => this.#placed(e, known, loops)) }
      if (this.#ofStores && (s.k === 'store' || s.k === 'vstore'))
        return { ...s, index: this.#placed(s.index, known, loops) }
      if (this.#ofStores && s.k === 'if')
        return {
          ...s,
          cond: this.#placed(s.cond, known, loops),
          body: this.rewrite(s.body, known, loops),
          otherwise: this.rewrite(s.otherwise, known, loops),
        }
      if (s.k !== 'for') return mapBodies(s, (body) => this.rewrite(body, known, loops))
      return s.unroll ? mapBodies(s, (body) => this.rewrite(body, known, [...loops, s])) : s
    })
  }

  /** What is taken before the loop. */
  before(): S[] {
    const out: S[] = []
    const groups = new Map<string, Place[]>()
    for (const p of this.#places.values()) {
      if (p.loops.length === 0) {
        out.push({ k: 'let', name: p.name, value: p.value })
        continue
      }
      const key = p.loops.map((l) => l.name).join()
      groups.set(key, [...(groups.get(key) ?? []), p])
      out.push({ k: 'array', name: p.name, type: p.value.type, length: pointsOf(p.loops) })
    }
    for (const group of groups.values()) {
      const [first] = group
      const assigned = group.map((p): S => ({ k: 'assign', to: elementOf(p), value: p.value }))
      out.push(...(first?.loops ?? []).reduceRight<readonly S[]>((body, l) => [{ ...l, body }], assigned))
    }
    return out
  }

  /** An expression with places for what no iteration changes. */
  #placed(e: Ex, known: ReadonlyMap<string, Ex>, loops: readonly Loop[]): Ex {
    const go = (x: Ex): Ex => this.#placed(x, known, loops)
    if (!isNumber(e)) return mapOperands(e, go)
    if (this.#isInvariant(e, known, loops)) return this.#take(e, known, loops) ?? e
    if (e.k !== 'bin' || (e.op !== '+' && e.op !== '-')) return mapOperands(e, go)
    const terms = termsOf(e)
    const still = terms.filter((t) => this.#isInvariant(t, known, loops))
    const place = still.length === 0 ? undefined : this.#take(sum(still), known, loops)
    if (place === undefined) return mapOperands(e, go)
    return add(place, sum(terms.filter((t) => !still.includes(t)).map(go)))
  }

  /** The place of a value, where it is worth one and there is room. */
  #take(e: Ex, known: ReadonlyMap<string, Ex>, loops: readonly Loop[]): Ex | undefined {
    const value = substituteVars(e, known)
    if (!takesQuotients(value)) return undefined
    const names = new Set<string>()
    visitIn(value, (x) => {
      if (x.k === 'var') names.add(x.name)
    })
    const over = loops.filter((l) => names.has(l.name))
    const key = keyOf(value)
    const have = this.#places.get(key)
    if (have !== undefined) return elementOf(have)
    const registers = (pointsOf(over) * typeBytes(value.type)) / 4
    if (this.#registers + registers > mostRegisters) return undefined
    this.#registers += registers
    const place = { name: this.#name(), value, loops: over }
    this.#places.set(key, place)
    return elementOf(place)
  }

  /** Whether arithmetic on indices has one value in all iterations, and may be done where no iteration asks for it. */
  #isInvariant(e: Ex, known: ReadonlyMap<string, Ex>, loops: readonly Loop[]): boolean {
    const go = (x: Ex): boolean => this.#isInvariant(x, known, loops)
    switch (e.k) {
      case 'lit':
        return true
      case 'var':
        return known.has(e.name) || loops.some((l) => l.name === e.name) || !this.#changing.has(e.name)
      case 'neg':
      case 'cast':
        return isNumber(e) && go(e.a)
      case 'bin':
        if ((e.op === '/' || e.op === '%') && e.b.k !== 'lit') return false
        return isNumber(e) && go(e.a) && go(e.b)
      default:
        return false
    }
  }
}

const isCopy = (s: S): s is Extract<S, { k: 'call' }> => s.k === 'call' && s.args.some((e) => e.k === 'address')

const isNumber = ({ type }: Ex): boolean => type === 'i32' || type === 'u32' || type === 'i64' || type === 'u64'

/** Whether a value is more than a few additions: quotients or remainders by what is no power of two. */
function takesQuotients(e: Ex): boolean {
  let takes = false
  visitIn(e, (x) => {
    if (x.k === 'bin' && (x.op === '/' || x.op === '%')) takes = true
  })
  return takes
}

/** The terms of a sum, those that are taken away negated. */
function termsOf(e: Ex, minus = false): Ex[] {
  if (e.k === 'bin' && e.op === '+') return [...termsOf(e.a, minus), ...termsOf(e.b, minus)]
  if (e.k === 'bin' && e.op === '-') return [...termsOf(e.a, minus), ...termsOf(e.b, !minus)]
  const c = constantOf(e)
  return [minus ? (c === undefined ? neg(e) : lit(e.type, -c)) : e]
}

/** A sum of terms of one type. */
const sum = (terms: readonly Ex[]): Ex => terms.reduce((a, b) => bin('+', a, b))

const pointsOf = (loops: readonly Loop[]): number => loops.reduce((n, l) => n * countOf(l), 1)

/** What stands for a place in the loop. */
function elementOf({ name, value, loops }: Place): Ex {
  if (loops.length === 0) return v(value.type, name)
  const index = loops.reduce<Ex>((at, l) => add(mul(at, int(countOf(l))), sub(v('i32', l.name), l.from)), int(0))
  return elem(value.type, name, index)
}

/** Conditions of which all parts are evaluated, each range one comparison: less than to branch around what follows. */
function withoutBranches(e: Ex): Ex {
  if (e.k !== 'bin' || e.op !== '&&') return mapOperands(e, withoutBranches)
  const parts = new Map(conditionsOf(e).map((c) => [keyOf(c), c]))
  for (const c of parts.values()) {
    if (c.k !== 'bin' || c.op !== '>=' || c.a.type !== 'i32' || constantOf(c.b) !== 0) continue
    for (const [key, below] of parts) {
      if (below.k !== 'bin' || below.op !== '<' || keyOf(below.a) !== keyOf(c.a)) continue
      const most = constantOf(below.b)
      if (most === undefined || most < 0) continue
      parts.delete(keyOf(c))
      parts.set(key, bin('<', bitcast('u32', c.a), lit('u32', most)))
    }
  }
  return [...parts.values()].reduce((a, b) => bin('&', a, b))
}

const conditionsOf = (e: Ex): Ex[] =>
  e.k === 'bin' && e.op === '&&' ? [...conditionsOf(e.a), ...conditionsOf(e.b)] : [withoutBranches(e)]

/** Equal for equal expressions. */
const keyOf = (e: Ex): string =>
  JSON.stringify(e, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value))
