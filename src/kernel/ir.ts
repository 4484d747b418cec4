/**
 * Waist 2, the kernel IR: a kernel is a grid of programs over named axes. Values inside a program are tiles over named
 * axes; broadcasting is by axis, so there is no reshape. The contract is in docs/architecture.md ("The kernel").
 */
import type { Expr, Scale } from '../affine/expr.ts'
import type { Predicate } from '../affine/predicate.ts'
import type { Combiner, Scalar, ScalarOp } from '../scalar/ops.ts'
import type { Rounds } from '../scalar/threefry.ts'
import type { DType } from '../types/dtype.ts'
import type { UnitPrecision } from '../types/product.ts'

export type ValueId = number

/** An axis of a kernel part. Index expressions name it by its global index in [0, extent). */
export interface KernelAxis {
  readonly name: string
  /** Of an open axis, the most that it can be. */
  readonly extent: number
  /** The launch scalar that is its extent, of an open axis. */
  readonly open?: string
}

/**
 * A number that each launch hands over: element `at` (row-major) of an i32 parameter that is read only. It may be the extent of axes, and a
 * coefficient in index maps; a launch where it breaks what is declared of it is outside the contract.
 */
export interface LaunchScalar extends Scale {
  readonly param: string
  readonly at: number
}

/**
 * A buffer the kernel touches, row-major over `shape`. `bits`: a bool packed eight to a byte, element 0 in the lowest bit
 * of byte 0 (flattened index). `int4`: two signed 4-bit integers a byte, element 0 in the low half.
 */
export interface KernelParam {
  readonly name: string
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly access: 'read' | 'write' | 'update'
  readonly format: 'plain' | 'bits' | 'int4'
}

/**
 * A grid axis. The grid has ceil(extent / block) programs along it; inside a program the axis ranges over the block
 * [start, min(start + block, extent)). With block 1 it is a scalar. The pseudo-axis `NAME.start` is the block's first index.
 */
export interface GridAxis {
  readonly axis: string
  readonly block: number
}

export type TileOp =
  | { readonly kind: 'const'; readonly value: Scalar }
  /** The integer value of an index expression at each point. */
  | { readonly kind: 'index'; readonly expr: Expr }
  /** Whether a predicate holds at each point (dtype bool). */
  | { readonly kind: 'predicate'; readonly predicate: Predicate }
  /**
   * Element at `index` where `mask` (and the bool tile `maskValue`) hold, else `other`; masked points do not touch memory,
   * and index values may be out of range where `maskValue` fails.
   */
  | {
      readonly kind: 'load'
      readonly param: string
      readonly index: readonly Expr[]
      readonly mask: Predicate
      readonly maskValue?: ValueId
      readonly other: Scalar
    }
  /** One scalar operation per point; operands broadcast by axis. `loose`: a cast of f32 to a half dtype that `fast` need not round. */
  | { readonly kind: 'scalar'; readonly op: ScalarOp; readonly args: readonly ValueId[]; readonly loose?: true }
  /** Element `index`, which is not negative, of the random bits of key (k0, k1), in the value's dtype (`randomElement`). */
  | {
      readonly kind: 'random'
      readonly k0: ValueId
      readonly k1: ValueId
      readonly index: Expr
      readonly rounds: Rounds
    }
  /**
   * Folds `axes` (all of the tile's points along them inside the program). `position` is the logical index reported by an
   * arg-combiner; ties go to the least (greatest, if `last`) position. An empty fold gives the identity.
   */
  | {
      readonly kind: 'reduce'
      readonly combiner: Combiner
      readonly arg: ValueId
      readonly axes: readonly string[]
      readonly position?: Expr
      readonly last?: boolean
    }
  /** Running fold along `axis` in its order (from the end if `reverse`); `exclusive` leaves a point's own value out. */
  | {
      readonly kind: 'scan'
      readonly combiner: 'sum' | 'prod' | 'max' | 'min'
      readonly arg: ValueId
      readonly axis: string
      readonly reverse: boolean
      readonly exclusive: boolean
      /** Instead the fold of the 2^k points that end with a point, 2^k the greatest power of two that divides its number, in a balanced tree. */
      readonly tree?: true
    }
  /** Sum over `axes` of a*b (+ `acc`), accumulated in the axes' order; operands broadcast by axis. */
  | {
      readonly kind: 'dot'
      readonly a: ValueId
      readonly b: ValueId
      readonly axes: readonly string[]
      readonly acc?: ValueId
      /** How f32 operands are multiplied: in f32 unless given. */
      readonly precision?: UnitPrecision
    }
  /** The tile itself, required to stand in scratch (staging); SIMT lowerings put a barrier behind it. */
  | { readonly kind: 'stage'; readonly of: ValueId }
  /**
   * A staged tile read at other coordinates: by axis, the index along it (relative to the axis' own range). An axis left
   * out is read at the point's own coordinate.
   */
  | { readonly kind: 'at'; readonly of: ValueId; readonly index: Readonly<Record<string, Expr>> }

