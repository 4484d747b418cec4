/**
 * Loads before code with branches. Compilers keep a load where it stands if a function with branches stands before it, so a loop over registers that loads
 * an element, computes such a function of it and goes on waits for memory once for each. Here several points of the loop load first, then all of them compute.
 */
import { isApproximated } from '../../../scalar/approximations.ts'
import { add, type Ex, elem, int, mul, type S, type Type, v } from '../ir/ir.ts'
import { bodiesOf, countOf, expressionsIn, mapBodies, substituteIn, visitExpressions, visitIn } from '../ir/walk.ts'

type For = Extract<S, { k: 'for' }>

/** Functions whose code branches: far arguments, subnormal quotients. */
const branching = /^(sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|asinh|acosh|atanh|pow|log|log1p|sqrt|erf|div|mod)$/

/** Whether a function's code branches; those that are formulas choose among several. */
function branches(fn: string): boolean {
  const [, name = ''] = /^f(?:32|64)_(\w+)$/.exec(fn) ?? []
  return branching.test(name) || isApproximated(name)
}

/** Points that load at once, and registers that hold what they load. */
const [mostPoints, mostRegisters] = [8, 16]

/** Makes names that nothing else has. */
type Name = (wish: string) => string

/** Statements whose loops load so. */
export function groupLoads(stmts: readonly S[]): S[] {
  let count = 0
  const name = (wish: string): string => `${wish}_ahead${count++}`
  const within = (body: readonly S[]): S[] =>
    body.flatMap((s) => (s.k === 'for' && s.unroll ? groupedNest(s, name) : undefined) ?? [mapBodies(s, within)])
  return within(stmts)
}

/** Loops of which each is all that the one before does, outermost first, and what the last one does. */
function nestOf(s: For): { readonly loops: readonly For[]; readonly body: readonly S[] } {
  const loops = [s]
  for (;;) {
    const last = loops.at(-1) ?? s
    const [only, ...others] = last.body
    if (only?.k !== 'for' || others.length > 0) return { loops, body: last.body }
    loops.push(only)
  }
}

const isCounted = (s: For): boolean =>
  s.unroll && s.step === 1 && s.type === undefined && s.from.k === 'lit' && s.from.value === 0

function groupedNest(s: For, name: Name): S[] | undefined {
  const { loops, body } = nestOf(s)
  if (!loops.every(isCounted)) return undefined
  const parts = earlyLoads(body)
  if (parts === undefined) return undefined
  const most = Math.min(mostPoints, Math.floor(mostRegisters / parts.loads.length))
  const counts = loops.map(countOf)
  // The innermost loops stand in a group whole, as many as there is room for; the next one is cut.
  let first = loops.length
  let points = 1
  while (first > 0 && points * (counts[first - 1] ?? 1) <= most) points *= counts[--first] ?? 1
  const inner = loops.slice(first)
  const cut = loops[first - 1]
  const room = Math.floor(most / points)
  if (cut === undefined || room < 2)
    return points < 2 ? undefined : wrap(loops.slice(0, first), group(parts, inner, name))
  const count = countOf(cut)
  const each = Math.ceil(count / Math.ceil(count / room))
  const whole = count - (count % each)
  const part = (from: Ex, n: number): S[] => {
    const at: For = { ...cut, name: name(cut.name), to: int(n) }
    const moved = new Map([[cut.name, add(from, v('i32', at.name))]])
    const substituted = {
      early: parts.early.map((t) => substituteIn(t, moved)),
      loads: parts.loads,
      rest: parts.rest.map((t) => substituteIn(t, moved)),
    }
    return group(substituted, [at, ...inner], name)
  }
  const groups: For = { ...cut, name: name(cut.name), to: int(whole), step: each, body: [] }
  const out: S[] = [{ ...groups, body: part(v('i32', groups.name), each) }]
  if (whole < count) out.push(...part(int(whole), count - whole))
  return wrap(loops.slice(0, first - 1), out)
}

/** Statements inside loops, outermost first. */
const wrap = (loops: readonly For[], body: readonly S[]): S[] =>
  loops.reduceRight((inner: readonly S[], l) => [{ ...l, body: inner }], body) as S[]

/** What a point loads, by name, with what that needs; and all else, which needs them. */
interface EarlyLoads {
  readonly early: readonly S[]
  readonly loads: readonly { readonly name: string; readonly type: Type }[]
  readonly rest: readonly S[]
}

