/** CUDA C++: prints thread code for NVRTC or nvcc, without headers. */
import { InternalError } from '../../../../diagnostics/errors.ts'
import type { KernelParam } from '../../../../kernel/ir.ts'
import { placeShared } from '../../../../schedule/simt/storage/sharedMemory.ts'
import type { DType } from '../../../../types/dtype.ts'
import type { ThreadCode } from '../../ir/code.ts'
import type { VectorOp } from '../../ir/ir.ts'
import { add, type Ex, int, mul, type S, type SharedArray, type Type, typeBytes } from '../../ir/ir.ts'
import { quotient } from '../../scalar/quotient.ts'
import type { Dialect } from '../../unit.ts'
import { decimal, type Inline, type Library, Printer } from '../shared/print.ts'
import { cudaDependents } from './dependents.ts'
import { cudaInline, cudaLibrary } from './library.ts'

export const cudaDialect: Dialect = {
  bytes: true,
  wideIndex: true,
  f64: true,
  foldsConstants: true,
  movesConstants: true,
  inlinesFunctions: true,
  foldsExtremes: false,
  sharesReciprocals: false,
  passesScalars: true,
  bindsTouched: false,
  convertsHalf: true,
}

const types: Readonly<Record<Type, string>> = {
  bool: 'bool',
  i32: 'int',
  u32: 'unsigned',
  f32: 'float',
  f64: 'double',
  i64: 'long long',
  u64: 'unsigned long long',
}

const memoryTypes: Readonly<Record<DType, string>> = {
  f32: 'float',
  f64: 'double',
  f16: 'unsigned short',
  bf16: 'unsigned short',
  i8: 'signed char',
  i16: 'short',
  i32: 'int',
  i64: 'long long',
  u8: 'unsigned char',
  u16: 'unsigned short',
  u32: 'unsigned',
  u64: 'unsigned long long',
  bool: 'unsigned char',
}

const memoryType = (p: KernelParam): string => (p.format === 'plain' ? memoryTypes[p.dtype] : 'unsigned char')

const vectorOf = (t: Type, n: number): string =>
  n === 1 ? types[t] : `${t === 'f32' ? 'float' : t === 'i32' ? 'int' : 'uint'}${n}`

const components = ['x', 'y', 'z', 'w']

const twoArguments = new Set(['pow', 'atan2'])

/** The library with functions that are called instead of standing in place. */
function withCalled(names: ReadonlySet<string>): [Library, Inline] {
  const library = { ...cudaLibrary, ...cudaDependents }
  for (const name of names) {
    const [have, plain] = [cudaLibrary[name], cudaInline[name]]
    if (have !== undefined) library[name] = { ...have, code: have.code.replace('__forceinline__', '__noinline__') }
    else if (typeof plain === 'string') {
      const t = name.startsWith('f64') ? 'double' : 'float'
      const two = twoArguments.has(name.slice(4))
      library[name] = {
        code: `__device__ __noinline__ ${t} ${name}(${t} a${two ? `, ${t} b` : ''}) {\n  return ${plain}(a${two ? ', b' : ''});\n}`,
      }
    }
  }
  return [library, Object.fromEntries(Object.entries(cudaInline).filter(([name]) => !names.has(name)))]
}

/**
 * Whether memory that a parameter only reads may be written while the kernel waits. Constant memory without aliases is read by
 * loads that neither a compiler nor the cache of a multiprocessor holds back for the wait.
 */
const changes = (p: KernelParam, { machine, launch }: ThreadCode): boolean =>
  machine.launchDependents !== undefined && p.access === 'read' && (launch.changing?.(p.name) ?? true)

class CudaPrinter extends Printer {
  private readonly params: ReadonlyMap<string, KernelParam>
  private readonly strict: boolean
  /** Memory whose address stands in the table may be written by kernels before this one. */
  private readonly tableChanges: boolean

  constructor(code: ThreadCode) {
    super(...withCalled(code.called))
    this.params = new Map(code.kernel.params.map((p) => [p.name, p]))
    this.strict = code.kernel.mode === 'strict'
    this.tableChanges = code.kernel.params.some((p) => code.tabled.has(p.name) && changes(p, code))
  }

  protected type(t: Type): string {
    return types[t]
  }

