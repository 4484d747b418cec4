/** Decodes ONNX protobuf bytes to plain data. Malformed or truncated input is a UserError E_ONNX_MALFORMED, always. */
import { WireType } from '@bufbuild/protobuf/wire'
import { guarded, MessageReader, malformed, readInt64, readUint64 } from './messages.ts'
import {
  type AttributeProto,
  attributeType,
  type Dimension,
  type FunctionProto,
  fields,
  type GraphProto,
  type ModelProto,
  type NodeProto,
  type OpsetImport,
  type TensorProto,
  type ValueInfo,
} from './proto.ts'

function readEntry(m: MessageReader, into: Map<string, string>, read: (m: MessageReader) => string = text): void {
  let key = ''
  let value = ''
  while (m.next()) {
    if (m.field === fields.entry.key) key = read(m)
    else if (m.field === fields.entry.value) value = read(m)
    else m.skip()
  }
  into.set(key, value)
}

const text = (m: MessageReader): string => m.string()
const prose = (m: MessageReader): string => m.prose()

function readTensor(m: MessageReader): TensorProto {
  const dims: bigint[] = []
  const t: TensorProto = {
    name: '',
    dims: [],
    dataType: 0,
    floatData: [],
    int32Data: [],
    int64Data: [],
    doubleData: [],
    uint64Data: [],
    stringData: [],
    rawData: undefined,
    external: false,
    externalData: new Map(),
  }
  const f = fields.tensor
  while (m.next()) {
    switch (m.field) {
      case f.dims:
        m.repeated(dims, WireType.Varint, readInt64)
        break
      case f.dataType:
        t.dataType = m.int32()
        break
      case f.floatData:
        m.repeated(t.floatData, WireType.Bit32, (r) => r.float())
        break
      case f.int32Data:
        m.repeated(t.int32Data, WireType.Varint, (r) => r.int32())
        break
      case f.stringData:
        t.stringData.push(m.bytes())
        break
      case f.int64Data:
        m.repeated(t.int64Data, WireType.Varint, readInt64)
        break
      case f.name:
        t.name = m.string()
        break
      case f.rawData:
        t.rawData = m.bytes()
        break
      case f.doubleData:
        m.repeated(t.doubleData, WireType.Bit64, (r) => r.double())
        break
      case f.uint64Data:
        m.repeated(t.uint64Data, WireType.Varint, readUint64)
        break
      case f.externalData:
        readEntry(m.sub(), t.externalData)
        break
      case f.dataLocation:
        t.external = m.int32() === 1
        break
      default:
        m.skip()
    }
  }
  t.dims = dims.map((d) => {
    if (d < 0n || d > 0xffffffffn) throw malformed(`tensor "${t.name}" has extent ${d}`)
    return Number(d)
  })
  return t
}

function readAttribute(m: MessageReader): AttributeProto {
  const a: AttributeProto = {
    name: '',
    refAttrName: '',
    type: 0,
    f: 0,
    i: 0n,
    s: new Uint8Array(0),
    t: undefined,
    g: undefined,
    floats: [],
    ints: [],
    strings: [],
    tensors: [],
    graphs: [],
  }
  /** The kind of value seen, for old files that leave `type` out. */
  let seen = 0
  const f = fields.attribute
  while (m.next()) {
    switch (m.field) {
      case f.name:
        a.name = m.string()
        break
      case f.refAttrName:
        a.refAttrName = m.string()
        break
      case f.type:
        a.type = m.int32()
        break
      case f.f:
        a.f = m.float()
        seen = attributeType.FLOAT
        break
      case f.i:
        a.i = m.int64()
        seen = attributeType.INT
        break
      case f.s:
        a.s = m.bytes()
        seen = attributeType.STRING
        break
      case f.t:
        a.t = readTensor(m.sub())
        seen = attributeType.TENSOR
        break
      case f.g:
        a.g = readGraph(m.sub())
        seen = attributeType.GRAPH
        break
      case f.floats:
        m.repeated(a.floats, WireType.Bit32, (r) => r.float())
        seen = attributeType.FLOATS
        break
      case f.ints:
        m.repeated(a.ints, WireType.Varint, readInt64)
        seen = attributeType.INTS
        break
      case f.strings:
        a.strings.push(m.bytes())
        seen = attributeType.STRINGS
        break
      case f.tensors:
        a.tensors.push(readTensor(m.sub()))
        seen = attributeType.TENSORS
        break
      case f.graphs:
        a.graphs.push(readGraph(m.sub()))
        seen = attributeType.GRAPHS
        break
      default:
        m.skip()
    }
  }
  if (a.type === 0) a.type = seen
  return a
}

function readNode(m: MessageReader): NodeProto {
  const n: NodeProto = { name: '', opType: '', domain: '', overload: '', input: [], output: [], attribute: [] }
  const f = fields.node
  while (m.next()) {
    if (m.field === f.input) n.input.push(m.string())
    else if (m.field === f.output) n.output.push(m.string())
    else if (m.field === f.name) n.name = m.string()
    else if (m.field === f.opType) n.opType = m.string()
    else if (m.field === f.attribute) n.attribute.push(readAttribute(m.sub()))
    else if (m.field === f.domain) n.domain = m.string()
    else if (m.field === f.overload) n.overload = m.string()
    else m.skip()
  }
  return n
}

