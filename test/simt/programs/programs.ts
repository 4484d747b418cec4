/** Runs launch plans kernel by kernel (on the software WebGPU device, or anything else); buffers stand on the host in between. */
import type { Kernel } from '../../../src/kernel/ir.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { type HostArray, hostArray, hostView } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { type Adapter, type RunOptions, runWgsl } from '../dialects/wgsl.ts'

export const executeWgsl = (
  machine: Adapter,
  program: Program,
  inputs: readonly HostArray[],
  options: RunOptions = {},
): Promise<HostArray[]> => execute(program, inputs, (k, buffers) => runWgsl(machine, [k], buffers, options))

/** Runs a launch plan of kernels and copies. */
export async function execute(
  program: Program,
  inputs: readonly HostArray[],
  run: (kernel: Kernel, buffers: Record<string, HostArray>) => Promise<void> | void,
): Promise<HostArray[]> {
  const arena = new Uint8Array(program.arenaBytes).fill(0x7f)
  const buffers = program.buffers.map((b): HostArray => {
    const { source } = b
    const elements = b.format === 'plain' ? sizeOf(b.shape) : b.bytes
    if (source.kind === 'temp')
      return hostView(b.format === 'plain' ? b.dtype : 'u8', arena.buffer, source.offset, elements)
    if (source.kind === 'constant') return source.data
    const given = source.kind === 'input' ? inputs[source.index] : undefined
    const data = hostArray(b.dtype, sizeOf(b.shape))
    if (given !== undefined) data.set(given as never)
    return data
  })
  const at = (i: number | undefined): HostArray => {
    const b = buffers[i ?? -1]
    if (b === undefined) throw new Error(`no buffer ${i}`)
    return b
  }
  for (const s of program.steps) {
    if (s.kind === 'copy') at(s.to).set(at(s.from) as never)
    else if (s.kind === 'kernel') {
      const named = Object.fromEntries(s.kernel.params.map((p, i) => [p.name, at(s.buffers[i])]))
      await run(s.kernel, named)
    } else throw new Error(`a ${s.kind} step`)
  }
  return program.outputs.map(at)
}
