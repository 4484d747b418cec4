/** Host values of nodes on demand, and which inputs a demanded value depends on. */
import { InternalError, UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { graphBetween, inlineOutputs } from '../graph/subgraph.ts'
import type { HostArray } from '../types/host.ts'
import { literal } from './nodes.ts'
import type { HostTensor } from './tensors.ts'
import { workOf } from './work.ts'

/** What is wrong with the part of a model that a value decides on. */
export type Because = UserError | NeedsInputValues

/** A value that fixes shapes depends on these inputs, and some of them are not known. */
export class NeedsInputValues extends Error {
  /** The inputs whose values are missing. */
  readonly names: readonly string[]
  /** The node that asked. */
  readonly reader: string
  /** Why it asked: the value decides whether a part of the model runs that cannot be imported. */
  readonly because: Because | undefined
  constructor(names: readonly string[], reader: string, because?: Because) {
    super(`${reader} needs the values of ${names.join(', ')}`)
    this.names = names
    this.reader = reader
    this.because = because
  }
}

/** A value is asked for that differs from step to step. */
export class NeedsStepValue extends Error {
  readonly because: Because | undefined
  constructor(message: string, because?: Because) {
    super(message)
    this.because = because
  }
}

/** Most work of evaluating one value that is asked for, and of all of them. */
const heaviest = 2 ** 24
const heaviestOfAll = 2 ** 26

interface NamedParam {
  readonly name: string
  /** What it holds: the model's own value, or the one the caller gave. */
  readonly value: HostTensor | undefined
  readonly own: boolean
}

export class HostValues {
  private readonly evaluate: (node: Node) => HostArray
  private readonly statics = new Map<Node, boolean>()
  private readonly known = new Map<Node, HostTensor>()
  private readonly params = new Map<Node, NamedParam>()
  /** Names of parameters whose values were asked for: they must be constants. */
  readonly asked = new Set<string>()
  private work = 0

  constructor(evaluate: (node: Node) => HostArray) {
    this.evaluate = evaluate
  }

  /** A parameter, with the value that the model or the caller has for it. */
  nameParam(node: Node, name: string, value: HostTensor | undefined, own: boolean): void {
    this.params.set(node, { name, value, own })
  }

  /** A parameter of a graph inside control flow: it has no value during the import. */
  markStep(node: Node): void {
    this.params.set(node, { name: '', value: undefined, own: false })
  }

  /** The model's own value of a parameter. */
  ownValue(node: Node): HostTensor | undefined {
    const p = this.params.get(node)
    return p?.own === true ? p.value : undefined
  }

  /** Depends on no parameter but those the model has values for, or whose values were asked for: asking for its value always succeeds. */
  isFixed(node: Node): boolean {
    return this.isStatic(node) || this.paramsBehind(node).every(([, p]) => p.own || this.asked.has(p.name))
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

  /** Evaluating the node takes more than `limit`, or nobody knows how much. */
  isHeavy(node: Node, limit: number): boolean {
    return workOf([node], limit) > limit
  }

  /** The parameters a node depends on. */
  private paramsBehind(node: Node): (readonly [Node, NamedParam])[] {
    const seen = new Set<Node>()
    const found: (readonly [Node, NamedParam])[] = []
    const stack = [node]
    for (let x = stack.pop(); x !== undefined; x = stack.pop()) {
      if (seen.has(x)) continue
      seen.add(x)
      const p = this.params.get(x)
      if (p !== undefined) found.push([x, p])
      stack.push(...x.inputs)
    }
    return found
  }

  /**
   * The value of a node. The parameters it depends on are noted in `asked`. Throws NeedsInputValues where values of inputs are
   * missing, NeedsStepValue inside control flow; both say `because` on.
   */
  get(node: Node, reader: string, because?: Because): HostTensor {
    if (node.op === 'constant') return node.attrs
    const have = this.known.get(node)
    if (have !== undefined) return have
    const t = this.compute(this.isStatic(node) ? node : this.fixed(node, reader, because), reader)
    this.known.set(node, t)
    return t
  }

  /** The node with the values of parameters in their places. */
  private fixed(node: Node, reader: string, because: Because | undefined): Node {
    const params = this.paramsBehind(node)
    if (params.some(([, p]) => p.name === '')) throw new NeedsStepValue(`${reader} needs a value of a step`, because)
    if (params.length === 0) throw new InternalError(`${reader} asks for a value that is no function of inputs`)
    const missing = params.flatMap(([, p]) => (p.value === undefined ? [p.name] : []))
    if (missing.length > 0) throw new NeedsInputValues(missing, reader, because)
    for (const [, p] of params) this.asked.add(p.name)
    const graph = graphBetween(
      params.map(([x]) => x),
      [node],
    )
    const [result] = inlineOutputs(
      graph,
      params.flatMap(([, p]) => (p.value === undefined ? [] : literal(p.value))),
    )
    return result ?? node
  }

  private compute(node: Node, reader: string): HostTensor {
    if (node.op === 'constant') return node.attrs
    const work = workOf([node], heaviest)
    this.work += work
    if (work > heaviest || this.work > heaviestOfAll)
      throw new UserError(
        'E_ONNX_UNSUPPORTED',
        `${reader} needs a value that takes too long to compute during the import`,
        {
          help: 'what fixes shapes and counts should follow from a few numbers',
        },
      )
    return { data: this.evaluate(node), shape: node.shape, dtype: node.dtype }
  }
}