  protected literal(t: Type, value: number | bigint | boolean): string {
    switch (t) {
      case 'bool':
        return value ? 'true' : 'false'
      case 'i32':
        return value === -2147483648 ? '(-2147483647 - 1)' : String(value)
      case 'u32':
        return Number(value) > 0xffffff ? `0x${Number(value).toString(16)}u` : `${value}u`
      case 'i64':
        return value === -(1n << 63n) ? '(-9223372036854775807ll - 1)' : `${value}ll`
      case 'u64':
        return `${value}ull`
      case 'f32':
      case 'f64': {
        const x = Number(value)
        const double = t === 'f64'
        if (Number.isNaN(x)) return double ? '__longlong_as_double(0x7ff8000000000000ll)' : '__int_as_float(0x7fc00000)'
        if (x === Number.POSITIVE_INFINITY || x === Number.NEGATIVE_INFINITY) {
          const inf = double ? '__longlong_as_double(0x7ff0000000000000ll)' : '__int_as_float(0x7f800000)'
          return x < 0 ? `-${inf}` : inf
        }
        return double
          ? Object.is(x, -0)
            ? '-0.0'
            : decimal(x)
          : `${Object.is(x, -0) ? '-0.0' : decimal(Math.fround(x))}f`
      }
    }
  }

  protected castText(to: Type, _from: Type, a: string): string {
    return `(${types[to]})(${a})`
  }

  protected bitcastText(to: Type, from: Type, a: string): string {
    const key = `${from}>${to}`
    const f: Readonly<Record<string, string>> = {
      'f32>u32': '__float_as_uint',
      'f32>i32': '__float_as_int',
      'u32>f32': '__uint_as_float',
      'i32>f32': '__int_as_float',
      'f64>i64': '__double_as_longlong',
      'i64>f64': '__longlong_as_double',
    }
    const name = f[key]
    if (name !== undefined) return `${name}(${a})`
    if (key === 'f64>u64') return `(unsigned long long)__double_as_longlong(${a})`
    if (key === 'u64>f64') return `__longlong_as_double((long long)(${a}))`
    return `(${types[to]})(${a})`
  }

  protected selectText(_type: Type, cond: string, a: string, b: string): string {
    return `(${cond} ? ${a} : ${b})`
  }

  protected operator(e: Extract<Ex, { k: 'bin' | 'neg' | 'not' }>): string | undefined {
    if (!this.strict || e.k !== 'bin' || e.a.type !== e.type) return undefined
    if (e.type !== 'f32' && e.type !== 'f64') return undefined
    const name = { '+': 'add', '-': 'sub', '*': 'mul' }[e.op as '+']
    if (name === undefined) return undefined
    return `__${e.type === 'f32' ? 'f' : 'd'}${name}_rn(${this.ex(e.a)}, ${this.ex(e.b)})`
  }

  private param(name: string): KernelParam {
    const p = this.params.get(name)
    if (p === undefined) throw new Error(`no parameter ${name}`)
    return p
  }

  protected memory(e: Extract<Ex, { k: 'load' | 'word' | 'comp' | 'shuffle' | 'turn' | 'address' }>): string {
    switch (e.k) {
      case 'load': {
        const p = this.param(e.param)
        const at = `${e.param}[${this.ex(e.index)}]`
        if (p.format !== 'plain') return at
        if (p.dtype === 'f16') return this.fn('f16_value', at)
        if (p.dtype === 'bf16') return `__uint_as_float((unsigned)${at} << 16)`
        if (p.dtype === 'bool') return `(${at} != 0)`
        return at
      }
      case 'word':
        return `((const unsigned*)${e.param})[${this.ex(e.index)}]`
      case 'comp':
        return e.words === 1 ? e.of : `${e.of}.${components[e.at]}`
      case 'shuffle':
        if (e.type === 'bool') return `(bool)__shfl_xor_sync(0xffffffffu, (int)(${this.ex(e.a)}), ${e.mask})`
        return `__shfl_xor_sync(0xffffffffu, ${this.ex(e.a)}, ${e.mask})`
      case 'turn':
        return this.fn('turned_halves', this.ex(e.a))
      case 'address':
        return `${e.of} + ${this.operand(e.index)}`
    }
  }

  private fn(name: string, ...args: readonly string[]): string {
    this.use(name)
    return `${name}(${args.join(', ')})`
  }