export interface LetStmt {
  readonly kind: 'let'
  readonly id: ValueId
  readonly dtype: DType
  /**
   * The tile's axes, outermost first: its layout when it is staged. Exactly the axes the operation varies along; const,
   * index and predicate may name more (the value repeats), and axes of extent 1 come and go freely.
   */
  readonly axes: readonly string[]
  readonly op: TileOp
}

export interface StoreStmt {
  readonly kind: 'store'
  readonly param: string
  readonly index: readonly Expr[]
  readonly mask: Predicate
  readonly maskValue?: ValueId
  readonly value: ValueId
  /** Combine with what stands there; programs of one grid that collide must not run side by side. */
  readonly combiner?: 'sum' | 'prod' | 'max' | 'min'
  /** No two points of all programs lead to one place (a promise where places are data): any order will do, and no program waits for another. */
  readonly distinct?: true
}

/** A tile carried around a loop: `init` before, `param` inside, `next` at the body's end, `result` after. All one dtype and axes. */
export interface Carry {
  readonly init: ValueId
  readonly param: ValueId
  readonly next: ValueId
  readonly result: ValueId
  readonly dtype: DType
  readonly axes: readonly string[]
}

/**
 * Steps over `axis` in blocks, in order; inside, the axis ranges over the current block. `from`/`to` are scalar i32 tiles
 * that narrow the range (rounded to nothing: the first block starts at `from`, the last ends at `to`; both are clamped to
 * the axis' range); absent, the whole extent. What the body defines ends with it: only carries leave the loop.
 */
export interface LoopStmt {
  readonly kind: 'loop'
  readonly axis: string
  readonly block: number
  readonly from?: ValueId
  readonly to?: ValueId
  readonly carries: readonly Carry[]
  readonly body: readonly Stmt[]
}

export type Stmt = LetStmt | StoreStmt | LoopStmt

/** One member of the disjoint union of grids. Axes that are neither grid nor loop axes are local: a program holds their whole extent. */
export interface KernelPart {
  readonly axes: readonly KernelAxis[]
  readonly grid: readonly GridAxis[]
  readonly body: readonly Stmt[]
}

/** `strict`: reductions fold in logical order, dots accumulate in order with separate multiply and add, half precision rounds at every operation. */
export type NumericsMode = 'fast' | 'strict'

export interface Kernel {
  readonly name: string
  readonly params: readonly KernelParam[]
  readonly mode: NumericsMode
  /** Numbers known at launch only. */
  readonly scalars?: readonly LaunchScalar[]
  readonly parts: readonly KernelPart[]
}

/** Programs of a part's grid; of open axes, at their longest. */
export function gridSize(part: KernelPart): number {
  const extent = new Map(part.axes.map((a) => [a.name, a.extent]))
  return part.grid.reduce((n, g) => n * Math.ceil((extent.get(g.axis) ?? 0) / g.block), 1)
}

/** Operand value ids of a tile operation, index expressions' values included. */
export function operandsOf(op: TileOp): readonly ValueId[] {
  switch (op.kind) {
    case 'const':
      return noValues
    case 'index':
      return exprValues([op.expr])
    case 'predicate':
      return predicateValues(op.predicate)
    case 'load':
      if (op.mask.length === 0 && op.maskValue === undefined) return exprValues(op.index)
      return [
        ...exprValues(op.index),
        ...predicateValues(op.mask),
        ...(op.maskValue === undefined ? [] : [op.maskValue]),
      ]
    case 'scalar':
      return op.args
    case 'random':
      return [op.k0, op.k1, ...exprValues([op.index])]
    case 'reduce':
      return [op.arg, ...(op.position === undefined ? [] : exprValues([op.position]))]
    case 'scan':
      return [op.arg]
    case 'dot':
      return op.acc === undefined ? [op.a, op.b] : [op.a, op.b, op.acc]
    case 'stage':
      return [op.of]
    case 'at':
      return [op.of, ...exprValues(Object.values(op.index))]
  }
}

const noValues: readonly ValueId[] = []

function exprValues(exprs: readonly Expr[]): readonly ValueId[] {
  let out: ValueId[] | undefined
  for (const e of exprs)
    if (e.hasValues !== false) {
      out ??= []
      addValues(e, out)
    }
  return out ?? noValues
}

function addValues(e: Expr, out: ValueId[]): void {
  for (const { atom } of e.terms) {
    if (atom.kind === 'value') out.push(atom.id)
    else if (atom.kind !== 'axis') addValues(atom.of, out)
  }
}

const predicateValues = (p: Predicate): readonly ValueId[] => exprValues(p.map((b) => b.expr))
