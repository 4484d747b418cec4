/**
 * Expressions in WGSL: types, literals, conversions, operators, and what is read from memory. 64-bit integers are pairs of words.
 */
import { InternalError } from '../../../../diagnostics/errors.ts'
import type { KernelParam } from '../../../../kernel/ir.ts'
import { dtypeBits, isSingleWord } from '../../../../types/dtype.ts'
import { sizeOf } from '../../../../types/shape.ts'
import type { ThreadCode } from '../../ir/code.ts'
import { type Binary, bin, type Ex, isWideType, type Type } from '../../ir/ir.ts'
import { quotient } from '../../scalar/quotient.ts'
import { decimal, type Library, Printer } from '../shared/print.ts'
import { extremeOfLiteral } from './extremes.ts'
import { builtInHalves, halfOfWord } from './halves.ts'
import { wgslInline, wgslLibrary } from './library.ts'
import { type Words, wordsOfAll } from './words.ts'

const types: Readonly<Record<Type, string>> = {
  bool: 'bool',
  i32: 'i32',
  u32: 'u32',
  f32: 'f32',
  f64: 'f64',
  i64: 'vec2<u32>',
  u64: 'vec2<u32>',
}

const components = ['x', 'y', 'z', 'w']

/** Whether an expression is a literal zero of either sign. */
export const isZero = (e: Ex): e is Extract<Ex, { k: 'lit' }> => e.k === 'lit' && e.type === 'f32' && e.value === 0

const libraryWithHalves: Library = { ...wgslLibrary, ...builtInHalves }

export abstract class WgslExpressions extends Printer {
  private readonly words: ReadonlyMap<string, Words>
  private readonly params: ReadonlyMap<string, KernelParam>
  /** Parameters that are declared as the one value they are. */
  readonly isUniform: (param: string) => boolean
  /** f16 is converted by built-in functions. */
  private readonly convertsHalves: boolean
  /** Whether what was printed exchanges values between the lanes of a subgroup. */
  usesSubgroups = false

  constructor(code: ThreadCode) {
    super(code.machine.hasHalfConversions ? libraryWithHalves : wgslLibrary, wgslInline)
    this.convertsHalves = code.machine.hasHalfConversions
    this.params = new Map(code.kernel.params.map((p) => [p.name, p]))
    this.words = wordsOfAll(code.kernel.params, code.body)
    this.isUniform = (param) => code.launch.uniform?.(param) === true
  }

  wordsOf(name: string): Words {
    const w = this.words.get(name)
    if (w === undefined) throw new InternalError(`no parameter ${name}`)
    return w
  }

  type(t: Type): string {
    return types[t]
  }

  protected literal(t: Type, value: number | bigint | boolean): string {
    switch (t) {
      case 'bool':
        return value ? 'true' : 'false'
      case 'i32':
        return value === -2147483648 ? 'i32(-2147483648)' : String(value)
      case 'u32':
        return `${value}u`
      case 'i64':
      case 'u64': {
        const bits = BigInt.asUintN(64, BigInt(value))
        return `vec2<u32>(${bits & 0xffffffffn}u, ${bits >> 32n}u)`
      }
      default:
        return this.float(Math.fround(Number(value)))
    }
  }

  private float(x: number): string {
    if (!Number.isFinite(x)) {
      this.use('special_values')
      return `bitcast<f32>(${Number.isNaN(x) ? 'nan_bits' : x > 0 ? 'infinity_bits' : 'minus_infinity_bits'})`
    }
    if (Object.is(x, -0)) {
      // As a constant expression it may be taken for the other zero.
      this.use('minus_zero')
      return 'bitcast<f32>(minus_zero_bits)'
    }
    if (x !== 0 && Math.abs(x) < 2 ** -126) {
      const bits = new Uint32Array(Float32Array.of(x).buffer)[0] ?? 0
      return `bitcast<f32>(${bits}u)`
    }
    return decimal(x)
  }

  protected castText(to: Type, from: Type, a: string): string {
    if (isWideType(to)) {
      if (isWideType(from)) return a
      if (from === 'i32') return this.named('i32_to_i64', a)
      if (from === 'f32') return this.named(`f32_to_${to}`, a)
      return `vec2<u32>(u32(${a}), 0u)`
    }
    if (isWideType(from)) {
      if (to === 'i32') return `bitcast<i32>(${a}.x)`
      if (to === 'u32') return `${a}.x`
      return this.named(`${from}_to_f32`, a)
    }
    if (to === 'f32' && from === 'u32') return this.named('u32_to_f32', a)
    return `${types[to]}(${a})`
  }

  protected named(name: string, ...args: readonly string[]): string {
    this.use(name)
    return `${name}(${args.join(', ')})`
  }

  protected bitcastText(to: Type, _from: Type, a: string): string {
    return `bitcast<${types[to]}>(${a})`
  }

  protected selectText(_type: Type, cond: string, a: string, b: string): string {
    return `select(${b}, ${a}, ${cond})`
  }

  protected operator(e: Extract<Ex, { k: 'bin' | 'neg' | 'not' }>): string | undefined {
    if (e.k !== 'bin') return undefined
    // Both sides are values without effects. Branches for the second would cost more, and SwiftShader takes minutes to compile many.
    if (e.op === '&&' || e.op === '||')
      return `(${this.operand(e.a)} ${e.op === '&&' ? '&' : '|'} ${this.operand(e.b)})`
    if (isWideType(e.a.type)) return this.wideOperator(e.op, e.a, e.b)
    if (e.op === '*') return this.ofZero('zero_times', e.a, e.b) ?? this.ofZero('zero_times', e.b, e.a)
    return undefined
  }

