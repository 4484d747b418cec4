/** Lowering of scans that begin anew at every chunk: a program holds one chunk of the axis, of some lines side by side. */
import * as ix from '../affine/expr.ts'
import { type GridAxis, type LetStmt, type NumericsMode, operandsOf, type ValueId } from '../kernel/ir.ts'
import { ancestorsOf, mapExpressions } from '../kernel/walk.ts'
import { byStoreStride } from '../plan/axes/gridAxes.ts'
import type { Roles } from '../plan/axes/roles.ts'
import type { Body } from '../plan/body/body.ts'
import type { Machine } from '../target/machine.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { kernelOf } from './kernelOf.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'

export function lowerChunks(
  name: string,
  body: Body,
  roles: Roles,
  chunks: ReadonlyMap<string, number>,
  target: Machine,
  mode: NumericsMode,
): Launch {
  const lets = perProgram(body, chunks)
  const main = kernelOf(
    name,
    { ...body, lets },
    chunkGrid(body, roles, chunks, target, mode),
    lets,
    mode,
    new Params(),
    [],
  )
  return { main, finishing: [], partials: [] }
}

/** The chunk, and as many lines beside it as half a block holds: fewer in fast mode, where several blocks stand together. */
function chunkGrid(
  body: Body,
  { parallel, extents }: Roles,
  chunks: ReadonlyMap<string, number>,
  { lineBytes }: Machine,
  mode: NumericsMode,
): GridAxis[] {
  const { fast, strict } = lineBytes ?? { fast: 0, strict: 0 }
  const bytes = Math.max(4, ...body.lets.flatMap((l) => (l.op.kind === 'scan' ? dtypeBytes(l.dtype) : [])))
  let left = mode === 'strict' ? strict / (2 * bytes) : fast / (8 * 4)
  for (const n of chunks.values()) left /= n
  const blocks = new Map(chunks)
  for (const a of byStoreStride(body, parallel)) {
    if (blocks.has(a)) continue
    const extent = extents.get(a) ?? 1
    const block = Math.max(1, Math.min(extent, 2 ** Math.floor(Math.log2(left))))
    blocks.set(a, block)
    if (block < extent) break
    left /= extent
  }
  return [...parallel].map((axis) => ({ axis, block: blocks.get(axis) ?? 1 }))
}

/** The statements with the number of a program's chunk for that of an index: what depends on that alone is computed once a program. */
function perProgram(body: Body, chunks: ReadonlyMap<string, number>): LetStmt[] {
  const first = (e: ix.Expr): ix.Expr =>
    ix.substitute(e, (a) => {
      const [t, second] = a.kind === 'div' ? a.of.terms : []
      if (a.kind !== 'div' || t === undefined || second !== undefined || t.coef !== 1 || a.of.offset !== 0)
        return undefined
      const { atom } = t
      if (atom.kind !== 'axis' || a.by !== chunks.get(atom.name)) return undefined
      return ix.div(ix.axis(`${atom.name}.start`, atom.extent), a.by)
    })
  const axesOf = new Map<ValueId, readonly string[]>()
  // What is scanned keeps its axis.
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const scanned = ancestorsOf(
    body.lets.flatMap((l) => (l.op.kind === 'scan' ? [l.op.arg] : [])),
    lets,
  )
  return body.lets.map((l) => {
    const op = scanned.has(l.id) ? l.op : mapExpressions(l.op, first)
    const found = new Set<string>()
    mapExpressions(op, (e) => {
      for (const a of ix.axesOf(e)) found.add(a)
      for (const v of ix.valuesOf(e)) for (const a of axesOf.get(v) ?? []) found.add(a)
      return e
    })
    for (const o of operandsOf(op)) for (const a of axesOf.get(o) ?? []) found.add(a)
    // A constant is repeated along axes of its own.
    const axes = op.kind === 'const' ? l.axes : l.axes.filter((a) => found.has(a))
    axesOf.set(l.id, axes)
    return { ...l, axes, op }
  })
}
