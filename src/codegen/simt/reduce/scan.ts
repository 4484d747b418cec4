/**
 * Scans: each thread folds its vector, the block scans the threads' totals in shared memory (W. D. Hillis, G. L. Steele: Data
 * Parallel Algorithms, 1986), and what went before is added, one register repeat after another. In strict mode one thread walks
 * the line in order.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import { combinerIdentity } from '../../../scalar/ops.ts'
import { strictChunk } from '../../../scalar/summation.ts'
import { otherBits, type ScanPlan } from '../../../schedule/simt/fold/scans.ts'
import { type AxisLayout, spanOf, threadsOf } from '../../../schedule/simt/layout/layout.ts'
import { computeDType, isFloat } from '../../../types/dtype.ts'
import {
  add,
  and,
  type Block,
  bin,
  cast,
  type Ex,
  eq,
  int,
  mul,
  regType,
  select,
  shared,
  sub,
  type Type,
  uint,
  v,
} from '../ir/ir.ts'
import { declare, forRegisters, type Lanes, type Registers, registerAt, registerIndex } from '../ir/registers.ts'
import { Point } from '../nest/point.ts'
import { digitOf, insideAlong, placeIn, type Scope } from '../nest/scope.ts'
import { constant, mergeEx, roundTo } from '../scalar/arith.ts'
import { declareTotals, foldTotals, makeTotals, pushTotals } from './totals.ts'
import { type Merging, precedingOf, type WarpScan } from './warpScan.ts'

export function lowerScan(scope: Scope, l: LetStmt, plan: ScanPlan, out: Block): void {
  const { part, unit } = scope
  invariant(l.op.kind === 'scan', 'not a scan')
  const axes = part.axesOf(l.id)
  const result: Registers = {
    name: unit.name(`scan_${l.id}`),
    type: regType(l.dtype),
    length: scope.registers(axes),
  }
  declare(result, out)
  scope.held.set(l.id, { kind: 'registers', registers: result, layout: scope.layout, axes })
  const a = plan.kind === 'single' ? undefined : plan.axis
  if (l.op.tree === true) foldBlocks(scope, l, result, a, out)
  else if (plan.kind === 'byThreads') scanByThreads(scope, l, result, plan, out)
  else if (plan.kind === 'byWarps') scanByWarps(scope, l, result, plan, out)
  else scanInOrder(scope, l, result, a, out)
}

const at = (lanes: Lanes, a: AxisLayout, rep: number, lane: number): Lanes =>
  new Map([...lanes, [a.name, { rep: int(rep), lane: int(lane) }]])

/** What a scan merges. */
function mergingOf(l: LetStmt): Merging {
  invariant(l.op.kind === 'scan', 'not a scan')
  const { combiner } = l.op
  const dtype = computeDType(l.dtype)
  const identity = constant(dtype, combinerIdentity(combiner, dtype))
  return { type: regType(l.dtype), identity, merge: (x, y) => mergeEx(combiner, dtype, x, y) }
}

const inOrder = (n: number, reverse: boolean): number[] =>
  Array.from({ length: n }, (_, i) => (reverse ? n - 1 - i : i))

/** Scans a thread's neighbours at a repeat; the name of what they hold in all. */
function scanVector(
  scope: Scope,
  l: LetStmt,
  result: Registers,
  lanes: Lanes,
  a: AxisLayout,
  rep: number,
  out: Block,
): string {
  const { part, unit, layout } = scope
  invariant(l.op.kind === 'scan', 'not a scan')
  const { reverse, exclusive, arg } = l.op
  const { type: t, identity, merge } = mergingOf(l)
  const total = unit.name('total')
  out.push({ k: 'var', name: total, type: t, value: identity })
  for (const lane of inOrder(a.vec, reverse)) {
    const here = at(lanes, a, rep, lane)
    const x = new Point(scope, here).read(arg)
    const valid = insideAlong(scope, a.name, here)
    const to = registerAt(result, registerIndex(layout, part.axesOf(l.id), here))
    if (exclusive) out.push({ k: 'assign', to, value: v(t, total) })
    const term = valid === undefined ? x : select(valid, x, identity)
    out.push({ k: 'assign', to: v(t, total), value: merge(v(t, total), term) })
    if (!exclusive) out.push({ k: 'assign', to, value: v(t, total) })
  }
  return total
}

