/**
 * The layouts that a part's code runs under: one of its own statements, one for each stage that is filled under a layout of its own,
 * one for each store that is walked in order. Here it is gathered what they have to suit; layout.ts chooses.
 */

import { valuesOf } from '../../../affine/expr.ts'
import { powerFrom } from '../../../affine/powers.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import { foldAxes, sharesOperands } from '../../../kernel/folds.ts'
import { gridSize, type LetStmt, operandsOf, type StoreStmt, type ValueId } from '../../../kernel/ir.ts'
import { allStmts } from '../../../kernel/walk.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import { isFloat } from '../../../types/dtype.ts'
import { contiguityOf } from '../part/contiguity.ts'
import { storeValues } from '../part/facts.ts'
import { filterOf, filterThreads, ownAxes } from '../part/filter.ts'
import type { Part } from '../part/part.ts'
import { chainLayout, chainRows, chainThreads, type Product, productLayout } from '../part/product.ts'
import { type Slices, vectorLayout } from '../part/vectorProduct.ts'
import { type AxisLayout, chooseLayout, Layout, type LayoutRequest, type Nest, spanOf } from './layout.ts'
import { bits, groupBits, sectorBits } from './stageBits.ts'

/** Statements that share a layout, and what it must respect. */
interface Wanted {
  readonly nests: readonly Nest[]
  /** What accesses memory under the layout. */
  readonly lets?: readonly LetStmt[]
  readonly stores?: readonly StoreStmt[]
  readonly serial?: ReadonlySet<string>
  readonly folded?: ReadonlySet<string>
  readonly rows?: ReadonlySet<string>
  /** The axes to lay out, outermost first: all of the part's unless given. */
  readonly only?: readonly string[]
  /** Threads, where they are settled. */
  readonly threads?: number | undefined
  readonly asked?: Pick<LayoutRequest, 'forced' | 'first'>
  /** Axes that every thread holds whole, on which no neighbours are read together. */
  readonly own?: ReadonlySet<string>
  /** Elements that stand for several indices in a row are read in vectors. */
  readonly repeating?: boolean
  /** Indices of an axis to lay out, where they are fewer than a program holds. */
  readonly sizes?: ReadonlyMap<string, number>
}

const none: ReadonlySet<string> = new Set()

/** The layout of the part's own statements; over so many threads, or as many as suit it. */
export function mainLayout(part: Part, machine: SimtMachine, threads?: number): Layout {
  const [lets, stores] = [part.mainLets(), part.mainStores()]
  const nests: Nest[] = []
  const serial = strictAxes(part)
  const folded = new Set<string>()
  const size = (names: readonly string[]): number => names.reduce((n, a) => n * part.axis(a).size, 1)
  for (const l of lets) {
    const axes = part.nestOf(l)
    for (const a of foldAxes(l)) folded.add(a)
    if (part.isChain && part.isProduct(l.id)) {
      // Its operands stand in shared memory, or in registers as another statement's results do.
      nests.push({ axes: part.spreadOnly(l.axes) })
      continue
    }
    if (l.op.kind === 'dot') {
      const kept = part.spreadOnly(l.axes)
      const [a, b] = [l.op.a, l.op.b].map((id) => part.spreadOnly(part.axesOf(id)))
      if (size(kept) >= 16 && sharesOperands(a ?? [], b ?? [])) {
        for (const a of l.op.axes) serial.add(a)
        nests.push({ axes, kept })
        continue
      }
    }
    nests.push({ axes })
  }
  for (const s of stores) nests.push({ axes: part.storeAxes(s) })
  const { windows } = part
  const own = windows === undefined ? part.taps : new Set([windows.along, ...windows.folded])
  for (const a of own) serial.add(a)
  const [product] = part.products.values()
  const ofChain = part.chain === undefined ? undefined : chainThreads(chainRows(part.chain))
  const [inVectors] = part.vectorProducts.values()
  const spread =
    threads ??
    ofChain ??
    product?.threads ??
    inVectors?.threads ??
    threadsToFilter(part, machine) ??
    threadsOfWindows(part, own)
  const vectors =
    part.vectorChain?.layout ?? (inVectors === undefined ? undefined : vectorLayout(part, inVectors, spread ?? 0))
  const ofProduct = product === undefined ? vectors : productLayout(product, spread ?? 0)
  const forced = part.chain === undefined ? ofProduct : chainLayout(part.chain, spread ?? 0)
  const rows = rowAxes(part)
  return layoutOf(part, { nests, lets, stores, serial, folded, rows, own, threads: spread, asked: { forced } }, machine)
}

