/** Tracing: while a function runs under `jit` or a transform, operations on tensors build one graph. */
import { UserError } from '../../diagnostics/errors.ts'
import { GraphContext, param, withContext } from '../../graph/build.ts'
import type { Graph, Node, NodeOf } from '../../graph/node.ts'
import type { DType } from '../../types/dtype.ts'
import type { Shape } from '../../types/shape.ts'

/** What a function is traced for. */
export interface Purpose {
  /** The user's call: `jit`, `grad`, `vmap`. */
  readonly name: string
  /**
   * Whether the graph is a program of its own, which closes over values only. Otherwise it is applied where it was traced, and
   * closes over pending tensors and those of enclosing traces too.
   */
  readonly program: boolean
  /** Whether the graph is differentiated in its arguments. */
  readonly differentiated?: boolean
}

/** Functions traced inside one another, at most: graphs nest as deep, and passes over them recurse. */
const maxNesting = 64

/** One run of a function under `jit` or a transform. `Captured` stands for the tensors it closes over. */
export class Trace<Captured extends object> {
  readonly purpose: Purpose
  /** The trace in which this one runs. */
  readonly outer: Trace<Captured> | undefined
  /** Traces around this one. */
  readonly depth: number
  readonly params: NodeOf<'param'>[] = []
  /** Tensors closed over, in the order of their parameters, which follow the arguments'. */
  readonly captured: Captured[] = []
  readonly effects: Node[] = []
  readonly #context = new GraphContext()
  readonly #captures = new Map<object, Node>()
  #alive = true

  constructor(purpose: Purpose, outer: Trace<Captured> | undefined) {
    this.purpose = purpose
    this.outer = outer
    this.depth = outer === undefined ? 0 : outer.depth + 1
    if (this.depth >= maxNesting)
      throw new UserError(
        'E_STRUCTURE',
        `functions that are traced nest deeper than ${maxNesting}, here for ${purpose.name}`,
        {
          help: 'write what calls itself as a loop: foriLoop or scan over what changes, or a loop of the language',
        },
      )
  }

  /** Whether the traced function is still running. */
  get alive(): boolean {
    return this.#alive
  }

  /** A parameter for an argument. */
  addParam(shape: Shape, dtype: DType): Node {
    const p = param(this.params.length, shape, dtype)
    this.params.push(p)
    return p
  }

  /** The parameter that a tensor closed over is passed as. */
  capture(tensor: Captured, identity: object, shape: Shape, dtype: DType): Node {
    const have = this.#captures.get(identity)
    if (have !== undefined) return have
    const p = this.addParam(shape, dtype)
    this.#captures.set(identity, p)
    this.captured.push(tensor)
    return p
  }

  /** Runs the function; its operations build nodes here. */
  run<R>(body: () => R): R {
    try {
      return withContext(body, this.#context)
    } finally {
      this.#alive = false
    }
  }

  graph(outputs: readonly Node[]): Graph {
    return { params: this.params, outputs, effects: this.effects }
  }
}

/** A tracer used after its function returned. */
export const leaked = (what: string, of: string, where: string | undefined): UserError =>
  new UserError('E_LEAKED_TRACER', `${what} of a tensor that belongs to a finished ${of} trace`, {
    help: `return it from the ${of === 'jit' ? 'jitted function' : `function given to ${of}`} instead of storing it outside`,
    ...(where === undefined ? {} : { where }),
  })
