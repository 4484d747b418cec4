/** What the lowering knows of a kernel part before it emits code: axes, nests, which stages have layouts of their own. */
import { asAxis, valuesOf } from '../../index/expr.ts'
import { startOf } from '../../kernel/axes.ts'
import {
  type KernelParam,
  type KernelPart,
  type LetStmt,
  type LoopStmt,
  type NumericsMode,
  operandsOf,
  type StoreStmt,
  type ValueId,
} from '../../kernel/ir.ts'
import { scalarInfo } from '../../scalar/ops.ts'
import { isFloat } from '../../types/dtype.ts'
import { allStmts, flatIndex, foldAxes, isUniform, motionOf, runOf, storeAxes } from './facts.ts'
import { chooseLayout, type Layout, type LayoutRequest, type Nest } from './layout.ts'
import { type Product, productLayout, productOf } from './product.ts'
import { type VectorProduct, vectorProductOf } from './vectorProduct.ts'
import { bytesPerElement } from './words.ts'

export interface AxisInfo {
  readonly name: string
  readonly extent: number
  /** Indices held at a time. */
  readonly size: number
  readonly role: 'grid' | 'loop' | 'local'
  /** Blocks start at multiples of this. */
  readonly alignment: number
  /** Whether a block may hold fewer than `size` indices. */
  readonly tail: boolean
}

/** Limits of a device that layouts respect. */
export interface Limits {
  readonly maxThreads: number
  /** Lanes that exchange registers: log2 of their number; 0 where they cannot. */
  readonly laneBits: number
  readonly registers: number
  /** Values of a tile that a thread should hold. */
  readonly values: number
  /** Threads of a block as long as their registers hold its tiles; more only beyond. */
  readonly fewThreads: number
  readonly tensorCores: boolean
  readonly warpGroups: boolean
  /** Most blocks that run a program together; 1: blocks run alone. */
  readonly clusters: number
  /** Shared memory that tiles of products read in vectors of four may take; 0: there are none. */
  readonly vectorTileBytes: number
  /** Multiply-adds of a product that is worth the code. */
  readonly leastProduct: number
}

/** Values whose computation can be repeated anywhere: everything but folds, scans, carries and what loops give. */
const isPure = (l: LetStmt | undefined): l is LetStmt =>
  l !== undefined && l.op.kind !== 'reduce' && l.op.kind !== 'dot' && l.op.kind !== 'scan' && l.op.kind !== 'stage'

export class Part {
  readonly part: KernelPart
  readonly mode: NumericsMode
  readonly params: ReadonlyMap<string, KernelParam>
  readonly axes = new Map<string, AxisInfo>()
  readonly lets = new Map<ValueId, LetStmt>()
  /** Axes of every value, carries and loop results included. */
  private readonly axesByValue = new Map<ValueId, readonly string[]>()
  readonly dtypes = new Map<ValueId, LetStmt['dtype']>()
  readonly stores: StoreStmt[] = []
  readonly loops: LoopStmt[] = []
  /** Stages that are filled under a layout of their own. */
  readonly ownStages = new Set<ValueId>()
  /** Product sums on tensor cores. */
  readonly products = new Map<ValueId, Product>()
  /** The product sum whose tiles are read in vectors. */
  readonly vectorProduct: VectorProduct | undefined
  /** Values that the main layout computes. */
  private readonly main = new Set<ValueId>()

