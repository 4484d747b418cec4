/** What a run hands out: its outputs as buffers of the caller, whatever a backend's memory is. */
import type { TensorBuffer, TensorBuffers } from './buffers.ts'
import { bufferOf } from './commands.ts'
import { bytesAt, type Extents } from './extents.ts'
import type { Program } from './program.ts'

/** A backend's memory during a run; `M` names a piece of it. */
export interface RunMemory<M> {
  /** Where a buffer of the program stands in this run. */
  readonly at: (buffer: number) => M
  readonly alloc: (bytes: number) => M
  /** Copies a buffer of the program. */
  readonly copy: (buffer: number, to: M, bytes: number) => void
  readonly buffers: TensorBuffers<M>
}

/** One output: a buffer of the program, and where its memory comes from: taken by the run, the donated input of a number, or a copy. */
interface Outlet {
  readonly buffer: number
  readonly bytes: number
  readonly from: 'taken' | 'copy' | number
}

/** Where the outputs of a program come from, which holds for all its runs. */
export interface Outlets {
  readonly outputs: readonly Outlet[]
  /** Donated inputs in which no output stands. */
  readonly spent: readonly number[]
}

/** Memory that a run takes or is given by donation becomes an output once; what else an output stands in is copied. */
export function outletsOf(program: Program): Outlets {
  const donated = new Map(program.inputs.flatMap((b, i) => (program.donated[i] === true ? [[b, i] as const] : [])))
  const handed = new Set<number>()
  const outputs = program.outputs.map((buffer): Outlet => {
    const { bytes, source } = bufferOf(program, buffer)
    const own = source.kind === 'output' ? 'taken' : donated.get(buffer)
    if (own === undefined || handed.has(buffer)) return { buffer, bytes, from: 'copy' }
    handed.add(buffer)
    return { buffer, bytes, from: own }
  })
  return { outputs, spent: [...donated].flatMap(([b, i]) => (handed.has(b) ? [] : [i])) }
}

/** The same with the bytes that outputs have in a launch. */
export const outletsAt = (outlets: Outlets, program: Program, at: Extents | undefined): Outlets =>
  program.open === undefined
    ? outlets
    : {
        ...outlets,
        outputs: outlets.outputs.map((o) => ({ ...o, bytes: bytesAt(bufferOf(program, o.buffer), at) })),
      }

/**
 * The outputs of a run as device buffers: a donated input that an output stands in is that output. Donated inputs that are not among
 * the outputs are freed. `taken` is the memory that the run took; what is taken for copies is added to it.
 */
export function handOut<M>(
  { outputs, spent }: Outlets,
  given: readonly TensorBuffer<M>[],
  taken: M[],
  memory: RunMemory<M>,
): TensorBuffer<M>[] {
  const { buffers } = memory
  const handed = outputs.map(({ buffer, bytes, from }) => {
    if (from === 'taken') return buffers.adopt(memory.at(buffer), bytes)
    const input = from === 'copy' ? undefined : given[from]
    if (input !== undefined) return input
    const copy = memory.alloc(bytes)
    taken.push(copy)
    memory.copy(buffer, copy, bytes)
    return buffers.adopt(copy, bytes)
  })
  for (const i of spent) {
    const input = given[i]
    if (input !== undefined) buffers.end(input)
  }
  return handed
}
