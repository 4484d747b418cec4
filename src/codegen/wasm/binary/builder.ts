/** The builder of WebAssembly modules: types, imports, functions, exports. Function bodies: `function.ts`. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { FuncRef, Local } from './code.ts'
import { Bytes, type WasmType } from './encoder.ts'
import { FunctionBuilder } from './function.ts'

export type { Align, FuncRef, Label, Local, Operand } from './code.ts'
export type { WasmType } from './encoder.ts'
export { FunctionBuilder } from './function.ts'
export type { AtomicOp, LaneOp, LoadLaneOp, LoadOp, StoreLaneOp, StoreOp, WasmOp } from './opcodes.ts'

interface MemoryImport {
  readonly module: string
  readonly name: string
  /** Pages of 64 KiB. */
  readonly min: number
  readonly max?: number
  readonly shared?: boolean
}

/** Emits one module. Imports may be added at any time before `finish`, also while a body is under construction. */
export class ModuleBuilder {
  private readonly types = new Map<string, { readonly index: number; readonly bytes: Bytes }>()
  private memory: MemoryImport | undefined
  private readonly imports: { readonly module: string; readonly name: string; readonly type: number }[] = []
  private readonly importIndex = new Map<string, FuncRef>()
  private readonly functions: { readonly type: number; readonly body: FunctionBuilder }[] = []
  private readonly exports: { readonly name: string; readonly index: number }[] = []

  private typeIndex(params: readonly WasmType[], results: readonly WasmType[]): number {
    const key = `${params.join()}>${results.join()}`
    const found = this.types.get(key)
    if (found !== undefined) return found.index
    const bytes = new Bytes(16)
    bytes.byte(0x60)
    bytes.types(params)
    bytes.types(results)
    const index = this.types.size
    this.types.set(key, { index, bytes })
    return index
  }

  /** The module's one memory; `min` and `max` in pages of 64 KiB (`max` is required of a shared memory). */
  importMemory(
    module: string,
    name: string,
    limits: { readonly min: number; readonly max?: number; readonly shared?: boolean },
  ): void {
    this.memory = { module, name, ...limits }
  }

  /** An imported function; the same import again gives the same reference. */
  importFunction(module: string, name: string, params: readonly WasmType[], results: readonly WasmType[]): FuncRef {
    const key = `${module}\n${name}`
    const found = this.importIndex.get(key)
    if (found !== undefined) return found
    const ref: FuncRef = { kind: 'import', index: this.imports.length, params, results }
    this.imports.push({ module, name, type: this.typeIndex(params, results) })
    this.importIndex.set(key, ref)
    return ref
  }

  /** A function; `body` emits its code. The results are what stands on the stack at its end. */
  function(
    name: string,
    params: readonly WasmType[],
    results: readonly WasmType[],
    body: (f: FunctionBuilder, params: readonly Local[]) => void,
    options: { readonly export?: boolean } = {},
  ): FuncRef {
    const f = new FunctionBuilder(params)
    body(
      f,
      params.map((_, i) => f.param(i)),
    )
    const index = this.functions.length
    this.functions.push({ type: this.typeIndex(params, results), body: f })
    if (options.export === true) this.exports.push({ name, index })
    return { kind: 'defined', index, params, results }
  }

  /** Exports a function of this module under one more name. */
  export(name: string, { kind, index }: FuncRef): void {
    invariant(kind === 'defined', `${name} is imported`)
    this.exports.push({ name, index })
  }

  finish(): Uint8Array {
    const out = new Bytes(4096)
    out.bytes([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00])

    const types = new Bytes()
    for (const t of this.types.values()) types.append(t.bytes)
    out.section(1, this.types.size, types)

    const imports = new Bytes()
    for (const i of this.imports) {
      imports.name(i.module)
      imports.name(i.name)
      imports.byte(0x00)
      imports.u32(i.type)
    }
    if (this.memory !== undefined) {
      const { module, name, min, max, shared } = this.memory
      imports.name(module)
      imports.name(name)
      imports.byte(0x02)
      imports.byte((max === undefined ? 0 : 1) | (shared === true ? 2 : 0))
      imports.u32(min)
      if (max !== undefined) imports.u32(max)
    }
    out.section(2, this.imports.length + (this.memory === undefined ? 0 : 1), imports)

    const declared = new Bytes()
    for (const fn of this.functions) declared.u32(fn.type)
    out.section(3, this.functions.length, declared)

    const exports = new Bytes()
    for (const { name, index } of this.exports) {
      exports.name(name)
      exports.byte(0x00)
      exports.u32(this.imports.length + index)
    }
    out.section(7, this.exports.length, exports)

    const code = new Bytes(4096)
    for (const fn of this.functions) {
      const body = fn.body.encode(this.imports.length)
      code.u32(body.length)
      code.append(body)
    }
    out.section(10, this.functions.length, code)
    return out.view().slice()
  }
}
