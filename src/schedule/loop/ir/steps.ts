/** What a level of statements is made of: loop nests over shared iteration spaces, folds, products, scans, inner loops. */
import type { Expr } from '../../../affine/expr.ts'
import {
  type KernelParam,
  type LetStmt,
  type LoopStmt,
  operandsOf,
  type Stmt,
  type StoreStmt,
  type ValueId,
} from '../../../kernel/ir.ts'
import { storeOperands } from '../../../kernel/walk.ts'
import type { Combiner } from '../../../scalar/ops.ts'
import type { Machine } from '../../../target/machine.ts'
import { computeDType, type DType, isFloat } from '../../../types/dtype.ts'
import type { Product } from './product.ts'
import type { Axes, Def, Place, Tile } from './tile.ts'

/** A reduction, or a dot as the sum of a product of two operands. */
export interface Fold {
  readonly id: ValueId
  readonly dtype: DType
  readonly combiner: Combiner
  /** One operand, or the two factors of a dot. */
  readonly args: readonly ValueId[]
  readonly argDType: DType
  /** Folded axes of several indices, outermost first. */
  readonly axes: readonly string[]
  /** Axes of the result. */
  readonly kept: readonly string[]
  readonly acc?: ValueId
  readonly position?: Expr
  readonly last: boolean
}

/** Whether a fold's order shows in its result: sums and products of floats. */
export const isTotal = (fold: Fold): boolean =>
  (fold.combiner === 'sum' || fold.combiner === 'prod') && isFloat(accumulatorDType(fold))

/** The dtype folds accumulate in: half precision in f32. */
export const accumulatorDType = (fold: Fold): DType =>
  computeDType(fold.combiner.startsWith('arg') ? fold.argDType : fold.dtype)

export type Root =
  | { readonly kind: 'store'; readonly stmt: StoreStmt }
  | { readonly kind: 'fold'; readonly fold: Fold }
  /** Writes a value into a scratch tile. */
  | {
      readonly kind: 'keep'
      readonly id: ValueId
      readonly tile: Tile
      readonly axes: readonly string[]
      readonly home: boolean
    }

/** What a root computes with. */
export const operandsOfRoot = (r: Root): readonly ValueId[] =>
  r.kind === 'fold' ? r.fold.args : r.kind === 'keep' ? [r.id] : storeOperands(r.stmt)

export interface Nest {
  readonly kind: 'nest'
  readonly space: readonly string[]
  readonly folded: readonly string[]
  readonly roots: Root[]
}

export type Step =
  | Nest
  | { readonly kind: 'scan'; readonly stmt: LetStmt }
  | { readonly kind: 'product'; readonly product: Product }
  | { readonly kind: 'loop'; readonly stmt: LoopStmt }

/** What planning a level asks of its surroundings. */
export interface LevelContext {
  readonly machine: Machine
  readonly axes: Axes
  readonly strict: boolean
  def(id: ValueId): Def
  /** Values that stand in locals or scratch already. */
  hasHome(id: ValueId): boolean
  /** Where they stand. */
  place(id: ValueId): Place | undefined
  param(name: string): KernelParam
  /** Gives a value a scratch tile. */
  makeTile(id: ValueId, axes: readonly string[], dtype: DType): Tile
  /** Whether two parameters may share memory. */
  mayAlias(a: string, b: string): boolean
  /** The matrix products among the level's dots. */
  readonly products: ReadonlyMap<ValueId, Product>
  /** What fills a product's accumulator before it runs, if anything must. */
  productInit(product: Product): Root | undefined
  /** Whether anything but a product that reads around it uses a staged value. */
  needsStage(id: ValueId): boolean
  /** Loads that stand in scratch however cheap they are. */
  readonly copied: ReadonlySet<ValueId>
}

/** The fold a statement is, if it folds axes of several indices. */
export function foldOf(s: LetStmt, ctx: Pick<LevelContext, 'axes' | 'def'>): Fold | undefined {
  const { op } = s
  if (op.kind !== 'reduce' && op.kind !== 'dot') return undefined
  const axes = ctx.axes.varying(op.axes)
  if (axes.length === 0) return undefined
  const kept = ctx.axes.varying(s.axes)
  const args = op.kind === 'dot' ? [op.a, op.b] : [op.arg]
  const base = { id: s.id, dtype: s.dtype, args, argDType: ctx.def(args[0] ?? 0).dtype, axes, kept }
  if (op.kind === 'dot')
    return { ...base, combiner: 'sum', last: false, ...(op.acc === undefined ? {} : { acc: op.acc }) }
  return {
    ...base,
    combiner: op.combiner,
    last: op.last === true,
    ...(op.position === undefined ? {} : { position: op.position }),
  }
}

/** Values a loop takes from outside: initial states, bounds, and what its body names but does not define. */
export function outerValues(loop: LoopStmt): ValueId[] {
  const inside = new Set<ValueId>()
  const named: ValueId[] = []
  const walk = (stmts: readonly Stmt[]): void => {
    for (const s of stmts) {
      if (s.kind === 'let') {
        inside.add(s.id)
        named.push(...operandsOf(s.op))
      } else if (s.kind === 'store') {
        named.push(...storeOperands(s))
      } else {
        enter(s)
      }
    }
  }
  const enter = (l: LoopStmt): void => {
    for (const c of l.carries) {
      inside.add(c.param)
      inside.add(c.result)
      named.push(c.init)
    }
    if (l.from !== undefined) named.push(l.from)
    if (l.to !== undefined) named.push(l.to)
    walk(l.body)
    for (const c of l.carries) named.push(c.next)
  }
  enter(loop)
  return [...new Set(named)].filter((id) => !inside.has(id))
}

/** The steps of a level, before any code. */
export interface Placement {
  readonly steps: Step[]
  /** Step number of each root's statement. */
  readonly at: Map<Root | LetStmt | LoopStmt, number>
  /** Direct users: root operands by step. */
  readonly uses: { readonly step: number; readonly ids: readonly ValueId[] }[]
}