/** Threads of a part of windows: one for every point of the axes that they do not go along. */
function threadsOfWindows(part: Part, own: ReadonlySet<string>): number | undefined {
  if (part.windows === undefined) return undefined
  const kept = part.mainLets().flatMap((l) => part.axesOf(l.id))
  const across = [...new Set(kept)].filter((a) => !own.has(a))
  return Math.min(256, 2 ** across.reduce((n, a) => n + Math.ceil(Math.log2(part.axis(a).size)), 0))
}

/** The threads of a part that filters the points of stores. */
function threadsToFilter(part: Part, machine: SimtMachine): number | undefined {
  const threads = part.stores.flatMap((s) => {
    const filter = filterOf(part, s)
    if (filter === undefined) return []
    const beside = part.storeAxes(s).filter((a) => a !== filter.axis)
    const places = beside.reduce((n, a) => n * powerFrom(part.axis(a).size), 1)
    return [filterThreads(machine, part.axis(filter.axis).size, places)]
  })
  return threads.length === 0 ? undefined : Math.max(...threads)
}

/** The layout under which a stage is filled. */
export function stageLayout(part: Part, l: LetStmt, machine: SimtMachine, threads: number): Layout {
  const { lets } = part.closureOf(l.op.kind === 'stage' ? [l.op.of] : [])
  const axes = part.spreadOnly(l.axes)
  const vectors = part.vectorsOn(l.id)
  const asked = vectors === undefined || vectors.product.onMatrices === true ? {} : { first: vectors.operand.vector }
  const product = part.productOn(l.id)
  const slices = part.slicesOf(l.id)
  if (slices !== undefined)
    return slicedLayout(part, slices, { nests: [{ axes }], lets, only: axes, threads, asked }, machine)
  const repeating = product !== undefined
  const layout = layoutOf(part, { nests: [{ axes }], lets, only: axes, threads, asked, repeating }, machine)
  if (vectors !== undefined && !part.isChain) {
    const forced = vectors.product.onMatrices
      ? groupBits(part, vectors, lets, layout)
      : sectorBits(part, vectors, lets, layout)
    return forced === undefined
      ? layout
      : layoutOf(part, { nests: [{ axes }], lets, only: axes, threads, asked: { forced } }, machine)
  }
  const isAlong = (x: AxisLayout): boolean =>
    x.vec > 1 && (product?.halves !== 2 || product.split === true || x.name === product.depth)
  if (product === undefined || [...layout.axes.values()].some(isAlong)) return layout
  // Single elements: neighbouring threads take neighbours of the result, each what one write of the depth holds; of few results those beside them the next of the depth.
  const first = sideOf(product, l)
  const vec = 8 / product.halves
  const side = Math.ceil(Math.log2(part.axis(first).size))
  const more = Math.min(Math.log2(threads) - side, Math.floor(Math.log2(product.depthSize / vec)))
  const forced = new Map([[product.depth, { vec, bits: more > 0 ? bits(side, more) : [] }]])
  return layoutOf(part, { nests: [{ axes }], lets, only: axes, threads, asked: { first, forced } }, machine)
}

/** A layout of one slice, which is a chunk of its axis: threads hold their parts of it whole, however few registers a schedule has. */
function slicedLayout(part: Part, { axis, size, count }: Slices, wanted: Wanted, machine: SimtMachine): Layout {
  const registers = Number.POSITIVE_INFINITY
  const { axes, threads } = layoutOf(part, { ...wanted, sizes: new Map([[axis, size]]) }, { ...machine, registers })
  const cut = [...axes].map(([name, a]): [string, AxisLayout] => {
    if (name !== axis) return [name, a]
    invariant(a.chunks === 1 && spanOf(a) === size, `a slice of ${axis} is not laid out whole`)
    return [name, { ...a, size: part.axis(axis).size, chunks: count }]
  })
  return new Layout(new Map(cut), threads)
}

