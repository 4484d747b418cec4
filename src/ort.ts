/**
 * The entry `sinter/ort`: ONNX Runtime's JavaScript API (`onnxruntime-common`), run by this compiler. Programs written for `onnxruntime-node`
 * or `onnxruntime-web` change their import, or give this module to libraries that take a runtime.
 * @module sinter/ort
 */

export { env, InferenceSession, Tensor } from './ort/index.ts'
