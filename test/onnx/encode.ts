/** A small ONNX encoder for tests: plain descriptions to protobuf bytes. */
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { fields } from '../../src/onnx/proto.ts'

export interface TensorSpec {
  name: string
  type: number
  dims: readonly number[]
  raw?: Uint8Array
  floats?: readonly number[]
  int32s?: readonly number[]
  int64s?: readonly number[]
  doubles?: readonly number[]
  uint64s?: readonly number[]
  external?: Readonly<Record<string, string>>
}
export interface AttributeSpec {
  int?: number
  float?: number
  string?: string
  floats?: readonly number[]
  ints?: readonly number[]
  strings?: readonly string[]
  tensor?: TensorSpec
  graph?: GraphSpec
  ref?: string
  refType?: number
}
export interface NodeSpec {
  op: string
  name?: string
  domain?: string
  in: readonly string[]
  out: readonly string[]
  attrs?: Readonly<Record<string, AttributeSpec>>
}
export interface ValueSpec {
  name: string
  type: number
  /** None: a tensor of any rank. */
  dims?: readonly (number | string)[]
}
export interface GraphSpec {
  nodes: readonly NodeSpec[]
  inputs?: readonly ValueSpec[]
  outputs: readonly ValueSpec[]
  initializers?: readonly TensorSpec[]
}
export interface FunctionSpec {
  name: string
  domain: string
  inputs: readonly string[]
  outputs: readonly string[]
  attributes?: readonly string[]
  nodes: readonly NodeSpec[]
}
export interface ModelSpec extends GraphSpec {
  opset?: number
  opsets?: Readonly<Record<string, number>>
  functions?: readonly FunctionSpec[]
  producer?: string
  producerVersion?: string
  domain?: string
  version?: number
  description?: string
  metadata?: Readonly<Record<string, string>>
}

const bytesOf = (write: (w: BinaryWriter) => void): Uint8Array => {
  const w = new BinaryWriter()
  write(w)
  return w.finish()
}
const text = (w: BinaryWriter, field: number, value: string): void => {
  w.tag(field, WireType.LengthDelimited).string(value)
}
const int = (w: BinaryWriter, field: number, value: number): void => {
  w.tag(field, WireType.Varint).int64(value)
}
const sub = (w: BinaryWriter, field: number, write: (w: BinaryWriter) => void): void => {
  w.tag(field, WireType.LengthDelimited).bytes(bytesOf(write))
}

function packed(
  w: BinaryWriter,
  field: number,
  values: readonly number[] | undefined,
  put: (p: BinaryWriter, v: number) => void,
): void {
  if (values === undefined) return
  sub(w, field, (p) => {
    for (const v of values) put(p, v)
  })
}

function writeTensor(w: BinaryWriter, t: TensorSpec): void {
  const f = fields.tensor
  for (const d of t.dims) int(w, f.dims, d)
  int(w, f.dataType, t.type)
  text(w, f.name, t.name)
  if (t.raw !== undefined) w.tag(f.rawData, WireType.LengthDelimited).bytes(t.raw)
  // Packed.
  packed(w, f.floatData, t.floats, (p, v) => p.float(v))
  packed(w, f.int32Data, t.int32s, (p, v) => p.int32(v))
  packed(w, f.int64Data, t.int64s, (p, v) => p.int64(v))
  packed(w, f.uint64Data, t.uint64s, (p, v) => p.uint64(v))
  // One at a time.
  for (const v of t.doubles ?? []) w.tag(f.doubleData, WireType.Bit64).double(v)
  if (t.external !== undefined) {
    for (const [key, value] of Object.entries(t.external))
      sub(w, f.externalData, (e) => {
        text(e, fields.entry.key, key)
        text(e, fields.entry.value, value)
      })
    int(w, f.dataLocation, 1)
  }
}

