/**
 * Steps with programs inside. An inner program's inputs and outputs stand in buffers of the program around it; its arena is
 * one of them. So nothing is allocated and nothing copied while control flow runs: carries change places, and elements of
 * sequences are read and written where the sequences stand.
 */
import type { Program } from './program.ts'

/** A program inside a step. Its inputs and outputs get new places every time it runs. */
export interface InnerProgram {
  readonly program: Program
  /** The buffer that is its arena; undefined where it needs none. */
  readonly arena: number | undefined
}

/**
 * A value that steps carry. The first step reads it from `init`, the last leaves it in `result`. With a `spare`, steps write
 * `result` and `spare` in turns; without, every step may write over what it reads (the body's output says so: `over`).
 */
export interface CarryPlace {
  readonly init: number
  readonly result: number
  readonly spare: number | undefined
}

/** One of two programs on the same operands, by a bool scalar. */
export interface CondStep {
  readonly kind: 'cond'
  readonly name: string
  readonly test: number
  readonly whenTrue: InnerProgram
  readonly whenFalse: InnerProgram
  readonly operands: readonly number[]
  readonly results: readonly number[]
}

/**
 * Inputs of `test` and `body`: constants, then carries. `flag` is the buffer of the test's one output. The host reads it
 * between steps; a loop whose test never fails does not end.
 */
export interface WhileStep {
  readonly kind: 'while'
  readonly name: string
  readonly test: InnerProgram
  readonly body: InnerProgram
  readonly flag: number
  readonly consts: readonly number[]
  readonly carries: readonly CarryPlace[]
}

/**
 * `length` (at least 1) steps. Inputs of `body`: constants, carries, then one element of each sequence; outputs: carries, then
 * one element of each of `results`. Element i of a buffer begins at i times the bytes of the body's input or output.
 */
export interface LoopStep {
  readonly kind: 'loop'
  readonly name: string
  readonly body: InnerProgram
  readonly length: number
  readonly reverse: boolean
  readonly consts: readonly number[]
  readonly carries: readonly CarryPlace[]
  readonly sequences: readonly number[]
  readonly results: readonly number[]
}

export type RegionStep = CondStep | WhileStep | LoopStep

/** The programs inside a step, named as reports name them. */
export function innerPrograms(s: RegionStep): readonly { readonly role: InnerRole; readonly inner: InnerProgram }[] {
  switch (s.kind) {
    case 'cond':
      return [
        { role: 'then', inner: s.whenTrue },
        { role: 'otherwise', inner: s.whenFalse },
      ]
    case 'while':
      return [
        { role: 'test', inner: s.test },
        { role: 'body', inner: s.body },
      ]
    case 'loop':
      return [{ role: 'body', inner: s.body }]
  }
}

export type InnerRole = 'then' | 'otherwise' | 'test' | 'body'

/**
 * Where step number `step` of a loop of `length` writes a carry: the last one writes the result. It reads what the one before
 * wrote, and the first one `init`.
 */
export const writtenPlace = (c: CarryPlace, step: number, length: number): number =>
  c.spare === undefined || (length - 1 - step) % 2 === 0 ? c.result : c.spare

/** Whether an inner program may place an output on an input's memory (both by number). */
export function writesOver(program: Program, output: number, input: number): boolean {
  const source = program.buffers[program.outputs[output] ?? -1]?.source
  return source?.kind === 'output' && source.over !== undefined && source.over === program.inputs[input]
}
