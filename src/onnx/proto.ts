/**
 * ONNX messages as plain data, and their field numbers (the public schema, onnx.proto3). Only what the importer reads;
 * unknown fields are skipped by the decoder.
 */

/** TensorProto.DataType. */
export const tensorType = {
  FLOAT: 1,
  UINT8: 2,
  INT8: 3,
  UINT16: 4,
  INT16: 5,
  INT32: 6,
  INT64: 7,
  STRING: 8,
  BOOL: 9,
  FLOAT16: 10,
  DOUBLE: 11,
  UINT32: 12,
  UINT64: 13,
  COMPLEX64: 14,
  COMPLEX128: 15,
  BFLOAT16: 16,
  FLOAT8E4M3FN: 17,
  FLOAT8E4M3FNUZ: 18,
  FLOAT8E5M2: 19,
  FLOAT8E5M2FNUZ: 20,
  UINT4: 21,
  INT4: 22,
  FLOAT4E2M1: 23,
  FLOAT8E8M0: 24,
  UINT2: 25,
  INT2: 26,
} as const

export interface TensorProto {
  name: string
  dims: number[]
  dataType: number
  floatData: number[]
  int32Data: number[]
  int64Data: bigint[]
  doubleData: number[]
  uint64Data: bigint[]
  stringData: Uint8Array[]
  rawData: Uint8Array | undefined
  /** Data stands in a file beside the model. */
  external: boolean
  externalData: Map<string, string>
}

export interface AttributeProto {
  name: string
  /** Inside a function body: the name of the function's attribute this one takes its value from. */
  refAttrName: string
  type: number
  f: number
  i: bigint
  s: Uint8Array
  t: TensorProto | undefined
  g: GraphProto | undefined
  floats: number[]
  ints: bigint[]
  strings: Uint8Array[]
  tensors: TensorProto[]
  graphs: GraphProto[]
}

export interface NodeProto {
  name: string
  opType: string
  domain: string
  overload: string
  input: string[]
  output: string[]
  attribute: AttributeProto[]
}

/** One extent of a declared shape: a number, a symbol, or unknown. */
export type Dimension = number | string | undefined

export interface ValueInfo {
  name: string
  kind: 'tensor' | 'other'
  /** TensorProto.DataType of a tensor, 0 when unknown. */
  elemType: number
  /** Declared extents; undefined when the rank is unknown. */
  shape: Dimension[] | undefined
}

export interface GraphProto {
  name: string
  node: NodeProto[]
  initializer: TensorProto[]
  input: ValueInfo[]
  output: ValueInfo[]
  /** Number of sparse initialisers, which the importer does not read. */
  sparseInitializers: number
}

export interface OpsetImport {
  domain: string
  version: number
}

export interface FunctionProto {
  name: string
  domain: string
  overload: string
  input: string[]
  output: string[]
  /** Attributes without a default. */
  attribute: string[]
  /** Attributes with a default. */
  attributeProto: AttributeProto[]
  node: NodeProto[]
  opsetImport: OpsetImport[]
}

export interface ModelProto {
  irVersion: number
  producer: string
  producerVersion: string
  domain: string
  /** As the producer counts. */
  modelVersion: bigint
  description: string
  /** What the producer says of the model (`metadata_props`). */
  metadata: Map<string, string>
  opsetImport: OpsetImport[]
  graph: GraphProto
  functions: FunctionProto[]
}

/** Field numbers by message. */
export const fields = {
  model: {
    irVersion: 1,
    producerName: 2,
    producerVersion: 3,
    domain: 4,
    modelVersion: 5,
    docString: 6,
    graph: 7,
    opsetImport: 8,
    metadataProps: 14,
    functions: 25,
  },
  opset: { domain: 1, version: 2 },
  graph: { node: 1, name: 2, initializer: 5, input: 11, output: 12, sparseInitializer: 15 },
  node: { input: 1, output: 2, name: 3, opType: 4, attribute: 5, domain: 7, overload: 8 },
  attribute: {
    name: 1,
    f: 2,
    i: 3,
    s: 4,
    t: 5,
    g: 6,
    floats: 7,
    ints: 8,
    strings: 9,
    tensors: 10,
    graphs: 11,
    type: 20,
    refAttrName: 21,
  },
  tensor: {
    dims: 1,
    dataType: 2,
    floatData: 4,
    int32Data: 5,
    stringData: 6,
    int64Data: 7,
    name: 8,
    rawData: 9,
    doubleData: 10,
    uint64Data: 11,
    externalData: 13,
    dataLocation: 14,
  },
  entry: { key: 1, value: 2 },
  valueInfo: { name: 1, type: 2 },
  type: { tensor: 1, sequence: 4, map: 5, opaque: 7, sparse: 8, optional: 9 },
  tensorTypeProto: { elemType: 1, shape: 2 },
  shape: { dim: 1 },
  dim: { value: 1, param: 2 },
  function: {
    name: 1,
    input: 4,
    output: 5,
    attribute: 6,
    node: 7,
    opsetImport: 9,
    domain: 10,
    attributeProto: 11,
    overload: 13,
  },
} as const

/** AttributeProto.AttributeType, the kinds the importer reads. */
export const attributeType = {
  FLOAT: 1,
  INT: 2,
  STRING: 3,
  TENSOR: 4,
  GRAPH: 5,
  FLOATS: 6,
  INTS: 7,
  STRINGS: 8,
  TENSORS: 9,
  GRAPHS: 10,
} as const
