/**
 * Streaming sums in a loop over chunks (src/kernel/streams.ts says which sums stream): the loop that finds an anchor also sums against
 * it. Every thread has an anchor of its own, the greatest value that it met, and partial sums against that; a chunk moves the
 * anchor once at most, before its terms are summed, and threads exchange nothing inside the loop. After it the sums are rescaled to what the
 * terms are taken against, and exchanged. Beside a sum the anchor is a mean of what the thread met, and sums move with their
 * moments (moments.ts). Sums under way may stand in several accumulators (running.ts), which are rescaled alike; one of them moves for all.
 */

import { invariant } from '../../../diagnostics/errors.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import { combinerOf } from '../../../schedule/simt/fold/folds.ts'
import { againstOf, type StreamPlan } from '../../../schedule/simt/fold/onlineSums.ts'
import { add, type Block, bin, bitcast, type Ex, eq, int, lit, sub, v, when, yes } from '../ir/ir.ts'
import { declare, forRegisters, type Registers, registerAt, registerIndex } from '../ir/registers.ts'
import { Point } from '../nest/point.ts'
import type { Scope } from '../nest/scope.ts'
import { scalarEx } from '../scalar/arith.ts'
import { meanOf, moveMoments, openCounts, openMoments } from './moments.ts'
import type { Accumulator, Mean, OpenFollower, Stream } from './open.ts'
import { allOf, wholeOf } from './running.ts'

/** A sum that is rescaled by exp(rate (a - b)). */
interface Rescaled extends OpenFollower {
  readonly rate: number
}

const eachKept = (scope: Scope, acc: Accumulator, out: Block, emit: (p: Point, body: Block) => void): void =>
  forRegisters(scope, acc.kept, out, (lanes, body) => emit(new Point(scope, lanes), body))

/** The register of a point in a tile over what a fold keeps. */
const at = (p: Point, to: Registers, acc: Accumulator): Ex =>
  registerAt(to, registerIndex(p.scope.layout, acc.kept, p.lanes))

/** The greatest and the least finite number of a fold's registers. */
function boundsOf({ values: { type } }: Accumulator): { readonly most: Ex; readonly least: Ex } {
  const most = type === 'f64' ? Number.MAX_VALUE : 2 ** 128 - 2 ** 104
  return { most: lit(type, most), least: lit(type, -most) }
}

/** The threads' anchors, at the identity of the anchor's fold but finite: what is far from every number rescales sums of nothing. */
export function openStream(scope: Scope, plan: StreamPlan, out: Block): Stream {
  const open = (l: LetStmt): Accumulator => {
    return scope.accumulator(l)
  }
  const anchor = open(plan.anchor)
  const followers = plan.followers.map((f): OpenFollower => ({ acc: open(f.let), streamed: f.streamed }))
  const running: Registers = { ...anchor.values, name: scope.unit.name(`anchor_${anchor.let.id}`) }
  declare(running, out)
  const { most, least } = boundsOf(anchor)
  const combiner = combinerOf(anchor.let)
  const first = combiner === 'sum' ? lit(running.type, 0) : combiner === 'max' ? least : most
  eachKept(scope, anchor, out, (p, body) => body.push({ k: 'assign', to: at(p, running, anchor), value: first }))
  const carried = followers.flatMap(({ acc, streamed: { law } }) =>
    law.kind === 'polynomial' ? openMoments(scope, acc, law.moments, out) : [],
  )
  if (combiner !== 'sum') return { plan, anchor, running, followers, mean: undefined }
  const counts = openCounts(scope, anchor, out)
  const chunks = scope.unit.name('chunks')
  out.push({ k: 'var', name: chunks, type: 'i32', value: int(0) })
  return { plan, anchor, running, followers, mean: { counts, chunks: v('i32', chunks), carried } }
}

/** What a sum against `from` is multiplied by to be one against `to`. */
function rescaling({ acc, rate }: Rescaled, from: Ex, to: Ex): Ex {
  const { dtype } = acc
  const apart = bin('-', from, to)
  const exponent = rate === 1 ? apart : bin('*', apart, lit(apart.type, rate))
  return scalarEx('exp', dtype, dtype, [exponent], 'fast')
}

/** Multiplies some accumulators of a sum. */
function rescale(which: readonly Ex[], factor: Ex, out: Block): void {
  for (const to of which) out.push({ k: 'assign', to, value: bin('*', to, factor) })
}

/** All accumulators of a sum under way, at a point of what it keeps. */
function underWay(p: Point, { acc }: OpenFollower): Ex[] {
  const i = registerIndex(p.scope.layout, acc.kept, p.lanes)
  return acc.running === undefined ? [registerAt(acc.values, i)] : allOf(acc.running, i)
}

const rescaledOf = ({ followers }: Stream): Rescaled[] =>
  followers.flatMap((f) => (f.streamed.law.kind === 'exponential' ? { ...f, rate: f.streamed.law.rate } : []))

