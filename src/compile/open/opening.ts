/** What a program with open extents asks of its launches: scalars of kernels, and constants that vary, each by a formula. */

import { add, constant, type Expr, launched, mul, type Scale, scaled, zero } from '../../affine/expr.ts'
import { gcd } from '../../affine/gcd.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { param } from '../../graph/build.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import type { LaunchScalar } from '../../kernel/ir.ts'
import type { Binding, BoundKernel, Launch } from '../../lower/launch.ts'
import {
  constantOf,
  type Dimension,
  type Formula,
  formulaRange,
  isConstant,
  type LaunchNumbers,
  type Monomial,
  type RealFormula,
} from '../../runtime/extents.ts'
import type { DType } from '../../types/dtype.ts'
import { scalarsUsed } from './scalarsUsed.ts'

/** Numbers of one dtype that launches hand over, at most. */
const mostNumbers = 256

/** The parameter of kernels that holds their launch scalars. */
const sizes = 'sizes'

/** What an input holds that each launch fills. */
interface Handed<F> {
  readonly formulas: F[]
  readonly numbers: Map<string, number>
}

export class Opening {
  readonly dimensions: readonly Dimension[]
  private readonly inputs: number
  private readonly scales: Map<string, Scale>
  private readonly whole: Handed<Formula>
  private readonly reals: Map<Exclude<DType, 'i32'>, Handed<RealFormula>>
  /** The inputs, in order. */
  private readonly nodes: NodeOf<'param'>[] = []

  /** `inputs`: how many the program has besides; `around` is what the program around it asks, of which its own numbers are some. */
  constructor(dimensions: readonly Dimension[], inputs: number, around?: Opening) {
    this.dimensions = dimensions
    this.inputs = inputs
    this.scales = around?.scales ?? new Map()
    this.whole = around?.whole ?? { formulas: [], numbers: new Map() }
    this.reals = around?.reals ?? new Map()
  }

  /** The inputs that launches fill, in order, and what they hold. */
  get params(): readonly NodeOf<'param'>[] {
    return (['i32', ...this.reals.keys()] as const).map((_, i) => this.param(i))
  }

  private param(number: number): NodeOf<'param'> {
    const dtypes = ['i32', ...this.reals.keys()] as const
    for (let i = this.nodes.length; i <= number; i++)
      this.nodes.push(param(this.inputs + i, [mostNumbers], dtypes[i] ?? 'i32'))
    const node = this.nodes[number]
    invariant(node !== undefined, 'an input that no launch fills')
    return node
  }

  get numbers(): readonly LaunchNumbers[] {
    return [
      { dtype: 'i32', formulas: this.whole.formulas },
      ...[...this.reals].map(([dtype, h]): LaunchNumbers => ({ dtype, reals: h.formulas })),
    ]
  }

  /** Elements of an input that launches fill. */
  static readonly length = mostNumbers

  /** The most that a formula gives. */
  most(f: Formula): number {
    return formulaRange(f, this.dimensions).hi
  }

  /** The launch scalar that a formula is. */
  scale(formula: Formula): Scale {
    const f = simplest(formula)
    const key = JSON.stringify(f)
    const at = place(this.whole, key, f)
    const by = `$s${at}`
    const have = this.scales.get(by)
    if (have !== undefined) return have
    const multiple =
      f.by === 1
        ? Math.max(
            1,
            f.of.reduce((g, m) => gcd(g, m.coef), 0),
          )
        : 1
    const { lo, hi } = formulaRange(f, this.dimensions)
    const made = { by, least: Math.max(0, lo), most: hi, multiple }
    this.scales.set(by, made)
    return made
  }

  get known(): ReadonlyMap<string, Scale> {
    return this.scales
  }

  /** The place of a real number among those of its dtype, and the input that holds it. */
  real(f: RealFormula, dtype: Exclude<DType, 'i32'>): { readonly node: Node; readonly at: number } {
    const have = this.reals.get(dtype) ?? { formulas: [], numbers: new Map() }
    this.reals.set(dtype, have)
    const number = 1 + [...this.reals.keys()].indexOf(dtype)
    return { node: this.param(number), at: place(have, JSON.stringify(f), f) }
  }

  /** A formula as an index expression. */
  expr(f: Formula): Expr {
    return this.times(undefined, f)
  }

  /** An expression (1, where none is given) times a formula. */
  times(e: Expr | undefined, f: Formula): Expr {
    const number = (c: number): Expr => (e === undefined ? constant(c) : mul(e, c))
    const by = (scale: Scale): Expr => (e === undefined ? launched(scale) : scaled(e, scale))
    const known = constantOf(f)
    if (known !== undefined) return number(known)
    if (f.by !== 1) return by(this.scale(f))
    const proper = f.of.filter((m) => !isConstant(m))
    const fixed = f.of.find(isConstant)?.coef ?? 0
    const rest = fixed === 0 ? zero : number(fixed)
    const alone = (of: readonly Monomial[]): Scale => this.scale({ of, by: 1, rounds: 'down' })
    if (proper.every((m) => m.coef > 0)) {
      const common = proper.reduce((g, m) => gcd(g, m.coef), 0)
      return add(mul(by(alone(proper.map((m) => ({ ...m, coef: m.coef / common })))), common), rest)
    }
    return proper.reduce((sum, m) => add(sum, mul(by(alone([{ ...m, coef: 1 }])), m.coef)), rest)
  }

  /** A launch with the scalars that its kernels use declared and bound. */
  launch(made: Launch): Launch {
    return { ...made, main: this.bound(made.main), finishing: made.finishing.map((k) => this.bound(k)) }
  }

  private bound(k: BoundKernel): BoundKernel {
    const used = scalarsUsed(k.kernel)
    if (used.size === 0) return k
    const scalars = [...used].flatMap((by): LaunchScalar[] => {
      const scale = this.scales.get(by)
      return scale === undefined ? [] : [{ ...scale, param: sizes, at: Number(by.slice(2)) }]
    })
    const binding: Binding = { kind: 'node', node: this.param(0) }
    const { kernel } = k
    const declared = { name: sizes, dtype: 'i32', shape: [mostNumbers], access: 'read', format: 'plain' } as const
    return {
      kernel: { ...kernel, params: [...kernel.params, declared], scalars },
      bindings: [...k.bindings, binding],
    }
  }
}

/** A formula in one form: a quotient alone is no polynomial, so that equal numbers are one launch scalar. */
function simplest(f: Formula): Formula {
  const [only, another] = f.of
  const [quotient, further] = only?.quotients ?? []
  if (only === undefined || another !== undefined || quotient === undefined || further !== undefined || f.by !== 1)
    return f
  return only.coef === 1 && only.powers.every((p) => p === 0)
    ? { of: quotient.of, by: quotient.by, rounds: quotient.rounds }
    : f
}

function place<F>(h: Handed<F>, key: string, f: F): number {
  const have = h.numbers.get(key)
  if (have !== undefined) return have
  const at = h.formulas.length
  h.numbers.set(key, at)
  h.formulas.push(f)
  return at
}