  protected special(s: S): void {
    switch (s.k) {
      case 'let':
        this.line(`const ${types[s.value.type]} ${s.name} = ${this.ex(s.value)};`)
        break
      case 'var':
        this.line(`${types[s.type]} ${s.name}${s.value === undefined ? '' : ` = ${this.ex(s.value)}`};`)
        break
      case 'array':
        this.line(`${types[s.type]} ${s.name}[${s.length}];`)
        break
      case 'for':
        if (s.unroll) this.line('#pragma unroll')
        this.line(
          `for (${types[s.type ?? 'i32']} ${s.name} = ${this.ex(s.from)}; ${s.name} < ${this.ex(s.to)}; ${s.step === 1 ? `++${s.name}` : `${s.name} += ${s.step}`}) {`,
        )
        this.indented(() => this.stmts(s.body))
        this.line('}')
        break
      case 'barrier':
        this.line('__syncthreads();')
        break
      case 'vload': {
        const t = vectorOf(s.type, s.words)
        this.line(`const ${t} ${s.name} = ${this.vector(s.param, t, s.index, s.bits, true)};`)
        break
      }
      case 'words':
        this.line(`const uint2 ${s.name} = ${this.call(s.fn, s.args)};`)
        break
      case 'vstore': {
        const [first] = s.values
        const t = vectorOf(first?.type ?? 'u32', s.values.length)
        const values = s.values.map((x) => this.ex(x)).join(', ')
        const made = s.values.length === 1 ? values : `make_${t}(${values})`
        this.line(`${this.vector(s.param, t, s.index, s.bits, false)} = ${made};`)
        break
      }
      case 'store':
        this.line(`${s.param}[${this.ex(s.index)}] = ${this.stored(this.param(s.param), s.value)};`)
        break
      case 'storeBits':
        this.line(
          `${this.fn('store_bits', `(unsigned*)${s.param} + (${this.ex(s.index)})`, this.ex(s.mask), this.ex(s.bits))};`,
        )
        break
      case 'pointer': {
        const p = this.param(s.param)
        const t = `${p.access === 'read' ? 'const ' : ''}${memoryType(p)}*`
        const alone = !s.aliased && !(this.tableChanges && p.access === 'read')
        this.line(`${t} ${alone ? '__restrict__ ' : ''}const ${s.param} = (${t})table[${this.ex(s.index)}];`)
        break
      }
      case 'entry':
        this.line(`const ${types[s.type]} ${s.name} = (${types[s.type]})table[${this.ex(s.index)}];`)
        break
      case 'member':
        this.line(
          `const int ${s.name} = ${this.fn('member_of', `table + ${s.firsts}`, `${s.count}`, this.ex(s.index))};`,
        )
        break
      case 'push':
        this.line(
          `${this.fn(`push_${s.value.type}`, `${s.array} + ${this.operand(s.index)}`, this.ex(s.value), this.ex(s.meeting), this.ex(s.rank))};`,
        )
        break
      case 'fill': {
        const t = vectorOf('u32', s.words.length)
        const words = s.words.map((x) => this.ex(x)).join(', ')
        const value = s.words.length === 1 ? words : `make_${t}(${words})`
        this.line(`*(${t}*)(${s.array} + ${this.operand(s.index)}) = ${value};`)
        break
      }
      case 'vector':
        this.vectorOp(s.of)
        break
      case 'matrix':
        throw new InternalError('matrices of subgroups are for WGSL')
      case 'uniform':
        this.line(`const ${types[s.value.type]} ${s.name} = ${this.ex(s.value)};`)
        break
      default:
    }
  }

  private vectorOp(o: VectorOp): void {
    const place = (array: SharedArray, row: Ex, at: Ex): string =>
      `${array.name} + ${this.operand(add(mul(row, int(array.pitch ?? 1)), at))}`
    const made = (values: readonly Ex[]): string => `make_float4(${values.map((x) => this.ex(x)).join(', ')})`
    switch (o.op) {
      case 'read':
        this.line(`const float4 ${o.name} = *(const float4*)(${place(o.array, o.row, mul(o.at, int(4)))});`)
        break
      case 'write':
        this.line(`*(float4*)(${place(o.array, o.row, o.at)}) = ${made(o.values)};`)
        break
      case 'put':
        this.line(`*(${place(o.array, o.row, o.at)}) = ${this.ex(o.value)};`)
        break
      case 'var':
        this.line(`float4 ${o.name} = ${made(o.values)};`)
        break
      case 'multiplyAdd':
        for (const c of components) this.line(`${o.to}.${c} += ${this.operand(o.a)} * ${o.b}.${c};`)
    }
  }

  /** A call of a library function as a statement. */
  callLine(name: string): void {
    this.line(`${this.fn(name)};`)
  }

  /** A vector in memory at an element of a parameter. */
  private vector(param: string, type: string, index: Ex, bits: number, read: boolean): string {
    const at = bits < 8 ? quotient(index, 8 / bits) : index
    return `*(${read ? 'const ' : ''}${type}*)(${param} + ${this.operand(at)})`
  }

