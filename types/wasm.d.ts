/**
 * Ambient types of the WebAssembly JavaScript interface.
 *
 * The DOM library of TypeScript declares it, but brings the whole browser with it; `@types/node` 20 leaves it out.
 * Only what the W3C interface defines for MVP, SIMD and threads is declared here.
 */
declare namespace WebAssembly {
  type BufferSource = ArrayBufferView | ArrayBuffer
  type ValueType = 'i32' | 'i64' | 'f32' | 'f64' | 'v128' | 'externref' | 'anyfunc'
  type ImportExportKind = 'function' | 'global' | 'memory' | 'table'
  type TableKind = 'anyfunc' | 'externref'
  type ImportValue = ExportValue | number | bigint
  type ExportValue = ((...args: never) => unknown) | Global | Memory | Table
  type Exports = Record<string, ExportValue>
  type ModuleImports = Record<string, ImportValue>
  type Imports = Record<string, ModuleImports>

  interface MemoryDescriptor {
    /** Pages of 64 KiB. */
    initial: number
    /** Pages of 64 KiB; required when `shared` is true. */
    maximum?: number
    shared?: boolean
  }

  interface TableDescriptor {
    element: TableKind
    initial: number
    maximum?: number
  }

  interface GlobalDescriptor {
    value: ValueType
    mutable?: boolean
  }

  interface ModuleExportDescriptor {
    name: string
    kind: ImportExportKind
  }

  interface ModuleImportDescriptor {
    module: string
    name: string
    kind: ImportExportKind
  }

  interface WebAssemblyInstantiatedSource {
    module: Module
    instance: Instance
  }

  class Module {
    constructor(bytes: BufferSource)
    static exports(module: Module): ModuleExportDescriptor[]
    static imports(module: Module): ModuleImportDescriptor[]
    static customSections(module: Module, sectionName: string): ArrayBuffer[]
  }

  class Instance {
    constructor(module: Module, imports?: Imports)
    readonly exports: Exports
  }

  class Memory {
    constructor(descriptor: MemoryDescriptor)
    /** A `SharedArrayBuffer` when the memory is shared. */
    readonly buffer: ArrayBuffer | SharedArrayBuffer
    /** Grows by `delta` pages and returns the previous size in pages. */
    grow(delta: number): number
  }

  class Table {
    constructor(descriptor: TableDescriptor, value?: unknown)
    readonly length: number
    get(index: number): unknown
    set(index: number, value?: unknown): void
    grow(delta: number, value?: unknown): number
  }

  class Global {
    constructor(descriptor: GlobalDescriptor, value?: unknown)
    value: unknown
    valueOf(): unknown
  }

  class CompileError extends Error {}
  class LinkError extends Error {}
  class RuntimeError extends Error {}

  function validate(bytes: BufferSource): boolean
  function compile(bytes: BufferSource): Promise<Module>
  function instantiate(bytes: BufferSource, imports?: Imports): Promise<WebAssemblyInstantiatedSource>
  function instantiate(module: Module, imports?: Imports): Promise<Instance>
}
