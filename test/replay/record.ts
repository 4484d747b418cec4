/**
 * What compiling a program gives, as text that two versions of the compiler can be compared by: the plan, and the code of every kernel as
 * WebAssembly (with relaxed SIMD and without), CUDA C++ and WGSL. Machines are the shipped records, so the text is the same everywhere.
 */
import { createHash } from 'node:crypto'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileModule } from '../../src/codegen/wasm/kernel.ts'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import { InternalError, UserError } from '../../src/diagnostics/errors.ts'
import type { Graph } from '../../src/graph/node.ts'
import { printKernel } from '../../src/kernel/print.ts'
import type { KernelReport } from '../../src/report/data.ts'
import type { InnerProgram, Program, ProgramStep } from '../../src/runtime/program.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { cublasLt, cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { cudaSimt, webgpuSimt } from '../../src/target/simt.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'

export type Code = 'wasm' | 'wasm-relaxed' | 'cuda' | 'wgsl'

/** One program compiled for one target. */
export interface Recorded {
  readonly program: string
  readonly code: Code
  readonly mode: 'fast' | 'strict'
  /** The plan: kernels with what they compute and move, buffers. */
  readonly plan: string
  /** Which merges were refused, and why. */
  readonly refused: readonly string[]
  /** Each kernel's code. */
  readonly kernels: readonly string[]
}

export interface RecordedProgram {
  readonly name: string
  readonly graph: Graph
  readonly mode?: 'fast' | 'strict'
  /** Inputs that results may be written over. */
  readonly donated?: readonly boolean[]
}

const targets: Readonly<Record<'wasm' | 'cuda' | 'wgsl', Machine>> = {
  wasm: wasmTarget,
  cuda: { ...cudaTarget, library: cublasLt },
  wgsl: webgpuTarget(),
}

/** Numbered names (`v12`, `t3`) by their order of appearance; dtypes and vector types keep theirs. */
export function canonical(text: string): string {
  const numbers = new Map<string, Map<string, number>>()
  return text.replace(
    /\b(?!(?:[fiu](?:8|16|32|64)|bf16)\b)([a-z]{1,2})(\d+)\b/g,
    (_, prefix: string, digits: string) => {
      const known = numbers.get(prefix) ?? new Map<string, number>()
      numbers.set(prefix, known)
      const number = known.get(digits) ?? known.size
      known.set(digits, number)
      return `${prefix}${number}`
    },
  )
}

/** What a kernel is, without the modelled times. */
const kernelPlan = (k: KernelReport): unknown => ({
  kind: k.kind,
  parts: k.parts,
  operations: k.operations.map((o) => o.name),
  primitives: k.primitives,
  read: k.bytesRead,
  written: k.bytesWritten,
  flops: k.flops,
  programs: k.programs,
  stages: k.stages.map((s) => `${s.stage} ${s.bytes}`),
  inner: k.inner?.map((i) => ({ role: i.role, trips: i.trips, kernels: i.kernels.map(kernelPlan) })),
})

/** Steps with the buffers they name; those of a region with its programs. */
function stepOf(s: ProgramStep): unknown {
  const inner = (p: InnerProgram): unknown => ({ arena: p.arena, ...memoryOf(p.program) })
  switch (s.kind) {
    case 'kernel':
      return `kernel ${s.buffers.join()}`
    case 'cond':
      return { ...s, whenTrue: inner(s.whenTrue), whenFalse: inner(s.whenFalse) }
    case 'while':
      return { ...s, test: inner(s.test), body: inner(s.body) }
    case 'loop':
      return { ...s, body: inner(s.body) }
    default:
      return s.kind
  }
}

/** Buffers with their places, and who touches them. */
const memoryOf = (program: Program): Readonly<Record<string, unknown>> => ({
  arena: program.arenaBytes,
  buffers: program.buffers.map(({ dtype, bytes, format, source }) => {
    const place =
      source.kind === 'temp' ? ` at ${source.offset}` : 'over' in source ? ` over ${source.over ?? 'nothing'}` : ''
    return `${dtype} ${bytes} ${format} ${source.kind}${place}`
  }),
  steps: program.steps.map(stepOf),
  ...(program.donated.includes(true) ? { outputs: program.outputs } : {}),
})

function planOf({ report, program }: Compiled): string {
  const plan = {
    kernels: report.kernels.map(kernelPlan),
    recomputed: report.recomputed.map((r) => `${r.value} in ${r.consumers}`),
    storedBools: report.storedBools.map((b) => `${b.value} as ${b.form}`),
    saved: report.passes?.values.map((v) => `${v.value} ${v.form} ${v.choice}`),
    ...memoryOf(program),
  }
  return JSON.stringify(plan, undefined, 1)
}

/** Errors are part of what is recorded, those of Sinter's own too. */
function told(error: unknown): string {
  if (error instanceof UserError || error instanceof InternalError)
    return `${error.code}: ${error.message.split('\n')[0]}`
  throw error
}

function codeOf(code: Code, { program }: Compiled): string[] {
  return kernelsOf(program).map(({ step: { kernel } }) => {
    try {
      if (code === 'wasm' || code === 'wasm-relaxed') {
        const { bytes } = compileModule([{ kernel, name: 'kernel', mayAlias: () => true }], {
          machine: wasmTarget,
          relaxed: code === 'wasm-relaxed',
          memory: { min: 1, max: 65536, shared: false },
        })
        return `${canonical(printKernel(kernel))}\n${Buffer.from(bytes).toString('base64')}`
      }
      return canonical(emitKernel(kernel, code === 'cuda' ? cudaSimt : webgpuSimt).source)
    } catch (error) {
      return told(error)
    }
  })
}

/** A program compiled for every target. */
export function record({ name, graph, mode = 'fast', donated = [] }: RecordedProgram): Recorded[] {
  const out: Recorded[] = []
  for (const [target, info] of Object.entries(targets)) {
    const codes: readonly Code[] = target === 'wasm' ? ['wasm', 'wasm-relaxed'] : [target === 'cuda' ? 'cuda' : 'wgsl']
    let compiled: Compiled | string
    try {
      compiled = compileGraph(graph, { name: 'program', mode, target: info, donated })
    } catch (error) {
      compiled = told(error)
    }
    for (const code of codes)
      out.push(
        typeof compiled === 'string'
          ? { program: name, code, mode, plan: compiled, refused: [], kernels: [] }
          : {
              program: name,
              code,
              mode,
              plan: planOf(compiled),
              refused: compiled.report.refused.map((r) => `${r.from} > ${r.to}: ${r.code}`),
              kernels: codeOf(code, compiled),
            },
      )
  }
  return out
}

/** Sixteen hexadecimal digits for a plan, and as many for its code. */
export const digestOf = ({ plan, kernels }: Recorded): string =>
  [plan, kernels.join('\n')].map((text) => createHash('sha256').update(text).digest('hex').slice(0, 16)).join(' ')
