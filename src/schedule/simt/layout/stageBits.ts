/**
 * How threads fill the tiles of products without matrix units and of products on matrices of subgroups: what a thread takes side by side, and what threads side by side do.
 */
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'
import { contiguityOf } from '../part/contiguity.ts'
import { flatIndex, motionOf } from '../part/facts.ts'
import type { Part } from '../part/part.ts'
import { halvesOfGroup } from '../part/subgroupMatrices.ts'
import { bytesPerElement } from '../storage/words.ts'
import type { Layout, LayoutRequest } from './layout.ts'

/** So many bits of a thread's number, one after another. */
export const bits = (from: number, n: number): number[] => Array.from({ length: n }, (_, i) => from + i)

/** log2 of the neighbours of the depth that threads side by side load, where they are neighbours in memory. */
const sectorThreads = 2

/**
 * How threads fill the tile of a product in vectors from memory where neighbours lie along the depth: four of a warp take neighbours there and eight take
 * rows of the result, so that a load touches eight places of memory in place of 32. Undefined where those rows are near each other in memory, and where a step has fewer neighbours: of
 * 16 bits, eight of which are a thread's, writes that meet in banks take longer than loads gain.
 */
export function sectorBits(
  part: Part,
  { product, operand }: NonNullable<ReturnType<Part['vectorsOn']>>,
  lets: readonly LetStmt[],
  layout: Layout,
): LayoutRequest['forced'] {
  const { contiguous } = contiguityOf(part, lets, [], [...layout.axes.keys()])
  const [along] = contiguous
  const own = layout.find(operand.vector)
  if (along === undefined || own === undefined || own.vec > 1 || contiguous.includes(own.name)) return undefined
  if (!lets.every((l) => isApart(part, l, own.name))) return undefined
  const a = layout.axis(along)
  const total = Math.log2(layout.threads)
  const near = sectorThreads
  const wanted = Math.ceil(Math.log2(a.size / a.vec))
  if (!product.depth.includes(along) || wanted < near || own.size < 2 ** (laneBits - near)) return undefined
  const rows = Math.min(total - near, Math.floor(Math.log2(own.size)))
  const more = Math.max(0, Math.min(wanted - near, total - near - rows))
  return new Map([
    [along, { vec: a.vec, bits: [...bits(0, near), ...bits(near + rows, more)] }],
    [own.name, { vec: 1, bits: bits(near, rows) }],
  ])
}

/**
 * How threads fill a tile of halves for matrices: each writes groups of them, along the axis that it loads neighbours of where there are some. Where there are none, neighbouring threads
 * load neighbours in memory, and a thread's groups go along another axis; undefined where the layout does so anyway.
 */
export function groupBits(
  part: Part,
  { product, operand }: NonNullable<ReturnType<Part['vectorsOn']>>,
  lets: readonly LetStmt[],
  layout: Layout,
): LayoutRequest['forced'] {
  const axes = [...layout.axes.values()]
  const deepest = product.depth.at(-1) ?? ''
  const isWhole = product.depth.length === 1 || part.axis(deepest).size % halvesOfGroup === 0
  const rows = isWhole ? [operand.vector, deepest] : [operand.vector]
  const wide = axes.find((a) => a.vec > 1 && rows.includes(a.name))
  if (wide !== undefined && wide.vec % halvesOfGroup === 0) return undefined
  const [near = operand.vector] = contiguityOf(part, lets, [], [...layout.axes.keys()]).contiguous
  const along = wide?.name ?? rows.find((x) => x !== near) ?? operand.vector
  const total = Math.log2(layout.threads)
  const bitsFor = (n: number): number => Math.ceil(Math.log2(n))
  const groups = bitsFor(Math.ceil(part.axis(along).size / halvesOfGroup))
  if (wide !== undefined || near === along)
    return new Map([[along, { vec: halvesOfGroup, bits: bits(0, Math.min(total, groups)) }]])
  const side = Math.min(total, laneBits, bitsFor(part.axis(near).size))
  return new Map([
    [near, { vec: 1, bits: bits(0, side) }],
    [along, { vec: halvesOfGroup, bits: bits(side, Math.min(total - side, groups)) }],
  ])
}

/** Bytes that memory brings at once. */
const sectorBytes = 32

/** Whether neighbours along an axis of a load, if it varies along it, lie in sectors of their own. */
function isApart(part: Part, { op }: LetStmt, axis: string): boolean {
  const p = op.kind === 'load' ? part.params.get(op.param) : undefined
  if (op.kind !== 'load' || p === undefined) return true
  const along = (id: ValueId): boolean => part.axesOf(id).includes(axis)
  const { stride } = motionOf(flatIndex(op.index, p.shape), axis, 1, part.alignment, along) ?? { stride: 1 }
  return stride === 0 || Math.abs(stride) * bytesPerElement(p) >= sectorBytes
}

/** log2 of the threads whose loads go to memory together. */
const laneBits = 5
