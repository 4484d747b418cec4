/**
 * The launch plan a backend runs: kernels in order over a table of buffers with a static memory plan. It knows nothing of
 * the graph. Contract in docs/architecture.md ("The launch plan").
 */
import type { Kernel } from '../kernel/ir.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import type { ProductCalls } from '../types/product.ts'
import type { Formula, OpenProgram, VaryingProduct } from './extents.ts'

/**
 * Where a buffer's memory comes from. `temp` offsets are bytes into one arena of `arenaBytes`, 64-byte aligned. The output of
 * an inner program may be placed on the memory of the input buffer `over`: it is first written where that is last read.
 */
export type BufferSource =
  | { readonly kind: 'input'; readonly index: number }
  | { readonly kind: 'constant'; readonly data: HostArray }
  | { readonly kind: 'output'; readonly over?: number }
  | { readonly kind: 'temp'; readonly offset: number }

export interface ProgramBuffer {
  readonly dtype: DType
  readonly shape: readonly number[]
  readonly format: 'plain' | 'bits' | 'int4'
  readonly bytes: number
  /** Its bytes in a launch, where they vary: `bytes` at most. */
  readonly varying?: Formula
  readonly source: BufferSource
}

export type Stage = 'packing' | 'main' | 'finishing'

/** `buffers[i]` is bound to the kernel's parameter i. One `launch` number groups a main kernel with its packing and finishing stages. */
export interface KernelStep {
  readonly kind: 'kernel'
  readonly stage: Stage
  readonly launch: number
  readonly kernel: Kernel
  readonly buffers: readonly number[]
}

/**
 * A matrix product by the library of the device: buffers `a` and `b` (which may be one) into `out`, added to `addend` where there is
 * one (`out` itself, or any other). Plans for targets without a library have none.
 */
export interface ProductStep extends ProductCalls {
  readonly kind: 'product'
  readonly name: string
  readonly launch: number
  readonly a: number
  readonly b: number
  readonly out: number
  readonly addend?: number
  /** What of it varies from launch to launch: `product` and `calls` are those of the greatest extents. */
  readonly varying?: VaryingProduct
}

export type ProgramStep =
  | KernelStep
  | ProductStep
  /** Copies a whole buffer (an input passed through to an output; the base of a scatter). */
  | { readonly kind: 'copy'; readonly from: number; readonly to: number }
  /** A user's kernel on host views. */
  | {
      readonly kind: 'opaque'
      readonly name: string
      readonly run: (inputs: readonly HostArray[], output: HostArray) => void
      readonly inputs: readonly number[]
      readonly output: number
    }
  /** A callback that sees a buffer, in program order. */
  | {
      readonly kind: 'inspect'
      readonly label: string
      readonly call: (data: HostArray, shape: readonly number[], dtype: DType) => void
      readonly buffer: number
    }
  | RegionStep

export interface Program {
  readonly name: string
  readonly buffers: readonly ProgramBuffer[]
  readonly steps: readonly ProgramStep[]
  /** Buffer of each program input, by input number. */
  readonly inputs: readonly number[]
  /** Inputs whose memory the program may overwrite: after a run those device buffers belong to outputs or are dead. */
  readonly donated: readonly boolean[]
  /** Buffer of each program output; an output may be an input's buffer (donated, or passed through: then it is copied). */
  readonly outputs: readonly number[]
  readonly arenaBytes: number
  /** What varies from launch to launch; absent: nothing does. */
  readonly open?: OpenProgram
}

/*
 * Control flow: steps with programs inside. An inner program's inputs and outputs stand in buffers of the program around it; its arena
 * is one of them. So nothing is allocated and nothing copied while it runs: carries change places, and elements of sequences are
 * read and written where the sequences stand.
 */

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
  /** How many steps a launch has, where that varies: `length` at most, and none may be. */
  readonly varying?: Formula
  readonly reverse: boolean
  readonly consts: readonly number[]
  readonly carries: readonly CarryPlace[]
  readonly sequences: readonly number[]
  readonly results: readonly number[]
}

export type RegionStep = CondStep | WhileStep | LoopStep

export type InnerRole = 'then' | 'otherwise' | 'test' | 'body'