/**
 * The layout under which the columns of a product are computed where they are multiplied, in fragments (PTX ISA, "Matrix Fragments for
 * mma.m16n8k16"): a thread has one column of a tile, and of the depth a run that its instructions take in pairs; which number of the depth a place
 * of a fragment stands for is open, as long as rows agree. Undefined where warps share columns, or the run is no whole number of instructions.
 */
export function fragmentLayout(part: Part, l: LetStmt, main: Layout, machine: SimtMachine): Layout | undefined {
  const product = part.productOn(l.id)
  if (product?.b !== l.id || product.groups !== undefined || product.halves !== 1 || product.chained) return undefined
  const [rows, columns] = [main.axis(product.rows), main.axis(product.columns)]
  const { warpsOfDepth = 1 } = product
  const vec = product.depthSize / lanesOfDepth / warpsOfDepth
  if (rows.bits.length > lanesOfRows.length || vec % runOfDepth !== 0) return undefined
  const forced = new Map([
    [product.columns, { vec: 1, bits: [...lanesOfRows, ...columns.bits.slice(2)] }],
    [product.depth, { vec, bits: [0, 1, ...bitsOfWarps(warpsOfDepth)] }],
  ])
  const axes = part.spreadOnly(l.axes)
  const layout = layoutOf(part, { nests: [{ axes }], only: axes, threads: main.threads, asked: { forced } }, machine)
  return [...layout.axes.values()].every((a) => a.chunks === 1) ? layout : undefined
}

/** Bits of a thread's number that tell which of the warps along the depth it is in. */
const bitsOfWarps = (warps: number): number[] => Array.from({ length: Math.log2(warps) }, (_, i) => 5 + i)

/** Bits of a thread's number that tell the row of a fragment of rows, or the column of one of columns; threads along the depth. */
const lanesOfRows = [2, 3, 4]
const lanesOfDepth = 4
/** Of the depth, what a thread reads of a row at a time: four words, for two instructions. */
const runOfDepth = 8

/** The axis of a product's result that an operand has. */
const sideOf = (product: Product, l: LetStmt): string => (product.a === l.id ? product.rows : product.columns)

/**
 * The layout under which the single elements of a stage are copied in the background: four neighbours of the depth and eight of the
 * result a warp, which meet in no bank of a tile and read whole sectors of memory along either.
 */
export function copiedLayout(part: Part, l: LetStmt, product: Product, machine: SimtMachine, threads: number): Layout {
  const axes = part.spreadOnly(l.axes)
  const first = sideOf(product, l)
  const side = Math.min(Math.log2(threads) - 2, Math.floor(Math.log2(part.axis(first).size)))
  const rest = Math.log2(threads) - 2 - side
  const forced = new Map([
    [product.depth, { vec: 1, bits: [0, 1, ...bits(2 + side, rest)] }],
    [first, { vec: 1, bits: bits(2, side) }],
  ])
  return layoutOf(part, { nests: [{ axes }], only: axes, threads, asked: { forced } }, machine)
}

/** The layout of an ordered store: axes that lead to places of their own are spread over threads, the others walked. */
export function orderedLayout(
  part: Part,
  s: StoreStmt,
  nests: readonly Nest[],
  machine: SimtMachine,
  threads: number,
): Layout {
  const axes = new Set([...part.storeAxes(s), ...nests.flatMap((n) => n.axes)])
  const own = ownAxes(s)
  const serial = new Set([...axes].filter((a) => !own.has(a)))
  const only = part.part.axes.map((a) => a.name).filter((a) => axes.has(a))
  const forced = classBits(part, s, own, threads)
  const wanted: Wanted = { nests: [{ axes: only }, ...nests], serial, folded: serial, only, threads, asked: { forced } }
  return layoutOf(part, wanted, { ...machine, registers: 1 })
}

