/** Kernels to modules of WebAssembly: each a function `(params: i32, start: i32, end: i32, scratch: i32)`, as `../vector/kernel.ts` has it. */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { beyond32 } from '../../kernel/beyond32.ts'
import type { Kernel } from '../../kernel/ir.ts'
import { printUnnamed } from '../../kernel/print.ts'
import { ofUnnamed } from '../../kernel/unnamed.ts'
import type { Machine } from '../../target/machine.ts'
import type { VectorFunction } from '../vector/ir/ir.ts'
import { emitVectorKernel, type KernelJob } from '../vector/kernel.ts'
import { type FuncRef, ModuleBuilder } from './binary/builder.ts'
import { loopConstants, vectorBytes } from './constants.ts'
import { printFunction } from './print.ts'

export type { KernelJob } from '../vector/kernel.ts'

export interface ModuleOptions {
  readonly machine: Machine
  /** Relaxed SIMD is available on the engine. */
  readonly relaxed: boolean
  /** The imported memory `env.memory`, in pages of 64 KiB. */
  readonly memory: { readonly min: number; readonly max: number; readonly shared: boolean }
}

export interface CompiledFunction {
  /** Scratch bytes a thread needs to run it. */
  readonly scratch: number
  /** Names it imports from `math`. */
  readonly imports: readonly string[]
}

export interface CompiledModule {
  readonly bytes: Uint8Array
  /** One for each job. */
  readonly functions: readonly CompiledFunction[]
}

/** One module with a function for each job; jobs of one code share it. Its imports are `env.memory` and `math` (see `mathImports`). */
export function compileModule(jobs: readonly KernelJob[], options: ModuleOptions): CompiledModule {
  const module = new ModuleBuilder()
  module.importMemory('env', 'memory', options.memory)
  const emitted = new Map<string, Emitted[]>()
  const textOf = ofUnnamed(printUnnamed)
  const functions = jobs.map((job): CompiledFunction => {
    const text = textOf(job.kernel)
    const same = emitted.get(text) ?? []
    emitted.set(text, same)
    const have = same.find(({ asked }) => asked.every(({ i, j, may }) => job.mayAlias(i, j) === may))
    if (have !== undefined) {
      module.export(job.name, have.entry)
      return have.code
    }
    checkPositions(job.kernel)
    const asked = new Map<number, Asked>()
    const mayAlias = (i: number, j: number): boolean => {
      const pair = i * job.kernel.params.length + j
      const have = asked.get(pair)
      if (have !== undefined) return have.may
      const may = job.mayAlias(i, j)
      asked.set(pair, { i, j, may })
      return may
    }
    const { entry, code: made } = printKernel({ ...job, mayAlias }, options, module)
    same.push({ entry, code: made, asked: [...asked.values()] })
    return made
  })
  return { bytes: module.finish(), functions }
}

/** Whether two parameters may share memory, as scheduling was told. */
interface Asked {
  readonly i: number
  readonly j: number
  readonly may: boolean
}

/** A kernel's code, and all that it depends on beside the kernel: kernels of equal text and answers have it too. */
interface Emitted {
  readonly entry: FuncRef
  readonly code: CompiledFunction
  readonly asked: readonly Asked[]
}

/** Throws E_UNSUPPORTED where positions are beyond the 32 bits that WebAssembly's memory has. */
function checkPositions(kernel: Kernel): void {
  const wide = beyond32(kernel)
  if (wide === undefined) return
  throw new UserError(
    'E_UNSUPPORTED',
    `${wide.what} of the kernel ${kernel.name}: ${wide.why} does not fit 32 bits, which is all WebAssembly has`,
    { help: 'work on smaller pieces of the tensor, or run this program on another device' },
  )
}

/** Adds a kernel's functions to a module. */
function printKernel(
  job: KernelJob,
  { machine, relaxed }: ModuleOptions,
  module: ModuleBuilder,
): { readonly entry: FuncRef; readonly code: CompiledFunction } {
  const { functions, scratch } = emitVectorKernel(job, { machine, hasMultiplyAdd: relaxed })
  const printed = new Map<VectorFunction, FuncRef>()
  let entry: FuncRef | undefined
  const offset = Math.ceil(scratch / vectorBytes) * vectorBytes
  let most = 0
  for (const fn of functions) {
    const constants = loopConstants(fn)
    most = Math.max(most, constants.size)
    entry = printFunction(fn, module, printed, { constants, offset })
  }
  invariant(entry !== undefined, 'a kernel without functions')
  const imports = new Set(functions.flatMap((fn) => fn.externals.map((e) => e.name)))
  return {
    entry,
    code: { scratch: most === 0 ? scratch : offset + most * vectorBytes, imports: [...imports] },
  }
}
