/** `sinter emit`: the kernels of a model as standalone source files, with what launching them takes. */
import { join } from 'node:path'
import { shareParams } from '../backends/webgpu/aliases.ts'
import { webgpuCapabilities } from '../backends/webgpu/unsupported.ts'
import { cudaCaps, webgpuCaps } from '../codegen/simt/capability.ts'
import { emitKernel } from '../codegen/simt/kernel.ts'
import { compileModule } from '../codegen/wasm/kernel.ts'
import { checkCapabilities } from '../compile/capability.ts'
import { InternalError } from '../diagnostics/errors.ts'
import { printKernel } from '../kernel/print.ts'
import { cudaTarget, type TargetInfo, wasmTarget, webgpuTarget } from '../plan/target.ts'
import { counted } from '../report/format.ts'
import { bufferOf, commandsOf, overlapping } from '../runtime/commands.ts'
import type { BufferSource, KernelStep, Program } from '../runtime/program.ts'
import { innerPrograms, kernelsOf } from '../runtime/region.ts'
import type { Console } from './console.ts'
import { writeBytes } from './files.ts'
import { loadModel } from './load.ts'
import { parseInputs } from './options.ts'
import { compile, type Mode } from './session.ts'

export const emitTargets = ['cuda', 'wgsl', 'wasm'] as const
export type EmitTarget = (typeof emitTargets)[number]

export interface EmitOptions {
  readonly input: readonly string[]
  readonly shape: readonly string[]
  readonly mode: Mode
  readonly target: EmitTarget
  readonly out: string
  readonly json: boolean
}

/** What stands in a buffer of the launch plan. */
interface BufferRecord {
  readonly kind: 'input' | 'output' | 'constant' | 'intermediate'
  /** Number of the input or output. */
  readonly index?: number
  /** Bytes into the arena. */
  readonly offset?: number
  readonly dtype: string
  readonly shape: readonly number[]
  readonly format: string
  readonly bytes: number
}

function placing(source: BufferSource, output: number): Pick<BufferRecord, 'kind' | 'index' | 'offset'> {
  switch (source.kind) {
    case 'input':
      return { kind: 'input', index: source.index }
    case 'output':
      return { kind: 'output', index: output }
    case 'constant':
      return { kind: 'constant' }
    case 'temp':
      return { kind: 'intermediate', offset: source.offset }
  }
}

const bufferRecords = (program: Program): BufferRecord[] =>
  program.buffers.map(({ dtype, shape, format, bytes, source }, i) => ({
    ...placing(source, program.outputs.indexOf(i)),
    dtype,
    shape,
    format,
    bytes,
  }))

/** A program's steps in order, with control flow as programs inside. */
function describe(program: Program, kernelNumber: (s: KernelStep) => number): unknown {
  return {
    name: program.name,
    arenaBytes: program.arenaBytes,
    inputs: program.inputs,
    outputs: program.outputs,
    buffers: bufferRecords(program),
    steps: program.steps.map((s) => {
      switch (s.kind) {
        case 'kernel':
          return { kernel: kernelNumber(s), stage: s.stage, buffers: s.buffers }
        case 'copy':
          return { copy: { from: s.from, to: s.to } }
        case 'product': {
          const { product, calls, a, b, out } = s
          return { product: { ...product, calls }, buffers: { a, b, out } }
        }
        case 'opaque':
        case 'inspect':
          return { host: s.kind }
        default:
          return {
            control: s.kind,
            name: s.name,
            ...(s.kind === 'loop' ? { length: s.length } : {}),
            programs: innerPrograms(s).map(({ role, inner }) => ({
              role,
              program: describe(inner.program, kernelNumber),
            })),
          }
      }
    }),
  }
}

const targets: Readonly<Record<EmitTarget, TargetInfo>> = { cuda: cudaTarget, wgsl: webgpuTarget(), wasm: wasmTarget }

const utf8 = (s: string): Uint8Array => new TextEncoder().encode(s)

/** Parameters of a kernel (those its code was made for) and the buffers they are bound to. */
const parameters = ({ kernel, buffers }: KernelStep, program: Program, params = kernel.params) => {
  const bound = new Map(kernel.params.map((p, i) => [p.name, buffers[i] ?? -1]))
  return params.map(({ name, access, dtype, shape, format }) => {
    const buffer = bound.get(name) ?? -1
    return { name, access, dtype, shape, format, bytes: bufferOf(program, buffer).bytes, buffer }
  })
}

