/**
 * WGSL: prints thread code for WebGPU. Parameters are arrays of 32-bit words or of vectors of them, as their accesses ask;
 * 64-bit integers are pairs of words. Loops over registers are repeated in place, so that register arrays have constant indices.
 */
import { InternalError } from '../../../diagnostics/errors.ts'
import type { KernelParam } from '../../../kernel/ir.ts'
import { dtypeBits } from '../../../types/dtype.ts'
import type { ThreadCode } from '../code.ts'
import { type Binary, bin, type Ex, int, isWideType, quotient, type S, type Type } from '../ir.ts'
import type { Dialect } from '../scope.ts'
import { countOf, substituteVars, visitExpressions, visitStatements } from '../walk.ts'
import { decimal, Printer } from './print.ts'
import { extremeOfLiteral } from './wgslExtremes.ts'
import { wgslInline, wgslLibrary } from './wgslLibrary.ts'
import { sharedType, vectorText } from './wgslVectors.ts'

export const wgslDialect: Dialect = { name: 'wgsl', bytes: false, wideIndex: false, f64: false, foldsConstants: false }

const types: Readonly<Record<Type, string>> = {
  bool: 'bool',
  i32: 'i32',
  u32: 'u32',
  f32: 'f32',
  f64: 'f64',
  i64: 'vec2<u32>',
  u64: 'vec2<u32>',
}

/** How a parameter is declared. */
interface Words {
  readonly type: 'f32' | 'i32' | 'u32'
  readonly width: number
  readonly atomic: boolean
}

function wordsOf(p: KernelParam, body: readonly S[]): Words {
  const type = p.format === 'plain' && (p.dtype === 'f32' || p.dtype === 'i32') ? p.dtype : 'u32'
  let loads = 1
  let stores = 4
  let stored = false
  let atomic = false
  visitStatements(body, (s) => {
    if (s.k === 'vload' && s.param === p.name) loads = Math.max(loads, s.words)
    if (s.k === 'vstore' && s.param === p.name) {
      stores = Math.min(stores, s.values.length)
      stored = true
    }
    if (s.k === 'store' && s.param === p.name) {
      stores = 1
      stored = true
    }
    if (s.k === 'storeBits' && s.param === p.name) atomic = true
  })
  return { type, width: atomic ? 1 : stored ? stores : loads, atomic }
}

const components = ['x', 'y', 'z', 'w']

class WgslPrinter extends Printer {
  private readonly words: ReadonlyMap<string, Words>
  private readonly params: ReadonlyMap<string, KernelParam>
  private readonly isFast: boolean
  /** Variables that loops divide by again and again: the number of what was made of each beforehand. */
  private readonly reciprocals = new Map<string, number>()
  private reciprocalCount = 0
  usesSubgroups = false

