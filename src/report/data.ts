/** The fusion report: plain data about one compiled program. Tests assert on it, the CLI prints it. */

/** One user-visible operation (by provenance, not by primitive). */
export interface OperationReport {
  readonly name: string
  /** `file:line:column`, or the ONNX node. */
  readonly where?: string
}

export interface StageReport {
  readonly name: string
  readonly stage: 'packing' | 'finishing'
  readonly bytes: number
}

export interface KernelReport {
  readonly name: string
  /**
   * 'elementwise', 'reduction', 'matrix', 'scatter', 'union' (of different kinds), 'library' (a call of the device's library of
   * matrix products), or a boundary: 'opaque', 'effect', 'cond', 'while', 'loop'.
   */
  readonly kind: string
  /** Independent kernels launched as this one. */
  readonly parts: number
  readonly operations: readonly OperationReport[]
  /** Primitives computed in the kernel. */
  readonly primitives: readonly string[]
  readonly bytesRead: number
  readonly bytesWritten: number
  readonly flops: number
  readonly specialFunctions: number
  /** flops per byte. */
  readonly intensity: number
  readonly modelledMs: number
  /** Programs of the grid. */
  readonly programs: number
  readonly stages: readonly StageReport[]
  /** Of a matrix product: what the device's library would do of it, where there is one. */
  readonly library?: LibraryReport
  /** The graphs inside control flow. Its traffic, arithmetic and time above are of a run: all steps where their number is known. */
  readonly inner?: readonly InnerReport[]
}

/** A matrix product by the device's library or by a kernel. */
export interface LibraryReport {
  readonly name: string
  /** `refused`: the library has no algorithm for it, for the reason `detail`. */
  readonly choice: 'call' | 'kernel' | 'refused'
  /** Modelled milliseconds of a call, and of a kernel that computes the product alone. */
  readonly callMs: number
  readonly kernelMs: number
  readonly detail?: string
}

/** A graph inside control flow, compiled as a program of its own. */
export interface InnerReport {
  readonly role: 'then' | 'otherwise' | 'test' | 'body'
  /** Times it runs in one run of what is around it, where that is known before running. */
  readonly trips?: number
  /** Its kernels; traffic, arithmetic and time of one step. */
  readonly kernels: readonly KernelReport[]
}

/** Why merges were not made: once for all pairs of which the same is to be said. */
export interface RefusalReport {
  readonly from: string
  readonly to: string
  /** Reason code; src/plan/refusal.ts lists them. */
  readonly code: string
  readonly detail: string
  /** Milliseconds the merge is modelled to lose, the least of the pairs; absent where it is not legal. */
  readonly lossMs?: number
  /** Pairs of which this is said. */
  readonly count: number
}

export interface RecomputedReport {
  readonly value: string
  readonly consumers: number
  readonly savedBytes: number
}

/** A bool that one kernel stores for others. */
export interface StoredBoolReport {
  readonly value: string
  /** One bit an element, or one byte. */
  readonly form: 'bits' | 'bytes'
  readonly bytes: number
  /** Of bytes: why not bits (src/plan/plan.ts lists the codes). */
  readonly why?: { readonly code: string; readonly detail: string }
}

/** A value of the forward pass that the backward pass needs. */
export interface SavedReport {
  readonly value: string
  readonly shape: readonly number[]
  /** As it stands in memory; `bits`: one bit an element. */
  readonly form: 'plain' | 'bits'
  readonly bytes: number
  /** `kept`: it stands in memory between the passes. `result`: it does anyway. `again`: the backward pass computes it again. */
  readonly choice: 'kept' | 'result' | 'again'
  /** Modelled milliseconds of writing and reading it, and of computing it again from what is kept. */
  readonly keepMs: number
  readonly againMs: number
}

/** What stands between the forward and the backward pass. */
export interface PassesReport {
  readonly values: readonly SavedReport[]
  /** Bytes of values kept, results of the program not counted. */
  readonly savedBytes: number
  /** Modelled milliseconds more than without computing anything again (negative: less). */
  readonly extraMs: number
  /** Bytes of intermediate values at once, with and without computing values again (before buffers are laid out). */
  readonly liveBytes: number
  readonly liveBytesKeepingAll: number
}

export interface MemoryReport {
  /** Bytes of intermediate values, after reuse and without. */
  readonly arenaBytes: number
  readonly unsharedBytes: number
  /** Most bytes live at once: inputs, outputs, constants and intermediates. */
  readonly peakBytes: number
  /** Buffers written over in place. */
  readonly inPlace: number
}

/** What became one kernel, what did not and why, and what that costs by the model of the machine. */
export interface FusionReport {
  /** The function's name. */
  readonly name: string
  /** The machine that the plan is for. */
  readonly target: string
  /** How freely numbers may be reassociated. */
  readonly mode: 'fast' | 'strict'
  /** Every launch, in order. */
  readonly kernels: readonly KernelReport[]
  /** Merges that did not happen, with the reason and the modelled loss. */
  readonly refused: readonly RefusalReport[]
  /** Operations that stand in several kernels. */
  readonly recomputed: readonly RecomputedReport[]
  /** Comparisons that stand in memory, in bits or in bytes. */
  readonly storedBools: readonly StoredBoolReport[]
  /** Absent where nothing is differentiated in reverse mode. */
  readonly passes?: PassesReport
  /** Rewrite rules that fired. */
  readonly rewrites: readonly { readonly rule: string; readonly count: number }[]
  /** Bytes of intermediate values. */
  readonly memory: MemoryReport
  /** Counts, bytes, operations and modelled milliseconds of a run. */
  readonly totals: {
    /** Grid launches (stages are counted apart); those inside control flow each once, however often they run. */
    readonly kernels: number
    /** Calls of the device's library, which launches kernels of its own; absent where there are none. */
    readonly libraryCalls?: number
    readonly stages: number
    readonly operations: number
    readonly bytes: number
    /** Bytes if every operation ran alone. */
    readonly bytesOpByOp: number
    readonly flops: number
    readonly modelledMs: number
  }
  /** Milliseconds that compiling took. */
  readonly compileMs: number
}