/** A line by the lanes of warps, all of its repeats at once. */
function scanByWarps(scope: Scope, l: LetStmt, result: Registers, plan: WarpScan, out: Block): void {
  const { part, layout } = scope
  invariant(l.op.kind === 'scan', 'not a scan')
  const { reverse } = l.op
  const { axis: a } = plan
  const merging = mergingOf(l)
  const axes = part.axesOf(l.id)
  const rest = otherBits(layout, a)
  const others = axes.filter((x) => x !== a.name)
  forRegisters(
    scope,
    layout.spread(others).map((x) => x.name),
    out,
    (lanes, body) => {
      const repeats = inOrder(a.reps, reverse)
      const totals = repeats.map((rep) => scanVector(scope, l, result, lanes, a, rep, body))
      const before = precedingOf(scope, plan, totals, rest, reverse, merging, body)
      repeats.forEach((rep, i) => {
        for (let lane = 0; lane < a.vec; lane++) {
          const to = registerAt(result, registerIndex(layout, axes, at(lanes, a, rep, lane)))
          body.push({ k: 'assign', to, value: merging.merge(v(merging.type, before[i] ?? ''), to) })
        }
      })
    },
  )
}

function scanByThreads(
  scope: Scope,
  l: LetStmt,
  result: Registers,
  { axis: a, grouped, batch }: Extract<ScanPlan, { kind: 'byThreads' }>,
  out: Block,
): void {
  const { part, unit, layout } = scope
  invariant(l.op.kind === 'scan', 'not a scan')
  const { reverse } = l.op
  const { type: t, identity, merge } = mergingOf(l)
  const others = part.axesOf(l.id).filter((x) => x !== a.name)
  const axes = part.axesOf(l.id)
  const threads = threadsOf(a)
  const line = unit.scratch(t, layout.threads * batch, '_scan')
  const own = digitOf(a.bits)
  const digit = reverse ? sub(int(threads - 1), own) : own
  const place = (d: Ex, i: number): Ex => shared(line, add(cellOf(scope, a, threads, d), int(i * layout.threads)))
  forRegisters(
    scope,
    layout.spread(others).map((x) => x.name),
    out,
    (lanes, body) => {
      const carry = unit.name('before')
      body.push({ k: 'var', name: carry, type: t, value: identity })
      // Of repeats that are too many to fold in order, what the groups before give.
      const earlier = grouped < a.reps ? unit.name('earlier') : undefined
      if (earlier !== undefined) body.push({ k: 'var', name: earlier, type: t, value: identity })
      const repeats = inOrder(a.reps, reverse)
      for (let turn = 0; turn < a.reps; turn += batch) {
        if (earlier !== undefined && turn > 0 && turn % grouped === 0) {
          body.push({ k: 'assign', to: v(t, earlier), value: merge(v(t, earlier), v(t, carry)) })
          body.push({ k: 'assign', to: v(t, carry), value: identity })
        }
        const now = repeats.slice(turn, turn + batch)
        const totals = now.map((rep) => scanVector(scope, l, result, lanes, a, rep, body))
        const befores = now.map(() => unit.name('lower'))
        const before = (i: number): string => befores[i] ?? ''
        if (threads === 1) body.push({ k: 'let', name: before(0), value: v(t, carry) })
        else {
          totals.forEach((total, i) => {
            body.push({ k: 'assign', to: place(digit, i), value: v(t, total) })
          })
          body.push({ k: 'barrier' })
          for (let step = 1; step < threads; step *= 2) {
            const sums = now.map(() => unit.name('sum'))
            sums.forEach((sum, i) => {
              body.push({ k: 'var', name: sum, type: t, value: place(digit, i) })
            })
            body.push({
              k: 'if',
              cond: bin('>=', digit, int(step)),
              body: sums.map((sum, i) => {
                const theirs = place(sub(digit, int(step)), i)
                return { k: 'assign', to: v(t, sum), value: merge(theirs, v(t, sum)) }
              }),
              otherwise: [],
            })
            body.push({ k: 'barrier' })
            sums.forEach((sum, i) => {
              body.push({ k: 'assign', to: place(digit, i), value: v(t, sum) })
            })
            body.push({ k: 'barrier' })
          }
          now.forEach((_, i) => {
            const preceding = unit.name('preceding')
            body.push({ k: 'var', name: preceding, type: t, value: identity })
            body.push({
              k: 'if',
              cond: bin('>', digit, int(0)),
              body: [{ k: 'assign', to: v(t, preceding), value: place(sub(digit, int(1)), i) }],
              otherwise: [],
            })
            body.push({ k: 'let', name: before(i), value: merge(v(t, carry), v(t, preceding)) })
            body.push({ k: 'assign', to: v(t, carry), value: merge(v(t, carry), place(int(threads - 1), i)) })
          })
          body.push({ k: 'barrier' })
        }
        now.forEach((rep, i) => {
          for (let lane = 0; lane < a.vec; lane++) {
            const to = registerAt(result, registerIndex(layout, axes, at(lanes, a, rep, lane)))
            const whole = merge(v(t, before(i)), to)
            body.push({ k: 'assign', to, value: earlier === undefined ? whole : merge(v(t, earlier), whole) })
          }
        })
        const [total = ''] = totals
        if (threads === 1) body.push({ k: 'assign', to: v(t, carry), value: merge(v(t, carry), v(t, total)) })
      }
    },
  )
}

