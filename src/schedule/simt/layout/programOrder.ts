/**
 * The order of a chain's programs where their loops end where their blocks do, or begin there: the longest first, of all rows of the grid, so that the
 * shortest are left for the end, when multiprocessors fall idle. What all blocks along that axis read stays in a cache meanwhile, so as
 * many rows of the grid are in turn as it has room for (a schedule of longest processing time first: R. L. Graham, Bounds on
 * multiprocessing timing anomalies, 1969).
 */
import { axesOf } from '../../../affine/expr.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { allStmts } from '../../../kernel/walk.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import { dtypeBytes } from '../../../types/dtype.ts'
import type { Part } from '../part/part.ts'

/** Programs whose lengths differ along an axis of the grid. */
export interface ProgramOrder {
  readonly axis: string
  /** The last block of the axis is the longest. */
  readonly descends: boolean
  /** Blocks of the grid's other axes that are in turn at each block of this one. */
  readonly together: number
}

/** The order of a part's programs; absent: as they are numbered, the grid's last axis first. */
export function programOrderOf(part: Part, { cachedBytes }: SimtMachine): ProgramOrder | undefined {
  if (!part.isChain) return undefined
  const { grid } = part.part
  const blocks = ({ axis, block }: (typeof grid)[number]): number => Math.ceil(part.axis(axis).extent / block)
  for (const g of grid) {
    const [descends, ascends] = [
      part.loops.some((l) => startsAt(part, l.to, g.axis) && !startsAt(part, l.from, g.axis)),
      part.loops.some((l) => startsAt(part, l.from, g.axis) && !startsAt(part, l.to, g.axis)),
    ]
    if (descends === ascends || blocks(g) === 1) continue
    const others = grid.filter((o) => o !== g)
    // How many blocks an open axis has is known at launch only: it stays in its place.
    const isOpen = grid.some((o) => part.axis(o.axis).open !== undefined)
    const rows = others.reduce((n, o) => n * blocks(o), 1)
    const together = isOpen ? 1 : Math.min(rows, Math.max(1, Math.floor(cachedBytes / rowBytes(part))))
    return { axis: g.axis, descends, together }
  }
  return undefined
}

/** Whether a bound of a loop follows where a program's block of an axis begins. */
function startsAt(part: Part, id: ValueId | undefined, axis: string): boolean {
  const op = id === undefined ? undefined : part.lets.get(id)?.op
  if (op?.kind === 'scalar') return op.args.some((a) => startsAt(part, a, axis))
  return op?.kind === 'index' && axesOf(op.expr).has(`${axis}.start`)
}

/** Bytes that all programs at one place of the other axes go through: what stages in loops hold, over all of the loops. */
function rowBytes(part: Part): number {
  const outer = new Set(part.part.grid.map((g) => g.axis))
  const staged = new Map<ValueId, number>()
  for (const loop of part.loops)
    for (const s of allStmts(loop.body)) {
      if (s.kind !== 'let' || s.op.kind !== 'stage') continue
      const axes = s.axes.filter((a) => !outer.has(a))
      staged.set(
        s.id,
        axes.reduce((n, a) => n * part.axis(a).extent, dtypeBytes(s.dtype)),
      )
    }
  return Math.max(
    1,
    [...staged.values()].reduce((n, b) => n + b, 0),
  )
}
