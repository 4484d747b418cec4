/** ONNX Runtime's API: tensors and settings are its own package's, sessions are ours. */

export { env, Tensor } from 'onnxruntime-common'
export { InferenceSession } from './session.ts'
