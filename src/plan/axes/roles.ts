/**
 * The roles of a body's axes, and with them what kind of kernel it can be. Row axes are reduced and then needed again, so a
 * program must hold them whole; reduced axes end in a reduction; the rest are parallel. Below planner and lowering alike.
 */
import * as ix from '../../affine/expr.ts'
import { foldOrScanAxes, isFoldOrScan } from '../../kernel/folds.ts'
import type { NumericsMode } from '../../kernel/ir.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { streamedSum } from '../../kernel/streams.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { type Body, type BodyStore, heldPoints, pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import { buffersOf, mostBuffers } from './bindings.ts'
import { fusedReductionsOf, type MatrixRole } from './fusedReductions.ts'
import { tooMuchHeld } from './heldTiles.ts'
import { type SplitBy, splitReductions } from './split.ts'
import { depthParts } from './splitK.ts'
import { oneStage, type Stages, stagesOf } from './stages.ts'

export interface Roles {
  readonly kind: 'elementwise' | 'reduction' | 'matrix'
  readonly extents: ReadonlyMap<string, number>
  readonly row: ReadonlySet<string>
  readonly reduced: ReadonlySet<string>
  readonly parallel: ReadonlySet<string>
  readonly matrix?: MatrixRole
  /** Its kernels: one, or where reductions are cut two. */
  readonly stages: Stages
  /** How the reductions that the stages split are cut: blocks of an axis, or every index of the reduced axes (`rows` below them). */
  readonly splitBy: SplitBy | undefined
  /** Axes of scans that begin anew at every chunk, by what a chunk holds: a program holds one. */
  readonly chunks?: ReadonlyMap<string, number>
  /** Times a program goes through rows that do not stay resident. */
  readonly passes?: number
}

/** The roles of a dot's axes when a register-blocked matrix product serves it. */
export function matrixRole(
  l: LetStmt,
  lets: ReadonlyMap<ValueId, LetStmt>,
  extents: ReadonlyMap<string, number>,
  unit: string | undefined,
): MatrixRole | undefined {
  if (l.op.kind !== 'dot') return undefined
  const k = l.op.axes
  const free = (id: ValueId): string[] => (lets.get(id)?.axes ?? []).filter((a) => !k.includes(a))
  const fa = free(l.op.a)
  const fb = free(l.op.b)
  const batch = fa.filter((a) => fb.includes(a))
  const onlyA = fa.filter((a) => !fb.includes(a))
  const onlyB = fb.filter((a) => !fa.includes(a))
  const size = (axes: readonly string[]): number => pointsOf(extents, axes)
  if (l.dtype !== 'f32' || size(k) < 2) return undefined
  const swap = unit !== undefined && onlyA.includes(unit)
  const m = swap ? onlyB : onlyA
  const n = swap ? onlyA : onlyB
  if (size(m) < 2 || size(n) < 4) {
    if (size(n) < 2 || size(m) < 4) return undefined
    return { id: l.id, batch, m: n, n: m, k, swap: !swap, riding: new Set() }
  }
  return { id: l.id, batch, m, n, k, swap, riding: new Set() }
}

/** The axis along which most bytes are contiguous. */
export function unitAxis(body: Body, among?: (axis: string) => boolean): string | undefined {
  const votes = new Map<string, number>()
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const vote = (index: readonly ix.Expr[], shape: readonly number[], weight: number): void => {
    const flat = ix.flatten(index, shape)
    for (const a of ix.axesOf(flat))
      if (ix.strideOf(flat, a) === 1 && (among === undefined || among(a))) votes.set(a, (votes.get(a) ?? 0) + weight)
  }
  const points = (axes: Iterable<string>): number => pointsOf(extents, axes)
  for (const l of body.lets)
    if (l.op.kind === 'load')
      vote(l.op.index, body.loads.get(l.op.param)?.shape ?? [], dtypeBytes(l.dtype) * points(l.axes))
  for (const s of body.stores)
    vote(s.index, s.shape, 1.5 * dtypeBytes(s.node.dtype) * points(s.index.flatMap((e) => [...ix.axesOf(e)])))
  let best: string | undefined
  for (const [a, v] of votes) if (best === undefined || v > (votes.get(best) ?? 0)) best = a
  return best
}

/** The axes of the largest store that are contiguous in it: the columns of a matrix product. */
function storeUnit(body: Body): string | undefined {
  const [s] = [...body.stores].sort((p, q) => sizeOf(q.shape) - sizeOf(p.shape))
  if (s === undefined) return undefined
  const flat = ix.flatten(s.index, s.shape)
  return [...ix.axesOf(flat)].find((a) => ix.strideOf(flat, a) === 1)
}

function unionOf(a: ReadonlySet<string> | undefined, b: ReadonlySet<string> | undefined): typeof a {
  if (a === undefined || a === b) return b
  if (b === undefined) return a
  for (const x of b) if (!a.has(x)) return new Set([...a, ...b])
  return a
}

/** Roles of a body on a target, or why no kernel of it can compute the body. */
export function analyse(
  body: Body,
  target: Machine,
  mode: NumericsMode,
): { readonly ok: true; readonly roles: Roles } | Refused {
  const buffers = buffersOf(body)
  if (buffers > target.maxBuffers)
    return refuse('too-many-buffers', `${buffers} buffers, the target binds ${target.maxBuffers}`)
  if (body.lets.length > target.maxStatements)
    return refuse('too-many-live-values', `${body.lets.length} statements, the target takes ${target.maxStatements}`)
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const lets = new Map(body.lets.map((l) => [l.id, l]))

  const chunked = chunksOf(body)
  if (chunked !== undefined) return chunked.ok ? inChunks(body, chunked.chunks, extents) : chunked

  // What lies below each value: axes folded away, and whether any fold is there.
  const below = new Map<ValueId, ReadonlySet<string>>()
  const folds = new Set<ValueId>()
  const row = new Set<string>()
  const reduced = new Set<string>()
  for (const l of body.lets) {
    let mine: ReadonlySet<string> | undefined
    let has = isFoldOrScan(l)
    if (folds.size > 0)
      for (const o of operandsOf(l.op)) {
        has ||= folds.has(o)
        mine = unionOf(mine, below.get(o))
      }
    if (!has) continue
    folds.add(l.id)
    const own = foldOrScanAxes(l)
    if (mine !== undefined) {
      for (const a of l.axes) if (mine.has(a)) row.add(a)
      for (const a of own) if (mine.has(a)) row.add(a)
    }
    for (const a of own) {
      reduced.add(a)
      if (l.op.kind === 'scan') row.add(a)
    }
    mine = unionOf(mine, own.length === 0 ? undefined : new Set(own))
    if (mine !== undefined) below.set(l.id, mine)
  }
  for (const s of body.stores)
    for (const e of s.index) for (const a of ix.axesOf(e)) if (below.get(s.value)?.has(a)) row.add(a)
  for (const a of heldPieces(body, lets, folds, new Set([...row, ...reduced]))) row.add(a)
  const parallel = new Set(body.axes.map((a) => a.name).filter((a) => !reduced.has(a) && !row.has(a)))
  const aligned = (s: Body['stores'][number], axes: Iterable<string>): boolean => {
    const own = new Set(s.index.flatMap((e) => [...ix.axesOf(e)]))
    return [...axes].every((a) => own.has(a) || (extents.get(a) ?? 1) <= 1)
  }
  const none = { stages: oneStage, splitBy: undefined }
  const unit = storeUnit(body)
  const [matrix, second] = folds.size === 0 ? [] : body.lets.flatMap((l) => matrixRole(l, lets, extents, unit) ?? [])
  if (second !== undefined) return refuse('two-contractions', 'a kernel holds one matrix product')
  if (matrix !== undefined && body.axes.every((a) => a.extent > 0)) {
    const analysis = { body, target, mode, extents, row, parallel, lets, folds, byColumns: false, aligned }
    const beside = fusedReductionsOf(analysis, matrix)
    if (!beside.ok) return beside
    const { riding, split } = beside
    const stages = stagesOf(body, split)
    const over = tooManyBound(body, stages, target)
    if (over !== undefined) return over
    const own = new Set(lets.get(matrix.id)?.axes)
    for (const s of body.stores) {
      if (stages.late.has(s.value)) continue
      if (s.index.some((e) => [...ix.axesOf(e)].some((x) => !own.has(x))))
        return refuse('unaligned-output', 'a result beside a matrix product has axes of its own')
    }
    const roles: Roles = {
      kind: 'matrix',
      extents,
      row,
      reduced,
      parallel,
      matrix: { ...matrix, riding, parts: depthParts(analysis, { ...matrix, riding }) },
      stages,
      splitBy: split.size > 0 ? 'result-blocks' : undefined,
    }
    return { ok: true, roles }
  }
  const apart = folds.size === 0 && body.stores.some((s) => s.pieces !== undefined)
  if (!apart && !body.stores.every((s) => aligned(s, parallel)))
    return refuse('unaligned-output', 'a result would be stored by several programs')
  if (reduced.size === 0) return { ok: true, roles: { kind: 'elementwise', extents, row, reduced, parallel, ...none } }

  const held = heldPoints(body, extents, row)
  if (row.size > 0 && held * 4 > target.rowBytes && target.rereadShare === undefined)
    return refuse('row-too-long', `rows of ${held} elements do not stay resident`)

  const scans = body.lets.some((l) => l.op.kind === 'scan')
  const contiguous = unitAxis(body)
  const byColumns = contiguous !== undefined && parallel.has(contiguous)
  // A scan's program is one block: what folds much below it would keep few blocks busy.
  const whole = heldPoints(body, extents, new Set([...row, ...reduced]))
  const programs = pointsOf(extents, parallel) / (byColumns ? target.partialColumns : 1)
  const most = (target.lineBytes?.fast ?? Number.POSITIVE_INFINITY) / 4
  if (scans && whole > Math.max(held, most) && programs < target.minPrograms)
    return refuse('row-too-long', `a scan over folds of ${whole} elements would be one block of threads`)
  const analysis = { body, target, mode, extents, row, parallel, lets, folds, byColumns, aligned }
  const cut = splitReductions(analysis)
  if (!cut.ok) return cut
  const { split, splitBy } = cut
  const stages = stagesOf(body, split)
  const over = tooManyBound(body, stages, target) ?? tooMuchHeld(analysis, reduced, split, splitBy)
  if (over !== undefined) return over
  const loops = split.size > 0 && splitBy !== 'every-index'
  const inBlock = mode === 'strict' || loops || scans
  const room = inBlock ? (target.blockRowBytes ?? target.rowBytes) : target.rowBytes
  const isCut = row.size > 0 && held * 4 > room
  if (isCut && foldsAcross(body, row) && passesOver(body, lets, row, false) > 1)
    return refuse('row-too-long', `tiles of ${held} elements, folded along several axes, do not stay resident`)
  const passes = isCut ? passesOver(body, lets, row, mode === 'fast') : 1
  return { ok: true, roles: { kind: 'reduction', extents, row, reduced, parallel, stages, splitBy, passes } }
}

/** The axes of scans in chunks and how long those are, if there are any: beside them nothing is folded, since programs hold chunks. */
function chunksOf(
  body: Body,
): { readonly ok: true; readonly chunks: ReadonlyMap<string, number> } | Refused | undefined {
  const chunks = new Map<string, number>()
  let others = false
  for (const l of body.lets) {
    if (!isFoldOrScan(l)) continue
    const node = body.origin.get(l.id)
    const chunk = node?.op === 'scan' && l.op.kind === 'scan' ? node.attrs.chunk : undefined
    if (chunk === undefined || l.op.kind !== 'scan') others = true
    else if ((chunks.get(l.op.axis) ?? chunk) !== chunk) others = true
    else chunks.set(l.op.axis, chunk)
  }
  if (chunks.size === 0) return undefined
  return others || chunks.size > 1
    ? refuse('row-too-long', 'a long scan goes over many programs, and nothing else is folded there')
    : { ok: true, chunks }
}

/** Roles of a body whose scans begin anew in every program. */
function inChunks(
  body: Body,
  chunks: ReadonlyMap<string, number>,
  extents: ReadonlyMap<string, number>,
): { readonly ok: true; readonly roles: Roles } | Refused {
  const named = (s: BodyStore): Set<string> => new Set(s.index.flatMap((e) => [...ix.axesOf(e)]))
  if (
    !body.stores.every((s) => s.pieces === undefined && body.axes.every((a) => a.extent <= 1 || named(s).has(a.name)))
  )
    return refuse('unaligned-output', 'a result would be stored by several programs')
  return { ok: true, roles: { ...elementwiseRoles(body), kind: 'reduction', extents, chunks } }
}

/** Why the kernels of a body with reductions that are cut bind too much, the partial results counted; undefined: they do not. */
function tooManyBound(body: Body, stages: Stages, target: Machine): Refused | undefined {
  if (buffersOf(body) + stages.split.size <= target.maxBuffers) return undefined
  const most = mostBuffers(body, stages)
  if (most <= target.maxBuffers) return undefined
  return refuse('too-many-buffers', `${most} buffers with partial results, the target binds ${target.maxBuffers}`)
}

/**
 * Axes of results in pieces that a program must hold whole: those of a result whose row is held, or that depends on a fold
 * which is the same along them.
 */
function heldPieces(
  body: Body,
  lets: ReadonlyMap<ValueId, LetStmt>,
  folds: ReadonlySet<ValueId>,
  rows: ReadonlySet<string>,
): Set<string> {
  const out = new Set<string>()
  if (folds.size === 0 || body.stores.every((s) => s.pieces === undefined)) return out
  const whole = new Set<unknown>()
  for (const s of body.stores) {
    if (s.pieces === undefined) continue
    if (s.pieces.some((a) => rows.has(a))) whole.add(s.node)
    for (const id of ancestorsOf([s.value], lets)) {
      const l = lets.get(id)
      if (l === undefined || !isFoldOrScan(l)) continue
      const own = [...l.axes, ...foldOrScanAxes(l)]
      if (s.pieces.some((a) => !own.includes(a))) whole.add(s.node)
    }
  }
  for (const s of body.stores) if (whole.has(s.node)) for (const a of s.pieces ?? []) if (!rows.has(a)) out.add(a)
  return out
}

/**
 * How often a program goes through rows it does not hold: once more after every fold that what follows depends on. A sum that
 * `streams` (src/kernel/streams.ts) joins the pass of its anchor where all else that it needs is there before.
 */
function passesOver(
  body: Body,
  lets: ReadonlyMap<ValueId, LetStmt>,
  row: ReadonlySet<string>,
  streams: boolean,
): number {
  /** Passes that end before a value is there. */
  const depth = new Map<ValueId, number>()
  const depthOf = (ids: readonly ValueId[]): number => ids.reduce((n, o) => Math.max(n, depth.get(o) ?? 0), 0)
  const operands = (id: ValueId): readonly ValueId[] => operandsOf(lets.get(id)?.op ?? { kind: 'const', value: 0 })
  const beforeAnchor = (l: LetStmt): number | undefined => {
    const streamed = streams ? streamedSum(l, lets) : undefined
    if (streamed === undefined) return undefined
    const { anchor, through, against } = streamed
    const reads = [l.id, ...through].flatMap(operands).filter((id) => id !== against && !through.has(id))
    const before = depthOf(operands(anchor))
    return depthOf(reads) <= before ? before : undefined
  }
  let passes = 1
  for (const l of body.lets) {
    const folds = foldOrScanAxes(l).some((a) => row.has(a))
    const below = (folds ? beforeAnchor(l) : undefined) ?? depthOf(operandsOf(l.op))
    if (folds) passes = Math.max(passes, below + 1)
    depth.set(l.id, folds ? below + 1 : below)
  }
  for (const s of body.stores)
    if (s.index.some((e) => [...ix.axesOf(e)].some((a) => row.has(a))))
      passes = Math.max(passes, depthOf([s.value]) + 1)
  return passes
}

/** Whether rows are folded along some of their axes here and along others there: each fold's results would have to be held as well. */
function foldsAcross(body: Body, row: ReadonlySet<string>): boolean {
  const sets = new Set<string>()
  for (const l of body.lets) {
    const axes = foldOrScanAxes(l).filter((a) => row.has(a))
    if (axes.length > 0) sets.add(axes.sort().join())
  }
  return sets.size > 1
}

/** Roles of a body whose axes are all parallel. */
export const elementwiseRoles = (body: Body): Roles => ({
  kind: 'elementwise',
  extents: new Map(body.axes.map((a) => [a.name, a.extent])),
  row: new Set(),
  reduced: new Set(),
  parallel: new Set(body.axes.map((a) => a.name)),
  stages: oneStage,
  splitBy: undefined,
})
