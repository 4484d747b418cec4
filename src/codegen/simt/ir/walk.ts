/** Walks over thread-level code: what expressions and statements hold, and copies of them with variables replaced. */
import { invariant } from '../../../diagnostics/errors.ts'
import {
  bin,
  bitcast,
  cast,
  constantOf,
  type Ex,
  type MatrixOp,
  neg,
  not,
  type S,
  select,
  type VectorOp,
} from './ir.ts'

/** Rebuilds an expression, folding again, with variables replaced. */
export function substituteVars(e: Ex, map: ReadonlyMap<string, Ex>): Ex {
  const go = (x: Ex): Ex => substituteVars(x, map)
  switch (e.k) {
    case 'lit':
    case 'comp':
      return e
    case 'var':
      return map.get(e.name) ?? e
    case 'elem':
    case 'shared':
    case 'load':
    case 'word':
    case 'address':
      return { ...e, index: go(e.index) }
    case 'neg':
      return neg(go(e.a))
    case 'not':
      return not(go(e.a))
    case 'bin':
      return bin(e.op, go(e.a), go(e.b))
    case 'cast':
      return cast(e.type, go(e.a))
    case 'bitcast':
      return bitcast(e.type, go(e.a))
    case 'select':
      return select(go(e.cond), go(e.a), go(e.b))
    case 'call':
      return { ...e, args: e.args.map(go) }
    case 'shuffle':
    case 'turn':
      return { ...e, a: go(e.a) }
  }
}

/** An expression with others in the place of its operands. */
export function mapOperands(e: Ex, go: (e: Ex) => Ex): Ex {
  switch (e.k) {
    case 'lit':
    case 'var':
    case 'comp':
      return e
    case 'elem':
    case 'shared':
    case 'load':
    case 'word':
    case 'address':
      return { ...e, index: go(e.index) }
    case 'neg':
    case 'not':
    case 'cast':
    case 'bitcast':
    case 'shuffle':
    case 'turn':
      return { ...e, a: go(e.a) }
    case 'bin':
      return { ...e, a: go(e.a), b: go(e.b) }
    case 'select':
      return { ...e, cond: go(e.cond), a: go(e.a), b: go(e.b) }
    case 'call':
      return { ...e, args: e.args.map(go) }
  }
}

/** An expression with what `change` makes of all in it, operands first. */
export const rewriteEx = (e: Ex, change: (e: Ex) => Ex): Ex => change(mapOperands(e, (x) => rewriteEx(x, change)))

/** Visits an expression and all inside. */
export function visitIn(e: Ex, visit: (e: Ex) => void): void {
  visit(e)
  for (const x of childrenOf(e)) visitIn(x, visit)
}

/** Visits every expression of statements, operands after what they are in. */
export function visitExpressions(stmts: readonly S[], visit: (e: Ex) => void): void {
  for (const s of stmts) {
    for (const e of expressionsIn(s)) visitIn(e, visit)
    for (const b of bodiesOf(s)) visitExpressions(b, visit)
  }
}

export function visitStatements(stmts: readonly S[], visit: (s: S) => void): void {
  for (const s of stmts) {
    visit(s)
    for (const b of bodiesOf(s)) visitStatements(b, visit)
  }
}

function childrenOf(e: Ex): readonly Ex[] {
  switch (e.k) {
    case 'lit':
    case 'var':
    case 'comp':
      return []
    case 'elem':
    case 'shared':
    case 'load':
    case 'word':
    case 'address':
      return [e.index]
    case 'neg':
    case 'not':
    case 'cast':
    case 'bitcast':
    case 'shuffle':
    case 'turn':
      return [e.a]
    case 'bin':
      return [e.a, e.b]
    case 'select':
      return [e.cond, e.a, e.b]
    case 'call':
      return e.args
  }
}

/** The expressions of a statement, without those of statements inside. */
export function expressionsIn(s: S): readonly Ex[] {
  switch (s.k) {
    case 'let':
    case 'uniform':
      return [s.value]
    case 'var':
      return s.value === undefined ? [] : [s.value]
    case 'assign':
      return [s.to, s.value]
    case 'for':
      return [s.from, s.to]
    case 'if':
      return [s.cond]
    case 'vload':
      return [s.index]
    case 'vstore':
      return [s.index, ...s.values]
    case 'store':
      return [s.index, s.value]
    case 'storeBits':
      return [s.index, s.mask, s.bits]
    case 'call':
    case 'words':
      return s.args
    case 'pointer':
    case 'entry':
    case 'member':
      return [s.index]
    case 'push':
      return [s.index, s.rank, s.value, s.meeting]
    case 'fill':
      return [s.index, ...s.words]
    case 'extreme':
      return [s.to, ...s.of.flatMap((x) => [x.taken, x.value])]
    case 'vector':
      return operandsOfVector(s.of)
    case 'matrix':
      return operandsOfMatrix(s.of)
    default:
      return []
  }
}

