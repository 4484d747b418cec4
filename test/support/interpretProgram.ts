/**
 * Runs a launch plan through the kernel interpreter: the oracle of the backends' handling of programs. Intermediates stand
 * where the plan puts them in one arena full of junk, and results over the inputs they take over.
 */
import { interpretKernel } from '../../src/kernel/interpret.ts'
import type { Program } from '../../src/runtime/program.ts'
import { type HostArray, hostArray, hostView } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'

export function interpretProgram(
  program: Program,
  inputs: readonly HostArray[],
  rounding: 'f64' | 'dtype' = 'dtype',
): HostArray[] {
  const arena = new Uint8Array(program.arenaBytes).fill(0x7f)
  const buffers = program.buffers.map((b): HostArray => {
    if (b.source.kind === 'temp') return hostView(b.dtype, arena.buffer, b.source.offset, sizeOf(b.shape))
    const data = hostArray(b.dtype, sizeOf(b.shape))
    if (b.source.kind === 'input') {
      const given = inputs[b.source.index]
      if (given === undefined) throw new Error(`input ${b.source.index} is missing`)
      data.set(given as never)
    }
    if (b.source.kind === 'constant') data.set(b.source.data as never)
    return data
  })
  const at = (i: number): HostArray => {
    const b = buffers[i]
    if (b === undefined) throw new Error(`no buffer ${i}`)
    return b
  }
  for (const s of program.steps) {
    if (s.kind === 'copy') at(s.to).set(at(s.from) as never)
    else if (s.kind === 'opaque') s.run(s.inputs.map(at), at(s.output))
    else if (s.kind === 'inspect') {
      const b = program.buffers[s.buffer]
      if (b !== undefined) s.call(at(s.buffer), b.shape, b.dtype)
    } else {
      const named = Object.fromEntries(s.kernel.params.map((p, i) => [p.name, at(s.buffers[i] ?? -1)]))
      interpretKernel(s.kernel, named, { rounding })
    }
  }
  return program.outputs.map(at)
}
