/** `sinter emit`: the kernels of a model as standalone source files, its constants, and what launching them takes. */
import { join } from 'node:path'
import { webgpuCapabilities } from '../backends/webgpu/unsupported.ts'
import { dispatchSize, emitKernel } from '../codegen/simt/kernel.ts'
import { compileModule } from '../codegen/wasm/kernel.ts'
import { checkCapabilities } from '../compile/capability.ts'
import { InternalError } from '../diagnostics/errors.ts'
import { printKernel } from '../kernel/print.ts'
import { counted } from '../report/format.ts'
import { bufferOf } from '../runtime/commands.ts'
import type { BufferSource, KernelStep, Program, RegionStep } from '../runtime/program.ts'
import { innerPrograms, kernelsOf } from '../runtime/region.ts'
import { cudaTarget } from '../target/cuda.ts'
import type { Machine } from '../target/machine.ts'
import { cudaSimt, webgpuSimt } from '../target/simt.ts'
import { wasmTarget } from '../target/wasm.ts'
import { webgpuTarget } from '../target/webgpu.ts'
import type { HostArray } from '../types/host.ts'
import { type Console, printData } from './console.ts'
import { writeBytes } from './files.ts'
import { launchOf } from './launch.ts'
import { loadModel } from './load.ts'
import { type InputTexts, parseInputs } from './options.ts'
import { compile, type Mode } from './session.ts'

export const emitTargets = ['cuda', 'wgsl', 'wasm'] as const
export type EmitTarget = (typeof emitTargets)[number]

export interface EmitOptions extends InputTexts {
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
  /** Bytes into the arena; of a constant, into the file that holds it. */
  readonly offset?: number
  readonly file?: string
  readonly dtype: string
  readonly shape: readonly number[]
  readonly format: string
  readonly bytes: number
}

/** Constants and inputs of known value in one file, each once and at a multiple of 16 bytes. */
class Constants {
  readonly file = 'constants.bin'
  private readonly places = new Map<HostArray, number>()
  private size = 0

  /** Where a constant stands. */
  place(data: HostArray): number {
    const have = this.places.get(data)
    if (have !== undefined) return have
    const at = this.size
    this.places.set(data, at)
    this.size = Math.ceil((at + data.byteLength) / 16) * 16
    return at
  }

  /** Writes them, if there are any. Throws E_FILE. */
  write(folder: string): void {
    if (this.places.size === 0) return
    const all = new Uint8Array(this.size)
    for (const [data, at] of this.places) all.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at)
    writeBytes(join(folder, this.file), all)
  }
}

function placing(
  source: BufferSource,
  output: number,
  constants: Constants,
): Pick<BufferRecord, 'kind' | 'index' | 'offset' | 'file'> {
  switch (source.kind) {
    case 'input':
      return { kind: 'input', index: source.index }
    case 'output':
      return { kind: 'output', index: output }
    case 'constant':
      return { kind: 'constant', file: constants.file, offset: constants.place(source.data) }
    case 'temp':
      return { kind: 'intermediate', offset: source.offset }
  }
}

const bufferRecords = (program: Program, constants: Constants): BufferRecord[] =>
  program.buffers.map(({ dtype, shape, format, bytes, source }, i) => ({
    ...placing(source, program.outputs.indexOf(i), constants),
    dtype,
    shape,
    format,
    bytes,
  }))

/** The buffers a step of control flow works on, by the names of src/runtime/program.ts. */
function controlOf(s: RegionStep): object {
  switch (s.kind) {
    case 'cond': {
      const { test, operands, results } = s
      return { test, operands, results }
    }
    case 'while': {
      const { flag, consts, carries } = s
      return { flag, consts, carries }
    }
    case 'loop': {
      const { length, reverse, consts, carries, sequences, results } = s
      return { length, reverse, consts, carries, sequences, results }
    }
  }
}

