/** Halves that only move, from memory through registers into tiles of matrices, keep their bits: they are not converted to f32 and back. */
import { type Ex, elem, type S, select, uint, v } from '../ir/ir.ts'
import { expressionsIn, mapBodies, visitIn, visitStatements } from '../ir/walk.ts'
import { unmaskedHalf } from '../scalar/arith.ts'

/** The bits of a half, where an expression is one as it stands: of memory, zero, or held by one of the names. */
function bitsOf(e: Ex, held: ReadonlySet<string>): Ex | undefined {
  switch (e.k) {
    case 'call':
      return e.fn === 'f16_value' && e.args[0] !== undefined ? unmaskedHalf(e.args[0]) : undefined
    case 'lit':
      return Object.is(e.value, 0) ? uint(0) : undefined
    case 'var':
      return held.has(e.name) ? v('u32', e.name) : undefined
    case 'elem':
      return held.has(e.array) ? elem('u32', e.array, e.index) : undefined
    case 'select': {
      const [a, b] = [bitsOf(e.a, held), bitsOf(e.b, held)]
      return a === undefined || b === undefined ? undefined : select(e.cond, a, b)
    }
    default:
      return undefined
  }
}

/** The name that a statement gives a value of f32, and that value. */
function given(s: S): { readonly name: string; readonly value: Ex | undefined } | undefined {
  if (s.k === 'let') return s.value.type === 'f32' ? { name: s.name, value: s.value } : undefined
  if (s.k === 'var') return s.type === 'f32' ? { name: s.name, value: s.value } : undefined
  if (s.k !== 'assign' || s.to.type !== 'f32') return undefined
  const name = s.to.k === 'var' ? s.to.name : s.to.k === 'elem' ? s.to.array : undefined
  return name === undefined ? undefined : { name, value: s.value }
}

const nameRead = (e: Ex): string | undefined => (e.k === 'var' ? e.name : e.k === 'elem' ? e.array : undefined)

/** Names of f32 that hold nothing but halves which move. */
function movingNames(body: readonly S[]): ReadonlySet<string> {
  const held = new Set<string>()
  visitStatements(body, (s) => {
    if (s.k === 'array' && s.type === 'f32') held.add(s.name)
    const to = given(s)
    if (to !== undefined) held.add(to.name)
  })
  for (let before = -1; before !== held.size; ) {
    before = held.size
    visitStatements(body, (s) => {
      const to = given(s)
      const moved = s.k === 'matrix' && s.of.op === 'put' ? s.of.values : to?.value === undefined ? [] : [to.value]
      const moves = moved.length > 0 && moved.every((e) => bitsOf(e, held) !== undefined)
      if (to?.value !== undefined && !moves) held.delete(to.name)
      const isMoved = moves && (to === undefined || held.has(to.name))
      for (const e of expressionsIn(s)) {
        // What is assigned to is not read.
        if (s.k === 'assign' && e === s.to) continue
        if (isMoved && moved.includes(e)) continue
        visitIn(e, (x) => held.delete(nameRead(x) ?? ''))
      }
    })
  }
  return held
}

export function movedHalves(body: readonly S[]): readonly S[] {
  const held = movingNames(body)
  const change = (s: S): S => {
    const inside = mapBodies(s, (b) => b.map(change))
    if (inside.k === 'matrix' && inside.of.op === 'put') {
      const values = inside.of.values.flatMap((e) => bitsOf(e, held) ?? [])
      return values.length < inside.of.values.length ? inside : { ...inside, of: { ...inside.of, values } }
    }
    if (inside.k === 'array') return held.has(inside.name) ? { ...inside, type: 'u32' } : inside
    const to = given(inside)
    if (to === undefined || !held.has(to.name)) return inside
    const value = to.value === undefined ? undefined : bitsOf(to.value, held)
    if (inside.k === 'var') return { ...inside, type: 'u32', ...(value === undefined ? {} : { value }) }
    if (value === undefined) return inside
    if (inside.k === 'let') return { ...inside, value }
    if (inside.k !== 'assign') return inside
    return { ...inside, to: bitsOf(inside.to, held) ?? inside.to, value }
  }
  return body.map(change)
}
