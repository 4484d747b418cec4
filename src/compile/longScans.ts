/**
 * Scans of lines that no block of threads holds, as stages over many blocks: the totals of chunks are folded, scanned in turn, and folded with
 * every value of a scan that begins anew at each chunk. What the input is computed from is computed in both passes over it, what uses the
 * result joins the second: a long scan reads its input twice and writes once. In strict mode sums and products of floats have chunks of
 * `strictChunk`, and the prefixes of their totals come from the folds of the tree's blocks (docs/numerics.md, "Modes"), a block or a few levels of it at
 * a time: where bit b of a chunk's number is set, the block of 2^b chunks that ends where the lower bits begin is one of them.
 */
import { powerFrom, powerWithin } from '../affine/powers.ts'
import { broadcastTo, expandDims, reshape } from '../compose/broadcast.ts'
import { full, iota } from '../compose/source.ts'
import { flip, pad, sliceAxis } from '../compose/views.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { combinerIdentity, combinerOp } from '../scalar/ops.ts'
import { strictChunk } from '../scalar/summation.ts'
import type { Machine } from '../target/machine.ts'
import { computeDType, type DType, dtypeBytes, isFloat } from '../types/dtype.ts'
import { resized, type Shape, sizeOf } from '../types/shape.ts'

/** Columns that a program takes side by side of lines along another axis than the last. */
const columns = 16

/** Programs' share of a line that a block could hold: several stand on a multiprocessor, and there are enough of them. */
const share = 8

/** The part of what a block could hold that one block is given of totals, while all others wait. */
const totalsShare = 2

type ScanAttrs = NodeOf<'scan'>['attrs']

/** Scans along one axis of tensors of one combiner and dtype. */
class LongScans {
  private readonly mode: NumericsMode
  private readonly lineBytes: NonNullable<Machine['lineBytes']>

  constructor(mode: NumericsMode, lineBytes: NonNullable<Machine['lineBytes']>) {
    this.mode = mode
    this.lineBytes = lineBytes
  }

  /** Whether the order of the fold shows: float sums and products of strict mode. */
  private isOrdered({ combiner }: ScanAttrs, dtype: DType): boolean {
    return this.mode === 'strict' && isFloat(dtype) && (combiner === 'sum' || combiner === 'prod')
  }

  /** Indices of a line that a block holds, with as many lines beside it as share what is read. */
  private room(shape: Shape, axis: number, dtype: DType): number {
    const beside = Math.min(columns, sizeOf(shape.slice(axis + 1)))
    const { fast, strict } = this.lineBytes
    if (this.mode === 'strict') return Math.floor(strict / (Math.max(4, dtypeBytes(dtype)) * beside))
    // Columns of few programs may take twice the registers.
    return Math.floor(fast / (4 * beside)) * (beside > 1 ? 2 : 1)
  }

  /** Whether a line is longer than a part of what a block holds. */
  isLong({ shape, attrs, dtype }: NodeOf<'scan'>, part = 1): boolean {
    const n = shape[attrs.axis] ?? 0
    if (sizeOf(shape) === 0 || n * part <= this.room(shape, attrs.axis, dtype)) return false
    return n > this.chunkOf(shape, attrs, dtype)
  }

  private chunkOf(shape: Shape, attrs: ScanAttrs, dtype: DType): number {
    if (this.isOrdered(attrs, dtype)) return strictChunk
    const { fast, strict } = this.lineBytes
    const inner = sizeOf(shape.slice(attrs.axis + 1))
    if (this.mode === 'strict')
      return Math.min(strictChunk, powerWithin(strict / (Math.max(4, dtypeBytes(dtype)) * Math.min(columns, inner))))
    return Math.max(2, powerWithin(fast / (4 * share * Math.min(2 * columns, inner))))
  }

  /** A scan, in stages where its line is long. */
  scan(x: Node, attrs: ScanAttrs, part = 1): Node {
    const plain = makeNode('scan', [x], attrs)
    if (!this.isLong(plain, part)) return plain
    // Scans carry f32 where halves are stored.
    const dtype = computeDType(x.dtype)
    const wide = dtype === x.dtype ? x : makeNode('cast', [x], { dtype })
    const made = this.inStages(wide, attrs)
    return dtype === x.dtype ? made : makeNode('cast', [made], { dtype: x.dtype })
  }

