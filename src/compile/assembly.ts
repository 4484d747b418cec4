/** A launch plan while it is assembled: steps, buffers and their roles, before memory is planned. */
import { invariant } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import type { Binding, BoundKernel, Launch } from '../lower/launch.ts'
import { storageOf } from '../plan/body/region.ts'
import { type StoredForms, storedBytes, storedShape } from '../plan/body/stored.ts'
import type { KernelGroup, LibraryCall } from '../plan/plan.ts'
import type { Formula, VaryingProduct } from '../runtime/extents.ts'
import type { BufferSource, ProgramBuffer, ProgramStep } from '../runtime/program.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'

export interface Draft {
  readonly dtype: ProgramBuffer['dtype']
  readonly shape: readonly number[]
  readonly bytes: number
  readonly format: 'plain' | 'bits'
  /** Its bytes in a launch, where they vary: `bytes` at most. */
  readonly varying?: Formula | undefined
  source: BufferSource | { readonly kind: 'unplaced' }
}

/** A whole number that follows from extents. */
export interface OpenNumber {
  readonly most: number
  readonly formula: Formula
}

/** What assembly asks about extents that vary. */
export interface OpenExtents {
  /** The most elements of a node and its bytes in a launch, where they vary. */
  sizeOf(node: Node): { readonly most: number; readonly bytes: Formula } | undefined
  /** The inputs of the program that launches fill, known once all else is. */
  params(): readonly Node[]
  /** A number of a node: the most that it is, and its formula, where it varies. */
  whole(node: Node, of: (node: Node) => number, what: string): OpenNumber | undefined
  /** A launch with its launch scalars declared and bound. */
  launch(made: Launch): Launch
  /** What varies of a library's product. */
  varying(call: LibraryCall): VaryingProduct | undefined
}

export class Assembly {
  readonly buffers: Draft[] = []
  readonly steps: ProgramStep[] = []
  private readonly byNode = new Map<Node, number>()
  readonly stored: StoredForms
  readonly open: OpenExtents | undefined

  constructor(stored: StoredForms, open?: OpenExtents) {
    this.stored = stored
    this.open = open
  }

  buffer(
    dtype: Draft['dtype'],
    shape: readonly number[],
    source: Draft['source'] = { kind: 'unplaced' },
    varying?: Formula,
  ): number {
    const bytes = sizeOf(shape) * dtypeBytes(dtype)
    this.buffers.push({ dtype, shape, bytes, format: 'plain', source, ...(varying === undefined ? {} : { varying }) })
    return this.buffers.length - 1
  }

  /** A buffer for the elements of a node. */
  bufferFor(node: Node, source: Draft['source']): number {
    const size = this.open?.sizeOf(node)
    return this.buffer(
      node.dtype,
      size === undefined ? storedShape(node, this.stored) : [size.most],
      source,
      size?.bytes,
    )
  }

  /** The buffer a node's elements stand in. */
  of(node: Node): number {
    const base = storageOf(node)
    const have = this.byNode.get(base)
    if (have !== undefined) return have
    const source: Draft['source'] =
      base.op === 'param'
        ? { kind: 'input', index: base.attrs.index }
        : base.op === 'constant'
          ? { kind: 'constant', data: base.attrs.data }
          : { kind: 'unplaced' }
    const id = this.bufferFor(base, source)
    const draft = this.buffers[id]
    if (draft !== undefined && this.stored.bits.has(base))
      this.buffers[id] = { ...draft, bytes: storedBytes(base, this.stored), format: 'bits' }
    this.byNode.set(base, id)
    return id
  }

  /** Steps of a launch, with buffers for its partial results. */
  launch(made: Launch, number: number): void {
    const partials = made.partials.map((p) => this.buffer(p.dtype, p.shape, { kind: 'unplaced' }))
    this.kernel(made.main, 'main', number, partials)
    for (const f of made.finishing) this.kernel(f, 'finishing', number, partials)
  }

  /** The library call of a group. */
  product(name: string, { body, outputs }: KernelGroup, call: LibraryCall, launch: number): void {
    const operand = (param: string): number => {
      const tensor = body.loads.get(param)
      invariant(tensor !== undefined, `the product has no operand ${param}`)
      return this.of(tensor.node)
    }
    const [out] = outputs
    invariant(out !== undefined, 'a product without result')
    const varying = this.open?.varying(call)
    const [a, b] = [operand(call.a), operand(call.b)]
    const to = this.of(out)
    for (const { product, calls } of call.parts ?? [call]) {
      const from = call.addend === undefined ? to : operand(call.addend)
      this.steps.push({
        ...{ kind: 'product', name, launch, product, calls, a, b, out: to },
        ...(product.addend === undefined ? {} : { addend: from }),
        ...(varying === undefined ? {} : { varying }),
      })
    }
  }

  private kernel(bound: BoundKernel, stage: 'main' | 'finishing', launch: number, partials: readonly number[]): void {
    const at = (b: Binding): number => {
      if (b.kind === 'node') return this.of(b.node)
      const id = partials[b.index]
      invariant(id !== undefined, 'a partial result without buffer')
      return id
    }
    const buffers = bound.bindings.map(at)
    for (const [i, p] of bound.kernel.params.entries())
      invariant(p.format === this.buffers[buffers[i] ?? -1]?.format, `${p.name} has another format than its buffer`)
    this.steps.push({ kind: 'kernel', stage, launch, kernel: bound.kernel, buffers })
  }
}
