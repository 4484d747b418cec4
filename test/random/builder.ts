/** The state of a random program under construction: its parameters with their data, and the nodes later steps draw from. */
import { makeNode, param } from '../../src/graph/build.ts'
import type { Node, NodeOf } from '../../src/graph/node.ts'
import { scalarOf } from '../../src/scalar/host.ts'
import { type DType, dtypeClass, isFloat } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { type Shape, sameShape, sizeOf } from '../../src/types/shape.ts'
import type { Rng } from './rng.ts'
import { moving, type Tracked } from './tracked.ts'
import { tameData } from './values.ts'

export interface RandomOptions {
  /** Operations drawn (some take several nodes). */
  readonly operations?: number
  /** Dtypes of parameters and casts. */
  readonly dtypes?: readonly DType[]
  /** Axes of extent 0 now and then. */
  readonly empties?: boolean
  /** Most elements of one tensor. */
  readonly maxElements?: number
  /** Only steps of these names (see `steps`). */
  readonly only?: readonly string[]
  /** Steps left out. */
  readonly without?: readonly string[]
}

const extents: readonly number[] = [1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17]

export class Builder {
  readonly rng: Rng
  readonly options: Required<Omit<RandomOptions, 'only' | 'without'>>
  readonly params: NodeOf<'param'>[] = []
  readonly inputs: HostArray[] = []
  readonly pool: Tracked[] = []

  constructor(rng: Rng, options: Required<Omit<RandomOptions, 'only' | 'without'>>) {
    this.rng = rng
    this.options = options
  }

  /** A shape of the rank (or of 0 to 4) within the size limit. */
  shape(rank: number = this.rng.pick([0, 1, 1, 2, 2, 2, 3, 3, 4])): number[] {
    const shape: number[] = []
    for (let i = 0; i < rank; i++) {
      const room = this.options.maxElements / Math.max(1, sizeOf(shape))
      const fits = extents.filter((d) => d <= room)
      shape.push(fits.length === 0 ? 1 : this.rng.pick(fits))
    }
    if (rank > 0 && this.options.empties && this.rng.chance(0.03)) shape[this.rng.int(0, rank - 1)] = 0
    return shape
  }

  dtype(accept: (d: DType) => boolean = () => true): DType | undefined {
    const list = this.options.dtypes.filter(accept)
    if (list.length === 0) return undefined
    // f32 is what most programs are made of.
    return list.includes('f32') && this.rng.chance(0.6) ? 'f32' : this.rng.pick(list)
  }

  fits(shape: Shape): boolean {
    return sizeOf(shape) <= this.options.maxElements
  }

