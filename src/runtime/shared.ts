/** Memory of a program's buffers: which of them may share it, and how much a run touches. */
import { InternalError } from '../diagnostics/errors.ts'
import type { Program, ProgramBuffer } from './program.ts'

export function bufferOf(program: Program, b: number): ProgramBuffer {
  const found = program.buffers[b]
  if (found === undefined) throw new InternalError(`program ${program.name} has no buffer ${b}`)
  return found
}

/** Whether two buffers of a program may share memory. */
export function overlap(program: Program, x: number, y: number): boolean {
  if (x === y) return true
  const [a, b] = [bufferOf(program, x), bufferOf(program, y)]
  if (a.source.kind === 'output' && a.source.over === y) return true
  if (b.source.kind === 'output' && b.source.over === x) return true
  if (a.source.kind !== 'temp' || b.source.kind !== 'temp') return false
  return a.source.offset < b.source.offset + b.bytes && b.source.offset < a.source.offset + a.bytes
}

/** Bytes that a run of a program touches: its arena, and the buffers beside it. */
export const bytesTouched = ({ buffers, arenaBytes }: Program): number =>
  buffers.reduce((n, b) => (b.source.kind === 'temp' ? n : n + b.bytes), arenaBytes)