  /** What a literal zero makes of a float: compilers that assume there is no NaN take the result for zero. */
  private ofZero(fn: string, zero: Ex, x: Ex): string | undefined {
    if (!isZero(zero)) return undefined
    return this.named(fn, Object.is(zero.value, -0) ? `-${this.operand(x)}` : this.ex(x))
  }

  private wideOperator(op: Binary, x: Ex, y: Ex): string {
    const [a, b] = [this.ex(x), this.ex(y)]
    switch (op) {
      case '==':
        return `all(${a} == ${b})`
      case '!=':
        return `any(${a} != ${b})`
      case '<':
        return this.named(`${x.type}_lt`, a, b)
      case '>':
        return this.named(`${x.type}_lt`, b, a)
      case '<=':
        return `!${this.named(`${x.type}_lt`, b, a)}`
      case '>=':
        return `!${this.named(`${x.type}_lt`, a, b)}`
      case '+':
        return this.named(`${x.type}_add`, a, b)
      case '-':
        return this.named(`${x.type}_sub`, a, b)
      case '*':
        return this.named(`${x.type}_mul`, a, b)
      case '&':
      case '|':
      case '^':
        return `(${a} ${op} ${b})`
      default:
        throw new InternalError(`${op} on 64-bit integers in WGSL`)
    }
  }

  /** Whether a parameter is one word. */
  isSingle(param: string): boolean {
    const p = this.params.get(param)
    return p !== undefined && isSingleWord(p.dtype, sizeOf(p.shape))
  }

  /** One word of a uniform buffer, whose elements are four words each. */
  private uniformWord(param: string, index: Ex): string {
    const lane = bin('&', index, { k: 'lit', type: 'i32', value: 3 })
    return `${param}[${this.ex(quotient(index, 4))}][${this.ex(lane)}]`
  }

  /** One word of a parameter. */
  private word(param: string, index: Ex): string {
    if (this.isUniform(param)) return this.isSingle(param) ? param : this.uniformWord(param, index)
    const w = this.wordsOf(param)
    if (w.atomic) return `atomicLoad(&${param}[${this.ex(index)}])`
    if (w.width === 1) return `${param}[${this.ex(index)}]`
    const lane = bin('&', index, { k: 'lit', type: 'i32', value: w.width - 1 })
    return `${param}[${this.ex(quotient(index, w.width))}][${this.ex(lane)}]`
  }

  protected memory(e: Extract<Ex, { k: 'load' | 'word' | 'comp' | 'shuffle' | 'turn' | 'address' }>): string {
    switch (e.k) {
      case 'load': {
        const p = this.params.get(e.param)
        if (p !== undefined && dtypeBits(p.dtype) === 64) {
          const at = bin('*', e.index, { k: 'lit', type: 'i32', value: 2 })
          return `vec2<u32>(${this.word(e.param, at)}, ${this.word(e.param, bin('+', at, { k: 'lit', type: 'i32', value: 1 }))})`
        }
        return this.word(e.param, e.index)
      }
      case 'word': {
        const text = this.word(e.param, e.index)
        return this.wordsOf(e.param).type === 'u32' ? text : `bitcast<u32>(${text})`
      }
      case 'comp':
        return e.words === 1 ? e.of : `${e.of}.${components[e.at]}`
      case 'shuffle':
        this.usesSubgroups = true
        if (e.type === 'bool') return `(subgroupShuffleXor(u32(${this.ex(e.a)}), ${e.mask}u) != 0u)`
        return `subgroupShuffleXor(${this.ex(e.a)}, ${e.mask}u)`
      case 'turn':
        throw new InternalError('WGSL turns no blocks')
      case 'address':
        throw new InternalError('WGSL has no addresses')
    }
  }

  override call(fn: string, args: readonly Ex[]): string {
    const extreme = extremeOfLiteral(fn, args)
    if (extreme !== undefined) return super.call(extreme.name, extreme.args)
    const [a, b] = args
    if (fn === 'f16_value' && a !== undefined && this.convertsHalves) return this.half(a)
    const quotientOfZero =
      fn === 'f32_div' && a !== undefined && b !== undefined ? this.ofZero('zero_over', a, b) : undefined
    if (quotientOfZero !== undefined) return quotientOfZero
    if (/_lanes_/.test(fn)) this.usesSubgroups = true
    return super.call(fn, args)
  }

  private half(h: Ex): string {
    const { word, upper } = halfOfWord(h)
    return `unpack2x16float(${this.ex(word)}).${upper ? 'y' : 'x'}`
  }

  /** So many words of a parameter from a place on, as one value. */
  protected vector(param: string, index: Ex, n: number): string {
    const w = this.wordsOf(param)
    if (!w.atomic && w.width === n && !this.isUniform(param)) return `${param}[${this.ex(quotient(index, n))}]`
    const parts = Array.from({ length: n }, (_, i) =>
      this.word(param, bin('+', index, { k: 'lit', type: 'i32', value: i })),
    )
    return n === 1 ? (parts[0] ?? '') : `vec${n}<${w.type}>(${parts.join(', ')})`
  }
}