  /** Bounds that data of a dtype is drawn from. */
  #bounds(dtype: DType, positive: boolean): readonly [number, number] {
    if (dtype === 'bool') return [0, 1]
    if (isFloat(dtype)) return positive ? [0.25, 2] : [-2, 2]
    return dtypeClass(dtype) === 'signed' && !positive ? [-6, 6] : [1, 9]
  }

  /** A new parameter with data. */
  param(shape: Shape, dtype: DType, positive = this.rng.chance(0.2)): Tracked {
    const [lo, hi] = this.#bounds(dtype, positive)
    const node = param(this.params.length, shape, dtype)
    this.params.push(node)
    this.inputs.push(tameData(this.rng, dtype, sizeOf(shape), lo, hi))
    return { node, lo, hi, error: 0 }
  }

  /** A parameter of indices, now and then out of range. */
  indices(shape: Shape, extent: number, dtype: 'i32' | 'i64' = this.rng.pick(['i32', 'i64'] as const)): Tracked {
    const node = param(this.params.length, shape, dtype)
    this.params.push(node)
    const [lo, hi] = [-1, extent + 1]
    this.inputs.push(tameData(this.rng, dtype, sizeOf(shape), lo, hi))
    return { node, lo, hi, error: 0 }
  }

  /** A key for random bits. */
  key(): Tracked {
    const node = param(this.params.length, [2], 'u32')
    this.params.push(node)
    this.inputs.push(Uint32Array.from([this.rng.int(0, 2 ** 31), this.rng.int(0, 2 ** 31)]))
    return { node, lo: 0, hi: 2 ** 32 - 1, error: 0 }
  }

  /** A literal with data of its own. */
  constant(shape: Shape, dtype: DType, positive = this.rng.chance(0.3)): Tracked {
    const [lo, hi] = this.#bounds(dtype, positive)
    const data = tameData(this.rng, dtype, sizeOf(shape), lo, hi)
    return { node: makeNode('constant', [], { data, shape, dtype }), lo, hi, error: 0 }
  }

  /** One value repeated. */
  full(shape: Shape, dtype: DType, value?: number): Tracked {
    const [lo, hi] = this.#bounds(dtype, false)
    const drawn =
      value ??
      (isFloat(dtype)
        ? this.rng.pick([-1.5, -1, -0.25, 0, 0.5, 1, 2, 0.7])
        : this.rng.int(Math.ceil(lo), Math.floor(hi)))
    const node = makeNode('full', [], { value: scalarOf(dtype, drawn), shape, dtype })
    return { node, lo: drawn, hi: drawn, error: 0 }
  }

  /** Some source: mostly a parameter. */
  source(shape: Shape, dtype: DType): Tracked {
    const roll = this.rng.unit()
    if (roll < 0.8) return this.param(shape, dtype)
    if (roll < 0.9 || shape.length === 0) return this.constant(shape, dtype)
    if (roll < 0.95 || dtype === 'bool') return this.full(shape, dtype)
    const axis = this.rng.int(0, shape.length - 1)
    return {
      node: makeNode('iota', [], { axis, shape, dtype }),
      lo: 0,
      hi: Math.max(0, (shape[axis] ?? 1) - 1),
      error: 0,
    }
  }

  /** A node made before that satisfies a condition, younger ones more often. */
  find(accept: (t: Tracked) => boolean): Tracked | undefined {
    const fits = this.pool.filter(accept)
    if (fits.length === 0) return undefined
    return this.rng.chance(0.6) ? this.rng.pick(fits.slice(-4)) : this.rng.pick(fits)
  }

  findFloat(rank = 0): Tracked | undefined {
    return this.find((t) => isFloat(t.node.dtype) && t.node.shape.length >= rank)
  }

  /** An operand of the same shape and dtype to combine x with: known, new, broadcast, literal or x itself. */
  partner(x: Tracked): Tracked {
    const { shape, dtype } = x.node
    const roll = this.rng.unit()
    const known = this.find((t) => t !== x && t.node.dtype === dtype && sameShape(t.node.shape, shape))
    if (roll < 0.45 && known !== undefined) return known
    if (roll < 0.55) return x
    if (roll < 0.65) return this.full(shape, dtype)
    if (roll < 0.9 && shape.length > 0) return this.broadcastOperand(shape, dtype)
    return this.source(shape, dtype)
  }

  /** Something over some of the axes, repeated along the others. */
  broadcastOperand(shape: Shape, dtype: DType): Tracked {
    const known = this.find((t) => t.node.dtype === dtype && this.#broadcasts(t.node, shape))
    if (known !== undefined && this.rng.chance(0.5)) {
      const lead = shape.length - known.node.shape.length
      return this.#repeat(
        known,
        shape,
        known.node.shape.map((_, i) => lead + i),
      )
    }
    const dims = shape.flatMap((_, i) => (this.rng.chance(0.5) ? [i] : []))
    const own = dims.map((d) => (this.rng.chance(0.15) ? 1 : (shape[d] ?? 1)))
    return this.#repeat(this.source(own, dtype), shape, dims)
  }

  #repeat(x: Tracked, shape: Shape, dims: readonly number[]): Tracked {
    return moving('broadcast', [x], { shape, dims }, [x]) ?? x
  }

  #broadcasts(n: Node, shape: Shape): boolean {
    const lead = shape.length - n.shape.length
    return lead >= 0 && !sameShape(n.shape, shape) && n.shape.every((d, i) => d === 1 || d === shape[lead + i])
  }
}

/** One way a program grows: the new node, or undefined where nothing fits. */
export interface Step {
  readonly name: string
  readonly weight: number
  readonly apply: (b: Builder) => Tracked | undefined
}