  private inStages(x: Node, attrs: ScanAttrs): Node {
    const { combiner, axis, reverse } = attrs
    const n = x.shape[axis] ?? 0
    const chunk = this.chunkOf(x.shape, attrs, x.dtype)
    const count = Math.ceil(n / chunk)
    const whole = (count - 1) * chunk
    const finished = (before: Node, of: Node, turned: boolean): Node => {
      const spread = broadcastTo(expandDims(before, axis + 1), [
        ...before.shape.slice(0, axis + 1),
        chunk,
        ...before.shape.slice(axis + 1),
      ])
      const line = sliceAxis(reshape(spread, resized(x.shape, axis, count * chunk)), axis, 0, n)
      const own = makeNode('scan', [of], { ...attrs, reverse: turned, chunk })
      return makeNode(combinerOp[combiner], [line, own], {})
    }
    if (!this.isOrdered(attrs, x.dtype)) {
      const ended = reverse
        ? this.padded(sliceAxis(x, axis, chunk, n), attrs, 0, whole - (n - chunk))
        : sliceAxis(x, axis, 0, whole)
      // A power of two of them suits a block.
      const totals = this.padded(this.totals(ended, attrs, chunk), attrs, 0, powerFrom(count - 1) - (count - 1))
      const prefixes = this.scan(totals, { combiner, axis, reverse, exclusive: false }, totalsShare)
      const own = sliceAxis(prefixes, axis, 0, count - 1)
      return finished(this.padded(own, attrs, reverse ? 0 : 1, reverse ? 1 : 0), x, reverse)
    }
    // Chunks count from where the scan begins.
    const inOrder = reverse ? flip(x, axis) : x
    const before = this.prefixes(this.totals(sliceAxis(inOrder, axis, 0, whole), attrs, chunk), attrs)
    if (!reverse) return finished(before, x, false)
    return n % chunk === 0 ? finished(flip(before, axis), x, true) : flip(finished(before, inOrder, false), axis)
  }

  private padded(x: Node, { axis, combiner }: ScanAttrs, low: number, high: number): Node {
    const widths = x.shape.map((_, i): [number, number] => (i === axis ? [low, high] : [0, 0]))
    return pad(x, widths, 'constant', combinerIdentity(combiner, x.dtype))
  }

  /** The folds of an axis' chunks, whose number divides it. */
  private totals(x: Node, { axis, combiner }: ScanAttrs, chunk: number): Node {
    const n = x.shape[axis] ?? 0
    const shape = [...x.shape.slice(0, axis), n / chunk, chunk, ...x.shape.slice(axis + 1)]
    return makeNode('reduce', [reshape(x, shape)], { combiner, axes: [axis + 1] })
  }

  /** The folds, in the tree, of the first 0, 1, 2, ... of some totals, of all at last. */
  private prefixes(totals: Node, attrs: ScanAttrs): Node {
    const { combiner, axis } = attrs
    const last = totals.shape[axis] ?? 0
    const shape = resized(totals.shape, axis, last + 1)
    const at = iota(shape, axis, 'i32')
    const number = (v: number): Node => full(shape, v, 'i32')
    const group = powerWithin(this.room(totals.shape, axis, totals.dtype))
    let before: Node = full(shape, combinerIdentity(combiner, totals.dtype), totals.dtype)
    let level = totals
    for (let bit = 0; 2 ** bit <= last; ) {
      const blocks = this.blocks(level, attrs, group)
      const above = blocks.shape[axis] ?? 0
      const largest = above <= group ? above : group / 2
      for (let own = 1; own <= largest && 2 ** bit <= last; own *= 2, bit++) {
        const higher = makeNode('shr', [at, number(bit)], {})
        const isSet = makeNode('ne', [makeNode('and', [higher, number(1)], {}), number(0)], {})
        const end = makeNode('sub', [makeNode('mul', [higher, number(own)], {}), number(1)], {})
        const sources = shape.map((_, i) => (i === axis ? { input: 0 } : { axis: i }))
        const block = makeNode('gather', [blocks, end], { shape, sources })
        before = makeNode('select', [isSet, makeNode(combinerOp[combiner], [block, before], {}), before], {})
      }
      level = sliceAxis(blocks, axis, group - 1, above, group)
    }
    return before
  }

  /** The folds of blocks of totals (`tree` of scans), in groups that a block of threads holds. */
  private blocks(totals: Node, { combiner, axis }: ScanAttrs, group: number): Node {
    const tree = (x: Node, along: number): Node =>
      makeNode('scan', [x], { combiner, axis: along, reverse: false, exclusive: false, tree: true })
    const n = totals.shape[axis] ?? 0
    if (n <= group) return tree(totals, axis)
    const groups = Math.ceil(n / group)
    const all = this.padded(totals, { combiner, axis, reverse: false, exclusive: false }, 0, groups * group - n)
    const apart = [...all.shape.slice(0, axis), groups, group, ...all.shape.slice(axis + 1)]
    return reshape(tree(reshape(all, apart), axis + 1), all.shape)
  }
}

/** A graph whose scans are of lines that a block of threads holds; the graph itself where all are, or where no block bounds them. */
export function boundScans(graph: Graph, target: Machine, mode: NumericsMode): Graph {
  const { lineBytes } = target
  if (lineBytes === undefined) return graph
  const scans = new LongScans(mode, lineBytes)
  const isLong = (n: Node): n is NodeOf<'scan'> => n.op === 'scan' && scans.isLong(n)
  if (!nodesOf(graph).some(isLong)) return graph
  return mapGraph(graph, (node, inputs) => {
    const [x] = inputs
    return isLong(node) && x !== undefined ? scans.scan(x, node.attrs) : withInputs(node, inputs)
  })
}
