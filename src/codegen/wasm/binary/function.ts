/** The builder of function bodies: typed instruction names, pooled locals, structured control flow, one pass into bytes. */
import { InternalError, invariant } from '../../../diagnostics/errors.ts'
import type { Align, FuncRef, Label, Local, Operand } from './code.ts'
import { Bytes, lengthOfU32, typeCode, type WasmType } from './encoder.ts'
import {
  type AtomicOp,
  type LaneOp,
  type LoadLaneOp,
  type LoadOp,
  opcodes,
  SIMD,
  type StoreLaneOp,
  type StoreOp,
  type WasmOp,
} from './opcodes.ts'
import { kindBits, Marks, slotsOf } from './slots.ts'

const alignLog2 = { 1: 0, 2: 1, 4: 2, 8: 3, 16: 4 } as const satisfies Record<Align, number>

const blockEmpty = 0x40

function codeOf(name: string): number {
  const code = opcodes.get(name)
  invariant(code !== undefined, `no opcode ${name}`)
  return code
}

/** Emits one function's body. Instructions take their operands from the wasm stack, as in the text format. */
export class FunctionBuilder {
  private readonly code = new Bytes(256)
  private readonly marks = new Marks()
  private readonly calls: { readonly at: number; readonly target: FuncRef }[] = []
  /** Locals released, by type. */
  private readonly free = new Map<WasmType, Local[]>()
  private readonly locals: WasmType[] = []
  /** Whether each local, by index, is in use. */
  private readonly live: boolean[] = []
  private depth = 0
  /** The local of the last instruction, where that is a local.set, else -1: a get right behind it makes it a tee. */
  private lastSet = -1
  /** Where that instruction begins and ends. */
  private setStart = 0
  private setEnd = 0
  private readonly params: readonly Local[]

  constructor(params: readonly WasmType[]) {
    this.params = params.map((type, index) => ({ index, type }))
  }

  /** Bytes of code so far. */
  get size(): number {
    return this.code.length
  }

  param(i: number): Local {
    const p = this.params[i]
    invariant(p !== undefined, `no parameter ${i}`)
    return p
  }

  /** A local of a type, fresh or released earlier: its value is undefined until set. */
  local(type: WasmType): Local {
    const pooled = this.free.get(type)?.pop()
    const l = pooled ?? { index: this.params.length + this.locals.length, type }
    if (pooled === undefined) this.locals.push(type)
    this.live[l.index] = true
    return l
  }

  /** Gives a local back for reuse. */
  release(...ls: readonly Local[]): void {
    for (const l of ls) {
      if (this.live[l.index] !== true) throw new InternalError(`local ${l.index} is released twice, or is a parameter`)
      this.live[l.index] = false
      const pool = this.free.get(l.type)
      if (pool === undefined) this.free.set(l.type, [l])
      else pool.push(l)
    }
  }

  get(l: Local): void {
    const { code, marks } = this
    if (this.lastSet === l.index && this.setEnd === code.length) {
      code.patch(this.setStart, 0x22)
      marks.replace('tee')
      this.lastSet = -1
      return
    }
    marks.add(code.length, 'get', l.index)
    code.numbered(0x20, l.index)
  }

  set(l: Local): void {
    const { code, marks } = this
    this.setStart = code.length
    marks.add(code.length, 'set', l.index)
    code.numbered(0x21, l.index)
    this.setEnd = code.length
    this.lastSet = l.index
  }

  tee(l: Local): void {
    this.marks.add(this.code.length, 'tee', l.index)
    this.code.numbered(0x22, l.index)
  }

  /** Pops the top of the stack into a local of the type. */
  toLocal(type: WasmType): Local {
    const l = this.local(type)
    this.set(l)
    return l
  }

  i32Const(n: number): void {
    // Of these the signed form is the unsigned one.
    if (n >= 0 && n < 0x40) {
      this.code.numbered(0x41, n)
      return
    }
    this.code.byte(0x41)
    this.code.i32(n)
  }

  i64Const(n: bigint): void {
    this.code.byte(0x42)
    this.code.i64(n)
  }

  f32Const(x: number): void {
    this.code.byte(0x43)
    this.code.f32(x)
  }

  f64Const(x: number): void {
    this.code.byte(0x44)
    this.code.f64(x)
  }

