/**
 * How programs share out a scatter on machines where a program is a share of the machine: batches (axes that updates and target have in common, and the
 * indices vary along) one by one, columns (the others in common) and places in blocks. The lowering makes its grid of it (lower/sharePlaces.ts), the model
 * prices that (cost/scatterSeconds.ts).
 */
import { powerFrom, powerWithin } from '../../affine/powers.ts'
import { filterThreads, mostFilterThreads } from '../../schedule/simt/part/filter.ts'
import type { SimtMachine } from '../../target/simt.ts'

/** What a scatter is to those who share it out. */
export interface ScatterShape {
  /** Batches together. */
  readonly batch: number
  /** Extents of columns. */
  readonly columns: readonly number[]
  readonly places: number
  /** Updates of a batch. */
  readonly updates: number
}

export interface ScatterBlocks {
  /** Columns of a program, by axis. */
  readonly columns: readonly number[]
  /** Places of a program, and residues of them that threads take. */
  readonly block: number
  readonly residues: number
  /** Threads of a residue. */
  readonly lanes: number
  readonly programs: number
  /** Of a program. */
  readonly threads: number
}

/** Columns of a program where there are more than threads, and at least where programs would be few: neighbours in memory. */
const [manyColumns, fewestColumns] = [64, 16]

const product = (of: readonly number[]): number => of.reduce((n, x) => n * x, 1)

export function scatterBlocks(
  { batch, columns, places, updates }: ScatterShape,
  programShare: number,
  simt: SimtMachine,
): ScatterBlocks {
  const wanted = Math.round(1 / programShare)
  const threads = mostFilterThreads(simt)
  const blocks = blocksOf(columns, columnsOfProgram(product(columns), wanted / (batch * places), threads))
  const others = columns.reduce((n, extent, i) => n * Math.ceil(extent / (blocks[i] ?? 1)), batch)
  const lanes = product(blocks.map(powerFrom))
  const most = powerWithin(threads / lanes)
  // As many programs as the machine has room for; more only where going through the updates is little, so that a thread has one place.
  const share = Math.ceil(places / Math.min(places, Math.ceil(wanted / others)))
  const block = updates <= threads ? Math.min(share, most) : share
  const residues = Math.min(powerFrom(block), most)
  const programs = others * Math.ceil(places / block)
  return { columns: blocks, block, residues, lanes, programs, threads: filterThreads(simt, updates, residues * lanes) }
}

/** Columns of a program, of so many, where `few` times as many programs as there are places would fill the machine. */
function columnsOfProgram(columns: number, few: number, threads: number): number {
  if (columns > threads) return manyColumns
  return few > 1 ? Math.min(columns, Math.max(fewestColumns, Math.ceil(columns / Math.ceil(few)))) : columns
}

/** Blocks of axes with so many points together, the last axes first. */
export function blocksOf(extents: readonly number[], points: number): number[] {
  let left = points
  return [...extents]
    .reverse()
    .map((extent) => {
      const block = Math.max(1, Math.min(extent, Math.floor(left)))
      left /= block
      return block
    })
    .reverse()
}