function readDimension(m: MessageReader): Dimension {
  let d: Dimension
  while (m.next()) {
    if (m.field === fields.dim.value) d = m.int()
    else if (m.field === fields.dim.param) d = m.string() || undefined
    else m.skip()
  }
  return typeof d === 'number' && d < 0 ? undefined : d
}

function readShape(m: MessageReader): Dimension[] {
  const shape: Dimension[] = []
  while (m.next()) {
    if (m.field === fields.shape.dim) shape.push(readDimension(m.sub()))
    else m.skip()
  }
  return shape
}

function readTensorType(m: MessageReader, v: ValueInfo): void {
  v.kind = 'tensor'
  while (m.next()) {
    if (m.field === fields.tensorTypeProto.elemType) v.elemType = m.int32()
    else if (m.field === fields.tensorTypeProto.shape) v.shape = readShape(m.sub())
    else m.skip()
  }
}

function readValueInfo(m: MessageReader): ValueInfo {
  const v: ValueInfo = { name: '', kind: 'tensor', elemType: 0, shape: undefined }
  while (m.next()) {
    if (m.field === fields.valueInfo.name) v.name = m.string()
    else if (m.field === fields.valueInfo.type) {
      const type = m.sub()
      v.kind = 'other'
      while (type.next()) {
        if (type.field === fields.type.tensor) readTensorType(type.sub(), v)
        else type.skip()
      }
    } else m.skip()
  }
  return v
}

function readGraph(m: MessageReader): GraphProto {
  const g: GraphProto = { name: '', node: [], initializer: [], input: [], output: [], sparseInitializers: 0 }
  const f = fields.graph
  while (m.next()) {
    if (m.field === f.node) g.node.push(readNode(m.sub()))
    else if (m.field === f.name) g.name = m.string()
    else if (m.field === f.initializer) g.initializer.push(readTensor(m.sub()))
    else if (m.field === f.input) g.input.push(readValueInfo(m.sub()))
    else if (m.field === f.output) g.output.push(readValueInfo(m.sub()))
    else {
      if (m.field === f.sparseInitializer) g.sparseInitializers++
      m.skip()
    }
  }
  return g
}

function readOpset(m: MessageReader): OpsetImport {
  const o: OpsetImport = { domain: '', version: 0 }
  while (m.next()) {
    if (m.field === fields.opset.domain) o.domain = m.string()
    else if (m.field === fields.opset.version) o.version = m.int()
    else m.skip()
  }
  return o
}

function readFunction(m: MessageReader): FunctionProto {
  const fn: FunctionProto = {
    name: '',
    domain: '',
    overload: '',
    input: [],
    output: [],
    attribute: [],
    attributeProto: [],
    node: [],
    opsetImport: [],
  }
  const f = fields.function
  while (m.next()) {
    if (m.field === f.name) fn.name = m.string()
    else if (m.field === f.input) fn.input.push(m.string())
    else if (m.field === f.output) fn.output.push(m.string())
    else if (m.field === f.attribute) fn.attribute.push(m.string())
    else if (m.field === f.attributeProto) fn.attributeProto.push(readAttribute(m.sub()))
    else if (m.field === f.node) fn.node.push(readNode(m.sub()))
    else if (m.field === f.opsetImport) fn.opsetImport.push(readOpset(m.sub()))
    else if (m.field === f.domain) fn.domain = m.string()
    else if (m.field === f.overload) fn.overload = m.string()
    else m.skip()
  }
  return fn
}

/** Decodes a ModelProto. Throws E_ONNX_MALFORMED. */
export function decodeModel(bytes: Uint8Array): ModelProto {
  return guarded('model', () => {
    const m = new MessageReader(bytes, 0)
    const f = fields.model
    let graph: GraphProto | undefined
    const model: Omit<ModelProto, 'graph'> = {
      irVersion: 0,
      producer: '',
      producerVersion: '',
      domain: '',
      modelVersion: 0n,
      description: '',
      metadata: new Map(),
      opsetImport: [],
      functions: [],
    }
    while (m.next()) {
      if (m.field === f.irVersion) model.irVersion = m.int()
      else if (m.field === f.producerName) model.producer = m.string()
      else if (m.field === f.producerVersion) model.producerVersion = m.prose()
      else if (m.field === f.domain) model.domain = m.prose()
      else if (m.field === f.modelVersion) model.modelVersion = m.int64()
      else if (m.field === f.docString) model.description = m.prose()
      else if (m.field === f.metadataProps) readEntry(m.sub(), model.metadata, prose)
      else if (m.field === f.opsetImport) model.opsetImport.push(readOpset(m.sub()))
      else if (m.field === f.graph) graph = readGraph(m.sub())
      else if (m.field === f.functions) model.functions.push(readFunction(m.sub()))
      else m.skip()
    }
    if (graph === undefined) throw malformed('it has no graph')
    if (model.opsetImport.length === 0) throw malformed('it names no operator set')
    return { ...model, graph }
  })
}

/** Decodes a TensorProto (the `.pb` files of test cases). Throws E_ONNX_MALFORMED. */
export function decodeTensor(bytes: Uint8Array): TensorProto {
  return guarded('tensor', () => readTensor(new MessageReader(bytes, 0)))
}