  constructor(part: KernelPart, mode: NumericsMode, params: ReadonlyMap<string, KernelParam>, limits: Limits) {
    this.part = part
    this.mode = mode
    this.params = params
    const blocks = new Map(part.grid.map((g) => [g.axis, g.block]))
    for (const s of allStmts(part.body)) {
      if (s.kind === 'let') {
        this.lets.set(s.id, s)
        this.axesByValue.set(s.id, s.axes)
        this.dtypes.set(s.id, s.dtype)
      } else if (s.kind === 'store') this.stores.push(s)
      else {
        this.loops.push(s)
        for (const c of s.carries)
          for (const id of [c.param, c.result]) {
            this.axesByValue.set(id, c.axes)
            this.dtypes.set(id, c.dtype)
          }
      }
    }
    // Blocks beyond an extent are held whole where products are padded to what tensor cores take.
    const isPadded = limits.tensorCores && [...this.lets.values()].some((l) => l.op.kind === 'dot')
    const held = (block: number, extent: number): number => (isPadded ? block : Math.min(block, extent))
    for (const { name, extent } of part.axes) {
      const block = blocks.get(name)
      const loops = this.loops.filter((l) => l.axis === name)
      if (block !== undefined) {
        const size = held(block, extent)
        this.axes.set(name, {
          name,
          extent,
          size,
          role: 'grid',
          alignment: block,
          tail: extent % size !== 0,
        })
      } else if (loops.length > 0) {
        const size = held(Math.max(...loops.map((l) => l.block)), extent)
        const plain = loops.every((l) => l.from === undefined && l.to === undefined && l.block === loops[0]?.block)
        const alignment = loops.every((l) => l.from === undefined) ? (loops[0]?.block ?? 1) : 1
        this.axes.set(name, {
          name,
          extent,
          size,
          role: 'loop',
          alignment: plain ? alignment : 1,
          tail: !plain || extent % size !== 0,
        })
      } else this.axes.set(name, { name, extent, size: extent, role: 'local', alignment: 0, tail: false })
    }
    this.classify()
    if (limits.tensorCores && mode === 'fast')
      for (const l of this.lets.values()) {
        const plan = productOf(this, l, limits.warpGroups)
        if (plan !== undefined) this.products.set(l.id, plan)
      }
    const dots = mode === 'fast' ? [...this.lets.values()].filter((l) => l.op.kind === 'dot') : []
    const [dot] = dots
    if (dot !== undefined && dots.length === 1 && this.products.size === 0)
      this.vectorProduct = vectorProductOf(this, dot, limits)
  }

  axis(name: string): AxisInfo {
    return this.axes.get(name) ?? { name, extent: 1, size: 1, role: 'local', alignment: 0, tail: false }
  }

  /** Axes of a value that a program holds more than one index of. */
  axesOf = (id: ValueId): string[] => this.spreadOnly(this.axesByValue.get(id) ?? [])

  spreadOnly(names: Iterable<string>): string[] {
    return [...names].filter((a) => this.axis(a).size !== 1)
  }

  dtypeOf(id: ValueId): LetStmt['dtype'] {
    return this.dtypes.get(id) ?? 'f32'
  }

  storeAxes(s: StoreStmt): string[] {
    return this.spreadOnly(storeAxes(s, this.axesOf))
  }

  /** The axes that a statement's points run over, those it folds included. */
  nestOf(l: LetStmt): string[] {
    return this.spreadOnly(new Set([...l.axes, ...foldAxes(l)]))
  }

  /** Whether a half-precision value goes nowhere but into memory of its dtype, whose store rounds it. */
  isRoundedByStores(id: ValueId): boolean {
    const l = this.lets.get(id)
    if (l === undefined || (l.dtype !== 'f16' && l.dtype !== 'bf16')) return false
    for (const x of this.lets.values()) if (operandsOf(x.op).includes(id)) return false
    for (const x of this.loops) if (x.carries.some((c) => c.init === id || c.next === id)) return false
    return this.stores.every(
      (s) => !storeValues(s).includes(id) || (this.params.get(s.param)?.dtype === l.dtype && s.combiner === undefined),
    )
  }

  /** Stores that may meet at one place: they are walked in order by one thread a place. */
  isOrdered(s: StoreStmt): boolean {
    return s.combiner !== undefined || s.index.some((e) => valuesOf(e).size > 0)
  }

