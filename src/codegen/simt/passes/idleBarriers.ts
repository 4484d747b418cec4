/**
 * Barriers that nothing waits for. An exchange between warps ends with a barrier that guards its slots against what is written
 * there next (`reuse`); where that lies behind another barrier, as where two exchanges in a row have slots of their own, or
 * nothing follows, it is left out. The end of a loop's body is followed by its beginning.
 */
import type { S } from '../ir/ir.ts'
import { bodiesOf, visitExpressions, visitStatements } from '../ir/walk.ts'

/** Shared arrays that code reads and writes. */
interface Uses {
  readonly reads: ReadonlySet<string>
  readonly writes: ReadonlySet<string>
}

const none: Uses = { reads: new Set(), writes: new Set() }

const both = (a: Uses, b: Uses): Uses => ({
  reads: new Set([...a.reads, ...b.reads]),
  writes: new Set([...a.writes, ...b.writes]),
})

const meet = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean => [...a].some((x) => b.has(x))

const conflict = (a: Uses, b: Uses): boolean =>
  meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes)

const hasBarrier = (s: S): boolean => s.k === 'barrier' || bodiesOf(s).some((b) => b.some(hasBarrier))

/** What statements do, their barriers aside. What a procedure is given the place of may be read and written. */
function usesOf(stmts: readonly S[], arrays: ReadonlySet<string>): Uses {
  const [reads, writes] = [new Set<string>(), new Set<string>()]
  const touch = (name: string): void => {
    if (!arrays.has(name)) return
    reads.add(name)
    writes.add(name)
  }
  visitExpressions(stmts, (e) => {
    if (e.k === 'shared') reads.add(e.array)
    else if (e.k === 'address') touch(e.of)
    else if (e.k === 'var') touch(e.name)
  })
  visitStatements(stmts, (s) => {
    if (s.k === 'assign' && s.to.k === 'shared') writes.add(s.to.array)
    else if (s.k === 'push' || s.k === 'fill') touch(s.array)
    else if (s.k === 'uniform') touch(s.slot)
    else if (s.k === 'matrix' && (s.of.op === 'load' || s.of.op === 'take')) reads.add(s.of.array.name)
    else if (s.k === 'matrix' && (s.of.op === 'store' || s.of.op === 'put')) writes.add(s.of.array.name)
    else if (s.k === 'vector' && s.of.op === 'read') reads.add(s.of.array.name)
    else if (s.k === 'vector' && (s.of.op === 'write' || s.of.op === 'put')) writes.add(s.of.array.name)
  })
  return { reads, writes }
}

/** What a body does before its first barrier. */
function firstPhase(body: readonly S[]): readonly S[] {
  const end = body.findIndex((s) => s.k === 'barrier')
  return end < 0 ? body : body.slice(0, end)
}

/** What a body does after the last barrier that is sure to stay. */
const lastPhase = (body: readonly S[]): readonly S[] =>
  body.slice(body.findLastIndex((s) => s.k === 'barrier' && s.reuse !== true) + 1)

/**
 * Statements without the barriers that separate nothing. Of any two accesses that conflict across barriers in this list one barrier
 * stays: a barrier goes only if nothing since the last one that stays conflicts with anything up to the next one. Loops and branches
 * with barriers count as if they had none; their own lists are searched, a loop's between its end and its beginning.
 */
export function withoutIdleBarriers(
  stmts: readonly S[],
  arrays: ReadonlySet<string>,
  before: Uses = none,
  after: Uses = none,
): readonly S[] {
  /** What runs from a place up to the next barrier. */
  const upToBarrier = (from: number): Uses => {
    const end = stmts.findIndex((s, i) => i >= from && s.k === 'barrier')
    const rest = usesOf(stmts.slice(from, end < 0 ? undefined : end), arrays)
    return end < 0 ? both(rest, after) : rest
  }
  const out: S[] = []
  let since = before
  stmts.forEach((s, i) => {
    if (s.k === 'barrier') {
      if (s.reuse === true && !conflict(since, upToBarrier(i + 1))) return
      since = none
      out.push(s)
      return
    }
    if (s.k === 'if' && hasBarrier(s)) {
      const next = upToBarrier(i + 1)
      const search = (b: readonly S[]): readonly S[] => withoutIdleBarriers(b, arrays, since, next)
      out.push({ ...s, body: search(s.body), otherwise: search(s.otherwise) })
    } else if (s.k === 'for' && hasBarrier(s)) {
      const first = both(since, usesOf(lastPhase(s.body), arrays))
      const last = both(usesOf(firstPhase(s.body), arrays), upToBarrier(i + 1))
      out.push({ ...s, body: withoutIdleBarriers(s.body, arrays, first, last) })
    } else out.push(s)
    since = both(since, usesOf([s], arrays))
  })
  return out
}
