/** What the library needs of a device: memory for tensors, and programs compiled from graphs. */
import type { Instance } from '../../compile/open/index.ts'
import type { Budgets } from '../../compile/planGraph.ts'
import type { Graph } from '../../graph/node.ts'
import type { FusionReport } from '../../report/data.ts'
import type { DeviceBuffer } from '../../runtime/backend.ts'
import type { Dimension, Extents } from '../../runtime/extents.ts'
import type { Program } from '../../runtime/program.ts'
import type { MemoryUse } from '../../runtime/resources.ts'
import type { DType } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import type { Precision } from '../../types/product.ts'

/**
 * Kinds of devices. `reference` evaluates graphs in float64, slowly: the oracle. `cuda` and `webgpu` are opened by the entry
 * points `sinter/cuda` and `sinter/webgpu`.
 */
export type DeviceName = 'wasm' | 'reference' | 'cuda' | 'webgpu'

/** `fast` may reassociate reductions and keep intermediates wide; `strict` gives the bits of running each operation alone. */
export type Mode = 'fast' | 'strict'

/** How a graph is to be compiled. */
export interface CompileRequest {
  readonly mode: Mode
  /** Inputs whose memory the program may take over. */
  readonly donated: readonly boolean[]
  readonly name: string
  /** How contractions of f32 that do not say multiply. */
  readonly precision?: Precision
  /** Limits of intermediate memory. */
  readonly budgets?: Budgets
}

/** A program ready to run. */
export interface Compiled {
  /** Fresh buffers for the outputs; donated inputs are consumed, and may be outputs. `at`: the extents of a program that has open ones. */
  run(inputs: readonly DeviceBuffer[], at?: Extents): DeviceBuffer[]
  /** Whether the last run got as far as writing memory: if it threw before, donated inputs hold what they held. */
  readonly hasBegun: boolean
  /** The fusion report and the launch plan; undefined on a device that compiles nothing. */
  readonly report: FusionReport | undefined
  readonly program: Program | undefined
  /** Bytes of intermediate values and constants that it holds. */
  readonly residentBytes: number
  dispose(): void
}

/** A place where tensors live and programs run. */
export interface Device {
  /** Which kind it is. */
  readonly name: DeviceName
  /** Memory that holds the elements. Throws E_OUT_OF_MEMORY. */
  upload(data: HostArray): DeviceBuffer
  /** The first `n` elements. Throws E_DEVICE where the device cannot be waited for. */
  readSync(buffer: DeviceBuffer, dtype: DType, n: number): HostArray
  /** The first `n` elements, when what writes them has run. */
  read(buffer: DeviceBuffer, dtype: DType, n: number): Promise<HostArray>
  /** Gives memory back. */
  free(buffer: DeviceBuffer): void
  /** A copy on the device. */
  copy(buffer: DeviceBuffer): DeviceBuffer
  /** A program ready to run. */
  compile(graph: Graph, request: CompileRequest): Compiled
  /** A program for all extents between those of its instances; undefined on a device that has no such programs. */
  readonly compileOpen:
    | ((instances: readonly Instance[], dimensions: readonly Dimension[], request: CompileRequest) => Compiled)
    | undefined
  /** Bytes in use, the limit, and what programs hold. */
  memory(): MemoryUse
}
