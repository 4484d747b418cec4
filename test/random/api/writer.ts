/**
 * The state of a random program that is being written as source text. Every statement is run on the reference device as soon as it
 * is written, so that the next ones are chosen by what shapes, dtypes and values really are, and none gives what is not comparable.
 */
import { UserError } from '../../../src/diagnostics/errors.ts'
import * as s from '../../../src/index.ts'
import { type DType, isFloat } from '../../../src/types/dtype.ts'
import { type Shape, sizeOf } from '../../../src/types/shape.ts'
import type { Rng } from '../rng.ts'

/** A tensor with a name in the program. */
export interface Var {
  readonly name: string
  readonly value: s.Tensor
  /** Whether every execution gives these very values: what is not continuous takes no others. */
  readonly exact: boolean
  readonly lo: number
  readonly hi: number
  /** The greatest rounding error of one of the values that it is computed from. */
  readonly noise: number
}

/** What is written of one function, and what may be named in it. */
export interface Scope {
  readonly outer: Scope | undefined
  readonly vars: Var[]
  readonly lines: string[]
  readonly names: Map<string, unknown>
  /** The function is called with other values than the ones it is written with (a batch, a loop). */
  readonly varying: boolean
  readonly depth: number
}

/** What an input holds: numbers between bounds, multiples of a quarter, whole numbers. */
export interface Input {
  readonly name: string
  readonly text: string
  /** Whether its numbers may be moved a little to see how much that matters. */
  readonly movable: boolean
}

export type Step = readonly [weight: number, name: string, apply: (w: Writer, scope: Scope) => Var | undefined]

export interface WriterOptions {
  readonly maxElements: number
  readonly floats: readonly DType[]
  readonly integers: readonly DType[]
  /** Inputs may hold NaN and infinities. */
  readonly special: boolean
}

/** Functions that make the data of inputs, as a program's text begins with them. */
export const prelude = `const odd = (x, i) => (i % 7 === 3 ? NaN : i % 11 === 5 ? Infinity : i % 13 === 8 ? -Infinity : x)
const noise = (i, k) => { const v = Math.sin(12.9898 * (i + 1) + 78.233 * k) * 43758.5453; return v - Math.floor(v) }
const real = (n, k, lo, hi) => Array.from({ length: n }, (_, i) => lo + (hi - lo) * noise(i, k))
const whole = (n, k, lo, hi, unit = 1) => Array.from({ length: n }, (_, i) => (lo + Math.floor((hi - lo + 1) * noise(i, k))) * unit)`

/** The value of an expression of the library, of inputs' data and of named values. */
export function evaluate(expression: string, names: Iterable<readonly [string, unknown]>): unknown {
  const known = new Map(names)
  const make = new Function('s', ...known.keys(), `${prelude}\nreturn (${expression})`)
  return make(s, ...known.values())
}

/** Unit roundoff of a float dtype, with a little room. */
export const roundoff = (dtype: DType): number =>
  ({ f64: 2 ** -50, f32: 2 ** -21, f16: 2 ** -9, bf16: 2 ** -6 })[dtype as string] ?? 0

/** What a program that is well written may meet: no derivative, too many elements. */
const refusals: readonly string[] = ['E_UNSUPPORTED', 'E_OVERFLOW']

const literal = (x: unknown): string => JSON.stringify(x)
const indent = (text: string): string => text.replaceAll('\n', '\n  ')

/** Largest magnitude of a value worth comparing. */
const largest = (dtype: DType): number => (dtype === 'f16' ? 250 : 2000)

/** Multiples of what, up to what, are computed without rounding. */
function grid(dtype: DType): readonly [unit: number, most: number] {
  if (dtype === 'f16') return [2 ** -4, 2 ** 5]
  if (dtype === 'bf16') return [2 ** -2, 2 ** 4]
  return [2 ** -10, 2 ** 10]
}

export class Writer {
  readonly rng: Rng
  readonly options: WriterOptions
  readonly root: Scope = { outer: undefined, vars: [], lines: [], names: new Map(), varying: false, depth: 0 }
  readonly inputs: Input[] = []
  #next = 0
  /** By name, for all variables of all scopes. */
  readonly #noise = new Map<string, number>()
  #steps: readonly Step[] = []

  constructor(rng: Rng, options: WriterOptions) {
    this.rng = rng
    this.options = options
  }

  name(letter: string): string {
    return `${letter}${this.#next++}`
  }