/**
 * The folds of blocks (`tree`), in shared memory: after the step of 2^k every block of 2^(k + 1) whose last index is inside is folded, and
 * stands where its last index does.
 */
function foldBlocks(scope: Scope, l: LetStmt, result: Registers, a: AxisLayout | undefined, out: Block): void {
  const { part, unit, layout } = scope
  invariant(l.op.kind === 'scan', 'not a scan')
  const { combiner, arg, axis } = l.op
  const t = regType(l.dtype)
  const dtype = computeDType(l.dtype)
  const axes = part.axesOf(l.id)
  const others = axes.filter((x) => x !== axis)
  if (a === undefined) {
    forRegisters(scope, others, out, (lanes, body) => {
      const to = registerAt(result, registerIndex(layout, axes, lanes))
      body.push({ k: 'assign', to, value: new Point(scope, lanes).read(arg) })
    })
    return
  }
  const length = spanOf(a)
  const line = lineOf(scope, t, a)
  const { start, end } = scope.range(axis)
  const size = cast('i32', sub(end, start))
  forRegisters(scope, others, out, (lanes, body) => {
    forRegisters(scope, [axis], body, (mine, fill) => {
      const here: Lanes = new Map([...lanes, ...mine])
      const value = new Point(scope, here).read(arg)
      fill.push({ k: 'assign', to: line(placeIn(scope, axis, here)), value })
    })
    body.push({ k: 'barrier' })
    for (let half = 1; half < length; half *= 2) {
      const block = unit.name('block')
      const last = add(mul(v('i32', block), int(2 * half)), int(2 * half - 1))
      const merged = mergeEx(combiner, dtype, line(sub(last, int(half))), line(last))
      body.push({
        k: 'for',
        name: block,
        from: digitOf(a.bits),
        to: bin('>>', size, uint(Math.log2(2 * half))),
        step: threadsOf(a),
        unroll: false,
        body: [{ k: 'assign', to: line(last), value: merged }],
      })
      body.push({ k: 'barrier' })
    }
    forRegisters(scope, [axis], body, (mine, take) => {
      const here: Lanes = new Map([...lanes, ...mine])
      const to = registerAt(result, registerIndex(layout, axes, here))
      take.push({ k: 'assign', to, value: line(placeIn(scope, axis, here)) })
    })
    body.push({ k: 'barrier' })
  })
}

/** Where the thread's line of so many cells has one: neighbouring threads, of one line or of several, have neighbouring cells, which lie in banks of their own. */
function cellOf(scope: Scope, a: AxisLayout, cells: number, index: Ex): Ex {
  const rest = otherBits(scope.layout, a)
  const [lines, own] = [2 ** rest.length, digitOf(rest)]
  return rest[0] === 0 ? add(mul(index, int(lines)), own) : add(mul(own, int(cells)), index)
}

/** Cells of shared memory for the lines of a layout: that of the thread's line at an index. */
function lineOf(scope: Scope, t: Type, a: AxisLayout): (index: Ex) => Ex {
  const array = scope.unit.scratch(t, spanOf(a) * 2 ** otherBits(scope.layout, a).length, '_scan')
  return (index) => shared(array, cellOf(scope, a, spanOf(a), index))
}

