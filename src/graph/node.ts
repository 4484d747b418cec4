/**
 * Waist 1, the graph: immutable, hash-consed nodes `(op, inputs, attrs) -> (shape, dtype)` with provenance. The op names and
 * attribute types stand here; shape rules, properties and evaluators are in the op table (`table.ts` and its families).
 */
import type { Origin } from '../diagnostics/origin.ts'
import type { BinaryName, Combiner, Scalar, UnaryName } from '../scalar/ops.ts'
import type { RandomDType } from '../scalar/threefry.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import type { Precision } from '../types/product.ts'
import type { Shape } from '../types/shape.ts'

/** A user's own kernel. `run` gets row-major host views; the same instance is one identity for hash-consing. */
export interface OpaqueKernel {
  /** What reports and errors call it. */
  readonly name: string
  /** Result shape and dtype from the inputs'. */
  readonly shapeRule: (inputs: readonly { readonly shape: Shape; readonly dtype: DType }[]) => {
    readonly shape: Shape
    readonly dtype: DType
  }
  /** Fills `output` from `inputs`. */
  readonly run: (inputs: readonly HostArray[], output: HostArray) => void
}

/** A callback that sees a value from inside compiled code. */
export interface InspectCallback {
  readonly label: string
  readonly call: (data: HostArray, shape: Shape, dtype: DType) => void
}

/** How one coordinate of the gathered (or scattered-to) tensor is found: an output axis, or index input number `input` (0-based among index inputs). */
export type IndexSource = { readonly axis: number } | { readonly input: number }

type NoAttrs = Record<never, never>

export type AttrsByOp = {
  [K in UnaryName | BinaryName | 'select']: NoAttrs
} & {
  /**
   * Numeric conversion (docs/numerics.md, "Casts"). `loose`: the conversion of a result to its dtype, whose rounding `fast` may skip
   * inside a kernel.
   */
  cast: { readonly dtype: DType; readonly loose?: true }
  /** Same bits, other dtype of the same width. */
  bitcast: { readonly dtype: DType }

  /** Input number `index` of the traced program. */
  param: { readonly index: number; readonly shape: Shape; readonly dtype: DType }
  /** A literal tensor; `data` is row-major and must not change. */
  constant: { readonly data: HostArray; readonly shape: Shape; readonly dtype: DType }
  /** One scalar repeated over a shape. */
  full: { readonly value: Scalar; readonly shape: Shape; readonly dtype: DType }
  /** Index along `axis`. */
  iota: { readonly axis: number; readonly shape: Shape; readonly dtype: DType }
  /** u32 bits: Threefry-2x32 of a u32[2] key at each row-major index. Input: key. */
  randomBits: { readonly shape: Shape; readonly dtype: RandomDType }
  /** true with a chance in 65536ths, from 1 to 65535, at each row-major index (`maskElement`). Input: key. */
  randomMask: { readonly shape: Shape; readonly chance: number }

  reshape: { readonly shape: Shape }
  /** Output axis i is input axis perm[i]. */
  permute: { readonly perm: readonly number[] }
  /** Input axis i becomes output axis dims[i] (extent equal, or 1 which repeats); other output axes are new. */
  broadcast: { readonly shape: Shape; readonly dims: readonly number[] }
  /** start, limit (exclusive), step >= 1 for each axis. */
  slice: { readonly start: readonly number[]; readonly limit: readonly number[]; readonly step: readonly number[] }
  flip: { readonly axes: readonly number[] }
  /** `low`/`high` >= 0 elements of `value` on each side, `interior` >= 0 between neighbours. */
  pad: {
    readonly low: readonly number[]
    readonly high: readonly number[]
    readonly interior: readonly number[]
    readonly value: Scalar
  }
  concat: { readonly axis: number }
  /** Sliding window: `axis` of extent n becomes (o, k), element [o, k] at o*stride + k*dilation. */
  window: { readonly axis: number; readonly size: number; readonly stride: number; readonly dilation: number }

  /**
   * out[p] = x[c0(p), c1(p), ...]: inputs are x and index tensors of the output's shape (i32 or i64). Out-of-range
   * coordinates clamp. `sources` has one entry per axis of x; along one that takes an axis of the output, x is at least as long.
   */
  gather: { readonly shape: Shape; readonly sources: readonly IndexSource[] }
  /**
   * x with updates[p] combined into x[c0(p), ...]: inputs are x, updates and index tensors of updates' shape. Out-of-range
   * coordinates drop. In row-major order of p; `set` keeps the last. `distinct`: no two points are one place, by a promise of who made
   * the node, so that their order is nothing; `covers`: besides, every place is a point's, so that what x holds is nothing.
   */
  scatter: {
    readonly sources: readonly IndexSource[]
    readonly combiner: 'set' | 'sum' | 'prod' | 'max' | 'min'
    readonly distinct?: true
    readonly covers?: true
  }

  /** Folds `axes` away. Arg-combiners take one axis and give `dtype` i32 or i64; ties go to the first (or `last`). */
  reduce: {
    readonly combiner: Combiner
    readonly axes: readonly number[]
    readonly dtype?: DType
    readonly last?: boolean
  }
  /** Running fold along an axis. */
  scan: {
    readonly combiner: 'sum' | 'prod' | 'max' | 'min'
    readonly axis: number
    readonly reverse: boolean
    readonly exclusive: boolean
    /** Begins anew at every multiple of so many indices (at each one's end, if `reverse`). Made by src/compile/longScans.ts alone, as is `tree`. */
    readonly chunk?: number
    /**
     * Element i is the fold of the 2^k elements that end with it, 2^k the greatest power of two that divides i + 1, in a balanced tree: what
     * the folds of all prefixes are made of (P. M. Fenwick: A new data structure for cumulative frequency tables, 1994). Neither reverse nor exclusive.
     */
    readonly tree?: true
  }
  /** Einsum of two operands over single-letter labels, each at most once an operand; labels absent from `out` are summed. Accumulates in f32 (f64, i32, i64 as the operands ask); result dtype is the operands'. */
  contract: {
    readonly lhs: string
    readonly rhs: string
    readonly out: string
    /** How f32 is multiplied; as the program says unless given. */
    readonly precision?: Precision
  }

  /** A user's kernel: a boundary of fusion. */
  opaque: { readonly kernel: OpaqueKernel }
  /** Identity on its first input, seen by a callback; the optional second input is the effect before it. */
  inspect: { readonly callback: InspectCallback }

  /**
   * Regions: ops with graphs inside. A region's graphs see their parameters alone (position i is parameter i) and have no
   * effects. The node itself is a handle (bool scalar that nothing computes with); `result` nodes are its values.
   */
  /** Inputs: a bool scalar, then the operands, which are the parameters of both graphs. Results: the outputs of the graph taken. */
  cond: { readonly then: Graph; readonly otherwise: Graph }
  /**
   * Inputs: `consts` constants, then the carry. `test` and `body` take both; `test` gives a bool scalar, `body` the next carry.
   * Results: the carry after the first failed test.
   */
  while: { readonly test: Graph; readonly body: Graph; readonly consts: number }
  /**
   * `length` steps. Inputs: `consts` constants, `carries` carries, then sequences (leading axis `length`). The body takes
   * constants, carries and one element of each sequence, and gives the next carries and elements. `reverse` walks from the
   * last element. Results: the last carries, then sequences (leading axis `length`, element i from step i's element).
   */
  loop: {
    readonly body: Graph
    readonly length: number
    readonly reverse: boolean
    readonly consts: number
    readonly carries: number
  }
  /** A function with derivative rules of its own: it computes what `body` computes of the inputs. Results: the body's outputs. */
  custom: { readonly body: Graph; readonly rule: CustomRule }
  /**
   * The derivative of a `custom` with rule 'vjp': linear in its last inputs, known by its transpose alone. Inputs: residuals,
   * then a tangent for each float input of the function. Results: a tangent for each float output. It cannot be evaluated.
   */
  customLinear: {
    readonly name: string
    readonly backward: Graph
    readonly residuals: number
    readonly results: readonly TensorType[]
  }
  /** Value number `index` of a region. Input: the region. */
  result: { readonly index: number }
}