  /** A variable of a scope or of those around it, mostly of its own. */
  find(scope: Scope, accept: (v: Var) => boolean): Var | undefined {
    const own = scope.vars.filter(accept)
    const outer = scope.outer === undefined ? undefined : () => this.find(scope.outer ?? scope, accept)
    if (own.length === 0 || (outer !== undefined && this.rng.chance(0.15))) {
      const far = outer?.()
      if (far !== undefined || own.length === 0) return far
    }
    // Late ones more often, so that programs are deep.
    return this.rng.chance(0.4) ? own.at(-1) : this.rng.pick(own)
  }

  float(scope: Scope, accept: (v: Var) => boolean = () => true): Var | undefined {
    return this.find(scope, (v) => isFloat(v.value.dtype) && accept(v))
  }

  /** A variable of a type: one there is, or a new input. */
  like(scope: Scope, shape: Shape, dtype: DType, accept: (v: Var) => boolean = () => true): Var {
    const fits = (v: Var): boolean =>
      v.value.dtype === dtype && v.value.shape.join() === shape.join() && v.value.rank === shape.length && accept(v)
    const known = this.rng.chance(0.6) ? this.find(scope, fits) : undefined
    return known ?? this.input(shape, dtype)
  }

  /** A new input of the program. */
  input(shape: Shape, dtype: DType, data?: string, movable = false): Var {
    const n = sizeOf(shape)
    const k = this.inputs.length + 1
    const kind = this.rng.pick(['real', 'real', 'real', 'positive', 'quarters'] as const)
    const float = isFloat(dtype)
    const text = data ?? this.#data(n, k, dtype, kind)
    const made = `s.tensor(${text}, { shape: ${literal(shape)}, dtype: '${dtype}' })`
    const name = `x${this.inputs.length}`
    const moves = float && (data === undefined ? kind !== 'quarters' : movable)
    this.inputs.push({ name, text: made, movable: moves })
    const v = this.#variable(name, evaluate(made, []) as s.Tensor, !moves)
    this.root.vars.push(v)
    this.root.names.set(name, v.value)
    return v
  }

