/**
 * Sectors of memory that programs of a reduction touch in part: where neighbours in memory belong to other programs, each reads or writes sectors of
 * its own for less than they hold. One that is written in part is read and written whole.
 */
import { axesOf, type Expr, flatten, strideOf } from '../../affine/expr.ts'
import type { Machine } from '../../target/machine.ts'
import { type DType, dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { type Roles, unitAxis } from '../axes/roles.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { Folding } from './stretch.ts'

/** Neighbours that a thread reads at once. */
const vector = 4

interface Access {
  /** Bytes in a row that a program goes over. */
  readonly run: number
  /** Bytes of the elements that all programs read or write. */
  readonly bytes: number
}

/** Bytes that a kernel moves beyond what it reads and writes, sectors of memory being moved whole. */
export function partialSectorBytes(
  body: Body,
  { extents }: Roles,
  folding: Folding | undefined,
  target: Machine,
): number {
  const { memorySector: sector, rereadShare = 1 } = target
  if (sector === undefined || folding === undefined) return 0
  const own = reachOf(body, folding.own, target)
  /** By tensor: what reads it lies side by side, as halves of a row that is rotated. */
  const reads = new Map<string, Access>()
  const access = (flat: Expr, shape: readonly number[], axes: Iterable<string>, dtype: DType): Access => {
    const each = dtypeBytes(dtype)
    const run = reachIn(flat, own, sector / each / 2) * each
    return { run, bytes: Math.min(pointsOf(extents, axes), sizeOf(shape)) * each }
  }
  const beyond = ({ run, bytes }: Access): number => (run >= sector ? 0 : bytes * (sector / run - 1))
  for (const { op, axes, dtype } of body.lets) {
    const tensor = op.kind === 'load' ? body.loads.get(op.param) : undefined
    if (op.kind !== 'load' || tensor === undefined) continue
    const { run, bytes } = access(flatten(op.index, tensor.shape), tensor.shape, axes, dtype)
    const have = reads.get(op.param) ?? { run: 0, bytes: 0 }
    reads.set(op.param, { run: have.run + run, bytes: Math.max(have.bytes, bytes) })
  }
  const stores = body.stores.map(({ index, shape, node }) => ({ flat: flatten(index, shape), index, shape, node }))
  const writes = stores.map(({ flat, index, shape, node }) => {
    const axes = new Set(index.flatMap((e) => [...axesOf(e)]))
    const { run, bytes } = access(flat, shape, axes, node.dtype)
    // Pieces of a tensor that lie side by side fill sectors together.
    const isNear = (offset: number): boolean => Math.abs(offset - flat.offset) * dtypeBytes(node.dtype) < sector
    const near = stores.filter((t) => t.node === node && isNear(t.flat.offset))
    return beyond({ run: run * near.length, bytes })
  })
  const read = [...reads.values()].reduce((n, r) => n + beyond(r), 0)
  return rereadShare * read + 2 * writes.reduce((n, w) => n + w, 0)
}

/**
 * Indices of each axis that a program is at within a short time: all of its own, where its threads hold them at once; else, from the axis along which most
 * is contiguous, those that its threads are spread over, and one of each other.
 */
function reachOf(body: Body, own: ReadonlyMap<string, number>, { simt }: Machine): ReadonlyMap<string, number> {
  const points = [...own.values()].reduce((n, size) => n * size, 1)
  if (simt === undefined || points <= simt.maxThreads * simt.registers) return own
  const unit = unitAxis(body)
  const least = new Map<string, number>()
  const note = (index: readonly Expr[], shape: readonly number[]): void => {
    const flat = flatten(index, shape)
    for (const a of axesOf(flat))
      least.set(a, Math.min(least.get(a) ?? Number.POSITIVE_INFINITY, Math.abs(strideOf(flat, a) ?? 1)))
  }
  for (const { op } of body.lets) if (op.kind === 'load') note(op.index, body.loads.get(op.param)?.shape ?? [])
  for (const s of body.stores) note(s.index, s.shape)
  const rank = (a: string): number => (a === unit ? 0 : (least.get(a) ?? Number.POSITIVE_INFINITY))
  let left = simt.maxThreads * vector
  const out = new Map<string, number>()
  for (const [axis, size] of [...own].sort(([a], [b]) => rank(a) - rank(b))) {
    out.set(axis, Math.max(1, Math.min(size, left)))
    left = Math.floor(left / size)
  }
  return out
}

/** Elements that one program goes over without leaving out whole sectors of memory: neighbours are `near` elements apart at most. */
function reachIn(flat: Expr, own: ReadonlyMap<string, number>, near: number): number {
  const strides = [...axesOf(flat)].flatMap((a) => {
    const [stride, size] = [Math.abs(strideOf(flat, a) ?? 0), own.get(a) ?? 1]
    return stride > 0 && size > 1 ? [{ stride, size }] : []
  })
  let span = 1
  for (const { stride, size } of strides.sort((p, q) => p.stride - q.stride)) {
    if (stride > Math.max(span, near)) break
    span += stride * (size - 1)
  }
  return span
}
