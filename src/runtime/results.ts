/** What a run hands out: its outputs as buffers of the caller, whatever a backend's memory is. */
import type { DeviceBuffer } from './backend.ts'
import { bufferOf } from './commands.ts'
import type { Program } from './program.ts'

/** A backend's memory during a run; `M` names a piece of it. */
export interface RunMemory<M> {
  /** Where a buffer of the program stands in this run. */
  readonly at: (buffer: number) => M
  readonly alloc: (bytes: number) => M
  readonly free: (memory: M) => void
  /** Copies a buffer of the program. */
  readonly copy: (buffer: number, to: M, bytes: number) => void
  readonly adopt: (memory: M, bytes: number) => DeviceBuffer
}

/** An input as it was given. */
export interface Given<M> {
  readonly memory: M
  readonly buffer: { alive: boolean }
}

/**
 * The outputs of a run as device buffers. Memory the run took (`taken`) or was given by donation is handed out once; anything else is
 * copied. Donated inputs that are not among the outputs are freed, and so is what was taken and not handed out.
 */
export function handOut<M>(
  program: Program,
  given: readonly Given<M>[],
  taken: M[],
  memory: RunMemory<M>,
): DeviceBuffer[] {
  const handed = new Set<M>()
  const donated = new Map(program.inputs.map((b, i) => [b, program.donated[i] === true ? given[i] : undefined]))
  const outputs: DeviceBuffer[] = []
  for (const b of program.outputs) {
    const { bytes, source } = bufferOf(program, b)
    const own = memory.at(b)
    if ((source.kind === 'output' || donated.get(b) !== undefined) && !handed.has(own)) {
      handed.add(own)
      outputs.push(memory.adopt(own, bytes))
      continue
    }
    const copy = memory.alloc(bytes)
    taken.push(copy)
    handed.add(copy)
    memory.copy(b, copy, bytes)
    outputs.push(memory.adopt(copy, bytes))
  }
  for (const input of donated.values()) {
    if (input?.buffer.alive !== true) continue
    input.buffer.alive = false
    if (!handed.has(input.memory)) memory.free(input.memory)
  }
  for (const m of taken) if (!handed.has(m)) memory.free(m)
  return outputs
}