/** A program's steps in order, with control flow as programs inside. */
function describe(program: Program, kernelNumber: (s: KernelStep) => number, constants: Constants): unknown {
  return {
    name: program.name,
    arenaBytes: program.arenaBytes,
    inputs: program.inputs,
    outputs: program.outputs,
    buffers: bufferRecords(program, constants),
    steps: program.steps.map((s) => {
      switch (s.kind) {
        case 'kernel':
          return { kernel: kernelNumber(s), stage: s.stage, buffers: s.buffers }
        case 'copy':
          return { copy: { from: s.from, to: s.to } }
        case 'product': {
          const { product, calls, a, b, out, addend } = s
          return { product: { ...product, calls }, buffers: { a, b, out, ...(addend === undefined ? {} : { addend }) } }
        }
        case 'opaque':
        case 'inspect':
          return { host: s.kind }
        default:
          return {
            control: s.kind,
            name: s.name,
            ...controlOf(s),
            programs: innerPrograms(s).map(({ role, inner }) => ({
              role,
              arena: inner.arena,
              program: describe(inner.program, kernelNumber, constants),
            })),
          }
      }
    }),
  }
}

const targets: Readonly<Record<EmitTarget, Machine>> = {
  cuda: cudaTarget,
  // Every parameter is a storage buffer to whoever runs what is written.
  wgsl: { ...webgpuTarget(), valueBuffers: 0 },
  wasm: wasmTarget,
}

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
  const model = await loadModel(path, parseInputs(options), console)
  const { target, out, mode } = options
  if (target === 'wgsl') checkCapabilities(model.graph, 'webgpu', webgpuCapabilities)
  const { program } = compile(model.graph, { name: model.name, mode }, targets[target])
  const found = kernelsOf(program)
  const numbers = new Map(found.map(({ step }, i) => [step, i]))
  const files = fileNames(found.map(({ step }) => step))
  const constants = new Constants()
  const kernels =
    target === 'wasm' ? emitWasm(found, files, out) : found.map((k, i) => emitSimt(k, files[i] ?? '', target, out))
  const plan = {
    target,
    mode,
    // Values that were given or closed over stand in a file as constants do.
    inputs: model.inputs.map(({ name, shape, dtype }) => {
      const value = model.values.get(name)
      const place = value === undefined ? {} : { file: constants.file, offset: constants.place(value.data) }
      return { name, shape, dtype, ...place }
    }),
    outputs: model.outputNames,
    kernels,
    program: describe(
      program,
      (s) => {
        const n = numbers.get(s)
        if (n === undefined) throw new InternalError(`kernel ${s.kernel.name} is not in the plan`)
        return n
      },
      constants,
    ),
  }
  constants.write(out)
  writeBytes(join(out, 'program.json'), utf8(`${JSON.stringify(plan, undefined, 2)}\n`))
  if (options.json) printData(plan, console)
  else
    console.line(
      `${model.name}: ${counted(found.length, 'kernel')} for ${target} in ${out}, launched as program.json says`,
    )
  return 0
}

/** WebGPU's default limit of a dimension: further blocks continue along the second. */
const mostWorkgroups = 65535

type Found = ReturnType<typeof kernelsOf>[number]

function emitSimt(found: Found, name: string, target: 'cuda' | 'wgsl', out: string) {
  const { step, program } = found
  const { kernel, launch } = launchOf(found, target)
  const source = emitKernel(kernel, target === 'cuda' ? cudaSimt : webgpuSimt, launch)
  const file = `${name}.${target === 'cuda' ? 'cu' : 'wgsl'}`
  writeBytes(join(out, file), utf8(source.source))
  const bindings = new Map(source.bindings.map((b) => [b.name, b.binding]))
  return {
    file,
    entry: source.entry,
    blocks: source.programs * source.cluster,
    ...(target === 'wgsl' ? { dispatch: dispatchSize(source.programs, mostWorkgroups) } : {}),
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
    { machine: wasmTarget, relaxed: false, memory: { min: 1, max: 65536, shared: false } },
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
