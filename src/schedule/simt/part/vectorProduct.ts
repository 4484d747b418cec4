/**
 * Matrix products without matrix units: which product sums qualify, and how their axes are spread. Both operands stand in shared
 * tiles with a row an index of the depth, so that a thread reads four neighbouring rows or columns of the result at once: blocks of
 * 4 x 4 results, up to 64 results a thread. (Of 8 x 8 results an index of the depth costs 4 reads and 64 multiply-adds.)
 */
import { type LetStmt, operandsOf, type ValueId } from '../../../kernel/ir.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import * as matrices from './subgroupMatrices.ts'

/** What is asked of the part a product stands in. */
export interface Surroundings extends matrices.Surroundings {
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  /** Stages that are filled under layouts of their own. */
  readonly ownStages: ReadonlySet<ValueId>
  /** Whether a stage can be filled at any place: it follows from memory and positions alone. */
  isFree(stage: ValueId): boolean
  readonly part: { readonly axes: readonly { readonly name: string; readonly extent: number }[] }
  axesOf(id: ValueId): string[]
  spreadOnly(names: Iterable<string>): string[]
  axis(name: string): { readonly size: number; readonly role: 'grid' | 'loop' | 'local' }
}

export interface Forced {
  readonly vec: number
  readonly bits: readonly number[]
}

/** A staged operand: its axes of the result, the one that is read in vectors last. */
export interface VectorOperand {
  readonly stage: ValueId
  readonly own: readonly string[]
  readonly vector: string
  /**
   * Vectors of a row change places with every four rows (`swizzledVectors`): of what threads compute in blocks of 4 x 4, whose neighbours write four rows
   * apart.
   */
  readonly swizzled?: true
}

export interface VectorProduct {
  readonly dot: ValueId
  /** Over rows and depth, over depth and columns. */
  readonly a: VectorOperand
  readonly b: VectorOperand
  readonly depth: readonly string[]
  readonly threads: number
  /** How its free operands are staged by slices of the depth; absent: all at once, by statements of their own. */
  readonly slices?: Slices
  /** Indices of the depth whose code is repeated in place. */
  readonly unroll: number
  /** Subgroups multiply tiles of halves together. */
  readonly onMatrices?: true
}

/** Stages that a product fills itself, so many indices of its depth's only axis at a time. */
export interface Slices {
  readonly axis: string
  readonly size: number
  readonly count: number
  readonly stages: ReadonlySet<ValueId>
}

/** Vectors of a row among which those of a swizzled tile change places. */
export const swizzledVectors = 8

/** The operand that a stage is. */
export const operandOf = ({ a, b }: VectorProduct, stage: ValueId): VectorOperand | undefined =>
  [a, b].find((o) => o.stage === stage)

export const lanes = 4

/** Results of a block below which vectors do not pay. */
const leastResults = 1024
/** Results of a thread: of large products, and of small ones, whose code is to stay short. */
const mostResults = 64
const fewResults = 16
/** Multiply-adds of a product that is worth many results a thread. */
const large = 2 ** 29
/** Multiply-adds of a thread whose code is repeated in place: of 64 results for 16 indices of the depth. */
const mostInPlace = 1024

/** What a product sum multiplies: rows, columns and the depth. */
export type VectorOperands = Pick<VectorProduct, 'a' | 'b' | 'depth'>

/** The operands of a product sum, which are stages that nothing else reads. */
export function vectorOperands(part: Surroundings, l: LetStmt): VectorOperands | undefined {
  const { op } = l
  if (op.kind !== 'dot' || l.dtype !== 'f32' || op.a === op.b) return undefined
  const depth = part.spreadOnly(op.axes)
  const kept = part.axesOf(l.id)
  const operand = (stage: ValueId): VectorOperand | undefined => {
    const axes = part.axesOf(stage)
    const alone = [...part.lets.values()].every((x) => x.id === l.id || !operandsOf(x.op).includes(stage))
    if (part.lets.get(stage)?.op.kind !== 'stage' || !alone || !depth.every((x) => axes.includes(x))) return undefined
    const own = kept.filter((x) => axes.includes(x))
    const vector = own.findLast((x) => part.axis(x).size >= lanes)
    if (vector === undefined || own.length + depth.length !== axes.length) return undefined
    const swizzled = part.ownStages.has(stage) ? {} : ({ swizzled: true } as const)
    return { stage, own: [...own.filter((x) => x !== vector), vector], vector, ...swizzled }
  }
  const [first, second] = [operand(op.a), operand(op.b)]
  if (first === undefined || second === undefined || first.own.some((x) => second.own.includes(x))) return undefined
  if (depth.length === 0 || first.own.length + second.own.length !== kept.length) return undefined
  // The operand whose axis the result has last gives the columns.
  const swap = first.own.includes(kept.at(-1) ?? '')
  const [a, b] = swap ? [second, first] : [first, second]
  return { a, b, depth }
}

/** The largest number of indices of the depth, up to so many, that its steps have a whole number of. */
export const unrollOf = (depth: number, most: number): number =>
  Array.from({ length: most }, (_, i) => most - i).find((n) => depth % n === 0) ?? 1