  constructor(code: ThreadCode) {
    super(wgslLibrary, wgslInline)
    this.isFast = code.kernel.mode === 'fast'
    this.params = new Map(code.kernel.params.map((p) => [p.name, p]))
    this.words = new Map(code.kernel.params.map((p) => [p.name, wordsOf(p, code.body)]))
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

  private named(name: string, ...args: readonly string[]): string {
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
    return undefined
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

  /** One word of a parameter. */
  private word(param: string, index: Ex): string {
    const w = this.wordsOf(param)
    if (w.atomic) return `atomicLoad(&${param}[${this.ex(index)}])`
    if (w.width === 1) return `${param}[${this.ex(index)}]`
    const lane = bin('&', index, { k: 'lit', type: 'i32', value: w.width - 1 })
    return `${param}[${this.ex(quotient(index, w.width))}][${this.ex(lane)}]`
  }

  protected memory(e: Extract<Ex, { k: 'load' | 'word' | 'comp' | 'shuffle' | 'address' }>): string {
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
      case 'address':
        throw new InternalError('WGSL has no addresses')
    }
  }

  protected special(s: S): void {
    switch (s.k) {
      case 'let':
        this.line(`let ${s.name} = ${this.ex(s.value)};`)
        break
      case 'var':
        this.line(
          `var ${s.name}${s.value === undefined ? `: ${types[s.type]}` : `: ${types[s.type]} = ${this.ex(s.value)}`};`,
        )
        break
      case 'array':
        this.line(`var ${s.name}: array<${types[s.type]}, ${s.length}>;`)
        break
      case 'for':
        if (s.unroll) {
          const extremes = extremesOf(s)
          if (extremes === undefined) this.withReciprocals(s, () => this.repeat(s, true))
          else for (const e of extremes) this.extreme(e)
          break
        }
        this.line(`for (var ${s.name} = ${this.ex(s.from)}; ${s.name} < ${this.ex(s.to)}; ${s.name} += ${s.step}) {`)
        this.indented(() => this.stmts(s.body))
        this.line('}')
        break
      case 'barrier':
        this.line('workgroupBarrier();')
        break
      case 'vload':
        this.line(`let ${s.name} = ${this.vector(s.param, quotient(s.index, 32 / s.bits), s.words)};`)
        break
      case 'words':
        this.line(`let ${s.name} = ${this.call(s.fn, s.args)};`)
        break
      case 'vstore':
        this.storeVector(s)
        break
      case 'store':
        this.storeWord(s)
        break
      case 'storeBits': {
        const word = this.ex(s.index)
        this.line(`atomicAnd(&${s.param}[${word}], ~(${this.ex(s.mask)}));`)
        this.line(`atomicOr(&${s.param}[${word}], ${this.ex(s.bits)});`)
        break
      }
      case 'vector':
        this.line(
          vectorText(
            s.of,
            (e) => this.ex(e),
            (e) => this.operand(e),
          ),
        )
        break
      case 'uniform':
        this.line('if (tid == 0) {')
        this.indented(() => this.line(`${s.slot}[0] = ${this.ex(s.value)};`))
        this.line('}')
        this.line(`let ${s.name} = workgroupUniformLoad(&${s.slot}[0]);`)
        break
      default:
    }
  }

  override call(fn: string, args: readonly Ex[]): string {
    const extreme = extremeOfLiteral(fn, args)
    if (extreme !== undefined) return super.call(extreme.name, extreme.args)
    const [a, b] = args
    if (/_lanes_/.test(fn)) this.usesSubgroups = true
    const n = fn === 'f32_div' && b?.k === 'var' ? this.reciprocals.get(b.name) : undefined
    if (n === undefined || a === undefined) return super.call(fn, args)
    return this.named(
      'f32_div_by',
      `${this.operand(a)} * reciprocal_scale_${n}`,
      `reciprocal_divisor_${n}`,
      `reciprocal_${n}`,
    )
  }

  /**
   * Repeated division by what a loop does not change is multiplication by its reciprocal, taken once, with one step of correction.
   */
  private withReciprocals(s: Extract<S, { k: 'for' }>, body: () => void): void {
    const found = this.isFast ? invariantDivisors(s).filter((d) => !this.reciprocals.has(d)) : []
    for (const d of found) {
      const n = this.reciprocalCount++
      this.line(`let reciprocal_scale_${n} = ${this.named('divisor_scale', d)};`)
      this.line(`let reciprocal_divisor_${n} = ${d} * reciprocal_scale_${n};`)
      this.line(`let reciprocal_${n} = 1.0 / reciprocal_divisor_${n};`)
      this.reciprocals.set(d, n)
    }
    body()
    for (const d of found) this.reciprocals.delete(d)
  }

  /** Folds values by `max` or `min` alone; NaN and zeros, whose signs count, go through them again. */
  private extreme(e: Extreme): void {
    const { name } = e
    const to = this.ex(e.to)
    const values = e.of.map((x) => this.ex(x.taken))
    this.use('f32_isnan')
    this.use(`special_${name}`)
    this.line('{')
    this.indented(() => {
      this.line(`var best = ${to};`)
      this.line(`var total = ${to};`)
      // What is not there may show as NaN in the sum, which costs time alone.
      const sums = e.of.map((x) => this.ex(x.value))
      for (let i = 0; i < values.length; i += 4) {
        this.line(`best = ${name}(best, ${inPairs(values.slice(i, i + 4), (a, b) => `${name}(${a}, ${b})`)});`)
        this.line(`total = total + ${inPairs(sums.slice(i, i + 4), (a, b) => `(${a} + ${b})`)};`)
      }
      this.line('if (f32_isnan(total) | (best == 0.0)) {')
      this.indented(() => {
        this.line(`best = ${to};`)
        for (const x of values) this.line(`best = special_${name}(best, ${x});`)
      })
      this.line('}')
      this.line(`${to} = best;`)
    })
    this.line('}')
  }

  private vector(param: string, index: Ex, n: number): string {
    const w = this.wordsOf(param)
    if (!w.atomic && w.width === n) return `${param}[${this.ex(quotient(index, n))}]`
    const parts = Array.from({ length: n }, (_, i) =>
      this.word(param, bin('+', index, { k: 'lit', type: 'i32', value: i })),
    )
    return n === 1 ? (parts[0] ?? '') : `vec${n}<${w.type}>(${parts.join(', ')})`
  }

  private storeVector(s: Extract<S, { k: 'vstore' }>): void {
    const w = this.wordsOf(s.param)
    const values = s.values.map((x) => (x.type === w.type ? this.ex(x) : `bitcast<${w.type}>(${this.ex(x)})`))
    const first = quotient(s.index, 32 / s.bits)
    const at = (i: number): Ex => bin('+', first, { k: 'lit', type: 'i32', value: i })
    if (w.atomic || w.width === 1) {
      values.forEach((x, i) => {
        const place = `${s.param}[${this.ex(at(i))}]`
        this.line(w.atomic ? `atomicStore(&${place}, ${x});` : `${place} = ${x};`)
      })
      return
    }
    const rounded = s.values.flatMap((x) => (x.k === 'call' && x.fn === 'bf16_pair' ? x.args : []))
    if (w.width === 4 && values.length === 4 && rounded.length === 8) {
      const place = `${s.param}[${this.ex(quotient(first, 4))}]`
      this.line(`${place} = ${this.named('bf16_eight', ...rounded.map((x) => this.ex(x)))};`)
      return
    }
    for (let i = 0; i < values.length; i += w.width) {
      const place = `${s.param}[${this.ex(quotient(at(i), w.width))}]`
      this.line(`${place} = vec${w.width}<${w.type}>(${values.slice(i, i + w.width).join(', ')});`)
    }
  }

  private storeWord(s: Extract<S, { k: 'store' }>): void {
    const w = this.wordsOf(s.param)
    if (isWideType(s.value.type)) {
      const at = bin('*', s.index, { k: 'lit', type: 'i32', value: 2 })
      const value = this.ex(s.value)
      this.line(`${s.param}[${this.ex(at)}] = (${value}).x;`)
      this.line(`${s.param}[${this.ex(bin('+', at, { k: 'lit', type: 'i32', value: 1 }))}] = (${value}).y;`)
      return
    }
    const x = s.value.type === w.type ? this.ex(s.value) : `bitcast<${w.type}>(${this.ex(s.value)})`
    this.line(`${s.param}[${this.ex(s.index)}] = ${x};`)
  }
}

/** Up to four texts in two halves, so that steps do not wait for each other. */
function inPairs(x: readonly string[], join: (a: string, b: string) => string): string {
  const [a = '', b, c, d] = x
  const first = b === undefined ? a : join(a, b)
  return c === undefined ? first : join(first, d === undefined ? c : join(c, d))
}

interface Extreme {
  readonly to: Ex
  readonly name: 'max' | 'min'
  /** What is folded, and the value without the test whether it is there. */
  readonly of: readonly { readonly taken: Ex; readonly value: Ex }[]
}

/** What a nest of loops folds by max or min, by place, if it does nothing else and that several times. */
function extremesOf(s: Extract<S, { k: 'for' }>): Extreme[] | undefined {
  const places = new Map<string, Extreme>()
  const collect = (stmts: readonly S[], at: ReadonlyMap<string, Ex>): boolean =>
    stmts.every((t) => {
      if (t.k === 'for' && t.unroll)
        return Array.from({ length: countOf(t) }, (_, i) => i).every((i) =>
          collect(t.body, new Map([...at, [t.name, int(i)]])),
        )
      const one = foldOf(t, at)
      if (one === undefined) return false
      const key = JSON.stringify([one.to, one.name])
      places.set(key, { ...one, of: [...(places.get(key)?.of ?? []), ...one.of] })
      return true
    })
  if (!collect([s], new Map())) return undefined
  const all = [...places.values()]
  return all.some((e) => e.of.length > 1) ? all : undefined
}

function foldOf(s: S, at: ReadonlyMap<string, Ex>): Extreme | undefined {
  if (s.k !== 'assign' || (s.to.k !== 'var' && s.to.k !== 'elem') || s.value.k !== 'call') return undefined
  const { fn, args } = s.value
  if (fn !== 'f32_max' && fn !== 'f32_min') return undefined
  const [from, to, taken] = [args[0], s.to, args[1]].map((x) => (x === undefined ? x : substituteVars(x, at)))
  if (from === undefined || to === undefined || JSON.stringify(from) !== JSON.stringify(to)) return undefined
  const value = taken?.k === 'select' && taken.b.k === 'lit' ? taken.a : taken
  if (taken === undefined || value?.k !== 'elem' || (to.k === 'elem' && to.array === value.array)) return undefined
  return { to, name: fn === 'f32_max' ? 'max' : 'min', of: [{ taken, value }] }
}

/** Variables from outside a loop that it divides floats by. */
function invariantDivisors(s: Extract<S, { k: 'for' }>): string[] {
  const out = new Set<string>()
  visitExpressions([s], (e) => {
    const by = e.k === 'call' && e.fn === 'f32_div' ? e.args[1] : undefined
    if (by?.k === 'var') out.add(by.name)
  })
  if (out.size === 0) return []
  visitStatements([s], (t) => {
    if (t.k === 'assign' && t.to.k === 'var') out.delete(t.to.name)
    if ('name' in t) out.delete(t.name)
  })
  return [...out]
}

export function printWgsl(code: ThreadCode): string {
  const p = new WgslPrinter(code)
  const { kernel } = code
  p.line(`@compute @workgroup_size(${code.threads})`)
  p.line(
    `fn ${kernel.name}(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) blocks: vec3<u32>) {`,
  )
  p.indented(() => {
    p.line('let tid = i32(thread);')
    p.line('let program = i32(block.x + block.y * blocks.x);')
    for (const s of code.summary) p.line(`// ${s}`)
    p.line(`if (program >= ${code.programs}) {`)
    p.indented(() => p.line('return;'))
    p.line('}')
    p.stmts(code.body)
  })
  p.line('}')
  const declarations = kernel.params.map((x, i) => {
    const w = p.wordsOf(x.name)
    const written = x.access !== 'read' || w.atomic || code.caps.writable?.(x.name) === true
    const one = w.atomic ? 'atomic<u32>' : w.width === 1 ? w.type : `vec${w.width}<${w.type}>`
    return `// ${x.access} ${x.dtype}[${x.shape.join(', ')}]${x.format === 'plain' ? '' : ` ${x.format}`}
@group(0) @binding(${i}) var<storage, ${written ? 'read_write' : 'read'}> ${x.name}: array<${one}>;`
  })
  const shared = code.shared.map((a) => `var<workgroup> ${a.name}: ${sharedType(types[a.type], a)};`)
  const head = [
    ...(p.usesSubgroups ? ['enable subgroups;', ''] : []),
    `// Kernel ${kernel.name}: ${code.programs} workgroups of ${code.threads} threads.`,
  ]
  return [...head, ...declarations, ...shared, '', ...p.libraryText().map((f) => `${f}\n`), p.text, ''].join('\n')
}
