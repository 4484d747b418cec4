/** The vocabulary of function bodies: functions, locals, labels and operands. */
import type { WasmType } from './encoder.ts'

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
