/** `customJvp` and `customVjp`: functions with derivative rules of their own. */
import { customNodes, deferredRule } from '../../compose/control.ts'
import { constant, zeros as zeroNodes } from '../../compose/source.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { param } from '../../graph/build.ts'
import type { CustomRule, Node, RuleGraphs } from '../../graph/node.ts'
import { graphBetween, inlineOutputs } from '../../graph/subgraph.ts'
import { topologicalOrder } from '../../graph/traverse.ts'
import { isFloat } from '../../types/dtype.ts'
import { callSite } from '../calls/callsite.ts'
import { checkFunction } from '../calls/options.ts'
import { placed } from '../calls/place.ts'
import { zeros } from '../ops/creation.ts'
import { currentTrace, stateOf, storageOf, type TensorCore } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { leavesOf, rebuildTree, TensorSpec, type TreeLeaf, type TreeSpec } from '../tensor/tree.ts'
import { type AnyFunction, type Argument, applyGraph, argumentsOf, taker } from './apply.ts'
import { type Body, expectSame, traceBody } from './bodies.ts'
import { readTangents, type Tangent, type Tangents, tangentTree } from './tangents.ts'

/** One call of a function with a rule, while it is traced. */
interface Call {
  readonly name: string
  readonly where: string | undefined
  readonly arguments: readonly Argument[]
  /** Types of the arguments' tensors. */
  readonly inputs: readonly TreeLeaf[]
  /** The arguments with specs for tensors. */
  readonly specs: readonly unknown[]
  readonly result: TreeSpec
  readonly outputs: readonly TreeLeaf[]
}

/** A traced rule: its functions, and the graphs they make over what all of them close over. */
interface TracedRule {
  readonly bodies: readonly Body[]
  readonly graphs: (captured: Captured) => RuleGraphs
}

/** A function with a rule. `busy` while the rule is traced: it may call the function itself. */
interface Custom {
  readonly kind: CustomRule['kind']
  readonly name: string
  readonly f: AnyFunction
  readonly trace: (call: Call) => TracedRule
  busy: boolean
}

const typesOf = (leaves: readonly TreeLeaf[]): TensorSpec[] => leaves.map((l) => new TensorSpec(l.shape, l.dtype))
const floatsOf = <T extends { readonly dtype: TreeLeaf['dtype'] }>(leaves: readonly T[]): T[] =>
  leaves.filter((l) => isFloat(l.dtype))
const specTree = (s: TreeSpec): unknown => rebuildTree(s, taker(typesOf(leavesOf(s, ''))))

/** Runs checks of what a user's rule gave; errors name the function and where it was called. */
function checked<R>({ name, where }: Call, body: () => R): R {
  try {
    return body()
  } catch (error) {
    if (!(error instanceof UserError) || error.where !== undefined) throw error
    throw new UserError(error.code, `${name}: ${error.summary}`, {
      ...(where === undefined ? {} : { where }),
      ...(error.help === undefined ? {} : { help: error.help }),
      cause: error,
    })
  }
}

const structureError = (message: string, help: string): UserError => new UserError('E_STRUCTURE', message, { help })

/** Tensors closed over, of which parameters stand in every graph; the others are literals of a deferred rule. */
class Captured {
  readonly inputs: readonly TensorCore[]
  constructor(inputs: readonly TensorCore[]) {
    this.inputs = inputs
  }

  /** Float inputs among them: the rule knows no derivative in these. */
  get floats(): readonly TensorCore[] {
    return floatsOf(this.inputs)
  }

  /** The parameters of a body's graph that stand for the inputs. */
  paramsOf(body: Body): Node[] {
    const own = body.params.length - body.captured.length
    return this.inputs.map((t) => body.params[own + body.captured.indexOf(t)] ?? param(0, t.shape, t.dtype))
  }

