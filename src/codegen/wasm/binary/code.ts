/** The vocabulary of function bodies: functions, locals, labels, operands, and fragments of code to be spliced in later. */
import { Bytes, type WasmType } from './encoder.ts'
import { Marks } from './slots.ts'

/** A function of the module under construction. */
export interface FuncRef {
  readonly kind: 'import' | 'defined'
  /** Index among the imports or among the defined functions. */
  readonly index: number
  readonly params: readonly WasmType[]
  readonly results: readonly WasmType[]
}

export interface Local {
  readonly index: number
  readonly type: WasmType
}

/** Alignment hint of a memory access in bytes. */
export type Align = 1 | 2 | 4 | 8 | 16

/** A branch target: of a block, its end; of a loop, its start. */
export interface Label {
  readonly depth: number
}

/** An i32 value: a constant, a local, or code that pushes it. */
export type Operand = number | Local | (() => void)

/** A stretch of self-contained code that stands apart until it is spliced into a body. */
export class Fragment {
  readonly code = new Bytes(256)
  readonly marks = new Marks()
  readonly calls: { readonly at: number; readonly target: FuncRef }[] = []
  /** The local of the last instruction, where that is a local.set, else -1: a get right behind it makes it a tee. */
  lastSet = -1
  /** Where that instruction begins and ends. */
  setStart = 0
  setEnd = 0
  /** Locals released inside. */
  readonly free = new Map<WasmType, Local[]>()
}
