/** The entry `sinter/onnx`: imported models as functions of tensors. */
export { importOnnx, type OnnxModel, type OnnxOptions, type TensorRecord } from './onnx.ts'