/** Bits of the axis that tells which threads a queued point is for: above those of columns, so that a warp has few classes, and neighbours in memory. */
function classBits(part: Part, s: StoreStmt, own: ReadonlySet<string>, threads: number): LayoutRequest['forced'] {
  const axis = filterOf(part, s)?.classes?.axis
  if (axis === undefined) return undefined
  const bitsOf = (a: string): number => Math.ceil(Math.log2(part.axis(a).size))
  const columns = part.storeAxes(s).filter((a) => own.has(a) && a !== axis)
  const first = columns.reduce((n, a) => n + bitsOf(a), 0)
  if (2 ** (first + bitsOf(axis)) > threads) return undefined
  return new Map([[axis, { vec: 1, bits: Array.from({ length: bitsOf(axis) }, (_, i) => first + i) }]])
}

/** Axes folded by the main layout's statements and needed again by what depends on the fold. */
export function rowAxes(part: Part): Set<string> {
  const after = new Map<ValueId, Set<string>>()
  const out = new Set<string>()
  const meet = (ids: Iterable<ValueId>, axes: Iterable<string>): Set<string> => {
    const have = new Set<string>()
    for (const id of ids) for (const a of after.get(id) ?? []) have.add(a)
    for (const a of axes) if (have.has(a)) out.add(a)
    return have
  }
  for (const l of part.mainLets()) {
    const have = meet(operandsOf(l.op), part.nestOf(l))
    for (const a of part.spreadOnly(foldAxes(l))) have.add(a)
    after.set(l.id, have)
  }
  for (const s of part.mainStores()) meet(storeValues(s), part.storeAxes(s))
  return out
}

function layoutOf(part: Part, wanted: Wanted, machine: SimtMachine): Layout {
  const { nests, lets = [], stores = [], serial = none, folded = none, rows = none, only, threads, asked } = wanted
  const { repeating, sizes: asSliced, own = none } = wanted
  const used = new Set(nests.flatMap((n) => n.axes))
  const sizes = new Map(
    (only ?? part.part.axes.map((a) => a.name))
      .filter((a) => used.has(a))
      .map((a) => [a, asSliced?.get(a) ?? part.axis(a).size]),
  )
  const scanned = new Set(lets.flatMap((l) => (l.op.kind === 'scan' ? [l.op.axis] : [])).filter((a) => used.has(a)))
  const resident = only === undefined ? new Set([...residentAxes(part), ...own]) : none
  const { vec: widest, contiguous } = contiguityOf(part, lets, stores, [...sizes.keys()], repeating)
  const vec = own.size > 0 ? new Map<string, number>() : withoutScattered(part, stores, widest)
  const { registers, walkedRegisters } = machine
  const request = {
    ...asked,
    sizes,
    nests,
    vec,
    contiguous,
    resident,
    serial,
    scanned,
    folded,
    rows,
    registers,
    walkedRegisters,
  }
  const spreadOver = (n: number): Layout => chooseLayout({ ...request, threads: n })
  const most = threads ?? threadsFor(part, wanted, machine)
  const least = threads ?? Math.max(32, most / 4)
  let best = spreadOver(most)
  // Fewer threads where they have more work each instead of some having none, and programs have enough for the machine.
  for (let n = most / 2; n >= least && isBusy(part, machine, n); n /= 2) {
    const next = spreadOver(n)
    if (next.paddingBeside(folded) < 0.9 * best.paddingBeside(folded)) best = next
  }
  return best
}

/**
 * Vectors but for axes along which a store's places are data: neighbours often go to neighbouring places, which memory takes together where one
 * instruction of neighbouring threads stores them.
 */
function withoutScattered(
  part: Part,
  stores: readonly StoreStmt[],
  vec: ReadonlyMap<string, number>,
): ReadonlyMap<string, number> {
  const values = stores.flatMap((s) => s.index.flatMap((e) => [...valuesOf(e)]))
  const scattered = new Set(values.flatMap((id) => part.axesOf(id)))
  return scattered.size === 0 ? vec : new Map([...vec].map(([a, n]) => [a, scattered.has(a) ? 1 : n]))
}

