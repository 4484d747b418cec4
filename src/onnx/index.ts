/** The ONNX importer: models to graphs, and reading of serialised tensors. */

export type { CodedType } from './codes.ts'
export { cutOutputs, type OutputCount, onlyOutputs } from './counted.ts'
export { decodeModel } from './decode.ts'
export { arrangeModel, checkOperators, importModel, importOnnx, type ReadModel, readModel } from './import.ts'
export { type ModelInput, modelInputs } from './inputs.ts'
export { inspectModel, type ModelFacts, type ValueFacts } from './inspect.ts'
export { OpenShapes, type Wording } from './open.ts'
export type { ImportedModel, ImportOptions, ModelParameter } from './pass.ts'
export { type Problem, UnsupportedParts } from './problems.ts'
export type { Dimension, ModelProto, ValueInfo } from './proto.ts'
export { type Length, type LengthRange, type NamedSum, splitLengths, sumOfNames } from './ranges.ts'
export { dtypeOfElement, type ExternalLoader, elementTypeName, type HostTensor, readTensorProto } from './tensors.ts'
