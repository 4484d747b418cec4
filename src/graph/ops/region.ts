/** Ops with graphs inside: control flow, functions with derivative rules of their own, and `result`, which reads their values. */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { isFloat } from '../../types/dtype.ts'
import { sameShape, showShape } from '../../types/shape.ts'
import type { AttrsByOp, Graph, Node, NodeOf, TensorType } from '../node.ts'
import type { OpDef } from '../op.ts'
import { identity } from './identity.ts'

const handle = { shape: [], dtype: 'bool' } as const

const show = (t: TensorType): string => `${t.dtype}${showShape(t.shape)}`

function expectTypes(found: readonly TensorType[], wanted: readonly TensorType[], what: string): void {
  if (found.length !== wanted.length)
    throw new UserError('E_STRUCTURE', `${what}: ${found.length} tensors where ${wanted.length} are wanted`)
  found.forEach((f, i) => {
    const w = wanted[i]
    if (w !== undefined && (f.dtype !== w.dtype || !sameShape(f.shape, w.shape)))
      throw new UserError('E_SHAPE', `${what}: number ${i} is ${show(f)} where ${show(w)} is wanted`)
  })
}

function expectTest(n: TensorType | undefined, what: string): void {
  if (n === undefined || n.dtype !== 'bool' || n.shape.length > 0)
    throw new UserError('E_DTYPE', `${what} is ${n === undefined ? 'missing' : show(n)}, not a bool scalar`)
}

const element = (t: TensorType): TensorType => ({ shape: t.shape.slice(1), dtype: t.dtype })

function closed(g: Graph, what: string): void {
  if (g.effects.length > 0)
    throw new UserError('E_UNSUPPORTED', `an effect inside ${what}`, { help: 'inspect its results instead' })
}

const floatsOf = (types: readonly TensorType[]): TensorType[] => types.filter((t) => isFloat(t.dtype))

/** Throws unless a function's derivative rule has the parameters and outputs its kind promises. */
function expectRule({ body, rule }: AttrsByOp['custom']): void {
  const { name } = rule
  const count = body.outputs.length
  // Asking a deferred rule for its graphs would make them.
  if (rule.deferred === true) return
  if (rule.kind === 'jvp') {
    closed(rule.graph, `the derivative of ${name}`)
    expectTypes(rule.graph.params, [...body.params, ...floatsOf(body.params)], `inputs of the derivative of ${name}`)
    expectTypes(
      rule.graph.outputs,
      [...body.outputs, ...floatsOf(body.outputs)],
      `results of the derivative of ${name}`,
    )
    return
  }
  const { forward, backward } = rule
  closed(forward, `the forward rule of ${name}`)
  closed(backward, `the backward rule of ${name}`)
  expectTypes(forward.params, body.params, `inputs of the forward rule of ${name}`)
  expectTypes(forward.outputs.slice(0, count), body.outputs, `results of the forward rule of ${name}`)
  const given = [...forward.outputs.slice(count), ...floatsOf(body.outputs)]
  expectTypes(backward.params, given, `inputs of the backward rule of ${name}`)
  expectTypes(backward.outputs, floatsOf(body.params), `gradients of the backward rule of ${name}`)
}

/** Ops that hold graphs: all of the family but `result`. */
export type RegionOp = 'cond' | 'while' | 'loop' | 'custom' | 'customLinear'

/** A node whose values `result` nodes read. */
export const isRegion = (node: Node): node is Extract<Node, { readonly op: RegionOp }> =>
  node.op !== 'result' && node.op in regionOps

/** What a user reads where the forward derivative of a function is asked for that has a rule for reverse mode alone. */
export const noForwardRule = (node: NodeOf<'customLinear'>): UserError =>
  new UserError('E_UNSUPPORTED', `forward mode through ${node.attrs.name}, which has a rule for reverse mode alone`, {
    help: 'differentiate it in reverse mode, or give it a rule for forward mode (customJvp)',
    ...(node.origin.where === undefined ? {} : { where: node.origin.where }),
  })

/** A graph inside a node, and what it is there. */
export interface GraphInside {
  readonly role: string
  readonly graph: Graph
}

