/** The library: everything a user imports. */
export type {
  Axes,
  ClosenessOptions,
  CovOptions,
  CumulativeOptions,
  InterpOptions,
  NanToNumOptions,
  Padding,
  PadMode,
  PoolOptions,
  QuantileMethod,
  ScanOptions,
  ScatterCombiner,
  TopKOptions,
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
export type { Keepdims, KeepdimsOrDType, ReduceOptions } from './calls/reductions.ts'
export type { SliceArgument } from './calls/slicing.ts'
export { onWarning, type Warning, type WarningCode } from './calls/warnings.ts'
export type { ByteSize } from './device/bytes.ts'
export type { DeviceName, Mode } from './device/device.ts'
export { type DeviceOptions, getDevice, type MemoryUse, memory, setDevice } from './device/session.ts'
export { type Explanation, type JitFunction, type JitOptions, jit } from './jit/jit.ts'
export { type InputSpec, isProgram, type ProgramModule, program, type TracedProgram } from './jit/program.ts'
export * from './ops/arithmetic.ts'
export * from './ops/binning.ts'
export * from './ops/creation.ts'
export * from './ops/effects.ts'
export * from './ops/indexing.ts'
export * from './ops/linalg.ts'
export * from './ops/math.ts'
export * from './ops/nn.ts'
export * as nn from './ops/nn.ts'
export * as random from './ops/random.ts'
export * from './ops/reduce.ts'
export * from './ops/shapes.ts'
export * from './ops/sized.ts'
export * from './ops/sorting.ts'
export * from './ops/windows.ts'
export * as optim from './optim/index.ts'
export type { TensorData, TensorOptions } from './tensor/literal.ts'
export * from './tensor/memory.ts'
export { Dim, dim, OpenSpec } from './tensor/openSpec.ts'
export type { TensorPart } from './tensor/parts.ts'
export type { NestedList } from './tensor/print.ts'
export { Tensor, type TensorLike } from './tensor/tensor.ts'
export { type Abstract, spec, TensorSpec } from './tensor/tree.ts'
export { type AssociativeScanOptions, associativeScan } from './transforms/associativeScan.ts'
export { type BatchAxes, type VmapOptions, vmap } from './transforms/batching.ts'
export { checkpoint } from './transforms/checkpoint.ts'
export { cond, foriLoop, type LoopOptions, scan, whileLoop } from './transforms/control.ts'
export { customJvp, customVjp } from './transforms/custom.ts'
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
} from './transforms/derivatives.ts'
export { hessian, type Jacobian, jacfwd, jacrev } from './transforms/jacobians.ts'
export type { Tangent, Tangents } from './transforms/tangents.ts'
export * as tree from './transforms/trees.ts'