/** One thread a line: through shared memory where the line is spread over threads. */
function scanInOrder(scope: Scope, l: LetStmt, result: Registers, a: AxisLayout | undefined, out: Block): void {
  const { part, unit, layout } = scope
  invariant(l.op.kind === 'scan', 'not a scan')
  const { combiner, reverse, exclusive, arg, axis } = l.op
  const t = regType(l.dtype)
  const dtype = computeDType(l.dtype)
  const identity = constant(dtype, combinerIdentity(combiner, dtype))
  const rounded = (x: Ex): Ex => (isFloat(l.dtype) ? roundTo(l.dtype, x) : x)
  const axes = part.axesOf(l.id)
  const others = axes.filter((x) => x !== axis)
  if (a === undefined) {
    // A single index: the identity before it, itself after it.
    forRegisters(scope, others, out, (lanes, body) => {
      const x = new Point(scope, lanes).read(arg)
      body.push({
        k: 'assign',
        to: registerAt(result, registerIndex(layout, axes, lanes)),
        value: exclusive ? identity : mergeEx(combiner, dtype, identity, x),
      })
    })
    return
  }
  const length = spanOf(a)
  const line = unit.scratch(t, length * 2 ** otherBits(layout, a).length, '_scan')
  const { start, end } = scope.range(axis)
  const place = (i: Ex): Ex => cellOf(scope, a, length, i)
  forRegisters(scope, others, out, (lanes, body) => {
    forRegisters(scope, [axis], body, (mine, fill) => {
      const here: Lanes = new Map([...lanes, ...mine])
      const index = placeIn(scope, axis, here)
      fill.push({ k: 'assign', to: shared(line, place(index)), value: new Point(scope, here).read(arg) })
    })
    body.push({ k: 'barrier' })
    const [acc, step, i] = [unit.name('running'), unit.name('x'), unit.name('i')]
    const size = cast('i32', sub(end, start))
    const cell = shared(line, place(reverse ? sub(sub(size, int(1)), v('i32', i)) : v('i32', i)))
    const chunks = isFloat(dtype) && (combiner === 'sum' || combiner === 'prod') ? Math.ceil(length / strictChunk) : 1
    const before = chunks > 1 ? unit.name('before') : undefined
    const local = exclusive ? v(t, acc) : v(t, step)
    const whole = before === undefined ? local : mergeEx(combiner, dtype, v(t, before), local)
    const opening: Block = []
    const walk: Block = []
    if (before !== undefined && (combiner === 'sum' || combiner === 'prod')) {
      const totals = makeTotals((wish) => unit.name(wish), 'chunk', t, 1, chunks)
      const count = registerAt(totals.counts, int(0))
      declareTotals(totals, opening)
      opening.push({ k: 'assign', to: count, value: int(0) }, { k: 'var', name: before, type: t, value: identity })
      const close: Block = []
      pushTotals(totals, combiner, dtype, count, (to, emit) => emit(int(0), v(t, acc), to), close)
      close.push(
        { k: 'assign', to: count, value: add(count, int(1)) },
        { k: 'assign', to: v(t, acc), value: identity },
        { k: 'assign', to: v(t, before), value: identity },
      )
      foldTotals(totals, combiner, dtype, count, (to, emit) => emit(int(0), v(t, before), to), close)
      const isFirst = eq(bin('&', v('i32', i), int(strictChunk - 1)), int(0))
      walk.push({ k: 'if', cond: and(bin('>', v('i32', i), int(0)), isFirst), body: close, otherwise: [] })
    }
    walk.push(
      { k: 'let', name: step, value: mergeEx(combiner, dtype, v(t, acc), cell) },
      { k: 'assign', to: cell, value: rounded(whole) },
      { k: 'assign', to: v(t, acc), value: v(t, step) },
    )
    body.push({
      k: 'if',
      cond: and(eq(digitOf(a.bits), int(0))),
      body: [
        { k: 'var', name: acc, type: t, value: identity },
        ...opening,
        { k: 'for', name: i, from: int(0), to: size, step: 1, unroll: false, body: walk },
      ],
      otherwise: [],
    })
    body.push({ k: 'barrier' })
    forRegisters(scope, [axis], body, (mine, take) => {
      const here: Lanes = new Map([...lanes, ...mine])
      const index = placeIn(scope, axis, here)
      take.push({
        k: 'assign',
        to: registerAt(result, registerIndex(layout, axes, here)),
        value: shared(line, place(index)),
      })
    })
    body.push({ k: 'barrier' })
  })
}