export interface TensorType {
  readonly shape: Shape
  readonly dtype: DType
}

/** The graphs of a derivative rule. Float inputs and outputs alone have tangents and cotangents, in order. */
export type RuleGraphs =
  /** Parameters: the inputs, then the tangents. Outputs: the outputs, then their tangents (linear in the tangents). */
  | { readonly kind: 'jvp'; readonly graph: Graph }
  /**
   * `forward`: the inputs to the outputs, then the residuals. `backward`: the residuals, then the cotangents of the outputs,
   * to the gradients of the inputs.
   */
  | { readonly kind: 'vjp'; readonly forward: Graph; readonly backward: Graph }

/**
 * A user's derivative of a `custom` function. The graphs of a `deferred` rule are made when a derivative asks for them, no
 * sooner: it is the rule of a function that is called in its own rule.
 */
export type CustomRule = RuleGraphs & { readonly name: string; readonly deferred?: true }

export type OpName = keyof AttrsByOp

/** A node of a known op. */
export interface NodeOf<O extends OpName> {
  readonly id: number
  readonly op: O
  readonly inputs: readonly Node[]
  readonly attrs: AttrsByOp[O]
  readonly shape: Shape
  readonly dtype: DType
  readonly origin: Origin
}

/** Any node: discriminated by `op`. Ids ascend in topological order within a process. */
export type Node = { [O in OpName]: NodeOf<O> }[OpName]

/** A traced program: a graph with named inputs and outputs. `effects` must run though nothing reads them. */
export interface Graph {
  readonly params: readonly NodeOf<'param'>[]
  readonly outputs: readonly Node[]
  readonly effects: readonly Node[]
}