/** Every graph inside a node. */
export function graphsInside(node: Node): readonly GraphInside[] {
  switch (node.op) {
    case 'cond':
      return [
        { role: 'then', graph: node.attrs.then },
        { role: 'otherwise', graph: node.attrs.otherwise },
      ]
    case 'while':
      return [
        { role: 'test', graph: node.attrs.test },
        { role: 'body', graph: node.attrs.body },
      ]
    case 'loop':
      return [{ role: 'body', graph: node.attrs.body }]
    case 'custom': {
      const { body, rule } = node.attrs
      if (rule.deferred === true) return [{ role: 'body', graph: body }]
      const rules =
        rule.kind === 'jvp'
          ? [{ role: 'derivative', graph: rule.graph }]
          : [
              { role: 'forward', graph: rule.forward },
              { role: 'backward', graph: rule.backward },
            ]
      return [{ role: 'body', graph: body }, ...rules]
    }
    case 'customLinear':
      return [{ role: 'backward', graph: node.attrs.backward }]
    default:
      return []
  }
}

/** The values of a region node, in order. */
export function regionResults(node: Node): readonly TensorType[] {
  switch (node.op) {
    case 'cond':
      return node.attrs.then.outputs
    case 'while':
      return node.attrs.body.outputs
    case 'loop': {
      const { body, carries, length } = node.attrs
      return body.outputs.map((o, i) => (i < carries ? o : { shape: [length, ...o.shape], dtype: o.dtype }))
    }
    case 'custom':
      return node.attrs.body.outputs
    case 'customLinear':
      return node.attrs.results
    default:
      invariant(false, `${node.op} is no region`)
  }
}

const region = { family: 'region', boundary: 'region', arity: { atLeast: 0 } } as const

export const regionOps: {
  [O in 'cond' | 'while' | 'loop' | 'custom' | 'customLinear' | 'result']: OpDef<O>
} = {
  cond: {
    ...region,
    arity: { atLeast: 1 },
    infer: ([test, ...operands], a) => {
      expectTest(test, 'the condition of cond')
      for (const g of [a.then, a.otherwise]) {
        closed(g, 'cond')
        expectTypes(operands, g.params, 'operands of cond')
      }
      expectTypes(a.otherwise.outputs, a.then.outputs, 'results of the branches of cond')
      return handle
    },
    key: (a) => `${identity(a.then)},${identity(a.otherwise)}`,
  },
  while: {
    ...region,
    infer: (inputs, a) => {
      for (const g of [a.test, a.body]) {
        closed(g, 'while')
        expectTypes(inputs, g.params, 'operands of while')
      }
      expectTest(a.test.outputs[0], 'the test of while')
      expectTypes(a.body.outputs, inputs.slice(a.consts), 'results of the body of while')
      return handle
    },
    key: (a) => `${identity(a.test)},${identity(a.body)},${a.consts}`,
  },
  loop: {
    ...region,
    infer: (inputs, a) => {
      closed(a.body, 'a loop')
      const first = a.consts + a.carries
      for (const x of inputs.slice(first))
        if (x.shape[0] !== a.length)
          throw new UserError('E_SHAPE', `a loop of ${a.length} steps over a sequence ${show(x)}`)
      expectTypes([...inputs.slice(0, first), ...inputs.slice(first).map(element)], a.body.params, 'operands of a loop')
      expectTypes(a.body.outputs.slice(0, a.carries), inputs.slice(a.consts, first), 'carries of a loop')
      return handle
    },
    key: (a: AttrsByOp['loop']) => `${identity(a.body)},${a.length},${a.reverse},${a.consts},${a.carries}`,
  },
  custom: {
    ...region,
    infer: (inputs, a) => {
      closed(a.body, a.rule.name)
      expectTypes(inputs, a.body.params, `operands of ${a.rule.name}`)
      expectRule(a)
      return handle
    },
    key: (a) => `${identity(a.body)},${identity(a.rule)}`,
  },
  customLinear: {
    ...region,
    infer: () => handle,
    key: (a) => `${identity(a.backward)},${a.residuals}`,
  },
  result: {
    family: 'region',
    boundary: 'region',
    arity: 1,
    infer: ([x], a) => {
      invariant(x !== undefined, 'result without region')
      const r = regionResults(x)[a.index]
      invariant(r !== undefined, `no result ${a.index} of ${x.op}`)
      return { shape: r.shape, dtype: r.dtype }
    },
    key: (a) => `${a.index}`,
  },
}
