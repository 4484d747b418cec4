/** Programs from kernels in text form: buffers by parameter name. */
import { gridSize, type Kernel } from '../../src/kernel/ir.ts'
import type { Program, ProgramBuffer } from '../../src/runtime/program.ts'
import { dtypeBytes } from '../../src/types/dtype.ts'

export const bytesOf = (k: Kernel['params'][number]): number => {
  const n = k.shape.reduce((a, b) => a * b, 1)
  if (k.format === 'bits') return Math.ceil(n / 8)
  return k.format === 'int4' ? Math.ceil(n / 2) : n * dtypeBytes(k.dtype)
}

export interface ProgramSpec {
  readonly kernels: readonly Kernel[]
  /** Names of parameters that are inputs, in order; `donated` ones may be written. */
  readonly inputs: readonly string[]
  readonly donated?: readonly string[]
  readonly outputs: readonly string[]
}

/** All other parameters are temporaries. */
export function programOf(spec: ProgramSpec): Program {
  const names: string[] = []
  const buffers: ProgramBuffer[] = []
  let arenaBytes = 0
  for (const k of spec.kernels)
    for (const p of k.params) {
      if (names.includes(p.name)) continue
      names.push(p.name)
      const bytes = bytesOf(p)
      const input = spec.inputs.indexOf(p.name)
      const source: ProgramBuffer['source'] =
        input >= 0
          ? { kind: 'input', index: input }
          : spec.outputs.includes(p.name)
            ? { kind: 'output' }
            : { kind: 'temp', offset: arenaBytes }
      if (source.kind === 'temp') arenaBytes += Math.ceil((bytes + 64) / 64) * 64
      buffers.push({ dtype: p.dtype, shape: p.shape, format: p.format, bytes, source })
    }
  const at = (name: string): number => names.indexOf(name)
  return {
    name: spec.kernels.map((k) => k.name).join('+'),
    buffers,
    steps: spec.kernels.map((kernel, launch) => ({
      kind: 'kernel',
      stage: 'main',
      launch,
      kernel,
      buffers: kernel.params.map((p) => at(p.name)),
    })),
    inputs: spec.inputs.map(at),
    donated: spec.inputs.map((n) => spec.donated?.includes(n) ?? false),
    outputs: spec.outputs.map(at),
    arenaBytes,
  }
}

export { gridSize }