  /** A body's graph over the given parameters; what it closes over beside the inputs becomes literal. */
  graphOf(body: Body, params: readonly Node[], outputs: readonly Node[]): RuleGraph {
    const own = body.params.length - body.captured.length
    const others = body.captured.flatMap((t, i) => {
      const p = body.params[own + i]
      return p === undefined || this.inputs.includes(t) ? [] : [{ p, t }]
    })
    if (others.length === 0) return graphBetween(params, outputs)
    const open = graphBetween([...others.map((o) => o.p), ...params], outputs)
    return graphBetween(params, inlineOutputs(open, [...others.map((o) => literal(o.t)), ...params]))
  }
}

type RuleGraph = ReturnType<typeof graphBetween>

/** The value of a tensor that a deferred rule closes over. */
function literal(t: TensorCore): Node {
  if (stateOf(t).kind === 'traced')
    throw new UserError('E_LEAKED_TRACER', 'a rule of a function that rules call closes over a traced tensor', {
      help: 'pass it as an argument of the function',
    })
  return constant(storageOf(t, 'a rule that closes over it: use').readSync(), t.shape, t.dtype)
}

/** Parameters of a body before those it closes over. */
const ownParams = (body: Body): readonly Node[] => body.params.slice(0, body.params.length - body.captured.length)

const dummies = (tensors: readonly TensorCore[]): Node[] => tensors.map((t) => param(0, t.shape, t.dtype))

/** The tensors of a tangent tree in order, zeros where none is given. */
function floatTangents(s: TreeSpec, given: unknown, what: string, path: string): Tensor[] {
  const leaves = leavesOf(s, path)
  return readTangents(s, given, what, path).flatMap((t, i) => {
    const leaf = leaves[i]
    return leaf === undefined || !isFloat(leaf.dtype) ? [] : [t ?? zeros(leaf.shape, leaf.dtype)]
  })
}

/** The two elements of what a user's rule returned. */
function pairOf(made: unknown, who: string, what: string): readonly [unknown, unknown] {
  if (!Array.isArray(made) || made.length !== 2) throw structureError(`${who} gives no pair`, `return ${what}`)
  const pair: readonly unknown[] = made
  return [pair[0], pair[1]]
}

const itemsOf = (s: TreeSpec): readonly TreeSpec[] => (s.kind === 'list' ? s.items : [])

function expectValue(call: Call, who: string, value: TreeSpec | undefined): void {
  if (value === undefined) return
  checked(call, () => expectSame(call.name, [who, value], ['the function', call.result], 'the value'))
}

/** The rule of `customJvp`, traced. */
function traceJvp(call: Call, rule: AnyFunction): TracedRule {
  const count = call.arguments.length
  const { name, inputs } = call
  const body = traceBody(
    name,
    (...all: unknown[]) => {
      const tangents = taker(all.slice(count) as Tensor[])
      const along = call.arguments.map((a) =>
        tangentTree(
          a.tree,
          a.leaves,
          floatsOf(a.leaves).flatMap(() => tangents() ?? []),
        ),
      )
      const made: unknown = rule(...([all.slice(0, count), along] as never[]))
      return checked(call, () => {
        const [value, tangent] = pairOf(made, 'its rule', '[value, tangent]')
        return [value, floatTangents(call.result, tangent, 'the tangent its rule gives', 'the result')]
      })
    },
    [...call.specs, ...typesOf(floatsOf(inputs))],
  )
  expectValue(call, 'its rule', itemsOf(body.result)[0])
  return {
    bodies: [body],
    graphs: (captured) => {
      const own = ownParams(body)
      const params = [
        ...captured.paramsOf(body),
        ...own.slice(0, inputs.length),
        ...dummies(captured.floats),
        ...own.slice(inputs.length),
      ]
      return { kind: 'jvp', graph: captured.graphOf(body, params, body.outputs) }
    },
  }
}

