/**
 * Runs a launch plan through the kernel interpreter: the oracle of the backends' handling of programs. Intermediates stand
 * where the plan puts them in one arena full of junk, and results over the inputs they take over.
 */
import type { TensorType } from '../../src/graph/node.ts'
import type { Program } from '../../src/runtime/program.ts'
import { type HostArray, hostArray, hostView } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { runSteps } from './runSteps.ts'

export function interpretProgram(
  program: Program,
  inputs: readonly HostArray[],
  rounding: 'f64' | 'dtype' = 'dtype',
  /** What the results are, where some may stand over inputs of another dtype. */
  types?: readonly Pick<TensorType, 'dtype'>[],
): HostArray[] {
  const arena = new Uint8Array(program.arenaBytes).fill(0x7f)
  const buffers = program.buffers.map((b): HostArray => {
    const elements = b.format === 'plain' ? sizeOf(b.shape) : b.bytes
    if (b.source.kind === 'temp') return hostView(b.dtype, arena.buffer, b.source.offset, elements)
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
  runSteps(program, at, rounding)
  return program.outputs.map((b, i) => {
    const data = at(b)
    const dtype = types?.[i]?.dtype
    return dtype === undefined ? data : hostView(dtype, data.buffer, data.byteOffset, data.length)
  })
}
