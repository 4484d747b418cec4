/**
 * A random program while it is written as source text. Every expression is evaluated on traced tensors at once, so shapes and dtypes are
 * what the library says they are, and nothing is computed. Bounds on magnitudes keep values comparable.
 */

import { type TensorTrace, tracing } from '../../src/api/tensor/core.ts'
import { Tensor } from '../../src/api/tensor/tensor.ts'
import * as s from '../../src/index.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { Shape } from '../../src/types/shape.ts'
import type { Rng } from '../../test/random/rng.ts'
import type { InputData } from './data.ts'

/** A tensor with a name in the program, and bounds of its elements. */
export interface Var {
  readonly name: string
  readonly t: Tensor
  readonly lo: number
  readonly hi: number
}

export interface WriterOptions {
  /** Elements of the largest tensor. */
  readonly most: number
  /** Dtypes of float inputs, drawn with equal chances. */
  readonly floats: readonly DType[]
}

export const shown = (x: unknown): string => JSON.stringify(x)

/** How an input stands in memory: as it is used, or so that it has to be permuted, cut, or reversed first. */
type Layout = 'plain' | 'permuted' | 'cut' | 'strided' | 'flipped'

export class Writer {
  readonly rng: Rng
  readonly options: WriterOptions
  readonly inputs: InputData[] = []
  lines: string[] = []
  readonly #trace: TensorTrace
  readonly #values = new Map<string, Tensor>()
  #next = 0

  constructor(rng: Rng, options: WriterOptions, trace: TensorTrace) {
    this.rng = rng
    this.options = options
    this.#trace = trace
  }

  /** Evaluates an expression of known names. */
  #evaluate(text: string): Tensor {
    const make = new Function('s', ...this.#values.keys(), `return (${text})`)
    const value: unknown = make(s, ...this.#values.values())
    if (!(value instanceof Tensor)) throw new Error(`no tensor: ${text}`)
    return value
  }

  #named(letter: string, t: Tensor, lo: number, hi: number): Var {
    const name = `${letter}${this.#next++}`
    this.#values.set(name, t)
    return { name, t, lo, hi }
  }

  /** A statement that names an expression. */
  emit(text: string, lo: number, hi: number): Var {
    const v = this.#named('v', this.#evaluate(text), lo, hi)
    this.lines.push(`const ${v.name} = ${text}`)
    return v
  }

  /** A statement that names the elements of a list. */
  emitList(text: string, count: number, bounds: readonly [number, number]): Var[] {
    const vars = Array.from({ length: count }, (_, i) => {
      const t = this.#evaluate(`(${text})[${i}]`)
      return this.#named('v', t, ...bounds)
    })
    this.lines.push(`const [${vars.map((v) => v.name).join(', ')}] = ${text}`)
    return vars
  }

  /** An input exactly of a shape, as parameters stand. */
  parameter(shape: Shape, dtype: DType, lo: number, hi: number, whole = false): Var {
    const t = new Tensor({ kind: 'traced', node: this.#trace.addParam(shape, dtype), trace: this.#trace })
    const v = this.#named('x', t, lo, hi)
    this.inputs.push({ name: v.name, shape, dtype, lo, hi, whole })
    return v
  }

  /** Bounds that most floats have. Means are not zero, so that sums are comparable. */
  bounds(): readonly [number, number] {
    return this.rng.pick([
      [-0.5, 1],
      [-0.5, 1],
      [-1, 1.5],
      [0.1, 1],
    ] as const)
  }

  float(): DType {
    return this.rng.pick(this.options.floats)
  }

  /** An input that has a shape as the program uses it, and stands in memory in one of several layouts. */
  input(shape: Shape, dtype: DType = this.float(), bounds: readonly [number, number] = this.bounds()): Var {
    const [lo, hi] = bounds
    const size = shape.reduce((n, d) => n * d, 1)
    const long = shape.flatMap((d, i) => (d > 1 ? [i] : []))
    const layout: Layout = this.rng.chance(0.6)
      ? 'plain'
      : this.rng.pick(['permuted', 'permuted', 'cut', 'strided', 'flipped'] as const)
    if (layout === 'permuted' && long.length > 1) {
      const perm = this.rng.shuffle(shape.map((_, i) => i))
      const stored: number[] = []
      for (const [i, p] of perm.entries()) stored[p] = shape[i] ?? 1
      const x = this.parameter(stored, dtype, lo, hi)
      return this.emit(`${x.name}.transpose(${shown(perm)})`, lo, hi)
    }
    const axis = this.rng.pick(long.length === 0 ? [0] : long)
    const extent = shape[axis] ?? 1
    if (long.length > 0 && layout === 'cut') {
      const before = this.rng.pick([1, 1, 3, 16])
      const x = this.parameter(shape.toSpliced(axis, 1, extent + before + this.rng.int(0, 5)), dtype, lo, hi)
      const specs = shape.slice(0, axis + 1).map((_, i) => (i === axis ? [before, before + extent] : null))
      return this.emit(`${x.name}.slice(${specs.map(shown).join(', ')})`, lo, hi)
    }
    if (long.length > 0 && layout === 'strided' && 2 * size <= this.options.most) {
      const x = this.parameter(shape.toSpliced(axis, 1, 2 * extent), dtype, lo, hi)
      const specs = shape.slice(0, axis + 1).map((_, i) => (i === axis ? [0, null, 2] : null))
      return this.emit(`${x.name}.slice(${specs.map(shown).join(', ')})`, lo, hi)
    }
    const x = this.parameter(shape, dtype, lo, hi)
    return layout === 'flipped' && long.length > 0 ? this.emit(`${x.name}.flip(${axis})`, lo, hi) : x
  }

  /** Writes statements apart from those of the program, and gives them. */
  inside<R>(body: () => R): { readonly lines: readonly string[]; readonly result: R } {
    const outer = this.lines
    this.lines = []
    try {
      return { result: body(), lines: this.lines }
    } finally {
      this.lines = outer
    }
  }
}

/** Runs `body` with a writer on a trace of its own. */
export const writing = <R>(rng: Rng, options: WriterOptions, body: (w: Writer) => R): R =>
  tracing({ name: 'jit', program: true }, (trace) => body(new Writer(rng, options, trace))).result