/** The plan of the only product sum of a part in fast mode. */
export function vectorProductOf(part: Surroundings, l: LetStmt, machine: SimtMachine): VectorProduct | undefined {
  const { op } = l
  if (op.kind !== 'dot' || op.acc === undefined) return undefined
  const found = vectorOperands(part, l)
  if (found === undefined || ![found.a, found.b].every((o) => part.ownStages.has(o.stage))) return undefined
  const { a, b, depth } = found
  const kept = part.axesOf(l.id)
  const size = (axes: readonly string[]): number => axes.reduce((n, x) => n * part.axis(x).size, 1)
  const results = size(kept)
  if (results < leastResults) return undefined
  const nest = new Set([...l.axes, ...op.axes])
  const work = part.part.axes.reduce((n, x) => n * (nest.has(x.name) ? x.extent : 1), 1)
  if (work < machine.leastProduct) return undefined
  if (matrices.takesMatrices(part, l, machine)) {
    const threads = matrices.threadsFor(results, machine)
    const fits = [threads, 256].every((n) => {
      const layout = spread(part, a, b, n, true)
      const span = (o: VectorOperand): number =>
        o.own.reduce((all, x) => all * spanWith(part.axis(x).size, layout.get(x)), 1)
      const tiles = matrices.subgroupMatrices(span(a), span(b), size(depth), n)
      return (
        [a, b].every((o) => inGroups(part, o, layout)) &&
        4 * matrices.matrixRegion(tiles).words <= machine.maxSharedBytes
      )
    })
    if (fits) return { dot: l.id, a, b, depth, threads, unroll: matrices.matrixSize, onMatrices: true }
  }
  const each = work >= large ? mostResults : fewResults
  const share = (n: number): number => 2 ** Math.ceil(Math.log2(results / n))
  const threads = Math.min(machine.maxThreads, 256, Math.max(32, share(each), Math.min(128, share(fewResults))))
  // With however many threads: a union of kernels has those of the part that wants most.
  const span = (o: VectorOperand): number => o.own.reduce((n, x) => n * 2 ** Math.ceil(Math.log2(size([x]))), 1)
  if ((span(a) * span(b)) / threads > 2 * mostResults) return undefined
  // Steps that were to be for matrices are deeper.
  const tiles = machine.hasSubgroupMatrices ? 1.5 * machine.vectorTileShare : machine.vectorTileShare
  if (4 * size(depth) * (span(a) + span(b)) > tiles * machine.maxSharedBytes) return undefined
  const most = Math.max(1, Math.floor((mostInPlace * threads) / (span(a) * span(b))))
  return { dot: l.id, a, b, depth, threads, unroll: unrollOf(size(depth), most) }
}

/** Whether a row of an operand's tile that goes along its vectors' axis is whole groups of halves. */
const inGroups = (part: Surroundings, { own, vector }: VectorOperand, layout: ReadonlyMap<string, Forced>): boolean =>
  own.length === 1 || spanWith(part.axis(vector).size, layout.get(vector)) % matrices.halvesOfGroup === 0

/** The least multiple of what the vector and its threads cover that is not less than a size. */
export function spanWith(size: number, { vec, bits }: Forced = { vec: 1, bits: [] }): number {
  const covered = vec * 2 ** bits.length
  return Math.ceil(size / covered) * covered
}

/** Thread bits of an operand's axes, the vectors' axis first, with `least` at least; undefined where they are more than there is work for. */
export function bitsOf(
  part: Pick<Surroundings, 'axis'>,
  o: VectorOperand,
  from: number,
  count: number,
  least = 0,
): Map<string, Forced> | undefined {
  const out = new Map<string, Forced>()
  let at = from
  for (const x of [...o.own].reverse()) {
    const vec = x === o.vector ? lanes : 1
    const most = Math.ceil(Math.log2(Math.ceil(part.axis(x).size / vec)))
    const n = Math.min(Math.max(most, x === o.vector ? least : 0), from + count - at)
    out.set(x, { vec, bits: Array.from({ length: n }, (_, i) => at + i) })
    at += n
  }
  return at === from + count ? out : undefined
}

/** How so many threads share the results. */
export const vectorLayout = (
  part: Pick<Surroundings, 'axis'>,
  { a, b, onMatrices }: VectorProduct,
  threads: number,
): ReadonlyMap<string, Forced> => spread(part, a, b, threads, onMatrices)

/**
 * Threads along columns (the low bits) and rows so that results and reads a thread are fewest; of results that come from matrices, which are read once, as many
 * threads along a row as a warp has: all take as much of each row of matrices then, and stores lie side by side.
 */
function spread(
  part: Pick<Surroundings, 'axis'>,
  a: VectorOperand,
  b: VectorOperand,
  threads: number,
  onMatrices = false,
): Map<string, Forced> {
  const total = Math.log2(threads)
  // Two vectors of results are a group of halves, which ends where a row of several axes does.
  const least = (o: VectorOperand): number => (onMatrices && o.own.length > 1 ? 1 : 0)
  let best: { readonly layout: Map<string, Forced>; readonly cost: number } | undefined
  for (let columns = 0; columns <= total; columns++) {
    const [q, p] = [bitsOf(part, b, 0, columns, least(b)), bitsOf(part, a, columns, total - columns, least(a))]
    if (p === undefined || q === undefined) continue
    const each = (layout: ReadonlyMap<string, Forced>): number =>
      [...layout].reduce((n, [x, f]) => n * (spanWith(part.axis(x).size, f) / 2 ** f.bits.length), 1)
    const cost = each(p) * each(q) + (onMatrices ? 0 : each(p) + each(q))
    const isLonger = onMatrices && cost === best?.cost && 2 ** columns <= matrices.lanes
    if (best === undefined || cost < best.cost || isLonger) best = { layout: new Map([...p, ...q]), cost }
  }
  if (best !== undefined) return best.layout
  // More threads than results in vectors: what is beyond stands idle.
  const half = bitsOf(part, b, 0, 0)
  return threads > 1
    ? spread(part, a, b, threads / 2, onMatrices)
    : new Map([...(bitsOf(part, a, 0, 0) ?? []), ...(half ?? [])])
}
