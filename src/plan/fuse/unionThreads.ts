/**
 * What unions cost on machines of threads: all parts run in blocks of as many threads as the largest has, and where a part has many small programs, most
 * threads of its blocks have nothing to do while they hold their places.
 */
import { foldAxes } from '../../kernel/folds.ts'
import type { Machine } from '../../target/machine.ts'
import { ownExtents, straightGrid } from '../axes/blocks.ts'
import { programsOf } from '../axes/gridAxes.ts'
import { foldingOf } from '../cost/stretch.ts'
import type { KernelGroup } from '../plan.ts'

/** Programs of a kernel, about how many threads its schedule gives one, and how many would have something to do. */
export interface ThreadBlocks {
  readonly programs: number
  readonly threads: number
  readonly most: number
}

/** Most threads of a program that holds no rows. */
const mostWithoutRows = 256
/** Points that a thread takes side by side. */
const sideBySide = 8
/** What a block of threads takes at least. */
const blockSeconds = 1e-6

/** The blocks of a kernel's segments. */
export function threadBlocksOf(g: KernelGroup, target: Machine): ThreadBlocks[] {
  const { simt } = target
  if (simt === undefined) return []
  const most = g.roles.row.size > 0 ? simt.maxThreads : Math.min(simt.maxThreads, mostWithoutRows)
  return g.segments.map((body) => {
    const { extents } = g.roles
    const grid = foldingOf(body, g.roles, target)?.grid ?? straightGrid(body, g.roles, target, 'fast')
    const own = ownExtents(extents, grid)
    const points = body.lets.reduce((n, l) => {
      const axes = new Set([...l.axes, ...foldAxes(l)])
      return Math.max(
        n,
        [...axes].reduce((p, a) => p * (own.get(a) ?? 1), 1),
      )
    }, 1)
    const threads = Math.min(most, 2 ** Math.ceil(Math.log2(Math.max(32, points / simt.values))))
    return { programs: programsOf(grid, extents), threads, most: Math.max(threads, points / sideBySide) }
  })
}

/** Seconds for which places of a machine are held by threads that have nothing to do, where parts run together. */
export function idleSeconds(blocks: readonly ThreadBlocks[], { simt }: Machine): number {
  if (simt?.multiprocessors === undefined) return 0
  const threads = blocks.reduce((n, b) => Math.max(n, b.threads), 0)
  const idle = blocks.reduce((n, b) => n + b.programs * Math.max(0, threads - b.most), 0)
  return (idle / (2 * simt.maxThreads * simt.multiprocessors)) * blockSeconds
}
