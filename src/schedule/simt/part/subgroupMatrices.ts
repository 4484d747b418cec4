/**
 * Matrix products of halves by subgroups together (WGSL's subgroup matrices): 16 x 16 x 16, with sums in f32. Which lane has which element is the
 * device's secret, so results stand in matrices while the depth goes on, and come to threads' registers through shared memory behind the loop.
 *
 * Both tiles, and later the results on their way, stand in one array of groups of 16 bytes: matrices are read in whole groups, and a multiprocessor has
 * room for a second block, which multiplies while the first waits.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import type { DType } from '../../../types/dtype.ts'

/** Rows, columns and depth of a matrix. */
export const matrixSize = 16

/** How the subgroups of a block share its results; rows, columns and depth are those of its tiles, in whole matrices. */
export interface SubgroupMatrices {
  readonly rows: number
  readonly columns: number
  readonly depth: number
  /** Subgroups one below the other, and side by side. */
  readonly down: number
  readonly across: number
}

/** What is asked of the part a product stands in. */
export interface Surroundings {
  dtypeOf(id: ValueId): DType
  isCarriedFromZero(l: LetStmt): boolean
}

/** Results a thread aims at, and threads of small blocks. */
const resultsOfThread = 128
const fewThreads = 128
/** Halves, and results in f32, of a group of 16 bytes. */
export const halvesOfGroup = 8
export const resultsOfGroup = 4
/** Groups are what pads the rows of tiles and of results, against bank conflicts. */
const tilePadding = halvesOfGroup
const resultPadding = resultsOfGroup

/** Threads of a subgroup. */
export const lanes = 32

/** The least multiple of a matrix's size that is not less than a number. */
export const wholeMatrices = (n: number): number => Math.ceil(n / matrixSize) * matrixSize

/** Elements from one row of an operand's tile to the next: an index of the depth after another. */
export const tilePitch = (span: number): number => wholeMatrices(span) + tilePadding

/** Threads for so many results. */
export const threadsFor = (results: number, { maxThreads }: SimtMachine): number =>
  Math.min(maxThreads, 256, Math.max(fewThreads, 2 ** Math.ceil(Math.log2(results / resultsOfThread))))

/** How so many threads share the results of tiles over so many rows, columns and indices of the depth, with the fewest reads of operands. */
export function subgroupMatrices(rows: number, columns: number, depth: number, threads: number): SubgroupMatrices {
  const all = { rows: wholeMatrices(rows), columns: wholeMatrices(columns), depth: wholeMatrices(depth) }
  let best: SubgroupMatrices | undefined
  const reads = ({ down, across }: SubgroupMatrices): number => all.rows / down + all.columns / across
  for (let down = 1; down <= threads / lanes; down *= 2)
    for (let across = 1; down * across <= threads / lanes; across *= 2) {
      const made = { ...all, down, across }
      const isWhole = all.rows % (matrixSize * down) === 0 && all.columns % (matrixSize * across) === 0
      if (isWhole && (best === undefined || reads(made) < reads(best))) best = made
    }
  invariant(best !== undefined, 'no subgroup takes a product')
  return best
}

/** Rows of results that come to registers at once: a row of matrices of every subgroup. Matrices go to the subgroups below each other by turns. */
export const rowsAtOnce = ({ down }: SubgroupMatrices): number => down * matrixSize

/** Elements from one row of results to the next, where they come to registers. */
export const resultPitch = ({ columns }: SubgroupMatrices): number => columns + resultPadding

/** Where the array that a product has in shared memory holds the tile of the columns behind that of the rows, in halves, and its words. */
export interface MatrixRegion {
  readonly columnsAt: number
  readonly words: number
}

export function matrixRegion(m: SubgroupMatrices): MatrixRegion {
  // Whichever way the rows of a tile go.
  const tile = (span: number): number => Math.max(m.depth * tilePitch(span), span * tilePitch(m.depth))
  const columnsAt = tile(m.rows)
  return { columnsAt, words: Math.max((columnsAt + tile(m.columns)) / 2, rowsAtOnce(m) * resultPitch(m)) }
}

/** Whether a product sum of two staged operands can be multiplied so. */
export function takesMatrices(part: Surroundings, l: LetStmt, { hasSubgroupMatrices }: SimtMachine): boolean {
  const { op } = l
  if (!hasSubgroupMatrices || op.kind !== 'dot') return false
  return [op.a, op.b].every((id) => part.dtypeOf(id) === 'f16') && part.isCarriedFromZero(l)
}
