/** Protobuf messages read field by field; whatever is wrong with the bytes is a UserError E_ONNX_MALFORMED. */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { UserError } from '../diagnostics/errors.ts'

/** Graphs nest through attributes (If, Loop); deeper nesting than this is no model. */
const maxDepth = 64

export const malformed = (what: string, cause?: unknown): UserError =>
  new UserError('E_ONNX_MALFORMED', `the ONNX data is malformed: ${what}`, {
    help: 'check that the file is a complete ONNX model (or tensor) and was not truncated',
    ...(cause === undefined ? {} : { cause }),
  })

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const anyText = new TextDecoder()

/** Text as it stands: what is no UTF-8 has no name of its own, and two names must not become one. */
function decodeText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw malformed('it has a name or other text that is not UTF-8', cause)
  }
}

/** One message being read: visits every field; fields the visitor does not consume are skipped. */
export class MessageReader {
  readonly reader: BinaryReader
  readonly depth: number
  field = 0
  wire: WireType = WireType.Varint

  constructor(bytes: Uint8Array, depth: number) {
    if (depth > maxDepth) throw malformed(`messages nest more than ${maxDepth} deep`)
    this.reader = new BinaryReader(bytes, decodeText)
    this.depth = depth
  }

  /** Moves to the next field; false at the end. */
  next(): boolean {
    if (this.reader.pos >= this.reader.len) return false
    const [field, wire] = this.reader.tag()
    this.field = field
    this.wire = wire
    return true
  }

  skip(): void {
    this.reader.skip(this.wire, this.field)
  }

  private expect(wire: WireType): void {
    if (this.wire !== wire) throw malformed(`field ${this.field} has wire type ${this.wire}, not ${wire}`)
  }

  bytes(): Uint8Array {
    this.expect(WireType.LengthDelimited)
    return this.reader.bytes()
  }

  string(): string {
    this.expect(WireType.LengthDelimited)
    return this.reader.string()
  }

  /** Text that names nothing: what is no UTF-8 in it is replaced. */
  prose(): string {
    return anyText.decode(this.bytes())
  }

  sub(): MessageReader {
    return new MessageReader(this.bytes(), this.depth + 1)
  }

  int64(): bigint {
    this.expect(WireType.Varint)
    return BigInt(this.reader.int64())
  }

  /** An int64 that must be exact as a number. */
  int(): number {
    const v = this.int64()
    if (v > 0x1fffffffffffffn || v < -0x1fffffffffffffn) throw malformed(`${v} is out of range`)
    return Number(v)
  }

  int32(): number {
    this.expect(WireType.Varint)
    return this.reader.int32()
  }

  float(): number {
    this.expect(WireType.Bit32)
    return this.reader.float()
  }

  /** Repeated numbers, packed or one at a time. */
  repeated<T>(out: T[], wire: WireType, read: (r: BinaryReader) => T): void {
    if (this.wire !== WireType.LengthDelimited) {
      this.expect(wire)
      out.push(read(this.reader))
      return
    }
    const packed = new BinaryReader(this.reader.bytes())
    while (packed.pos < packed.len) out.push(read(packed))
  }
}

const asBig = (v: bigint | string): bigint => BigInt(v)
export const readInt64 = (r: BinaryReader): bigint => asBig(r.int64())
export const readUint64 = (r: BinaryReader): bigint => asBig(r.uint64())

/** Runs a decoder; whatever the wire reader objects to becomes E_ONNX_MALFORMED. */
export function guarded<T>(what: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof UserError) throw error
    throw malformed(`${what}: ${error instanceof Error ? error.message : String(error)}`, error)
  }
}
