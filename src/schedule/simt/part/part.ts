/** What the lowering knows of a kernel part before it emits code: axes, nests, which stages have layouts of their own. */

import { type Atom, valuesOf } from '../../../affine/expr.ts'
import { startOf } from '../../../kernel/axes.ts'
import { foldAxes } from '../../../kernel/folds.ts'
import { axisType, type IndexType } from '../../../kernel/indexType.ts'
import {
  type Carry,
  type Kernel,
  type KernelParam,
  type KernelPart,
  type LaunchScalar,
  type LetStmt,
  type LoopStmt,
  type NumericsMode,
  operandsOf,
  type Stmt,
  type StoreStmt,
  type ValueId,
} from '../../../kernel/ir.ts'
import { allStmts } from '../../../kernel/walk.ts'
import { scalarInfo } from '../../../scalar/ops.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import { dividedAxes, storeAxes, storeValues } from './facts.ts'
import { type ChainedProducts, chainedProducts, chainInGroups, type Product, productOf } from './product.ts'
import { tapsOf } from './taps.ts'
import { type VectorChain, vectorChainOf } from './vectorChain.ts'
import { operandOf, type Slices, type VectorOperand, type VectorProduct, vectorProductOf } from './vectorProduct.ts'
import { type Windows, windowsOf } from './windows.ts'

export interface AxisInfo {
  readonly name: string
  /** Of an open axis, the most that it can be. */
  readonly extent: number
  /** The launch scalar that is its extent, of an open axis. */
  readonly open?: string
  /** What its extent is a multiple of: of an axis that is not open, the extent. */
  readonly multiple: number
  /** Indices held at a time. */
  readonly size: number
  readonly role: 'grid' | 'loop' | 'local'
  /** Blocks start at multiples of this. */
  readonly alignment: number
  /** Whether a block may hold fewer than `size` indices. */
  readonly tail: boolean
  /** The type of its coordinates. */
  readonly type: IndexType
}

/** What a part's kernel declares: parameters and launch scalars by name. */
export interface Declared {
  readonly params: ReadonlyMap<string, KernelParam>
  readonly scalars: ReadonlyMap<string, LaunchScalar>
}

export const declaredOf = ({ params, scalars }: Kernel): Declared => ({
  params: new Map(params.map((p) => [p.name, p])),
  scalars: new Map(scalars?.map((s) => [s.by, s])),
})

/** Values whose computation can be repeated anywhere: everything but folds, scans, carries and what loops give. */
const isPure = (l: LetStmt | undefined): l is LetStmt =>
  l !== undefined && l.op.kind !== 'reduce' && l.op.kind !== 'dot' && l.op.kind !== 'scan' && l.op.kind !== 'stage'

const scalarAxis = (name: string): AxisInfo => ({
  name,
  extent: 1,
  multiple: 1,
  size: 1,
  role: 'local',
  alignment: 0,
  tail: false,
  type: 'i32',
})

export class Part {
  readonly part: KernelPart
  readonly mode: NumericsMode
  readonly params: ReadonlyMap<string, KernelParam>
  readonly axes = new Map<string, AxisInfo>()
  readonly lets = new Map<ValueId, LetStmt>()
  /** Axes of every value, carries and loop results included. */
  private readonly axesByValue = new Map<ValueId, readonly string[]>()
  readonly dtypes = new Map<ValueId, LetStmt['dtype']>()
  private readonly carries = new Map<ValueId, Carry>()
  readonly stores: StoreStmt[] = []
  readonly loops: LoopStmt[] = []
  /** Stages that are filled under a layout of their own. */
  readonly ownStages = new Set<ValueId>()
  /** Product sums on tensor cores. */
  readonly products = new Map<ValueId, Product>()
  /** All of them in a chain. */
  readonly chain: ChainedProducts | undefined
  /** Product sums whose tiles are read in vectors: one, or all of a chain. */
  readonly vectorProducts: ReadonlyMap<ValueId, VectorProduct>
  readonly vectorChain: VectorChain | undefined
  /** Overlapping windows that threads go along. */
  readonly windows: Windows | undefined
  /** Axes of taps for each of which positions are summed, which threads hold whole. */
  readonly taps: ReadonlySet<string>
  /** Values that the main layout computes. */
  private readonly main = new Set<ValueId>()

