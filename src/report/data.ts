/** The fusion report: plain data about one compiled program. Tests assert on it, the CLI prints it. */

/** One user-visible operation (by provenance, not by primitive). */
export interface OperationReport {
  /** The function that the user called. */
  readonly name: string
  /** `file:line:column`, or the ONNX node. */
  readonly where?: string
}

/** A launch of a kernel besides its main one. */
export interface StageReport {
  /** Its name. */
  readonly name: string
  /** `packing` before the kernel, or `finishing` after it. */
  readonly stage: 'packing' | 'finishing'
  /** Bytes that it moves. */
  readonly bytes: number
}

/** A launch, or a boundary such as control flow. */
export interface KernelReport {
  /** Its name, of what it computes. */
  readonly name: string
  /**
   * 'elementwise', 'reduction', 'matrix', 'scatter', 'union' (of different kinds), 'library' (a call of the device's library of
   * matrix products), or a boundary: 'opaque', 'effect', 'cond', 'while', 'loop'.
   */
  readonly kind: string
  /** Independent kernels launched as this one. */
  readonly parts: number
  /** What the user called. */
  readonly operations: readonly OperationReport[]
  /** Primitives computed in the kernel. */
  readonly primitives: readonly string[]
  /** Bytes of memory that it reads. */
  readonly bytesRead: number
  /** Bytes of memory that it writes. */
  readonly bytesWritten: number
  /** Operations of arithmetic. */
  readonly flops: number
  /** Exponentials, logarithms and their like. */
  readonly specialFunctions: number
  /** flops per byte. */
  readonly intensity: number
  /**
   * Milliseconds that the schedule which runs is predicted to take on the machine (WebAssembly); by the planner's model where no schedule predicts them: on
   * GPUs, of open extents, of calls and effects. Found when it is read.
   */
  readonly modelledMs: number
  /** Programs of the grid. */
  readonly programs: number
  /** Its launches besides the main one. */
  readonly stages: readonly StageReport[]
  /** Of a matrix product: what the device's library would do of it, where there is one. */
  readonly library?: LibraryReport
  /** The graphs inside control flow. Its traffic, arithmetic and time above are of a run: all steps where their number is known. */
  readonly inner?: readonly InnerReport[]
}

/** A matrix product by the device's library or by a kernel. */
export interface LibraryReport {
  /** The library. */
  readonly name: string
  /** `refused`: the library has no algorithm for it, for the reason `detail`. */
  readonly choice: 'call' | 'kernel' | 'refused'
  /** Modelled milliseconds of a call, and of a kernel that computes the product alone. */
  readonly callMs: number
  /** As `callMs`. */
  readonly kernelMs: number
  /** Calls, where lines of a matrix end inside a group of 16 bytes: of the part that is whole groups, and of the rest. */
  readonly calls?: number
  /** The call adds the product to a matrix, in place where nothing else reads that. */
  readonly adds?: true
  /** Why not the library, where it is known. */
  readonly detail?: string
}

/** A graph inside control flow, compiled as a program of its own. */
export interface InnerReport {
  /** What it is in the control flow. */
  readonly role: 'then' | 'otherwise' | 'test' | 'body'
  /** Times it runs in one run of what is around it, where that is known before running. */
  readonly trips?: number
  /** Its kernels; traffic, arithmetic and time of one step. */
  readonly kernels: readonly KernelReport[]
}

/** Why merges were not made: once for all pairs of which the same is to be said. */
export interface RefusalReport {
  /** The operation that stays apart. */
  readonly from: string
  /** What it was not merged into. */
  readonly to: string
  /** Reason code; src/plan/refusal.ts lists them. */
  readonly code: string
  /** The reason in words. */
  readonly detail: string
  /** Milliseconds the merge is modelled to lose, the least of the pairs; absent where it is not legal. */
  readonly lossMs?: number
  /** Pairs of which this is said. */
  readonly count: number
}

/** A value that several kernels compute, so that none stores it. */
export interface RecomputedReport {
  /** The operation. */
  readonly value: string
  /** Kernels that compute it. */
  readonly consumers: number
  /** Bytes of memory that need not move. */
  readonly savedBytes: number
}

/** A bool that one kernel stores for others. */
export interface StoredBoolReport {
  /** The operation. */
  readonly value: string
  /** One bit an element, or one byte. */
  readonly form: 'bits' | 'bytes'
  /** Bytes in memory. */
  readonly bytes: number
  /** Of bytes: why not bits (src/plan/plan.ts lists the codes). */
  readonly why?: { readonly code: string; readonly detail: string }
}

/** A value of the forward pass that the backward pass needs. */
export interface SavedReport {
  /** The operation. */
  readonly value: string
  /** Its shape. */
  readonly shape: readonly number[]
  /** As it stands in memory; `bits`: one bit an element. */
  readonly form: 'plain' | 'bits'
  /** Bytes in memory. */
  readonly bytes: number
  /** `kept`: it stands in memory between the passes. `result`: it does anyway. `again`: the backward pass computes it again. */
  readonly choice: 'kept' | 'result' | 'again'
  /** Modelled milliseconds of writing and reading it, and of computing it again from what is kept. */
  readonly keepMs: number
  /** As `keepMs`. */
  readonly againMs: number
}

/** What stands between the forward and the backward pass. */
export interface PassesReport {
  /** Each of them. */
  readonly values: readonly SavedReport[]
  /** Bytes of values kept, results of the program not counted. */
  readonly savedBytes: number
  /** Modelled milliseconds more than without computing anything again (negative: less). */
  readonly extraMs: number
  /** Bytes of intermediate values at once, with and without computing values again (before buffers are laid out). */
  readonly liveBytes: number
  /** As `liveBytes`. */
  readonly liveBytesKeepingAll: number
}

/** Bytes of one run. */
export interface MemoryReport {
  /** Bytes of intermediate values, after reuse and without. */
  readonly arenaBytes: number
  /** As `arenaBytes`. */
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
  /** Of a program that serves many shapes: its dimensions and the extents it serves, inclusive. The figures are those of shapes near the greatest. */
  readonly open?: readonly { readonly name: string; readonly least: number; readonly most: number }[]
  /** Of a program for one shape of a function whose dimensions are declared to vary: why it is a program of its own. */
  readonly closed?: string
}