  /** Sixteen bytes, lowest first. */
  v128Const(bytes: Uint8Array | readonly number[]): void {
    invariant(bytes.length === 16, 'a v128 has sixteen bytes')
    this.code.opcode((SIMD << 16) | 12)
    this.code.bytes(bytes)
  }

  f32x4Const(x: number): void {
    this.code.opcode((SIMD << 16) | 12)
    for (let i = 0; i < 4; i++) this.code.f32(x)
  }

  f64x2Const(x: number): void {
    this.code.opcode((SIMD << 16) | 12)
    for (let i = 0; i < 2; i++) this.code.f64(x)
  }

  i32x4Const(a: number, b = a, c = a, d = a): void {
    this.code.opcode((SIMD << 16) | 12)
    for (const x of [a, b, c, d]) for (let i = 0; i < 32; i += 8) this.code.byte((x >>> i) & 0xff)
  }

  i64x2Const(x: bigint): void {
    this.code.opcode((SIMD << 16) | 12)
    const v = BigInt.asUintN(64, x)
    for (let k = 0; k < 2; k++) for (let i = 0n; i < 64n; i += 8n) this.code.byte(Number((v >> i) & 0xffn))
  }

  /** An instruction without immediates. */
  op(name: WasmOp): void {
    this.code.opcode(codeOf(name))
  }

  /** An instruction by its code (`opcodes`), with its lane if it has one. */
  instruction(code: number, lane?: number): void {
    this.code.opcode(code)
    if (lane !== undefined) this.code.byte(lane)
  }

  /** A load or store by its code, aligned to a power of two, with its lane if it has one. */
  access(code: number, align: number, offset: number, lane?: number): void {
    this.code.opcode(code)
    this.code.numbered(31 - Math.clz32(align), offset)
    if (lane !== undefined) this.code.byte(lane)
  }

  /** Several instructions without immediates. */
  ops(...names: readonly WasmOp[]): void {
    for (const name of names) this.op(name)
  }

  private memarg(align: Align, offset: number): void {
    this.code.u32(alignLog2[align])
    this.code.u32(offset)
  }

  /** Pops an address, pushes the value at `address + offset`. */
  load(op: LoadOp, align: Align, offset = 0): void {
    this.code.opcode(codeOf(op))
    this.memarg(align, offset)
  }

  /** Pops a value, then an address. */
  store(op: StoreOp, align: Align, offset = 0): void {
    this.code.opcode(codeOf(op))
    this.memarg(align, offset)
  }

  /** Lane extraction and replacement. */
  lane(op: LaneOp, lane: number): void {
    this.code.opcode(codeOf(op))
    this.code.byte(lane)
  }

  /** Pops a vector, then an address; pushes the vector with one lane loaded. */
  loadLane(op: LoadLaneOp, align: Align, offset: number, lane: number): void {
    this.code.opcode(codeOf(op))
    this.memarg(align, offset)
    this.code.byte(lane)
  }

  /** Pops a vector, then an address; stores one lane. */
  storeLane(op: StoreLaneOp, align: Align, offset: number, lane: number): void {
    this.code.opcode(codeOf(op))
    this.memarg(align, offset)
    this.code.byte(lane)
  }

  /** i8x16.shuffle with sixteen byte lanes of the concatenation of two vectors. */
  shuffle(lanes: readonly number[]): void {
    invariant(lanes.length === 16, 'a byte shuffle has sixteen lanes')
    this.code.opcode((SIMD << 16) | 13)
    this.code.bytes(lanes)
  }

  /** A shuffle of whole 32-bit lanes: 0..3 from the first vector, 4..7 from the second. */
  shuffle32(a: number, b: number, c: number, d: number): void {
    this.shuffle([a, b, c, d].flatMap((l) => [4 * l, 4 * l + 1, 4 * l + 2, 4 * l + 3]))
  }

  /**
   * An atomic instruction at natural alignment. Locals do not survive `memory.atomic.wait*` in the baseline tier of
   * V8 11.3 (Node 20): keep each wait in a function of its own whose only instruction it is.
   */
  atomic(op: AtomicOp, offset = 0): void {
    this.code.opcode(codeOf(op))
    this.memarg(op.startsWith('i64') || op === 'memory.atomic.wait64' ? 8 : 4, offset)
  }

  atomicFence(): void {
    this.code.bytes([0xfe, 0x03, 0x00])
  }

  /** Pops length, source, destination. */
  memoryCopy(): void {
    this.code.bytes([0xfc, 0x0a, 0x00, 0x00])
  }

