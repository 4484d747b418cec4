/** Host values of nodes on demand, and which inputs a demanded value depends on. */
import { InternalError, UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import type { HostArray } from '../types/host.ts'
import { sizeOf } from '../types/shape.ts'
import type { HostTensor } from './tensors.ts'

/** A value that fixes shapes depends on these inputs: the import starts again with them specialised. */
export class NeedsInputValues extends Error {
  readonly names: readonly string[]
  /** The node that asked. */
  readonly reader: string
  constructor(names: readonly string[], reader: string) {
    super(`${reader} needs the values of ${names.join(', ')}`)
    this.names = names
    this.reader = reader
  }
}

/** A value is asked for that differs from step to step. */
export class NeedsStepValue extends Error {}

/** Elements up to which a computed tensor is evaluated during import. */
const heaviest = 2 ** 24

interface NamedParam {
  readonly name: string
  readonly own: HostTensor | undefined
}

export class HostValues {
  private readonly evaluate: (node: Node) => HostArray
  private readonly statics = new Map<Node, boolean>()
  private readonly known = new Map<Node, HostTensor>()
  private readonly params = new Map<Node, NamedParam>()

  constructor(evaluate: (node: Node) => HostArray) {
    this.evaluate = evaluate
  }

  /** `own`: the value of a parameter that the model itself has a value for. */
  nameParam(node: Node, name: string, own?: HostTensor): void {
    this.params.set(node, { name, own })
  }

  /** A parameter of a graph inside control flow: it has no value during the import. */
  markStep(node: Node): void {
    this.params.set(node, { name: '', own: undefined })
  }

  /** The model's own value of a parameter. */
  ownValue(node: Node): HostTensor | undefined {
    return this.params.get(node)?.own
  }

  /** Depends on no parameter but those the model has values for: asking for its value always succeeds. */
  isFixed(node: Node): boolean {
    return this.isStatic(node) || this.paramsBehind(node).every((p) => p.own !== undefined)
  }

  /** Depends on no parameter. */
  isStatic(node: Node): boolean {
    const stack: Node[] = [node]
    for (let x = stack.at(-1); x !== undefined; x = stack.at(-1)) {
      if (this.statics.has(x)) {
        stack.pop()
        continue
      }
      const open = x.inputs.filter((i) => !this.statics.has(i))
      if (open.length > 0) {
        stack.push(...open)
        continue
      }
      this.statics.set(x, x.op !== 'param' && x.op !== 'opaque' && x.inputs.every((i) => this.statics.get(i) === true))
      stack.pop()
    }
    return this.statics.get(node) === true
  }

  /** Computing the node passes through a computed tensor of more than `limit` elements. */
  isHeavy(node: Node, limit: number): boolean {
    const seen = new Set<Node>()
    const stack = [node]
    for (let x = stack.pop(); x !== undefined; x = stack.pop()) {
      if (seen.has(x)) continue
      seen.add(x)
      if (x.op !== 'constant' && sizeOf(x.shape) > limit) return true
      stack.push(...x.inputs)
    }
    return false
  }

  /** The parameters a node depends on. */
  private paramsBehind(node: Node): NamedParam[] {
    const seen = new Set<Node>()
    const found: NamedParam[] = []
    const stack = [node]
    for (let x = stack.pop(); x !== undefined; x = stack.pop()) {
      if (seen.has(x)) continue
      seen.add(x)
      const p = this.params.get(x)
      if (p !== undefined) found.push(p)
      stack.push(...x.inputs)
    }
    return found
  }

  /** The value of a node. Throws NeedsInputValues when it depends on inputs, NeedsStepValue inside control flow. */
  get(node: Node, reader: string): HostTensor {
    if (node.op === 'constant') return node.attrs
    const have = this.known.get(node)
    if (have !== undefined) return have
    if (!this.isStatic(node)) {
      const names = this.paramsBehind(node).map((p) => p.name)
      if (names.includes('')) throw new NeedsStepValue(`${reader} needs a value of a step`)
      if (names.length === 0) throw new InternalError(`${reader} asks for a value that is no function of inputs`)
      throw new NeedsInputValues(names, reader)
    }
    if (this.isHeavy(node, heaviest))
      throw new UserError('E_ONNX_UNSUPPORTED', `${reader} needs a value computed from more than ${heaviest} elements`)
    const t = { data: this.evaluate(node), shape: node.shape, dtype: node.dtype }
    this.known.set(node, t)
    return t
  }
}
