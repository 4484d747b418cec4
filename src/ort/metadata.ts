/** Names and types of a model's inputs and outputs, as ONNX Runtime's API gives them. */
import type { InferenceSession, Tensor } from 'onnxruntime-common'
import { dtypeOfElement, elementTypeName, type ReadModel, type ValueInfo } from '../onnx/index.ts'
import { ortTypes } from './types.ts'

/** Types for which the library has no dtype. */
const others: Readonly<Record<string, Tensor.Type>> = { STRING: 'string', INT4: 'int4', UINT4: 'uint4' }

/** The name of an element type: ONNX Runtime's, or what ONNX calls one that its API has none for. */
function typeName(elemType: number): string {
  const dtype = dtypeOfElement(elemType)
  const known: Readonly<Partial<Record<string, string>>> = ortTypes
  const name = elementTypeName(elemType)
  return (dtype === undefined ? undefined : known[dtype]) ?? others[name] ?? name.toLowerCase()
}

/** What is declared of a value; extents without a number are names, empty where they have none. */
function metadataOf(v: ValueInfo): InferenceSession.ValueMetadata {
  if (v.kind !== 'tensor') return { name: v.name, isTensor: false }
  const shape = (v.shape ?? []).map((d) => d ?? '')
  return { name: v.name, isTensor: true, type: typeName(v.elemType) as Tensor.Type, shape }
}

/** What is declared of a model's interface. */
export interface Metadata {
  readonly inputs: readonly InferenceSession.ValueMetadata[]
  readonly outputs: readonly InferenceSession.ValueMetadata[]
  /** Inputs whose rank is not declared: their metadata have no extents. */
  readonly unranked: ReadonlySet<string>
}

/** Inputs that have to be given, and outputs, in order. */
export function metadata({ model }: ReadModel): Metadata {
  const { graph } = model
  const initialised = new Set(graph.initializer.map((t) => t.name))
  const inputs = graph.input.filter((v) => !initialised.has(v.name))
  return {
    inputs: inputs.map(metadataOf),
    outputs: graph.output.map(metadataOf),
    unranked: new Set(inputs.flatMap((v) => (v.kind === 'tensor' && v.shape === undefined ? [v.name] : []))),
  }
}