  constructor(part: KernelPart, mode: NumericsMode, { params, scalars }: Declared, machine: SimtMachine) {
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
            this.carries.set(id, c)
          }
      }
    }
    // Blocks beyond an extent are held whole where products are padded to what tensor cores take.
    const isPadded = machine.hasMatrixUnit && [...this.lets.values()].some((l) => l.op.kind === 'dot')
    const held = (block: number, extent: number): number => (isPadded ? block : Math.min(block, extent))
    for (const { name, extent, open } of part.axes) {
      const multiple = open === undefined ? extent : (scalars.get(open)?.multiple ?? 1)
      const given = { name, extent, multiple, ...(open === undefined ? {} : { open }) }
      const block = blocks.get(name)
      const loops = this.loops.filter((l) => l.axis === name)
      if (block !== undefined) {
        const size = held(block, extent)
        this.axes.set(name, {
          ...given,
          size,
          role: 'grid',
          alignment: block,
          tail: multiple % size !== 0,
          type: axisType(extent, size),
        })
      } else if (loops.length > 0) {
        const size = held(Math.max(...loops.map((l) => l.block)), extent)
        const [first] = loops
        const isWhole = (l: LoopStmt, id: ValueId | undefined): boolean =>
          id === undefined || this.isMultiple(id, l.block)
        const plain = loops.every((l) => isWhole(l, l.from) && isWhole(l, l.to) && l.block === first?.block)
        const alignment = loops.every((l) => isWhole(l, l.from)) ? (first?.block ?? 1) : 1
        this.axes.set(name, {
          ...given,
          size,
          role: 'loop',
          alignment: plain ? alignment : 1,
          tail: !plain || multiple % size !== 0,
          type: axisType(extent, size),
        })
      } else {
        const type = axisType(extent, extent)
        this.axes.set(name, { ...scalarAxis(name), ...given, size: extent, tail: open !== undefined, type })
      }
    }
    this.classify()
    const dots = mode === 'fast' ? [...this.lets.values()].filter((l) => l.op.kind === 'dot') : []
    if (machine.hasMatrixUnit)
      for (const l of dots) {
        const warpGroups = machine.hasWarpGroupProducts && dots.length === 1
        const plan = productOf(this, l, warpGroups, [...this.products.values()])
        if (plan !== undefined) this.products.set(l.id, plan)
      }
    const isLoop = (axis: string): boolean => this.axis(axis).role === 'loop'
    const chained = chainedProducts(this.products.values(), isLoop)
    const grouped = chained === undefined || !machine.hasWarpGroupProducts ? undefined : chainInGroups(chained)
    this.chain = grouped ?? chained
    for (const p of grouped === undefined ? [] : [...grouped.tiles, ...grouped.sums]) this.products.set(p.dot, p)
    // In a loop over columns none of a chain's products is one without the others.
    if (this.chain === undefined)
      for (const [id, p] of this.products) if (this.axis(p.depth).role !== 'loop') this.products.delete(id)
    const [dot] = dots
    const isPlain = this.products.size === 0
    const only = dot !== undefined && dots.length === 1 && isPlain ? vectorProductOf(this, dot, machine) : undefined
    this.vectorChain = only === undefined && isPlain ? vectorChainOf(this, dots, machine) : undefined
    this.vectorProducts = this.vectorChain?.products ?? new Map(only === undefined ? [] : [[only.dot, only] as const])
    this.windows = windowsOf(this)
    this.taps = this.windows === undefined ? tapsOf(this) : new Set()
  }

  /** Whether all of its products are a chain. */
  get isChain(): boolean {
    return this.chain !== undefined || this.vectorChain !== undefined
  }

  /** Whether a product sum gives whole results in every thread, however its depth is spread. */
  isProduct(id: ValueId): boolean {
    return this.products.has(id) || this.vectorProducts.has(id)
  }

  /** The product that reads a staged tile in vectors, and which of its operands that is. */
  vectorsOn(stage: ValueId): { readonly product: VectorProduct; readonly operand: VectorOperand } | undefined {
    for (const product of this.vectorProducts.values()) {
      const operand = operandOf(product, stage)
      if (operand !== undefined) return { product, operand }
    }
    return undefined
  }

  /** Whether a position that a loop begins or ends at is known to be a multiple of `by`. */
  isMultiple(id: ValueId, by: number): boolean {
    const op = this.lets.get(id)?.op
    if (op?.kind === 'scalar' && (op.op === 'max' || op.op === 'min'))
      return op.args.every((a) => this.isMultiple(a, by))
    if (op?.kind !== 'index') return false
    const alignmentOf = (a: Atom): number => (a.kind === 'axis' ? this.alignment(a.name) : 1)
    const { terms, offset } = op.expr
    return offset % by === 0 && terms.every((t) => (t.coef * alignmentOf(t.atom)) % by === 0)
  }

  /** Whether a product only adds to what a loop carries from nothing: its terms may be summed apart. */
  isCarriedFromZero({ id, op }: LetStmt): boolean {
    const acc = op.kind === 'dot' ? op.acc : undefined
    const carry = acc === undefined ? undefined : this.carries.get(acc)
    if (carry?.param !== acc || carry?.next !== id) return false
    const init = this.lets.get(carry.init)?.op
    const isOwn = (of: ValueId): boolean => of === id || of === acc
    const isUsed = [...this.lets.values()].some((l) => l.id !== id && operandsOf(l.op).some(isOwn))
    return (
      init?.kind === 'const' &&
      Object.is(init.value, 0) &&
      !isUsed &&
      !this.stores.some((s) => storeValues(s).some(isOwn))
    )
  }

  /** Whether a stage can be filled at any place: it follows from memory and positions alone. */
  isFree(stage: ValueId): boolean {
    const op = this.lets.get(stage)?.op
    return op?.kind === 'stage' && this.ownStages.has(stage) && this.closureOf([op.of]).rest.size === 0
  }

  /** How the product that reads a staged tile fills it by slices; undefined: it is filled where it stands. */
  slicesOf(stage: ValueId): Slices | undefined {
    const slices = this.vectorsOn(stage)?.product.slices
    return slices?.stages.has(stage) === true ? slices : undefined
  }

  /** What a loop carries under a name, or gives behind it. */
  carryOf(id: ValueId): Carry | undefined {
    return this.carries.get(id)
  }

  axis(name: string): AxisInfo {
    return this.axes.get(name) ?? scalarAxis(name)
  }

  /** Axes of a value that a program holds more than one index of. */
  axesOf = (id: ValueId): string[] => this.spreadOnly(this.axesByValue.get(id) ?? [])

  spreadOnly(names: Iterable<string>): string[] {
    return [...names].filter((a) => this.axis(a).size !== 1)
  }

  /** The axes that threads fold together, each its share: none of a product whose results are whole in every thread. */
  sharedFoldAxes(l: LetStmt): readonly string[] {
    return this.isProduct(l.id) ? [] : foldAxes(l)
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
    // A product's fragments are packed as stores are.
    for (const x of this.lets.values())
      if (operandsOf(x.op).includes(id) && this.products.get(x.id)?.chained !== true) return false
    for (const x of this.loops) if (x.carries.some((c) => c.init === id || c.next === id)) return false
    return this.stores.every(
      (s) => !storeValues(s).includes(id) || (this.params.get(s.param)?.dtype === l.dtype && s.combiner === undefined),
    )
  }

  /** Stores that may meet at one place: they are walked in order by one thread a place. */
  isOrdered(s: StoreStmt): boolean {
    return s.distinct !== true && (s.combiner !== undefined || s.index.some((e) => valuesOf(e).size > 0))
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
    for (const s of this.mainStores()) stack.push(...storeValues(s))
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

  /** Axes beside a product whose indices are divided to find what is read and written there. */
  dividedAxes(): ReadonlySet<string> {
    if (this.products.size === 0 || this.isChain) return new Set()
    const loads = this.mainLets().flatMap(({ op }) => (op.kind === 'load' ? op.index : []))
    return dividedAxes([...loads, ...this.mainStores().flatMap((s) => s.index)])
  }

  /** Stores that run under the part's main layout. */
  mainStores(): StoreStmt[] {
    return this.stores.filter((s) => !this.isOrdered(s))
  }

  /** Whether a value is better computed again than kept: a few operations on scalars and indices. */
  isCheap(l: LetStmt): boolean {
    if (l.op.kind === 'scalar') return ['free', 'simple'].includes(scalarInfo(l.op.op).cost)
    return l.op.kind === 'const' || l.op.kind === 'index' || l.op.kind === 'predicate'
  }

  /**
   * Whether a value is made under the main layout, or begins a layout of its own. (What stages alone are filled from has axes that the layout
   * of a chain lacks.)
   */
  isInMain(id: ValueId): boolean {
    const isMade = !this.isChain || !this.lets.has(id) || this.axesOf(id).length === 0
    return isMade || this.main.has(id) || this.ownStages.has(id)
  }

  /** Of some statements those that are run there. */
  inMain = (stmts: readonly Stmt[]): readonly Stmt[] => stmts.filter((s) => s.kind !== 'let' || this.isInMain(s.id))

  /** Statements that run under the part's main layout. */
  mainLets(): LetStmt[] {
    return [...this.lets.values()].filter((l) => this.main.has(l.id) && !this.ownStages.has(l.id))
  }

  alignment = (name: string): number => {
    const of = startOf(name)
    return of === undefined ? 1 : this.axis(of).role === 'local' ? 0 : this.axis(of).alignment
  }

  /** Groups of n indices do not straddle two programs' blocks. */
  canGroup(name: string, n: number): boolean {
    const a = this.axis(name)
    if (a.size < n) return false
    return a.role === 'loop' ? a.alignment % n === 0 : a.size === a.extent || a.alignment % n === 0
  }
}