/** Moves the anchors to what their fold has found, and the sums with them; from here on the terms read them. */
export function moveAnchor(scope: Scope, stream: Stream, out: Block): void {
  const { anchor, running, mean } = stream
  const { most, least } = boundsOf(anchor)
  const next: Registers = { ...running, name: scope.unit.name(`${running.name}_next`) }
  const moves: Block = []
  declare(next, moves)
  eachKept(scope, anchor, moves, (p, body) => {
    const bounded = (op: 'max' | 'min', x: Ex, by: Ex): Ex => scalarEx(op, anchor.dtype, anchor.dtype, [x, by], 'fast')
    const i = registerIndex(scope.layout, anchor.kept, p.lanes)
    const found = anchor.running === undefined ? registerAt(anchor.values, i) : wholeOf(anchor.running, i)
    const now = mean === undefined ? found : meanOf(anchor, found, mean.counts)
    body.push({ k: 'assign', to: at(p, next, anchor), value: bounded('min', bounded('max', now, least), most) })
  })
  rescaleAll(scope, stream, next, moves)
  if (mean !== undefined) {
    const { summed } = mean.counts
    for (const c of mean.carried)
      eachKept(scope, c.acc, moves, (p, body) =>
        moveMoments(p, c, summed, bin('-', at(p, next, anchor), at(p, running, anchor)), true, body),
      )
  }
  eachKept(scope, anchor, moves, (p, body) =>
    body.push({ k: 'assign', to: at(p, running, anchor), value: at(p, next, anchor) }),
  )
  // Seldom: what is greatest in a row was soon met (where it is not finite, every time), and a mean moves when twice as much was met.
  out.push(...when(mean === undefined ? differ(running, anchor.values) : isDoubled(mean), moves))
  if (mean !== undefined) {
    const { counts, chunks } = mean
    out.push({ k: 'assign', to: counts.summed, value: counts.met })
    out.push({ k: 'assign', to: chunks, value: add(chunks, int(1)) })
  }
  const { layout } = scope
  for (const id of againstOf(stream.plan))
    scope.held.set(id, { kind: 'registers', registers: running, layout, axes: anchor.kept })
}

function rescaleAll(scope: Scope, stream: Stream, next: Registers, out: Block): void {
  const { anchor, running } = stream
  const factors = new Map<number, Registers>()
  for (const f of rescaledOf(stream)) {
    const known = factors.get(f.rate)
    const factor = known ?? { ...running, name: scope.unit.name(`rescale_${anchor.let.id}`) }
    if (known === undefined) {
      factors.set(f.rate, factor)
      declare(factor, out)
      eachKept(scope, anchor, out, (p, body) => {
        const value = rescaling(f, at(p, running, anchor), at(p, next, anchor))
        body.push({ k: 'assign', to: at(p, factor, anchor), value })
      })
    }
    eachKept(scope, f.acc, out, (p, body) => rescale(underWay(p, f), at(p, factor, anchor), body))
  }
}

/** Of more registers it is not asked whether they differ. */
const mostCompared = 4

/** Whether two arrays hold different bits: NaN is itself. */
function differ(a: Registers, b: Registers): Ex {
  if (a.length > mostCompared) return yes
  const bits = (r: Registers, i: number): Ex => bitcast(r.type === 'f64' ? 'u64' : 'u32', registerAt(r, int(i)))
  const all = Array.from({ length: a.length }, (_, i) => bin('!=', bits(a, i), bits(b, i)))
  return all.reduce((x, y) => bin('||', x, y))
}

/**
 * Whether the chunks met are none, or a power of two. So an anchor is the mean of half of what was met at least, and no further from
 * the mean of all than the deviation: squares against it sum to twice those against the mean at most.
 */
const isDoubled = ({ chunks }: Mean): Ex => eq(bin('&', chunks, sub(chunks, int(1))), int(0))

/** Ends a sum's part in its stream: against the value that its terms name. */
export function closeStream(scope: Scope, stream: Stream, acc: Accumulator, out: Block): void {
  const follower = stream.followers.find((f) => f.acc === acc)
  invariant(follower !== undefined, `%${acc.let.id} follows no anchor`)
  const { against } = follower.streamed
  const carried = stream.mean?.carried.find((c) => c.acc === follower.acc)
  const rescaled = rescaledOf(stream).find((f) => f.acc === follower.acc)
  eachKept(scope, follower.acc, out, (p, body) => {
    const from = at(p, stream.running, stream.anchor)
    if (rescaled !== undefined)
      rescale([at(p, follower.acc.values, follower.acc)], rescaling(rescaled, from, p.read(against)), body)
    else if (carried !== undefined && stream.mean !== undefined)
      moveMoments(p, carried, stream.mean.counts.summed, bin('-', p.read(against), from), false, body)
  })
}