/** The rule of `customVjp`, traced. */
function traceVjp(call: Call, forward: AnyFunction, backward: AnyFunction): TracedRule {
  const { name, outputs } = call
  const there = traceBody(
    name,
    (...args: unknown[]) => {
      const made: unknown = forward(...(args as never[]))
      return checked(call, () => pairOf(made, 'its forward function', '[value, residuals]'))
    },
    call.specs,
  )
  const [value, residuals] = itemsOf(there.result)
  expectValue(call, 'its forward function', value)
  const kept = residuals ?? { kind: 'static', value: undefined }
  const back = traceBody(
    name,
    (saved: unknown, ...cotangents: unknown[]) => {
      const made: unknown = backward(...([saved, tangentTree(call.result, outputs, cotangents as Tensor[])] as never[]))
      return checked(call, () => {
        const wanted = call.arguments.length
        if (!Array.isArray(made) || made.length !== wanted)
          throw structureError(
            `its backward function gives ${Array.isArray(made) ? `${made.length} gradients` : 'no list'} for ${wanted} arguments`,
            'return a list with a gradient for each argument; null stands for zeros',
          )
        const gradients: readonly unknown[] = made
        return call.arguments.flatMap((a, i) =>
          floatTangents(a.tree, gradients[i], 'the gradient its backward function gives', `argument ${i}`),
        )
      })
    },
    [specTree(kept), ...typesOf(floatsOf(outputs))],
  )
  return {
    bodies: [there, back],
    graphs: (captured) => {
      const first = captured.paramsOf(there)
      // What the backward function closes over is a residual like any other.
      const passed = captured.inputs.flatMap((t, i) => {
        const [p, q] = [first[i], captured.paramsOf(back)[i]]
        return p === undefined || q === undefined || !back.captured.includes(t) ? [] : [{ p, q }]
      })
      const own = ownParams(back)
      const saved = leavesOf(kept, '').length
      const unknown = captured.floats.map((t) => zeroNodes(t.shape, t.dtype))
      return {
        kind: 'vjp',
        forward: captured.graphOf(
          there,
          [...first, ...ownParams(there)],
          [...there.outputs, ...passed.map((x) => x.p)],
        ),
        backward: captured.graphOf(
          back,
          [...own.slice(0, saved), ...passed.map((x) => x.q), ...own.slice(saved)],
          [...unknown, ...back.outputs],
        ),
      }
    },
  }
}

/** Refuses tensors in which a derivative may be asked for that the rule does not know. */
function checkClosures(call: Call, captured: readonly TensorCore[]): void {
  for (const t of captured) {
    const state = stateOf(t)
    if (state.kind !== 'traced' || !isFloat(t.dtype)) continue
    const fed = topologicalOrder([state.node]).some((n) => n.op === 'param')
    for (let trace = fed ? state.trace : undefined; trace !== undefined; trace = trace.outer)
      if (trace.purpose.differentiated === true)
        throw new UserError(
          'E_UNSUPPORTED',
          `${call.name} closes over a tensor of the enclosing ${trace.purpose.name}, in which its rule has no derivative`,
          {
            help: 'pass it as an argument of the function',
            ...(call.where === undefined ? {} : { where: call.where }),
          },
        )
  }
}

/** Rules that are traced inside one another. */
let rulesAround = 0

/**
 * So many rules deep, rules are traced only when a derivative asks for them: body and rule of a function may both call another such function,
 * and tracing both everywhere would take twice the work for every function that calls the next.
 */
const mostRulesAround = 2

function traceRule(custom: Custom, call: Call): TracedRule {
  const outer = custom.busy
  custom.busy = true
  rulesAround++
  try {
    return custom.trace(call)
  } finally {
    rulesAround--
    custom.busy = outer
  }
}

function applyCustom(custom: Custom, args: readonly unknown[]): unknown {
  const { f, name, kind } = custom
  // Outside a trace nothing is differentiated.
  if (currentTrace() === undefined) return f(...(args as never[]))
  const where = callSite()
  const described = argumentsOf(name, args)
  const specs = described.map((a) => specTree(a.tree))
  const body = traceBody(name, f, specs)
  const call: Call = {
    name,
    where,
    arguments: described,
    inputs: described.flatMap((a) => a.leaves),
    specs,
    result: body.result,
    outputs: leavesOf(body.result, 'the result'),
  }
  // A function called in its own rule gets its rule when a derivative asks for it: tracing it now would not end.
  const isDeferred = custom.busy || rulesAround >= mostRulesAround
  const traced = isDeferred ? undefined : traceRule(custom, call)
  const captured = new Captured([...new Set([body, ...(traced?.bodies ?? [])].flatMap((b) => b.captured))])
  checkClosures(call, captured.inputs)
  const rule: CustomRule =
    traced === undefined
      ? deferredRule(name, kind, () => traceRule(custom, call).graphs(captured))
      : { name, ...traced.graphs(captured) }
  const graph = captured.graphOf(body, [...captured.paramsOf(body), ...ownParams(body)], body.outputs)
  const operands = [...captured.inputs, ...described.flatMap((a) => a.tensors)]
  const made = applyGraph(name, operands, (nodes) => ({ outputs: customNodes(graph, rule, nodes), effects: [] }))
  return rebuildTree(body.result, taker(made))
}