  /** Pure statements that a value needs, itself included, in order; and what they rest on that cannot be repeated. */
  closureOf(roots: Iterable<ValueId>): { readonly lets: readonly LetStmt[]; readonly rest: ReadonlySet<ValueId> } {
    const seen = new Set<ValueId>()
    const rest = new Set<ValueId>()
    const stack = [...roots]
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      if (seen.has(id) || rest.has(id)) continue
      const l = this.lets.get(id)
      if (!isPure(l)) {
        rest.add(id)
        continue
      }
      seen.add(id)
      stack.push(...operandsOf(l.op))
    }
    return { lets: [...this.lets.values()].filter((l) => seen.has(l.id)), rest }
  }

  private classify(): void {
    for (const l of this.lets.values()) {
      if (l.op.kind !== 'stage') continue
      const { rest } = this.closureOf([l.op.of])
      if ([...rest].every((id) => this.axesOf(id).length === 0 || this.ownStages.has(id) || this.isStage(id)))
        this.ownStages.add(l.id)
    }
    const stack: ValueId[] = []
    for (const s of this.stores) if (!this.isOrdered(s)) stack.push(...storeValues(s))
    for (const l of this.loops)
      stack.push(...l.carries.flatMap((c) => [c.init, c.next]), ...[l.from, l.to].filter((x) => x !== undefined))
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      if (this.main.has(id)) continue
      this.main.add(id)
      const l = this.lets.get(id)
      if (l === undefined || this.ownStages.has(id)) continue
      stack.push(...operandsOf(l.op))
    }
    // What own stages rest on is computed by the main layout too (values without axes).
    for (const id of this.ownStages) {
      const op = this.lets.get(id)?.op
      if (op?.kind === 'stage') for (const r of this.closureOf([op.of]).rest) this.main.add(r)
    }
  }

  private isStage(id: ValueId): boolean {
    return this.lets.get(id)?.op.kind === 'stage'
  }

  /** The product whose operand a staged tile is. */
  productOn(stage: ValueId): Product | undefined {
    return [...this.products.values()].find((p) => p.a === stage || p.b === stage)
  }

  isMain(id: ValueId): boolean {
    return this.main.has(id)
  }

  /** Axes whose float sums must be folded in order. */
  private strictAxes(): Set<string> {
    const out = new Set<string>()
    if (this.mode !== 'strict') return out
    for (const l of this.lets.values()) {
      if (l.op.kind === 'dot' && isFloat(l.dtype)) for (const a of l.op.axes) out.add(a)
      if (l.op.kind === 'reduce' && isFloat(l.dtype) && (l.op.combiner === 'sum' || l.op.combiner === 'prod'))
        for (const a of l.op.axes) out.add(a)
    }
    return out
  }

  /** Axes folded and needed again by what depends on the fold. */
  rowAxes(): Set<string> {
    return this.rows(
      this.mainLets(),
      this.stores.filter((s) => !this.isOrdered(s)),
    )
  }

  /** Whether a value is better computed again than kept: a few operations on scalars and indices. */
  isCheap(l: LetStmt): boolean {
    if (l.op.kind === 'scalar') return ['free', 'simple'].includes(scalarInfo(l.op.op).cost)
    return l.op.kind === 'const' || l.op.kind === 'index' || l.op.kind === 'predicate'
  }

  private mainLets(): LetStmt[] {
    return [...this.lets.values()].filter((l) => this.main.has(l.id) && !this.ownStages.has(l.id))
  }

  /** The layout of the part's own statements. */
  mainLayout(limits: Limits, threads?: number): Layout {
    const lets = this.mainLets()
    const stores = this.stores.filter((s) => !this.isOrdered(s))
    const nests: Nest[] = []
    const serial = this.strictAxes()
    const folded = new Set<string>()
    const size = (names: readonly string[]): number => names.reduce((n, a) => n * this.axis(a).size, 1)
    for (const l of lets) {
      const axes = this.nestOf(l)
      for (const a of foldAxes(l)) folded.add(a)
      if (l.op.kind === 'dot') {
        const kept = this.spreadOnly(l.axes)
        if (size(kept) >= 16) {
          for (const a of l.op.axes) serial.add(a)
          nests.push({ axes, kept })
          continue
        }
      }
      nests.push({ axes })
    }
    for (const s of stores) nests.push({ axes: this.storeAxes(s) })
    const [product] = this.products.values()
    const wanted = product?.threads ?? this.vectorProduct?.threads
    const spread = threads ?? wanted
    const forced = product === undefined ? this.vectorProduct?.layout(spread ?? 0) : productLayout(product, spread ?? 0)
    return this.layoutOf(nests, lets, stores, serial, folded, this.rows(lets, stores), limits, undefined, spread, {
      forced,
    })
  }

  /** The layout under which a stage is filled. */
  stageLayout(l: LetStmt, limits: Limits, threads: number): Layout {
    const { lets } = this.closureOf(l.op.kind === 'stage' ? [l.op.of] : [])
    const axes = this.spreadOnly(l.axes)
    const own = this.vectorProduct?.operandOf(l.id)?.vector
    const first = own === undefined ? {} : { first: own }
    return this.layoutOf([{ axes }], lets, [], new Set(), new Set(), new Set(), limits, axes, threads, first)
  }

  /** The layout of an ordered store: axes that lead to places of their own are spread over threads, the others walked. */
  orderedLayout(s: StoreStmt, nests: readonly Nest[], limits: Limits, threads: number): Layout {
    const axes = [...new Set([...this.storeAxes(s), ...nests.flatMap((n) => n.axes)])]
    const own = new Set(s.index.flatMap((e) => asAxis(e)?.name ?? []))
    const serial = new Set(axes.filter((a) => !own.has(a)))
    const ordered = [...this.part.axes.map((a) => a.name)].filter((a) => axes.includes(a))
    return this.layoutOf(
      [{ axes: ordered }, ...nests],
      [],
      [],
      serial,
      serial,
      new Set(),
      { ...limits, registers: 1 },
      ordered,
      threads,
    )
  }

  private layoutOf(
    nests: readonly Nest[],
    lets: readonly LetStmt[],
    stores: readonly StoreStmt[],
    serial: ReadonlySet<string>,
    folded: ReadonlySet<string>,
    rows: ReadonlySet<string>,
    limits: Limits,
    only?: readonly string[],
    threads?: number,
    asked: Pick<LayoutRequest, 'forced' | 'first'> = {},
  ): Layout {
    const used = new Set(nests.flatMap((n) => n.axes))
    const sizes = new Map(
      (only ?? this.part.axes.map((a) => a.name)).filter((a) => used.has(a)).map((a) => [a, this.axis(a).size]),
    )
    const resident = only === undefined ? this.residentAxes() : new Set<string>()
    const { vec, contiguous } = this.contiguity(lets, stores, [...sizes.keys()])
    const spreadOver = (threads: number): Layout =>
      chooseLayout({
        ...asked,
        sizes,
        nests,
        vec,
        contiguous,
        resident,
        serial,
        folded,
        rows,
        threads,
        registers: limits.registers,
      })
    const most = threads ?? this.threadsFor(nests, serial, rows, limits)
    const least = threads ?? Math.max(32, most / 4)
    let best = spreadOver(most)
    // Fewer threads where they have more work each instead of some having none.
    for (let n = most / 2; n >= least; n /= 2) {
      const next = spreadOver(n)
      if (next.paddingBeside(folded) < 0.9 * best.paddingBeside(folded)) best = next
    }
    return best
  }

  /** Enough threads that each holds about `values` values of the largest nest, 16 of a product's. */
  private threadsFor(
    nests: readonly Nest[],
    serial: ReadonlySet<string>,
    rows: ReadonlySet<string>,
    limits: Limits,
  ): number {
    let most = 1
    for (const n of nests) {
      const values = n.kept === undefined ? limits.values : 16
      const axes = (n.kept ?? n.axes).filter((a) => n.kept !== undefined || !serial.has(a))
      most = Math.max(most, axes.reduce((p, a) => p * this.axis(a).size, 1) / values)
    }
    const want = 2 ** Math.ceil(Math.log2(most))
    const { fewThreads, registers, values } = limits
    const isPlain = this.loops.length === 0 && nests.every((n) => n.kept === undefined)
    const few = isPlain && (rows.size === 0 || most * values <= fewThreads * registers) ? fewThreads : limits.maxThreads
    return Math.min(rows.size > 0 ? few : Math.min(few, 256), limits.maxThreads, Math.max(32, want))
  }

  /** Axes that tiles outlive a statement list along: carried, scanned, or used inside a loop of another axis. */
  private residentAxes(): Set<string> {
    const out = new Set<string>()
    for (const l of this.lets.values()) if (l.op.kind === 'scan') out.add(l.op.axis)
    for (const loop of this.loops) {
      const inner = new Set([...allStmts([loop])].flatMap((s) => (s.kind === 'loop' ? [s.axis] : [])))
      for (const c of loop.carries) for (const a of c.axes) out.add(a)
      for (const s of allStmts(loop.body)) {
        if (s.kind === 'let' && this.isMain(s.id) && !this.ownStages.has(s.id))
          for (const a of this.outside(s.axes, inner)) out.add(a)
        if (s.kind === 'store' && !this.isOrdered(s)) for (const a of this.outside(this.storeAxes(s), inner)) out.add(a)
      }
    }
    return out
  }

  /** Axes that are in scope outside the loops `inner`, other than local ones that only folds inside run over. */
  private outside(axes: Iterable<string>, inner: ReadonlySet<string>): string[] {
    return this.spreadOnly(axes).filter((a) => !inner.has(a) && this.axis(a).role === 'grid')
  }

  /** Folded axes that what depends on the fold runs over again. */
  private rows(lets: readonly LetStmt[], stores: readonly StoreStmt[]): Set<string> {
    const after = new Map<ValueId, Set<string>>()
    const out = new Set<string>()
    const meet = (ids: Iterable<ValueId>, axes: Iterable<string>): Set<string> => {
      const have = new Set<string>()
      for (const id of ids) for (const a of after.get(id) ?? []) have.add(a)
      for (const a of axes) if (have.has(a)) out.add(a)
      return have
    }
    for (const l of lets) {
      const have = meet(operandsOf(l.op), this.nestOf(l))
      for (const a of this.spreadOnly(foldAxes(l))) have.add(a)
      after.set(l.id, have)
    }
    for (const s of stores) meet(storeValues(s), this.storeAxes(s))
    return out
  }

  alignment = (name: string): number => {
    const of = startOf(name)
    return of === undefined ? 1 : this.axis(of).role === 'local' ? 0 : this.axis(of).alignment
  }

  /** Widest vectors of axes by their accesses, and the axes by the bytes they move side by side. */
  private contiguity(
    lets: readonly LetStmt[],
    stores: readonly StoreStmt[],
    names: readonly string[],
  ): { vec: Map<string, number>; contiguous: string[] } {
    const weight = new Map<string, number>()
    const width = new Map<string, number>()
    const take = (
      param: string,
      index: StoreStmt['index'],
      axes: readonly string[],
      mask: StoreStmt['mask'],
      factor: number,
    ): void => {
      const p = this.params.get(param)
      if (p === undefined) return
      const flat = flatIndex(index, p.shape)
      for (const a of axes) {
        const along = (id: ValueId): boolean => this.axesOf(id).includes(a)
        const unit = motionOf(flat, a, 1, this.alignment, along)
        const bytes = bytesPerElement(p)
        if (unit === undefined || unit.stride < 1 || unit.stride > 4 || bytes > 4) continue
        const points = axes.reduce((n, x) => n * this.axis(x).size, 1)
        const weigh = (w: number): Map<string, number> =>
          weight.set(a, (weight.get(a) ?? 0) + w * factor * points * bytes)
        if (unit.stride > 1) {
          for (let n = 8; n > 1; n /= 2) {
            const run = runOf(flat, a, n, 8 * bytes, this.alignment, along)
            if (run === undefined || !this.canGroup(a, n) || !isUniform(mask, a, n, this.alignment, along)) continue
            width.set(a, Math.max(width.get(a) ?? 1, n))
            weigh(1 / run.stride)
            break
          }
          continue
        }
        weigh(1)
        for (let n = Math.min(8, Math.max(1, Math.floor(16 / bytes))); n > 1; n /= 2) {
          if (!this.canGroup(a, n)) continue
          const m = motionOf(flat, a, n, this.alignment, along)
          if (m?.stride !== 1 || m.divisor % n !== 0 || !isUniform(mask, a, n, this.alignment, along)) continue
          width.set(a, Math.max(width.get(a) ?? 1, n))
          break
        }
      }
    }
    for (const l of lets) if (l.op.kind === 'load') take(l.op.param, l.op.index, this.axesOf(l.id), l.op.mask, 1)
    for (const s of stores) take(s.param, s.index, this.storeAxes(s), s.mask, 2)
    const contiguous = names.filter((a) => weight.has(a)).sort((a, b) => (weight.get(b) ?? 0) - (weight.get(a) ?? 0))
    return { vec: width, contiguous }
  }

  /** Groups of n indices do not straddle two programs' blocks. */
  canGroup(name: string, n: number): boolean {
    const a = this.axis(name)
    if (a.size < n) return false
    return a.role === 'loop' ? a.alignment % n === 0 : a.size === a.extent || a.alignment % n === 0
  }
}

export const storeValues = (s: StoreStmt): ValueId[] => [
  s.value,
  ...(s.maskValue === undefined ? [] : [s.maskValue]),
  ...[...s.index, ...s.mask.map((b) => b.expr)].flatMap((e) => [...valuesOf(e)]),
]