  private stored(p: KernelParam, value: Ex): string {
    const x = this.ex(value)
    if (p.format !== 'plain') return `(unsigned char)(${x})`
    if (p.dtype === 'f16') return `(unsigned short)${this.fn('f16_bits', x)}`
    if (p.dtype === 'bf16') return `(unsigned short)${this.fn('bf16_bits', x)}`
    return typeBytes(value.type) === 4 && ['i8', 'u8', 'i16', 'u16', 'bool'].includes(p.dtype)
      ? `(${memoryTypes[p.dtype]})(${x})`
      : x
  }
}

export function printCuda(code: ThreadCode, dynamic: boolean): string {
  const p = new CudaPrinter(code)
  const { kernel } = code
  const aliased = new Set(kernel.params.filter((x) => code.launch.mayAlias?.(x.name) === true).map((x) => x.name))
  const pointers = kernel.params
    .filter((x) => !code.tabled.has(x.name))
    .map((x) => {
      const read = x.access === 'read' ? 'const ' : ''
      return `${read}${memoryType(x)}* ${aliased.has(x.name) || changes(x, code) ? '' : '__restrict__ '}${x.name}`
    })
  if (code.table.length > 0) pointers.push('const unsigned long long* __restrict__ table')
  pointers.push(...code.passed.map((s) => `const int ${s.name}`))
  const { threads, cluster, together } = code
  const bounds = `__launch_bounds__(${together > 1 ? `${threads}, ${together}` : threads})`
  const shape = cluster > 1 ? `__cluster_dims__(${cluster}, 1, 1) ` : ''
  p.line(`extern "C" __global__ void ${shape}${bounds} ${kernel.name}(`)
  p.indented(() => {
    for (const [i, x] of pointers.entries()) p.line(`${x}${i + 1 < pointers.length ? ',' : ') {'}`)
  })
  if (pointers.length === 0) p.line(') {')
  p.indented(() => {
    const align = Math.max(16, ...code.shared.map((a) => a.align ?? 16))
    if (dynamic) p.line(`extern __shared__ __align__(${align}) unsigned char shared_memory[];`)
    const { offsets } = placeShared(code.shared)
    code.shared.forEach((a, i) => {
      const t = a.half === true ? 'unsigned short' : types[a.type]
      if (dynamic) p.line(`${t}* const ${a.name} = (${t}*)(shared_memory + ${offsets[i]});`)
      else p.line(`__shared__ __align__(${a.align ?? 16}) ${t} ${a.name}[${a.length}];`)
    })
    const number = types[code.rows > 1 ? 'i64' : 'i32']
    const row = code.rows > 1 ? `(long long)blockIdx.y * ${Math.ceil(code.programs / code.rows)} + ` : ''
    if (cluster > 1) {
      p.line(`const int tid = (blockIdx.x & ${cluster - 1}) * ${threads} + threadIdx.x;`)
      p.line(`const ${number} program = ${row}blockIdx.x / ${cluster};`)
    } else {
      p.line('const int tid = threadIdx.x;')
      p.line(`const ${number} program = ${row}blockIdx.x;`)
    }
    for (const s of code.summary) p.line(`// ${s}`)
    // First of all: whatever touches memory stands behind the wait.
    const dependents = code.machine.launchDependents
    if (dependents === 'start') p.callLine('launch_dependents')
    if (dependents !== undefined) p.callLine('wait_for_kernels')
    // Blocks launched early gather on the multiprocessors that are free first: only behind kernels whose blocks all run at once.
    const few = code.programs * code.cluster <= 2 * (code.machine.multiprocessors ?? 1)
    if (dependents === 'work' && few) p.callLine('launch_dependents')
    if (code.rows > 1) p.line(`if (program >= ${code.programs}ll) return;`)
    p.stmts(code.body)
  })
  p.line('}')
  const head = [
    cluster > 1
      ? `// Kernel ${kernel.name}: ${code.programs} clusters of ${cluster} blocks of ${threads} threads.`
      : `// Kernel ${kernel.name}: ${code.programs} blocks of ${threads} threads.`,
    ...kernel.params
      .filter((x) => !code.tabled.has(x.name))
      .map(
        (x) =>
          `//   ${x.access} ${x.name}: ${x.dtype}[${x.shape.join(', ')}]${x.format === 'plain' ? '' : ` ${x.format}`}`,
      ),
  ]
  for (const s of code.passed)
    head.push(`//   ${s.scalar.by}, from ${s.scalar.least} to ${s.scalar.most}: ${s.scalar.param}[${s.scalar.at}]`)
  if (code.table.length > 0) head.push(`//   table: ${code.table.length} words, addresses of parameters and numbers`)
  return [...head, '', ...p.libraryText().map((f) => `${f}\n`), p.text, ''].join('\n')
}