  #data(n: number, k: number, dtype: DType, kind: 'real' | 'positive' | 'quarters'): string {
    if (dtype === 'bool') return `whole(${n}, ${k}, 0, 1)`
    if (!isFloat(dtype)) return `whole(${n}, ${k}, ${dtype.startsWith('u') ? 0 : -6}, 9)`
    const special = this.options.special && this.rng.chance(0.4) ? '.map(odd)' : ''
    if (kind === 'quarters') return `whole(${n}, ${k}, -8, 8, 0.25)${special}`
    return `real(${n}, ${k}, ${kind === 'real' ? '-2, 2' : '0.25, 2'})${special}`
  }

  /** A new input of indices into an axis, some of them out of range. */
  indices(shape: Shape, extent: number): Var {
    const k = this.inputs.length + 1
    const low = this.rng.chance(0.5) ? 0 : -extent - 1
    const high = this.rng.chance(0.7) ? Math.max(0, extent - 1) : extent + 1
    return this.input(shape, this.rng.pick(['i32', 'i32', 'i64']), `whole(${sizeOf(shape)}, ${k}, ${low}, ${high})`)
  }

  /** A key for random bits. */
  key(scope: Scope): Var {
    const known = this.find(scope, (v) => v.value.dtype === 'u32' && v.value.shape.join() === '2')
    return known ?? this.input([2], 'u32', `whole(2, ${this.inputs.length + 1}, 0, 1000000)`)
  }

  /** Whether a value counts for bounds: where there may be infinities, they do not. */
  #counts(x: number): boolean {
    return !this.options.special || Number.isFinite(x)
  }

  #noiseOf(text: string): number {
    return Math.max(0, ...(text.match(/\b[tuxf]\d+\b/g) ?? []).map((n) => this.#noise.get(n) ?? 0))
  }

  #variable(name: string, value: s.Tensor, exact: boolean, expression = ''): Var {
    const data = value.dataSync()
    let lo = Number.POSITIVE_INFINITY
    let hi = Number.NEGATIVE_INFINITY
    for (const x of data) {
      if (!this.#counts(Number(x))) continue
      lo = Math.min(lo, Number(x))
      hi = Math.max(hi, Number(x))
    }
    const own = lo > hi ? 0 : roundoff(value.dtype) * Math.max(Math.abs(lo), Math.abs(hi))
    const noise = Math.max(own, this.#noiseOf(expression))
    this.#noise.set(name, noise)
    return { name, value, exact, lo, hi, noise }
  }

  /** Names that an expression in a scope may use. */
  names(scope: Scope): Map<string, unknown> {
    return new Map([...(scope.outer === undefined ? [] : this.names(scope.outer)), ...scope.names])
  }

  #accepted(v: Var, scope: Scope): Var | undefined {
    const { value } = v
    const { dtype } = value
    if (value.size > this.options.maxElements) return undefined
    if (!isFloat(dtype)) return { ...v, exact: true }
    if (Number.isNaN(v.lo)) return undefined
    if (v.lo <= v.hi && !(Math.abs(v.lo) <= largest(dtype) && Math.abs(v.hi) <= largest(dtype))) return undefined
    if (!v.exact) return v
    const [unit, most] = grid(dtype)
    const exact =
      !scope.varying &&
      Array.from(value.dataSync(), Number).every((x) => !this.#counts(x) || (x % unit === 0 && Math.abs(x) <= most))
    return { ...v, exact }
  }

  /** Runs an expression: undefined where the library refuses it. */
  #run(scope: Scope, expression: string): unknown {
    try {
      return s.evaluate(evaluate(expression, this.names(scope)))
    } catch (error) {
      if (error instanceof UserError && refusals.includes(error.code)) return undefined
      throw new Error(`while a program was written: ${expression}\nin ${this.textOf()}\n${String(error)}`, {
        cause: error,
      })
    }
  }

  /** A statement that gives one tensor; `exact` where it computes without rounding on exact operands. */
  emit(scope: Scope, expression: string, exact = false): Var | undefined {
    const value = this.#run(scope, expression)
    if (!(value instanceof s.Tensor)) return undefined
    const name = this.name('t')
    const v = this.#accepted(this.#variable(name, value, exact, expression), scope)
    if (v === undefined) return undefined
    scope.lines.push(`const ${name} = ${indent(expression)}`)
    this.#add(scope, v)
    return v
  }

  /** A statement that gives a list of tensors. */
  emitList(scope: Scope, expression: string): Var | undefined {
    const values = this.#run(scope, expression)
    if (!Array.isArray(values) || values.length === 0) return undefined
    const vars = values.flatMap((value: unknown) => {
      if (!(value instanceof s.Tensor)) throw new Error(`not a tensor in the list ${expression}`)
      return this.#accepted(this.#variable(this.name('t'), value, false, expression), scope) ?? []
    })
    if (vars.length < values.length) return undefined
    scope.lines.push(`const [${vars.map((v) => v.name).join(', ')}] = ${indent(expression)}`)
    for (const v of vars) this.#add(scope, v)
    return vars.at(-1)
  }

  #add(scope: Scope, v: Var): void {
    scope.vars.push(v)
    scope.names.set(v.name, v.value)
  }

  /** A named function. */
  define(scope: Scope, text: string): string {
    const name = this.name('f')
    scope.lines.push(`const ${name} = ${indent(text)}`)
    scope.names.set(name, evaluate(text, this.names(scope)))
    this.#noise.set(name, this.#noiseOf(text))
    return name
  }

  /** A scope for the body of a function, with parameters of these values. */
  inside(
    scope: Scope,
    values: readonly { readonly value: s.Tensor; readonly exact: boolean }[],
    varying = false,
  ): Scope {
    const made: Scope = {
      outer: scope,
      vars: [],
      lines: [],
      names: new Map(),
      varying: varying || scope.varying,
      depth: scope.depth + 1,
    }
    for (const { value, exact } of values)
      this.#add(made, this.#variable(this.name('u'), value, exact && (!made.varying || !isFloat(value.dtype))))
    return made
  }

  use(steps: readonly Step[]): void {
    this.#steps = steps
  }

  /** Writes steps into a scope. */
  write(scope: Scope, count: number): void {
    const total = this.#steps.reduce((n, [weight]) => n + weight, 0)
    for (let made = 0, tries = 0; made < count && tries < count * 12; tries++) {
      let at = this.rng.unit() * total
      const step = this.#steps.find(([weight]) => {
        at -= weight
        return at < 0
      })
      if (step?.[2](this, scope) !== undefined) made++
    }
  }

  /** The text of a function with the lines of a scope. */
  functionText(scope: Scope, params: string, result: string): string {
    const { lines } = scope
    if (lines.length === 0 && !result.startsWith('{')) return `(${params}) => ${result}`
    return `(${params}) => {\n${[...lines, `return ${result}`].map((l) => `  ${l}`).join('\n')}\n}`
  }

  /** What is written so far. */
  textOf(): string {
    return [...this.inputs.map((i) => `const ${i.name} = ${i.text}`), ...this.root.lines].join('\n')
  }
}
