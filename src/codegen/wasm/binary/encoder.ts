/** Bytes of a WebAssembly module: a growing buffer with LEB128, the value types and the layout of sections. */

export type WasmType = 'i32' | 'i64' | 'f32' | 'f64' | 'v128'

const typeCodes = { i32: 0x7f, i64: 0x7e, f32: 0x7d, f64: 0x7c, v128: 0x7b } as const satisfies Record<WasmType, number>

export const typeCode = (t: WasmType): number => typeCodes[t]

/** Bytes of an unsigned LEB128. */
export const lengthOfU32 = (n: number): number =>
  n < 2 ** 7 ? 1 : n < 2 ** 14 ? 2 : n < 2 ** 21 ? 3 : n < 2 ** 28 ? 4 : 5

const utf8 = new TextEncoder()
const scratch = new DataView(new ArrayBuffer(8))
const eight = new Uint8Array(scratch.buffer)
const four = eight.subarray(0, 4)

/** A growing byte buffer. */
export class Bytes {
  private data: Uint8Array
  length = 0

  constructor(capacity = 256) {
    this.data = new Uint8Array(capacity)
  }

  private reserve(n: number): void {
    const need = this.length + n
    if (need <= this.data.length) return
    const grown = new Uint8Array(Math.max(need, this.data.length * 2))
    grown.set(this.data.subarray(0, this.length))
    this.data = grown
  }

  byte(b: number): void {
    if (this.length === this.data.length) this.reserve(1)
    this.data[this.length++] = b
  }

  /** Overwrites a byte already written. */
  patch(at: number, b: number): void {
    this.data[at] = b
  }

  bytes(b: Uint8Array | readonly number[]): void {
    this.reserve(b.length)
    this.data.set(b, this.length)
    this.length += b.length
  }

  append(other: Bytes): void {
    this.bytes(other.view())
  }

  /** Unsigned LEB128 of a number below 2^32. */
  u32(n: number): void {
    if (n >= 0 && n < 0x80) {
      this.byte(n)
      return
    }
    let v = n >>> 0
    while (v >= 0x80) {
      this.byte((v & 0x7f) | 0x80)
      v >>>= 7
    }
    this.byte(v)
  }

  /** A byte, and a number below 2^32 in unsigned LEB128: most of what functions are made of. */
  numbered(b: number, n: number): void {
    if (this.length + 3 > this.data.length) this.reserve(3)
    this.data[this.length++] = b
    if (n >= 0 && n < 0x80) this.data[this.length++] = n
    else if (n >= 0 && n < 0x4000) {
      this.data[this.length++] = (n & 0x7f) | 0x80
      this.data[this.length++] = n >>> 7
    } else this.u32(n)
  }

  /** An instruction's code: one byte; above 16 bits, those are a prefix before a number. */
  opcode(code: number): void {
    if (code > 0xffff) this.numbered(code >>> 16, code & 0xffff)
    else this.byte(code)
  }

  /** Unsigned LEB128 in exactly five bytes, to be patched by `patchU32`. */
  paddedU32(n: number): void {
    const at = this.length
    this.bytes([0, 0, 0, 0, 0])
    this.patchU32(at, n)
  }

  patchU32(at: number, n: number): void {
    for (let i = 0; i < 5; i++) this.data[at + i] = ((n >>> (7 * i)) & 0x7f) | (i < 4 ? 0x80 : 0)
  }

  /** Signed LEB128 of a 32-bit integer. */
  i32(n: number): void {
    let v = n | 0
    for (;;) {
      const low = v & 0x7f
      v >>= 7
      if ((v === 0 && (low & 0x40) === 0) || (v === -1 && (low & 0x40) !== 0)) {
        this.byte(low)
        return
      }
      this.byte(low | 0x80)
    }
  }

  /** Signed LEB128 of a 64-bit integer (taken modulo 2^64). */
  i64(n: bigint): void {
    let v = BigInt.asIntN(64, n)
    for (;;) {
      const low = Number(v & 0x7fn)
      v >>= 7n
      if ((v === 0n && (low & 0x40) === 0) || (v === -1n && (low & 0x40) !== 0)) {
        this.byte(low)
        return
      }
      this.byte(low | 0x80)
    }
  }

  f32(x: number): void {
    scratch.setFloat32(0, x, true)
    this.bytes(four)
  }

  f64(x: number): void {
    scratch.setFloat64(0, x, true)
    this.bytes(eight)
  }

  name(s: string): void {
    const b = utf8.encode(s)
    this.u32(b.length)
    this.bytes(b)
  }

  types(list: readonly WasmType[]): void {
    this.u32(list.length)
    for (const t of list) this.byte(typeCodes[t])
  }

  /** A section: its id, its length and its content; an empty one is left out. */
  section(id: number, count: number, content: Bytes): void {
    if (count === 0) return
    const head = new Bytes(8)
    head.u32(count)
    this.byte(id)
    this.u32(head.length + content.length)
    this.append(head)
    this.append(content)
  }

  /** What has been written, without a copy. */
  view(): Uint8Array {
    return this.data.subarray(0, this.length)
  }
}
