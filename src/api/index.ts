/** The library: everything a user imports. */
export type {
  Axes,
  CumulativeOptions,
  Padding,
  PadMode,
  PoolOptions,
  ScanOptions,
  ScatterCombiner,
  TotalOptions,
  WindowOptions,
} from '../compose/index.ts'
export { type ErrorCode, type ErrorDetail, InternalError, UserError } from '../diagnostics/errors.ts'
export type { OpaqueKernel } from '../graph/node.ts'
export type {
  FusionReport,
  InnerReport,
  KernelReport,
  LibraryReport,
  MemoryReport,
  OperationReport,
  PassesReport,
  RecomputedReport,
  RefusalReport,
  SavedReport,
  StageReport,
  StoredBoolReport,
} from '../report/data.ts'
export type { Scalar } from '../scalar/ops.ts'
export type { RandomDType } from '../scalar/threefry.ts'
export type { DType, FloatDType } from '../types/dtype.ts'
export type { HostArray } from '../types/host.ts'
export type { Shape } from '../types/shape.ts'
export * from './arithmetic.ts'
export { type AssociativeScanOptions, associativeScan } from './associativeScan.ts'
export { type BatchAxes, type VmapOptions, vmap } from './batching.ts'
export type { ByteSize } from './bytes.ts'
export { checkpoint } from './checkpoint.ts'
export { cond, foriLoop, type LoopOptions, scan, whileLoop } from './control.ts'
export * from './creation.ts'
export { customJvp, customVjp } from './custom.ts'
export {
  type ArgNums,
  type ArgumentsAt,
  type AuxGradOptions,
  type GradOptions,
  grad,
  jvp,
  linearize,
  type PlainGradOptions,
  stopGradient,
  valueAndGrad,
  vjp,
} from './derivatives.ts'
export type { DeviceName, Mode } from './device.ts'
export * from './effects.ts'
export * from './indexing.ts'
export { hessian, type Jacobian, jacfwd, jacrev } from './jacobians.ts'
export { type Explanation, type JitFunction, type JitOptions, jit } from './jit.ts'
export * from './linalg.ts'
export type { TensorData, TensorOptions } from './literal.ts'
export * from './math.ts'
export * from './memory.ts'
export * from './nn.ts'
export * as nn from './nn.ts'
export * as optim from './optim/index.ts'
export type { NestedList } from './print.ts'
export { type InputSpec, isProgram, type ProgramModule, program, type TracedProgram } from './program.ts'
export * as random from './random.ts'
export * from './reduce.ts'
export type { Keepdims, KeepdimsOrDType, ReduceOptions } from './reductions.ts'
export { type DeviceOptions, getDevice, type MemoryUse, memory, setDevice } from './session.ts'
export * from './shapes.ts'
export type { SliceArgument } from './slicing.ts'
export type { Tangent, Tangents } from './tangents.ts'
export { Tensor, type TensorLike } from './tensor.ts'
export { type Abstract, spec, TensorSpec } from './tree.ts'
export * as tree from './trees.ts'
export { onWarning, type Warning, type WarningCode } from './warnings.ts'
export * from './windows.ts'