function writeAttribute(w: BinaryWriter, name: string, a: AttributeSpec): void {
  const f = fields.attribute
  text(w, f.name, name)
  const kind = (type: number): void => int(w, f.type, type)
  if (a.ref !== undefined) {
    text(w, f.refAttrName, a.ref)
    kind(a.refType ?? 2)
  } else if (a.int !== undefined) {
    int(w, f.i, a.int)
    kind(2)
  } else if (a.float !== undefined) {
    w.tag(f.f, WireType.Bit32).float(a.float)
    kind(1)
  } else if (a.string !== undefined) {
    w.tag(f.s, WireType.LengthDelimited).bytes(new TextEncoder().encode(a.string))
    kind(3)
  } else if (a.floats !== undefined) {
    for (const v of a.floats) w.tag(f.floats, WireType.Bit32).float(v)
    kind(6)
  } else if (a.ints !== undefined) {
    for (const v of a.ints) int(w, f.ints, v)
    kind(7)
  } else if (a.strings !== undefined) {
    for (const v of a.strings) w.tag(f.strings, WireType.LengthDelimited).bytes(new TextEncoder().encode(v))
    kind(8)
  } else if (a.tensor !== undefined) {
    const t = a.tensor
    sub(w, f.t, (s) => writeTensor(s, t))
    kind(4)
  } else if (a.graph !== undefined) {
    const g = a.graph
    sub(w, f.g, (s) => writeGraph(s, g))
    kind(5)
  }
}

function writeNode(w: BinaryWriter, n: NodeSpec): void {
  const f = fields.node
  for (const i of n.in) text(w, f.input, i)
  for (const o of n.out) text(w, f.output, o)
  if (n.name !== undefined) text(w, f.name, n.name)
  text(w, f.opType, n.op)
  if (n.domain !== undefined) text(w, f.domain, n.domain)
  for (const [name, a] of Object.entries(n.attrs ?? {})) sub(w, f.attribute, (s) => writeAttribute(s, name, a))
}

function writeValue(w: BinaryWriter, v: ValueSpec): void {
  text(w, fields.valueInfo.name, v.name)
  sub(w, fields.valueInfo.type, (type) =>
    sub(type, fields.type.tensor, (t) => {
      int(t, fields.tensorTypeProto.elemType, v.type)
      const { dims } = v
      if (dims === undefined) return
      sub(t, fields.tensorTypeProto.shape, (s) => {
        for (const d of dims)
          sub(s, fields.shape.dim, (e) =>
            typeof d === 'number' ? int(e, fields.dim.value, d) : text(e, fields.dim.param, d),
          )
      })
    }),
  )
}

function writeGraph(w: BinaryWriter, g: GraphSpec): void {
  const f = fields.graph
  for (const n of g.nodes) sub(w, f.node, (s) => writeNode(s, n))
  text(w, f.name, 'test')
  for (const t of g.initializers ?? []) sub(w, f.initializer, (s) => writeTensor(s, t))
  for (const v of g.inputs ?? []) sub(w, f.input, (s) => writeValue(s, v))
  for (const v of g.outputs) sub(w, f.output, (s) => writeValue(s, v))
}

function writeOpset(w: BinaryWriter, domain: string, version: number): void {
  if (domain !== '') text(w, fields.opset.domain, domain)
  int(w, fields.opset.version, version)
}

function writeFunction(w: BinaryWriter, fn: FunctionSpec, opset: number): void {
  const f = fields.function
  text(w, f.name, fn.name)
  text(w, f.domain, fn.domain)
  for (const i of fn.inputs) text(w, f.input, i)
  for (const o of fn.outputs) text(w, f.output, o)
  for (const a of fn.attributes ?? []) text(w, f.attribute, a)
  for (const n of fn.nodes) sub(w, f.node, (s) => writeNode(s, n))
  sub(w, f.opsetImport, (s) => writeOpset(s, '', opset))
}

export function encodeTensor(t: TensorSpec): Uint8Array {
  return bytesOf((w) => writeTensor(w, t))
}

export function encodeModel(m: ModelSpec): Uint8Array {
  const opset = m.opset ?? 21
  return bytesOf((w) => {
    const f = fields.model
    int(w, f.irVersion, 10)
    if (m.producer !== undefined) text(w, f.producerName, m.producer)
    if (m.producerVersion !== undefined) text(w, f.producerVersion, m.producerVersion)
    if (m.domain !== undefined) text(w, f.domain, m.domain)
    if (m.version !== undefined) int(w, f.modelVersion, m.version)
    if (m.description !== undefined) text(w, f.docString, m.description)
    for (const [key, value] of Object.entries(m.metadata ?? {}))
      sub(w, f.metadataProps, (s) => {
        text(s, fields.entry.key, key)
        text(s, fields.entry.value, value)
      })
    sub(w, fields.model.opsetImport, (s) => writeOpset(s, '', opset))
    for (const [domain, version] of Object.entries(m.opsets ?? {}))
      sub(w, fields.model.opsetImport, (s) => writeOpset(s, domain, version))
    sub(w, fields.model.graph, (s) => writeGraph(s, m))
    for (const fn of m.functions ?? []) sub(w, fields.model.functions, (s) => writeFunction(s, fn, opset))
  })
}
