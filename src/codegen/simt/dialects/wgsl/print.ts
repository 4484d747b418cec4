/**
 * WGSL: prints thread code for WebGPU. Parameters are arrays of 32-bit words or of vectors of them (words.ts). Here are statements and
 * the kernel around them; expressions are in expressions.ts.
 */
import type { Kernel } from '../../../../kernel/ir.ts'
import type { ThreadCode } from '../../ir/code.ts'
import { bin, type Ex, type ExtremeFold, isWideType, type S } from '../../ir/ir.ts'
import { quotient } from '../../scalar/quotient.ts'
import type { Dialect } from '../../unit.ts'
import { isZero, WgslExpressions } from './expressions.ts'
import { matrixText, sharedType, vectorText } from './vectors.ts'

export const wgslDialect: Dialect = {
  bytes: false,
  wideIndex: false,
  f64: false,
  foldsConstants: false,
  movesConstants: false,
  inlinesFunctions: false,
  foldsExtremes: true,
  sharesReciprocals: true,
  passesScalars: false,
  bindsTouched: true,
  convertsHalf: false,
}

class WgslPrinter extends WgslExpressions {
  /** Whether what was printed multiplies matrices of subgroups. */
  usesMatrices = false

  protected special(s: S): void {
    switch (s.k) {
      case 'let':
        this.line(`let ${s.name} = ${this.ex(s.value)};`)
        break
      case 'var':
        this.line(`var ${s.name}: ${this.type(s.type)}${s.value === undefined ? '' : ` = ${this.ex(s.value)}`};`)
        break
      case 'array':
        this.line(`var ${s.name}: array<${this.type(s.type)}, ${s.length}>;`)
        break
      case 'for':
        this.line(`for (var ${s.name} = ${this.ex(s.from)}; ${s.name} < ${this.ex(s.to)}; ${s.name} += ${s.step}) {`)
        this.indented(() => this.stmts(s.body))
        this.line('}')
        break
      case 'extreme':
        this.extreme(s)
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
      case 'matrix':
        this.usesMatrices = true
        this.line(matrixText(s.of, { ex: (e) => this.ex(e), call: (fn, args) => this.call(fn, args) }))
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
    const [a, b, scale, divisor, reciprocal] = args
    if (fn !== 'f32_div_by' || a === undefined || b === undefined || scale === undefined) return super.call(fn, args)
    if (isZero(a)) return super.call('f32_div', [a, b])
    const rest = [divisor, reciprocal].flatMap((x) => (x === undefined ? [] : this.ex(x)))
    return this.named(fn, `${this.operand(a)} * ${this.ex(scale)}`, ...rest)
  }

  /** Folds values by `max` or `min` alone; NaN and zeros, whose signs count, go through them again. */
  private extreme(e: ExtremeFold): void {
    const { by: name } = e
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

/** Groups of four words of a uniform buffer, to the last launch scalar that is read of it. */
const scalarWords = ({ scalars = [] }: Kernel, param: string): number =>
  Math.ceil(scalars.reduce((n, s) => (s.param === param ? Math.max(n, s.at + 1) : n), 1) / 4)

/** Which subgroup a thread is in is a number of its own, which the analysis of uniformity does not follow. */
const matrixDirectives: readonly string[] = [
  'enable f16;',
  'enable chromium_experimental_subgroup_matrix;',
  'diagnostic(off, chromium.subgroup_matrix_uniformity);',
]

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
    const written = x.access !== 'read' || w.atomic || code.launch.writable?.(x.name) === true
    const one = w.atomic ? 'atomic<u32>' : w.width === 1 ? w.type : `vec${w.width}<${w.type}>`
    const declared = p.isUniform(x.name)
      ? `var<uniform> ${x.name}: ${p.isSingle(x.name) ? w.type : `array<vec4<${w.type}>, ${scalarWords(kernel, x.name)}>`};`
      : `var<storage, ${written ? 'read_write' : 'read'}> ${x.name}: array<${one}>;`
    return `// ${x.access} ${x.dtype}[${x.shape.join(', ')}]${x.format === 'plain' ? '' : ` ${x.format}`}
@group(0) @binding(${i}) ${declared}`
  })
  const shared = code.shared.map((a) => `var<workgroup> ${a.name}: ${sharedType(p.type(a.type), a)};`)
  const head = [
    ...(p.usesSubgroups ? ['enable subgroups;', ''] : []),
    ...(p.usesMatrices ? matrixDirectives : []),
    `// Kernel ${kernel.name}: ${code.programs} workgroups of ${code.threads} threads.`,
  ]
  return [...head, ...declarations, ...shared, '', ...p.libraryText().map((f) => `${f}\n`), p.text, ''].join('\n')
}
