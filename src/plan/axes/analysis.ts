/** What every kind of kernel is judged by: which axes of a body are folded away, needed again afterwards, or neither. */
import * as ix from '../../affine/expr.ts'
import { foldOrScanAxes, isFoldOrScan } from '../../kernel/folds.ts'
import { type LetStmt, type NumericsMode, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import type { Body, BodyStore } from '../body/body.ts'

/** What the analysis of a body knows. */
export interface Analysis {
  readonly body: Body
  readonly target: Machine
  readonly mode: NumericsMode
  readonly extents: ReadonlyMap<string, number>
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  /** Values with a fold in or below them. */
  readonly folds: ReadonlySet<ValueId>
  /** Axes that are folded and then needed again, that are folded, and the others. */
  readonly row: ReadonlySet<string>
  readonly reduced: ReadonlySet<string>
  readonly parallel: ReadonlySet<string>
}

export function analysisOf(body: Body, target: Machine, mode: NumericsMode): Analysis {
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const { folds, row, reduced } = foldingOf(body)
  for (const a of heldPieces(body, lets, folds, new Set([...row, ...reduced]))) row.add(a)
  const parallel = new Set(body.axes.map((a) => a.name).filter((a) => !reduced.has(a) && !row.has(a)))
  return { body, target, mode, extents, lets, folds, row, reduced, parallel }
}

/** Whether a store names all the given axes, but for those of one index. */
export function isAligned({ extents }: Analysis, s: BodyStore, axes: Iterable<string>): boolean {
  const own = new Set(s.index.flatMap((e) => [...ix.axesOf(e)]))
  return [...axes].every((a) => own.has(a) || (extents.get(a) ?? 1) <= 1)
}

/** The values with a fold in or below them, the axes that folds run over, and those of them that what follows runs over again. */
function foldingOf(body: Body): {
  readonly folds: ReadonlySet<ValueId>
  readonly row: Set<string>
  readonly reduced: ReadonlySet<string>
} {
  /** Axes folded away below each value. */
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
  return { folds, row, reduced }
}

function unionOf(a: ReadonlySet<string> | undefined, b: ReadonlySet<string> | undefined): typeof a {
  if (a === undefined || a === b) return b
  if (b === undefined) return a
  for (const x of b) if (!a.has(x)) return new Set([...a, ...b])
  return a
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
