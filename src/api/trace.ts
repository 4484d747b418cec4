/** Tracing: while a function runs under `jit`, operations on tensors build one graph. */
import { UserError } from '../diagnostics/errors.ts'
import { GraphContext, param, withContext } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import type { DType } from '../types/dtype.ts'
import type { Shape } from '../types/shape.ts'

/** One run of a function under `jit`. `Captured` stands for the concrete tensors it closes over. */
export class Trace<Captured extends object> {
  readonly params: NodeOf<'param'>[] = []
  /** Tensors closed over, in the order of their parameters, which follow the arguments'. */
  readonly captured: Captured[] = []
  readonly effects: Node[] = []
  readonly #context = new GraphContext()
  readonly #captures = new Map<object, Node>()
  #alive = true

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

  /** The parameter that a concrete tensor closed over is passed as. */
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
export const leaked = (what: string, where: string | undefined): UserError =>
  new UserError('E_LEAKED_TRACER', `${what} of a tensor that belongs to a finished jit trace`, {
    help: 'return it from the jitted function instead of storing it outside',
    ...(where === undefined ? {} : { where }),
  })
