/** Building nodes: shape inference, hash-consing within a context, provenance. */

import { UserError } from '../diagnostics/errors.ts'
import { currentOrigin } from '../diagnostics/origin.ts'
import { Setting } from '../diagnostics/setting.ts'
import { checkDType, type DType } from '../types/dtype.ts'
import { type Shape, sizeOf } from '../types/shape.ts'
import type { AttrsByOp, Node, NodeOf, OpName } from './node.ts'
import { type OpDef, opTable } from './table.ts'

let nextId = 1

/** Hash-consing is inside a context: equal (op, inputs, attributes) give one node there. */
export class GraphContext {
  readonly table = new Map<string, Node>()
}

const current = new Setting<GraphContext | undefined>(undefined)

/** Builds the nodes of `body` hash-consed in a context (its own, if none is given). Without a context every node is fresh. */
export function withContext<T>(body: () => T, context: GraphContext = new GraphContext()): T {
  return current.during(context, body)
}

const keeping = new Setting(false)

/** Builds views that take everything as nodes of their own: in a graph that stands for other extents they may take less there. */
export function keepingViews<T>(body: () => T): T {
  return keeping.during(true, body)
}

/** Whether views that take everything are nodes of their own. */
export const keepsViews = (): boolean => keeping.value

function keyOf(op: OpName, inputs: readonly Node[]): string {
  let key = `${op}(`
  for (let i = 0; i < inputs.length; i++) key += `${inputs[i]?.id},`
  return `${key})`
}

/** Makes (or finds) a node. Throws UserError on inputs the op is not defined on, E_OVERFLOW for a shape beyond 2^53 elements. */
export function makeNode<O extends OpName>(op: O, inputs: readonly Node[], attrs: AttrsByOp[O]): NodeOf<O> {
  const def = opTable[op] as unknown as OpDef<O>
  const least = typeof def.arity === 'number' ? def.arity : def.arity.atLeast
  if (inputs.length < least || (typeof def.arity === 'number' && inputs.length !== least))
    throw new UserError('E_ARGUMENT', `${op} takes ${least} inputs, not ${inputs.length}`)
  const context = def.boundary === 'effect' ? undefined : current.value
  const key = context !== undefined ? keyOf(op, inputs) + def.key(attrs) : ''
  const have = context?.table.get(key)
  if (have !== undefined) return have as NodeOf<O>
  const { shape, dtype } = def.infer(inputs, attrs)
  checkDType(dtype)
  sizeOf(shape)
  const node: NodeOf<O> = { id: nextId++, op, inputs, attrs, shape, dtype, origin: currentOrigin() }
  context?.table.set(key, node as Node)
  return node
}

/** A fresh parameter; `index` distinguishes the inputs of one program. */
export const param = (index: number, shape: Shape, dtype: DType): NodeOf<'param'> =>
  makeNode('param', [], { index, shape, dtype })

export const elementCount = (n: Node): number => sizeOf(n.shape)