  /** Pops length, byte value, destination. */
  memoryFill(): void {
    this.code.bytes([0xfc, 0x0b, 0x00])
  }

  private structured(code: number, result: WasmType | undefined, body: (label: Label) => void): void {
    this.marks.add(this.code.length, code === 0x03 ? 'loop' : 'block')
    this.code.byte(code)
    this.code.byte(result === undefined ? blockEmpty : typeCode(result))
    this.depth++
    body({ depth: this.depth })
    this.depth--
    this.marks.add(this.code.length, 'end')
    this.code.byte(0x0b)
    this.lastSet = -1
  }

  /** A branch to the label leaves the block. */
  block(body: (label: Label) => void, result?: WasmType): void {
    this.structured(0x02, result, body)
  }

  /** A branch to the label starts the next round; falling off the end leaves the loop. */
  loop(body: (label: Label) => void): void {
    this.structured(0x03, undefined, body)
  }

  /** Pops a condition. */
  if(then: (label: Label) => void, otherwise?: (label: Label) => void, result?: WasmType): void {
    this.structured(0x04, result, (label) => {
      then(label)
      if (otherwise === undefined) return
      this.marks.add(this.code.length, 'else')
      this.code.byte(0x05)
      otherwise(label)
    })
  }

  br(label: Label): void {
    this.code.byte(0x0c)
    this.code.u32(this.depth - label.depth)
  }

  /** Pops a condition. */
  brIf(label: Label): void {
    this.code.byte(0x0d)
    this.code.u32(this.depth - label.depth)
  }

  return(): void {
    this.code.byte(0x0f)
  }

  call(target: FuncRef): void {
    this.code.byte(0x10)
    this.calls.push({ at: this.code.length, target })
    this.code.paddedU32(0)
  }

  /** Pushes an i32 operand. */
  push(x: Operand): void {
    if (typeof x === 'number') this.i32Const(x)
    else if (typeof x === 'function') x()
    else this.get(x)
  }

  /** `for (counter = from; counter < to; counter += step) body()`, compared as signed integers; `to` is pushed each round. */
  forLoop(counter: Local, from: Operand, to: Operand, step: Operand, body: () => void): void {
    const inRange = (): void => {
      this.get(counter)
      this.push(to)
      this.op('i32.lt_s')
    }
    this.push(from)
    this.set(counter)
    const runsOnce = typeof from === 'number' && typeof to === 'number' && from < to
    const rounds = (): void =>
      this.loop((again) => {
        body()
        this.get(counter)
        this.push(step)
        this.op('i32.add')
        this.set(counter)
        inRange()
        this.brIf(again)
      })
    if (runsOnce) {
      rounds()
      return
    }
    inRange()
    this.if(rounds)
  }

  /** The encoded body, its calls resolved against the number of imported functions. */
  encode(imports: number): Bytes {
    const { code, marks, calls } = this
    for (const { at, target } of calls)
      code.patchU32(at, target.kind === 'import' ? target.index : imports + target.index)
    const params = this.params.length
    // By local, its number among all slots; -1: it keeps its own.
    const { slot: places, counts } = slotsOf(marks, params, this.locals)
    const first = new Map<WasmType, number>()
    const out = new Bytes(code.length + 16)
    out.u32(counts.size)
    let next = params
    for (const [type, n] of counts) {
      first.set(type, next)
      next += n
      out.u32(n)
      out.byte(typeCode(type))
    }
    for (const [i, type] of this.locals.entries()) {
      const place = places[params + i] ?? -1
      if (place >= 0) places[params + i] = (first.get(type) ?? 0) + place
    }
    // The code with its locals under their slots: what lies between two of them is a few bytes.
    const { data, length } = marks
    const written = code.view()
    const own = new Uint8Array(written.length + 4 * length)
    let to = 0
    let from = 0
    for (let i = 0; i < 2 * length; i += 2) {
      const local = (data[i + 1] ?? 0) >> kindBits
      let place = places[local] ?? -1
      if (place < 0) continue
      const at = (data[i] ?? 0) + 1
      while (from < at) own[to++] = written[from++] ?? 0
      for (; place >= 0x80; place >>>= 7) own[to++] = (place & 0x7f) | 0x80
      own[to++] = place
      from = at + (local < 0x80 ? 1 : lengthOfU32(local))
    }
    out.bytes(own.subarray(0, to))
    out.bytes(written.subarray(from))
    out.byte(0x0b)
    return out
  }
}