export const bodiesOf = (s: S): readonly (readonly S[])[] =>
  s.k === 'for' || s.k === 'scope' ? [s.body] : s.k === 'if' ? [s.body, s.otherwise] : []

/** A statement with others in the place of its expressions; those of statements inside stay. */
export function mapExpressions(s: S, go: (e: Ex) => Ex): S {
  switch (s.k) {
    case 'let':
    case 'uniform':
      return { ...s, value: go(s.value) }
    case 'var':
      return s.value === undefined ? s : { ...s, value: go(s.value) }
    case 'assign':
      return { ...s, to: go(s.to), value: go(s.value) }
    case 'for':
      return { ...s, from: go(s.from), to: go(s.to) }
    case 'if':
      return { ...s, cond: go(s.cond) }
    case 'vload':
    case 'pointer':
    case 'entry':
    case 'member':
      return { ...s, index: go(s.index) }
    case 'vstore':
      return { ...s, index: go(s.index), values: s.values.map(go) }
    case 'store':
      return { ...s, index: go(s.index), value: go(s.value) }
    case 'storeBits':
      return { ...s, index: go(s.index), mask: go(s.mask), bits: go(s.bits) }
    case 'call':
    case 'words':
      return { ...s, args: s.args.map(go) }
    case 'push':
      return { ...s, index: go(s.index), rank: go(s.rank), value: go(s.value), meeting: go(s.meeting) }
    case 'fill':
      return { ...s, index: go(s.index), words: s.words.map(go) }
    case 'extreme':
      return { ...s, to: go(s.to), of: s.of.map((x) => ({ taken: go(x.taken), value: go(x.value) })) }
    case 'vector':
      return { ...s, of: mapVector(s.of, go) }
    case 'matrix':
      return { ...s, of: mapMatrix(s.of, go) }
    default:
      return s
  }
}

/** A statement with other statements inside. */
export function mapBodies(s: S, go: (body: readonly S[]) => readonly S[]): S {
  if (s.k === 'for' || s.k === 'scope') return { ...s, body: go(s.body) }
  return s.k === 'if' ? { ...s, body: go(s.body), otherwise: go(s.otherwise) } : s
}

/** A statement with variables replaced in it. */
export const substituteIn = (s: S, map: ReadonlyMap<string, Ex>): S =>
  mapBodies(
    mapExpressions(s, (e) => substituteVars(e, map)),
    (body) => body.map((t) => substituteIn(t, map)),
  )

/** Bounds of a loop to be unrolled. */
export function countOf(s: Extract<S, { k: 'for' }>): number {
  const [from, to] = [constantOf(s.from), constantOf(s.to)]
  invariant(from !== undefined && to !== undefined, `the loop ${s.name} has no constant bounds`)
  return Math.max(0, Math.ceil((to - from) / s.step))
}

function operandsOfVector(o: VectorOp): readonly Ex[] {
  switch (o.op) {
    case 'read':
      return [o.row, o.at]
    case 'write':
      return [o.row, o.at, ...o.values]
    case 'put':
      return [o.row, o.at, o.value]
    case 'var':
      return o.values
    case 'multiplyAdd':
      return [o.a]
  }
}

function operandsOfMatrix(o: MatrixOp): readonly Ex[] {
  if (o.op === 'put') return [o.at, ...o.values]
  return o.op === 'zeros' || o.op === 'multiplyAdd' ? [] : [o.at]
}

function mapMatrix(o: MatrixOp, go: (e: Ex) => Ex): MatrixOp {
  if (o.op === 'put') return { ...o, at: go(o.at), values: o.values.map(go) }
  return o.op === 'zeros' || o.op === 'multiplyAdd' ? o : { ...o, at: go(o.at) }
}

/** The operation with other operands. */
function mapVector(o: VectorOp, go: (e: Ex) => Ex): VectorOp {
  switch (o.op) {
    case 'read':
      return { ...o, row: go(o.row), at: go(o.at) }
    case 'write':
      return { ...o, row: go(o.row), at: go(o.at), values: o.values.map(go) }
    case 'put':
      return { ...o, row: go(o.row), at: go(o.at), value: go(o.value) }
    case 'var':
      return { ...o, values: o.values.map(go) }
    case 'multiplyAdd':
      return { ...o, a: go(o.a) }
  }
}