/** Numbers of the kernels in a plan with their names, as file names. */
const fileNames = (steps: readonly KernelStep[]): string[] =>
  steps.map((s, i) => `${String(i).padStart(String(steps.length - 1).length, '0')}_${s.kernel.name}`)

export async function emitCommand(path: string, options: EmitOptions, console: Console): Promise<number> {
  const model = await loadModel(path, parseInputs(options.input, options.shape))
  const { target, out, mode } = options
  if (target === 'wgsl') checkCapabilities(model.graph, 'webgpu', webgpuCapabilities)
  const { program } = compile(model.graph, { name: model.name, mode }, targets[target])
  const found = kernelsOf(program)
  const numbers = new Map(found.map(({ step }, i) => [step, i]))
  const files = fileNames(found.map(({ step }) => step))
  const kernels =
    target === 'wasm' ? emitWasm(found, files, out) : found.map((k, i) => emitSimt(k, files[i] ?? '', target, out))
  const plan = {
    target,
    mode,
    inputs: model.inputs.map(({ name, shape, dtype }) => ({ name, shape, dtype })),
    outputs: model.outputNames,
    kernels,
    program: describe(program, (s) => {
      const n = numbers.get(s)
      if (n === undefined) throw new InternalError(`kernel ${s.kernel.name} is not in the plan`)
      return n
    }),
  }
  writeBytes(join(out, 'program.json'), utf8(`${JSON.stringify(plan, undefined, 2)}\n`))
  if (options.json) console.line(JSON.stringify(plan, undefined, 2))
  else
    console.line(
      `${model.name}: ${counted(found.length, 'kernel')} for ${target} in ${out}, launched as program.json says`,
    )
  return 0
}

type Found = ReturnType<typeof kernelsOf>[number]

function emitSimt({ step, program }: Found, name: string, target: 'cuda' | 'wgsl', out: string) {
  const { places } = commandsOf({ ...program, steps: [] }, { alignment: 16 })
  const bound = step.buffers.map((b) => places[b] ?? { base: -1, offset: 0, bytes: 0 })
  const joined = shareParams(step.kernel, bound)
  const kernel = target === 'wgsl' ? joined.kernel : step.kernel
  const shared = new Set(
    step.kernel.params.flatMap((p, i) => {
      const mine = bound[i]
      return bound.some((x, k) => k !== i && mine !== undefined && overlapping(x, mine)) ? [p.name] : []
    }),
  )
  const source = emitKernel(kernel, target, {
    ...(target === 'cuda' ? { ...cudaCaps, pointerTable: true } : webgpuCaps),
    mayAlias: (p) => shared.has(p),
    writable: (p) => joined.writable.has(p),
  })
  const file = `${name}.${target === 'cuda' ? 'cu' : 'wgsl'}`
  writeBytes(join(out, file), utf8(source.source))
  const bindings = new Map(source.bindings.map((b) => [b.name, b.binding]))
  return {
    file,
    entry: source.entry,
    blocks: source.programs * source.cluster,
    ...(source.cluster > 1 ? { cluster: source.cluster } : {}),
    threads: source.threads,
    sharedBytes: source.sharedBytes,
    dynamicSharedBytes: source.dynamicSharedBytes,
    parameters: parameters(step, program, kernel.params).map((p) => ({ ...p, binding: bindings.get(p.name) })),
    // 8-byte words, whose address is the last argument: parameters (their addresses) by name, and numbers.
    ...(source.table === undefined ? {} : { table: source.table }),
  }
}

/** One module with a function for every kernel: (table of addresses, first program, end, address of scratch). */
function emitWasm(found: readonly Found[], files: readonly string[], out: string) {
  const compiled = compileModule(
    found.map(({ step }, i) => ({ kernel: step.kernel, name: files[i] ?? '', mayAlias: () => true })),
    { relaxed: false, memory: { min: 1, max: 65536, shared: false } },
  )
  writeBytes(join(out, 'kernels.wasm'), compiled.bytes)
  return found.map(({ step, program }, i) => {
    const name = files[i] ?? ''
    writeBytes(join(out, `${name}.kernel`), utf8(`${printKernel(step.kernel)}\n`))
    return {
      file: 'kernels.wasm',
      text: `${name}.kernel`,
      entry: name,
      scratchBytes: compiled.functions[i]?.scratch,
      imports: compiled.functions[i]?.imports,
      parameters: parameters(step, program),
    }
  })
}
