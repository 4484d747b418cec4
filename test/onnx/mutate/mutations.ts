/** Seeded mutations of models: of their bytes, and of their messages (names, nodes, attributes, extents, types, data). */
import { fields } from '../../../src/onnx/proto.ts'
import type { Rng } from '../../random/rng.ts'
import { allMessages, type Field, type Message, readMessage, writeMessage } from './messages.ts'

const text = (s: string): Uint8Array => new TextEncoder().encode(s)

const integers: readonly bigint[] = [
  ...[0n, 1n, 2n, 3n, 5n, 7n, 16n, 17n, 23n, 64n, 100n, 255n, 2048n, 65536n],
  ...[31n, 32n, 40n, 52n, 53n, 62n].flatMap((k) => [(1n << k) - 1n, 1n << k]),
  ...[-1n, -2n, -3n, -4n, -1n << 31n, -1n << 32n, -1n << 62n, -1n << 63n],
]
const reals = [0, -0, 1, -1, 0.5, 1e-30, 1e30, 3e38, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
const names: readonly Uint8Array[] = [
  ...[
    '',
    '__proto__',
    'constructor',
    'toString',
    'length',
    'x',
    'y',
    '0',
    '..',
    '\u0000',
    '\u001b[31m',
    'ai.onnx',
    'w'.repeat(5000),
  ].map(text),
  Uint8Array.of(0xff, 0xfe),
  Uint8Array.of(0xed, 0xa0, 0x80),
]

/** What mutants are made of besides the model itself. */
export interface Stock {
  /** Other models, whose parts are put into this one. */
  readonly others: readonly Message[]
  /** Names of operators. */
  readonly operators: readonly string[]
}

type Mutation = (root: Message, all: readonly Message[], rng: Rng, stock: Stock) => void

const fieldsOf = (all: readonly Message[], test: (f: Field, m: Message) => boolean): Field[] =>
  all.flatMap((m) => m.fields.filter((f) => test(f, m)))

/** A message that has fields. */
const someMessage = (all: readonly Message[], rng: Rng): Message | undefined => {
  const full = all.filter((m) => m.fields.length > 0)
  return full.length === 0 ? undefined : rng.pick(full)
}

function changeName(_: Message, all: readonly Message[], rng: Rng): void {
  const list = fieldsOf(all, (f) => f.wire === 'name')
  if (list.length === 0) return
  const [at, from] = [rng.pick(list), rng.pick(list)]
  if (at.wire === 'name' && from.wire === 'name') at.bytes = rng.chance(0.7) ? from.bytes : rng.pick(names)
}

function changeInteger(_: Message, all: readonly Message[], rng: Rng): void {
  const list = fieldsOf(all, (f) => f.wire === 'varint')
  if (list.length === 0) return
  const at = rng.pick(list)
  if (at.wire === 'varint') at.value = rng.chance(0.5) ? rng.pick(integers) : at.value + BigInt(rng.int(-2, 2))
}

function changeReal(_: Message, all: readonly Message[], rng: Rng): void {
  const list = fieldsOf(all, (f) => f.wire === 'fixed')
  if (list.length === 0) return
  const at = rng.pick(list)
  if (at.wire !== 'fixed') return
  const v = rng.pick(reals)
  at.bytes = new Uint8Array(at.bits === 32 ? Float32Array.of(v).buffer : Float64Array.of(v).buffer)
}

/** Data of tensors: an element set to an odd number, bytes changed, or another length. */
function changeData(_: Message, all: readonly Message[], rng: Rng): void {
  const list = fieldsOf(all, (f, m) => f.wire === 'bytes' && m.kind === 'tensor')
  if (list.length === 0) return
  const at = rng.pick(list)
  if (at.wire !== 'bytes') return
  const bytes = at.bytes.slice()
  const words = Math.floor(bytes.length / 8)
  if (words > 0 && rng.chance(0.6))
    new DataView(bytes.buffer).setBigInt64(8 * rng.int(0, words - 1), rng.pick(integers), true)
  else if (bytes.length > 0 && rng.chance(0.6)) bytes[rng.int(0, bytes.length - 1)] = rng.int(0, 255)
  at.bytes = rng.chance(0.8) ? bytes : bytes.subarray(0, rng.int(0, bytes.length))
}

function dropField(_: Message, all: readonly Message[], rng: Rng): void {
  const m = someMessage(all, rng)
  m?.fields.splice(rng.int(0, m.fields.length - 1), 1)
}

function duplicateField(_: Message, all: readonly Message[], rng: Rng): void {
  const m = someMessage(all, rng)
  if (m === undefined) return
  const f = rng.pick(m.fields)
  // A copy of its own: later mutations change one of both.
  const copy: Field =
    f.wire === 'message' ? { ...f, message: readMessage(writeMessage(f.message), f.message.kind) } : { ...f }
  m.fields.splice(rng.int(0, m.fields.length), 0, copy)
}

function moveField(_: Message, all: readonly Message[], rng: Rng): void {
  const m = someMessage(all, rng)
  const [f] = m?.fields.splice(rng.int(0, m.fields.length - 1), 1) ?? []
  if (m !== undefined && f !== undefined) m.fields.splice(rng.int(0, m.fields.length), 0, f)
}

/** A message replaced by, or joined to, one of the same kind from here or from another model. */
function graft(_: Message, all: readonly Message[], rng: Rng, stock: Stock): void {
  const holders = all.filter((m) => m.kind !== 'model' && m.fields.some((f) => f.wire === 'message'))
  if (holders.length === 0) return
  const holder = rng.pick(holders)
  const at = rng.pick(holder.fields.flatMap((f, i) => (f.wire === 'message' ? [i] : [])))
  const f = holder.fields[at]
  if (f?.wire !== 'message') return
  const source = rng.chance(0.5) ? all : allMessages(rng.pick(stock.others))
  const same = source.filter((m) => m.kind === f.message.kind)
  if (same.length === 0) return
  const message = readMessage(writeMessage(rng.pick(same)), f.message.kind)
  holder.fields.splice(at, rng.chance(0.7) ? 1 : 0, { no: f.no, wire: 'message', message })
}

function changeOperator(_: Message, all: readonly Message[], rng: Rng, stock: Stock): void {
  const list = fieldsOf(all, (f, m) => m.kind === 'node' && f.no === fields.node.opType)
  if (list.length === 0) return
  const at = rng.pick(list)
  if (at.wire === 'name') at.bytes = text(rng.pick(stock.operators))
}

/** Attributes of other nodes, whatever the operator. */
function addAttribute(_: Message, all: readonly Message[], rng: Rng, stock: Stock): void {
  const nodes = all.filter((m) => m.kind === 'node')
  const attributes = [...all, ...allMessages(rng.pick(stock.others))].filter((m) => m.kind === 'attribute')
  if (nodes.length === 0 || attributes.length === 0) return
  const message = readMessage(writeMessage(rng.pick(attributes)), 'attribute')
  rng.pick(nodes).fields.push({ no: fields.node.attribute, wire: 'message', message })
}

const mutations: readonly Mutation[] = [
  ...[changeName, changeName, changeInteger, changeInteger, changeInteger, changeReal, changeData, changeData],
  ...[dropField, duplicateField, moveField, graft, graft, changeOperator, addAttribute],
]

/** Bytes flipped, dropped, put in, doubled or cut off. */
function mutateBytes(bytes: Uint8Array, rng: Rng): Uint8Array {
  const out = [...bytes]
  for (let k = rng.int(1, 3); k > 0 && out.length > 0; k--) {
    const at = rng.int(0, out.length - 1)
    const how = rng.int(0, 5)
    if (how === 0) out[at] = (out[at] ?? 0) ^ (1 << rng.int(0, 7))
    else if (how === 1) out[at] = rng.pick([0, 1, 0x7f, 0x80, 0xff])
    else if (how === 2) out.splice(at, rng.int(1, 4))
    else if (how === 3) out.splice(at, 0, rng.int(0, 255))
    else if (how === 4) out.splice(at, 0, ...out.slice(at, at + rng.int(1, 32)))
    else if (rng.chance(0.2)) out.length = at
  }
  return Uint8Array.from(out)
}

/** A mutant of a model: a quarter by bytes, the others by messages, one to four mutations each. */
export function mutant(bytes: Uint8Array, rng: Rng, stock: Stock): Uint8Array {
  if (rng.chance(0.25)) return mutateBytes(bytes, rng)
  const root = readMessage(bytes, 'model')
  for (let k = rng.int(1, 4); k > 0; k--) rng.pick(mutations)(root, allMessages(root), rng, stock)
  return writeMessage(root)
}
