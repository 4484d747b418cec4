/** Protobuf messages of models as trees that can be changed and written again, malformed or not: what mutations work on. */
import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { fields } from '../../../src/onnx/proto.ts'

/** Which fields of a message are messages, and which are names. Others are numbers or bytes by their wire type. */
interface Kind {
  readonly messages: Readonly<Record<number, KindName>>
  readonly names: readonly number[]
}
export type KindName = keyof typeof kinds

const { model, opset, graph, node, attribute, tensor, entry, valueInfo, type, tensorTypeProto, shape, dim } = fields
const fn = fields.function

export const kinds = {
  model: {
    messages: { [model.opsetImport]: 'opset', [model.graph]: 'graph', [model.functions]: 'function' },
    names: [],
  },
  opset: { messages: {}, names: [opset.domain] },
  graph: {
    messages: {
      [graph.node]: 'node',
      [graph.initializer]: 'tensor',
      [graph.input]: 'valueInfo',
      [graph.output]: 'valueInfo',
    },
    names: [graph.name],
  },
  node: {
    messages: { [node.attribute]: 'attribute' },
    names: [node.input, node.output, node.name, node.opType, node.domain],
  },
  attribute: {
    messages: {
      [attribute.t]: 'tensor',
      [attribute.g]: 'graph',
      [attribute.tensors]: 'tensor',
      [attribute.graphs]: 'graph',
    },
    names: [attribute.name, attribute.refAttrName, attribute.s],
  },
  tensor: { messages: { [tensor.externalData]: 'entry' }, names: [tensor.name] },
  entry: { messages: {}, names: [entry.key, entry.value] },
  valueInfo: { messages: { [valueInfo.type]: 'type' }, names: [valueInfo.name] },
  type: { messages: { [type.tensor]: 'tensorType' }, names: [] },
  tensorType: { messages: { [tensorTypeProto.shape]: 'shape' }, names: [] },
  shape: { messages: { [shape.dim]: 'dim' }, names: [] },
  dim: { messages: {}, names: [dim.param] },
  function: {
    messages: { [fn.node]: 'node', [fn.opsetImport]: 'opset', [fn.attributeProto]: 'attribute' },
    names: [fn.name, fn.input, fn.output, fn.attribute, fn.domain],
  },
} as const satisfies Readonly<Record<string, { messages: Readonly<Record<number, string>>; names: readonly number[] }>>

const kindOf = (name: KindName): Kind => kinds[name]

export type Field = { readonly no: number } & (
  | { readonly wire: 'message'; readonly message: Message }
  | { readonly wire: 'name' | 'bytes'; bytes: Uint8Array }
  | { readonly wire: 'varint'; value: bigint }
  | { readonly wire: 'fixed'; readonly bits: 32 | 64; bytes: Uint8Array }
)

export interface Message {
  readonly kind: KindName
  readonly fields: Field[]
}

/** The tree of a well-formed message. */
export function readMessage(bytes: Uint8Array, kind: KindName): Message {
  const r = new BinaryReader(bytes)
  const out: Field[] = []
  const { messages, names } = kindOf(kind)
  while (r.pos < r.len) {
    const [no, wire] = r.tag()
    const inner = messages[no]
    if (wire === WireType.Varint) out.push({ no, wire: 'varint', value: BigInt(r.int64()) })
    else if (wire === WireType.LengthDelimited) {
      const body = r.bytes()
      if (inner !== undefined) out.push({ no, wire: 'message', message: readMessage(body, inner) })
      else out.push({ no, wire: names.includes(no) ? 'name' : 'bytes', bytes: body.slice() })
    } else {
      const bits = wire === WireType.Bit32 ? 32 : 64
      const start = r.pos
      r.skip(wire, no)
      out.push({ no, wire: 'fixed', bits, bytes: bytes.slice(start, r.pos) })
    }
  }
  return { kind, fields: out }
}

export function writeMessage(m: Message): Uint8Array {
  const w = new BinaryWriter()
  for (const f of m.fields)
    switch (f.wire) {
      case 'varint':
        w.tag(f.no, WireType.Varint).int64(BigInt.asIntN(64, f.value))
        break
      case 'message':
        w.tag(f.no, WireType.LengthDelimited).bytes(writeMessage(f.message))
        break
      case 'fixed':
        w.tag(f.no, f.bits === 32 ? WireType.Bit32 : WireType.Bit64).raw(f.bytes)
        break
      default:
        w.tag(f.no, WireType.LengthDelimited).bytes(f.bytes)
    }
  return w.finish()
}

/** Every message of a tree. */
export function allMessages(m: Message, into: Message[] = []): Message[] {
  into.push(m)
  for (const f of m.fields) if (f.wire === 'message') allMessages(f.message, into)
  return into
}
