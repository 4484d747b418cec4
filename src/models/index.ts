/**
 * The entry `sinter/onnx`: imported models as functions of tensors.
 * @module sinter/onnx
 */
export type { ExternalLoader } from '../onnx/index.ts'
export { importOnnx, type OnnxModel, type OnnxOptions, type TensorRecord } from './onnx.ts'