const nameOf = (f: AnyFunction, otherwise: string): string => (f.name === '' ? otherwise : f.name)

/**
 * f with a derivative of its own in forward mode, from which reverse mode follows (JAX's `custom_jvp`): `rule` gets the
 * arguments and their tangents, and gives [value, tangent], the tangent linear in the tangents. Tangents are trees like the
 * arguments, zeros beside integer and boolean tensors; null in the tangent given stands for zeros. The rule is differentiated
 * in its turn for higher orders, and may call the function itself. What f and the rule close over is constant: tensors of an
 * enclosing derivative are refused (E_UNSUPPORTED). Without a derivative f compiles as if there were no rule.
 * @throws E_ARGUMENT for what is no function; calls under a derivative throw E_STRUCTURE, E_SHAPE, E_DTYPE for a rule that
 * gives another type than f, E_UNSUPPORTED for an effect
 * @example
 * const safeSqrt = customJvp(
 *   (x: Tensor) => x.sqrt(),
 *   ([x], [dx]) => [x.sqrt(), dx.mul(0.5).div(x.sqrt().maximum(0.5))],
 * )
 * grad((x: Tensor) => safeSqrt(x).sum())(tensor([0, 4])) // [1, 0.25]: 1 where it would be infinite
 */
export function customJvp<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  rule: (primals: A, tangents: A) => readonly [value: R, tangent: Tangent<R>],
): (...args: A) => R {
  for (const g of [f, rule]) placed(() => checkFunction(g, 'customJvp'))
  const custom: Custom = {
    kind: 'jvp',
    name: nameOf(f, 'customJvp'),
    f,
    trace: (call) => traceJvp(call, rule),
    busy: false,
  }
  return (...args) => applyCustom(custom, args) as R
}

/**
 * f with a derivative of its own in reverse mode alone (JAX's `custom_vjp`): `forward` gives [value, residuals], any tree of
 * what `backward` needs; `backward` gets the residuals and a cotangent like the value (zeros beside integer and boolean
 * tensors), and gives a list with a gradient for each argument; null stands for zeros, and beside integer and boolean tensors
 * nothing is read. Closures, higher orders and errors as in `customJvp`; forward mode through it throws E_UNSUPPORTED.
 * @throws E_ARGUMENT for what is no function; calls under a derivative throw E_STRUCTURE, E_SHAPE, E_DTYPE for a rule that
 * gives another type than f, E_UNSUPPORTED for an effect and in forward mode
 * @example
 * const clipped = customVjp(
 *   (x: Tensor) => x,
 *   (x) => [x, null],
 *   (_, g) => [g.clip(-1, 1)],
 * )
 * grad((x: Tensor) => clipped(x).mul(5).sum())(tensor([2])) // [1]: 5 without the rule
 */
export function customVjp<A extends readonly unknown[], R, S>(
  f: (...args: A) => R,
  forward: (...args: A) => readonly [value: R, residuals: S],
  backward: (residuals: S, cotangent: R) => Tangents<A>,
): (...args: A) => R {
  for (const g of [f, forward, backward]) placed(() => checkFunction(g, 'customVjp'))
  const custom: Custom = {
    kind: 'vjp',
    name: nameOf(f, 'customVjp'),
    f,
    trace: (call) => traceVjp(call, forward, backward),
    busy: false,
  }
  return (...args) => applyCustom(custom, args) as R
}
