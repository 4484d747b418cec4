/** The blocks of a matrix product: rows and columns of a program, and what a step takes of the depth. */
import { invariant } from '../../diagnostics/errors.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { deepBlock } from './deepBlock.ts'
import { columnTarget, leastRows, type MatrixRole } from './fusedReductions.ts'
import { bySpacing } from './gridAxes.ts'
import { isForMatrixUnit } from './matrixRole.ts'

/** An axis that programs or steps hold a block of. */
export interface Blocked {
  readonly axis: string
  readonly block: number
}

/** The share of a block that an open axis fills at its most, from which on others outside it are not held with it. */
const enoughOpen = 0.25

/**
 * Blocks of a role's axes, innermost filled first: whole axes inside, one blocked, single indices outside. A block has room for the most that open axes
 * may be: of several axes that is computed, of one open axis alone what there is.
 */
export function blockRole(
  axes: readonly string[],
  extent: (a: string) => number,
  target: number,
  quantum: number,
  isOpen: (a: string) => boolean = () => false,
): Blocked[] {
  const out: Blocked[] = []
  let inner = 1
  let full = true
  for (const axis of [...axes].reverse()) {
    const e = extent(axis)
    if (full && inner * e <= target) {
      out.unshift({ axis, block: e })
      inner *= e
      full = !isOpen(axis) || inner < enoughOpen * target
      continue
    }
    if (full) {
      const most = Math.max(1, Math.floor(target / inner))
      const even = Math.ceil(e / Math.ceil(e / most))
      const block = inner === 1 && even < e ? Math.min(e, Math.ceil(even / quantum) * quantum) : even
      out.unshift({ axis, block })
      full = false
    } else out.unshift({ axis, block: 1 })
  }
  return out
}

/** Blocks of a role that is one axis, in whole grains (beyond the extent if need be); `even`: of nearly equal share. */
function blockGrains(axis: string, extent: number, target: number, grains: readonly number[], even: boolean): Blocked {
  const share = even ? Math.ceil(extent / Math.ceil(extent / target)) : Math.min(extent, target)
  const grain = Math.max(...grains.filter((g, i) => i === 0 || g <= share))
  return { axis, block: Math.ceil(share / grain) * grain }
}

/** Rows of a block: fewer than the target's where the grid would otherwise have too few programs to share out evenly. */
function rowTarget(
  m: readonly string[],
  batch: number,
  columns: readonly Blocked[],
  extent: (a: string) => number,
  target: Machine,
): number {
  const size = (axes: readonly string[]): number => axes.reduce((n, a) => n * extent(a), 1)
  const others = batch * columns.reduce((n, c) => n * Math.ceil(extent(c.axis) / c.block), 1)
  const blocks = Math.ceil(target.minPrograms / 2 / others)
  return Math.max(Math.min(target.dotBlock.m, leastRows), Math.min(target.dotBlock.m, Math.ceil(size(m) / blocks)))
}

/** Axes of rows and columns, the one that moves most in memory first, and the blocks of both and of the depth. */
export interface MatrixBlocks {
  readonly m: readonly string[]
  readonly n: readonly string[]
  readonly rows: readonly Blocked[]
  readonly columns: readonly Blocked[]
  readonly depth: readonly Blocked[]
  /** Whether warps share the depth of a step (`dotBlock.deep`). */
  readonly isDeep: boolean
}

/** Blocks of a product of which there are `parts` side by side. */
export function matrixBlocks(
  body: Body,
  matrix: MatrixRole,
  extents: ReadonlyMap<string, number>,
  target: Machine,
  parts = 1,
): MatrixBlocks {
  const extent = (a: string): number => extents.get(a) ?? 1
  const open = new Set(body.axes.flatMap((a) => (a.open === undefined ? [] : [a.name])))
  const dot = body.lets.find((l) => l.id === matrix.id)
  invariant(dot?.op.kind === 'dot', 'the matrix product is no dot')
  const { a } = dot.op
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const onUnit = isForMatrixUnit(dot.op, lets)
  const m = bySpacing(body, matrix.m).reverse()
  const n = bySpacing(body, matrix.n).reverse()
  const blocksOf = (axes: readonly string[], most: number, quantum: number, even: boolean): Blocked[] => {
    const { grains } = target.dotBlock
    const [first] = axes
    if (grains === undefined || first === undefined || (axes.length > 1 && !onUnit))
      return blockRole(axes, extent, most, quantum, (a) => open.has(a))
    // Matrix units take blocks of one axis: of the innermost, or where that is shorter than the least of the longest.
    const longest = axes.reduce((p, q) => (extent(q) > extent(p) ? q : p))
    const last = axes.at(-1) ?? first
    const blocked = extent(last) < Math.min(...grains) ? longest : last
    if (axes.length > 1 && extent(blocked) < Math.min(...grains))
      return blockRole(axes, extent, most, quantum, (a) => open.has(a))
    const outer = axes.filter((axis) => axis !== blocked).map((axis) => ({ axis, block: 1 }))
    return [...outer, blockGrains(blocked, extent(blocked), most, grains, even)]
  }
  const points = (axes: readonly string[]): number => pointsOf(extents, axes)
  const deep = onUnit ? deepBlock(body, dot.op, matrix, extents, target) : undefined
  const columnsAtMost = deep?.columns ?? columnTarget(target, parts * points(matrix.batch), points(m), points(n))
  const columns = blocksOf(n, columnsAtMost, target.dotBlock.quantum ?? 16, true)
  const rows = blocksOf(
    m,
    rowTarget(m, parts * points(matrix.batch), columns, extent, target),
    target.dotBlock.quantum ?? 8,
    true,
  )
  // A step of matrix units' 16-bit operands; of wider ones as many bytes.
  const dtype = body.lets.find((l) => l.id === a)?.dtype ?? 'f32'
  const wider = target.dotBlock.grains === undefined ? 1 : dtypeBytes(dtype) / 2
  const { dotBlock, oneDtypeUnit: unit } = target
  const step = deep?.depth ?? (onUnit && unit?.dtype === dtype ? unit.depth : dotBlock.k)
  const depth = blocksOf(matrix.k, Math.ceil(step / Math.max(1, wider)), 8, false)
  return { m, n, rows, columns, depth, isDeep: deep !== undefined }
}