/** All points of loops load into arrays, then all go on. */
function group({ early, loads, rest }: EarlyLoads, loops: readonly For[], name: Name): S[] {
  const points = loops.reduce((n, l) => n * countOf(l), 1)
  const at = loops.reduce((n: Ex, l) => add(mul(n, int(countOf(l))), v('i32', l.name)), int(0))
  const arrays = loads.map((l) => ({ ...l, array: name(l.name) }))
  const held = new Map(arrays.map((a) => [a.name, elem(a.type, a.array, at)]))
  return [
    ...arrays.map((a): S => ({ k: 'array', name: a.array, type: a.type, length: points })),
    ...wrap(loops, [
      ...early,
      ...arrays.map((a): S => ({ k: 'assign', to: elem(a.type, a.array, at), value: v(a.type, a.name) })),
    ]),
    ...wrap(
      loops,
      rest.map((t) => substituteIn(t, held)),
    ),
  ]
}

const simple: ReadonlySet<S['k']> = new Set(['comment', 'let', 'var', 'assign', 'if', 'store', 'vstore'])

/** The loads of a loop's body that need nothing it computes, where code with branches is behind them. */
function earlyLoads(body: readonly S[]): EarlyLoads | undefined {
  const isSimple = (stmts: readonly S[]): boolean =>
    stmts.every((s) => simple.has(s.k) && bodiesOf(s).every((b) => isSimple(b)))
  if (!isSimple(body)) return undefined
  const changed = changedIn(body)
  const known = new Set<string>()
  const isEarly = (e: Ex): boolean => {
    let holds = true
    visitIn(e, (x) => {
      if (x.k === 'var') holds &&= known.has(x.name) || !changed.has(x.name)
      else if (x.k === 'elem') holds &&= !changed.has(x.array)
      else if (x.k === 'load' || x.k === 'word') holds &&= !changed.has(x.param)
      else if (x.k === 'call') holds &&= !branches(x.fn)
      else if (x.k === 'shared' || x.k === 'shuffle' || x.k === 'turn' || x.k === 'comp') holds = false
    })
    return holds
  }
  const indices: Extract<S, { k: 'let' }>[] = []
  const early: S[] = []
  const loads: { readonly name: string; readonly type: Type }[] = []
  const rest: S[] = []
  for (let i = 0; i < body.length; i++) {
    const [s, next] = [body[i], body[i + 1]]
    if (s === undefined) continue
    if (s.k === 'let' && isEarly(s.value)) {
      if (isLoad(s.value)) {
        loads.push({ name: s.name, type: s.value.type })
        early.push(s)
        known.add(s.name)
        continue
      }
      // What places are found by is cheap, and found twice.
      if (s.value.type !== 'f32' && s.value.type !== 'f64') {
        indices.push(s)
        early.push(s)
        known.add(s.name)
      }
    } else if (s.k === 'var' && s.value?.k === 'lit' && next?.k === 'if' && isGuardedLoad(s.name, next, isEarly)) {
      loads.push({ name: s.name, type: s.type })
      early.push(s, next)
      known.add(s.name)
      i++
      continue
    }
    rest.push(s)
  }
  let isBranched = false
  visitExpressions(rest, (e) => {
    isBranched ||= e.k === 'call' && branches(e.fn)
  })
  return isBranched && loads.length > 0 ? { early: needed(early, indices), loads, rest } : undefined
}

/** Names, arrays and parameters that statements declare or write. */
function changedIn(body: readonly S[]): Set<string> {
  const out = new Set<string>()
  const visit = (stmts: readonly S[]): void => {
    for (const s of stmts) {
      if (s.k === 'let' || s.k === 'var') out.add(s.name)
      else if (s.k === 'store' || s.k === 'vstore') out.add(s.param)
      else if (s.k === 'assign' && s.to.k === 'var') out.add(s.to.name)
      else if (s.k === 'assign' && (s.to.k === 'elem' || s.to.k === 'shared')) out.add(s.to.array)
      for (const b of bodiesOf(s)) visit(b)
    }
  }
  visit(body)
  return out
}

function isLoad(e: Ex): boolean {
  let found = false
  visitIn(e, (x) => {
    found ||= x.k === 'load' || x.k === 'word'
  })
  return found
}

/** Whether an element is loaded into a variable where a condition holds, and that is all. */
function isGuardedLoad(to: string, s: Extract<S, { k: 'if' }>, isEarly: (e: Ex) => boolean): boolean {
  const [only, ...others] = s.body
  if (only?.k !== 'assign' || others.length > 0 || s.otherwise.length > 0) return false
  return only.to.k === 'var' && only.to.name === to && isLoad(only.value) && isEarly(only.value) && isEarly(s.cond)
}

/** Statements without the names that none of those behind reads. */
function needed(early: readonly S[], indices: readonly S[]): S[] {
  const used = new Set<string>()
  const out: S[] = []
  for (const s of early.toReversed()) {
    if (s.k === 'let' && indices.includes(s) && !used.has(s.name)) continue
    for (const e of [s, ...bodiesOf(s).flat()].flatMap(expressionsIn))
      visitIn(e, (x) => {
        if (x.k === 'var') used.add(x.name)
      })
    out.push(s)
  }
  return out.reverse()
}
