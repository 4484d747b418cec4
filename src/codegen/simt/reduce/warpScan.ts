/**
 * Scans of lines that lie along the lanes of warps: the lanes of a warp exchange totals of growing groups, one warp of a line scans the totals of
 * all (G. E. Blelloch: Prefix Sums and Their Applications, 1990), and each thread adds what lies before its own to every repeat. Threads meet
 * twice, however many repeats there are.
 */
import type { ScanPlan } from '../../../schedule/simt/fold/scans.ts'
import { add, type Block, bin, type Ex, eq, int, lt, mul, select, shared, sub, type Type, v } from '../ir/ir.ts'
import { digitOf, type Scope, tid } from '../nest/scope.ts'

export type WarpScan = Extract<ScanPlan, { kind: 'byWarps' }>

/** What is merged: values of a register type, from its identity. */
export interface Merging {
  readonly type: Type
  readonly identity: Ex
  readonly merge: (x: Ex, y: Ex) => Ex
}

/**
 * What lies before each repeat of a thread, given what each of them holds in all, in the order of the scan. `rest`: bits of the thread's number that tell
 * its line.
 */
export function precedingOf(
  scope: Scope,
  { lanes, warps }: WarpScan,
  totals: readonly string[],
  rest: readonly number[],
  reverse: boolean,
  merging: Merging,
  out: Block,
): string[] {
  const { unit } = scope
  const { type, merge } = merging
  const groups = totals.map((total) => scanLanes(scope, v(type, total), lanes, reverse, merging, out))
  const count = 2 ** warps.length
  if (count === 1) return afterEach(scope, groups, merging, out)
  const own = digitOf(warps)
  const warp = reverse ? sub(int(count - 1), own) : own
  const all = groups.length * count
  const line = unit.scratch(type, all * 2 ** rest.length, '_scan')
  const cell = (i: Ex): Ex => shared(line, add(mul(digitOf(rest), int(all)), i))
  const ofRepeat = (i: number): Ex => cell(add(int(i * count), warp))
  const lane = bin('&', tid, int(2 ** lanes.length - 1))
  out.push({
    k: 'if',
    cond: eq(lane, int(0)),
    body: groups.map((g, i) => ({ k: 'assign', to: ofRepeat(i), value: v(type, g.total) })),
    otherwise: [],
  })
  out.push({ k: 'barrier' })
  const scanned: Block = []
  scanCells(scope, cell, all, lanes, merging, scanned)
  out.push({ k: 'if', cond: eq(own, int(0)), body: scanned, otherwise: [] })
  out.push({ k: 'barrier' })
  const before = groups.map((g, i) => {
    const name = unit.name('lower')
    out.push({ k: 'let', name, value: merge(ofRepeat(i), v(type, g.before)) })
    return name
  })
  out.push({ k: 'barrier' })
  return before
}

/** What lanes before a thread's hold of a value, and what all of its lanes do. */
interface Group {
  readonly before: string
  readonly total: string
}

function scanLanes(
  scope: Scope,
  value: Ex,
  lanes: readonly number[],
  reverse: boolean,
  { type, identity, merge }: Merging,
  out: Block,
): Group {
  const [before, total] = [scope.unit.name('before'), scope.unit.name('total')]
  out.push({ k: 'var', name: before, type, value: identity }, { k: 'var', name: total, type, value })
  for (const b of lanes) {
    const other = scope.unit.name('other')
    out.push({ k: 'let', name: other, value: { k: 'shuffle', type, a: v(type, total), mask: 2 ** b } })
    const isUpper = eq(bin('&', tid, int(2 ** b)), int(reverse ? 0 : 2 ** b))
    const [mine, theirs] = [v(type, before), v(type, other)]
    out.push({ k: 'assign', to: mine, value: select(isUpper, merge(theirs, mine), mine) })
    out.push({ k: 'assign', to: v(type, total), value: merge(v(type, total), theirs) })
  }
  return { before, total }
}

/** Of lines within a warp what lies before each repeat: what lanes hold of those before it, and lanes before the thread's of itself. */
function afterEach(scope: Scope, groups: readonly Group[], { type, identity, merge }: Merging, out: Block): string[] {
  const carry = scope.unit.name('carry')
  out.push({ k: 'var', name: carry, type, value: identity })
  return groups.map((g) => {
    const name = scope.unit.name('lower')
    out.push({ k: 'let', name, value: merge(v(type, carry), v(type, g.before)) })
    out.push({ k: 'assign', to: v(type, carry), value: merge(v(type, carry), v(type, g.total)) })
    return name
  })
}

/** Puts in the place of each of a line's totals what lies before it: each lane of a warp goes through some in a row. */
function scanCells(
  scope: Scope,
  cell: (i: Ex) => Ex,
  count: number,
  lanes: readonly number[],
  merging: Merging,
  out: Block,
): void {
  const { type, identity, merge } = merging
  const each = Math.ceil(count / 2 ** lanes.length)
  const first = mul(bin('&', tid, int(2 ** lanes.length - 1)), int(each))
  const within = (i: number, body: Block): Block => [
    { k: 'if', cond: lt(add(first, int(i)), int(count)), body, otherwise: [] },
  ]
  const sum = scope.unit.name('sum')
  out.push({ k: 'var', name: sum, type, value: identity })
  const values = Array.from({ length: each }, (_, i) => {
    const name = scope.unit.name('part')
    out.push({ k: 'var', name, type, value: identity })
    out.push(...within(i, [{ k: 'assign', to: v(type, name), value: cell(add(first, int(i))) }]))
    out.push({ k: 'assign', to: v(type, sum), value: merge(v(type, sum), v(type, name)) })
    return name
  })
  const { before } = scanLanes(scope, v(type, sum), lanes, false, merging, out)
  values.forEach((name, i) => {
    out.push(...within(i, [{ k: 'assign', to: cell(add(first, int(i))), value: v(type, before) }]))
    out.push({ k: 'assign', to: v(type, before), value: merge(v(type, before), v(type, name)) })
  })
}