/** Threads of a multiprocessor that hide what memory and functions take: half of what it has. */
const busyThreads = 1024

/** Whether programs of so many threads each keep all multiprocessors busy. */
const isBusy = (part: Part, { multiprocessors = 1 }: SimtMachine, threads: number): boolean =>
  gridSize(part.part) * threads >= busyThreads * multiprocessors

/** Elements of a program up to which there are few of them, and values that a thread then has: one vector. */
const fewElements = 1024
const fewValues = 4

/** Enough threads that each holds about so many values of the largest nest as it should, 16 of a product's. */
function threadsFor(
  part: Part,
  { nests, serial = none, rows = none, folded = none }: Wanted,
  machine: SimtMachine,
): number {
  const size = (axes: readonly string[]): number => axes.reduce((p, a) => p * part.axis(a).size, 1)
  // A call of the generator serves several elements of a thread.
  const isFew = nests.every((n) => size(n.axes) <= fewElements) && part.mainLets().every((l) => l.op.kind !== 'random')
  const ofElement = isFew ? Math.min(fewValues, machine.elementValues) : machine.elementValues
  const values = folded.size > 0 || part.loops.length > 0 ? machine.values : ofElement
  let most = 1
  for (const n of nests) {
    const each = n.kept === undefined ? values : 16
    const axes = (n.kept ?? n.axes).filter((a) => n.kept !== undefined || !serial.has(a))
    most = Math.max(most, size(axes) / each)
  }
  const want = 2 ** Math.ceil(Math.log2(most))
  const { fewThreads, registers } = machine
  const isPlain = part.loops.length === 0 && nests.every((n) => n.kept === undefined)
  const few = isPlain && (rows.size === 0 || most * values <= fewThreads * registers) ? fewThreads : machine.maxThreads
  const isScan = part.mainLets().some((l) => l.op.kind === 'scan')
  const holdsRows = rows.size > 0 || (isScan && !isBusy(part, machine, 256))
  return Math.min(holdsRows ? few : Math.min(few, 256), machine.maxThreads, Math.max(32, want))
}

/** Axes whose float sums must be folded in order. */
function strictAxes(part: Part): Set<string> {
  const out = new Set<string>()
  if (part.mode !== 'strict') return out
  for (const l of part.lets.values()) {
    if (l.op.kind === 'dot' && isFloat(l.dtype)) for (const a of l.op.axes) out.add(a)
    if (l.op.kind === 'reduce' && isFloat(l.dtype) && (l.op.combiner === 'sum' || l.op.combiner === 'prod'))
      for (const a of l.op.axes) out.add(a)
  }
  return out
}

/** Axes that tiles outlive a statement list along: carried, scanned, used inside a loop of another axis, or those of a chain's results. */
function residentAxes(part: Part): Set<string> {
  const products = part.chain === undefined ? [] : [...part.chain.tiles, ...part.chain.sums]
  const out = new Set<string>(part.vectorChain?.layout.keys())
  for (const p of products) for (const a of [p.rows, p.columns]) out.add(a)
  for (const l of part.lets.values()) if (l.op.kind === 'scan') out.add(l.op.axis)
  for (const loop of part.loops) {
    const inner = new Set([...allStmts([loop])].flatMap((s) => (s.kind === 'loop' ? [s.axis] : [])))
    /** Axes in scope outside the loops inside, other than local ones that only folds inside run over. */
    const outside = (axes: Iterable<string>): string[] =>
      part.spreadOnly(axes).filter((a) => !inner.has(a) && part.axis(a).role === 'grid')
    for (const c of loop.carries) for (const a of c.axes) out.add(a)
    for (const s of allStmts(loop.body)) {
      if (s.kind === 'let' && part.isMain(s.id) && !part.ownStages.has(s.id))
        for (const a of outside(s.axes)) out.add(a)
      if (s.kind === 'store' && !part.isOrdered(s)) for (const a of outside(part.storeAxes(s))) out.add(a)
    }
  }
  return out
}
