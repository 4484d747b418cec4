/** Functions that control flow runs: traced once, checked against each other, and made graphs that close over constants. */
import { UserError } from '../../diagnostics/errors.ts'
import { param } from '../../graph/build.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { graphBetween } from '../../graph/subgraph.ts'
import { topologicalOrder } from '../../graph/traverse.ts'
import { sameShape, showShape } from '../../types/shape.ts'
import { named, type TensorCore } from '../tensor/core.ts'
import { traceFunction } from '../tensor/traceFunction.ts'
import type { TreeSpec } from '../tensor/tree.ts'
import type { AnyFunction } from './apply.ts'

/** A traced function: its arguments' tensors, then what it closes over; one output for each tensor of its result. */
export interface Body {
  readonly params: readonly Node[]
  readonly outputs: readonly Node[]
  readonly captured: readonly TensorCore[]
  readonly result: TreeSpec
}

/** Traces a function that the call `name` runs. Throws what the function throws, E_STRUCTURE, E_UNSUPPORTED for an effect in it. */
export function traceBody(name: string, f: AnyFunction, args: readonly unknown[]): Body {
  const { graph, places, captured, result } = traceFunction(f, args, { name, program: false })
  if (graph.effects.length > 0)
    named(name, () => {
      throw new UserError('E_UNSUPPORTED', 'its function has an effect', {
        help: 'return the value and inspect it outside',
      })
    })
  return { params: graph.params, outputs: places.flatMap((p) => graph.outputs[p] ?? []), captured, result }
}

/** Whether a body's result depends on one of its parameters. */
export function dependsOn(body: Body, parameter: number): boolean {
  const p = body.params[parameter]
  return p !== undefined && topologicalOrder(body.outputs).includes(p)
}

/** What several bodies close over, each tensor once; and their graphs: parameters are that, then the arguments' tensors. */
export function closeOver(bodies: readonly Body[]): { readonly captured: TensorCore[]; readonly graphs: Graph[] } {
  const captured = [...new Set(bodies.flatMap((b) => b.captured))]
  const graphs = bodies.map((b) => {
    const own = b.params.length - b.captured.length
    const constants = captured.map((t) => b.params[own + b.captured.indexOf(t)])
    const inputs = captured.map((t, i) =>
      b.captured.includes(t) ? (constants[i] ?? param(0, t.shape, t.dtype)) : param(0, t.shape, t.dtype),
    )
    return graphBetween([...inputs, ...b.params.slice(0, own)], b.outputs)
  })
  return { captured, graphs }
}

function show(s: TreeSpec): string {
  switch (s.kind) {
    case 'tensor':
      return `${s.dtype}${showShape(s.shape)}`
    case 'static':
      return typeof s.value === 'object' || s.value === undefined
        ? String(s.value)
        : `the ${typeof s.value} ${String(s.value)}`
    case 'list':
      return `a list of ${s.items.length}`
    case 'record':
      return s.keys.length === 0 ? 'an object without keys' : `an object with ${s.keys.join(', ')}`
  }
}

/** The first place where two structures differ. */
function difference(
  a: TreeSpec,
  b: TreeSpec,
  path: string,
): { readonly path: string; readonly a: TreeSpec; readonly b: TreeSpec } | undefined {
  const here = { path, a, b }
  if (a.kind !== b.kind) return here
  if (a.kind === 'tensor' && b.kind === 'tensor')
    return a.dtype === b.dtype && sameShape(a.shape, b.shape) ? undefined : here
  if (a.kind === 'static' && b.kind === 'static') return Object.is(a.value, b.value) ? undefined : here
  const [xs, ys] = [a, b].map((s) => (s.kind === 'list' || s.kind === 'record' ? s.items : []))
  if (xs === undefined || ys === undefined || xs.length !== ys.length) return here
  const keys = a.kind === 'record' ? a.keys : undefined
  if (keys !== undefined && b.kind === 'record' && keys.some((k, i) => k !== b.keys[i])) return here
  for (const [i, x] of xs.entries()) {
    const y = ys[i]
    const found = y === undefined ? here : difference(x, y, keys === undefined ? `${path}[${i}]` : `${path}.${keys[i]}`)
    if (found !== undefined) return found
  }
  return undefined
}

/** Throws unless two results have one type: E_DTYPE, E_SHAPE for tensors, E_STRUCTURE for trees; the message shows both. */
export function expectSame(
  name: string,
  [gives, a]: readonly [who: string, what: TreeSpec],
  [wants, b]: readonly [who: string, what: TreeSpec],
  root: string,
): void {
  const found = difference(a, b, root)
  if (found === undefined) return
  const { path } = found
  const code =
    found.a.kind !== 'tensor' || found.b.kind !== 'tensor'
      ? 'E_STRUCTURE'
      : found.a.dtype !== found.b.dtype
        ? 'E_DTYPE'
        : 'E_SHAPE'
  const statics = found.a.kind === 'static' || found.b.kind === 'static'
  named(name, () => {
    throw new UserError(code, `${gives} gives ${show(found.a)} for ${path}, ${wants} ${show(found.b)}`, {
      help:
        code === 'E_DTYPE'
          ? 'cast one of them'
          : code === 'E_SHAPE'
            ? 'shapes are fixed: pad, or reduce, to one shape'
            : statics
              ? 'what changes must be a tensor: tensor(0) instead of 0'
              : 'give the same structure',
    })
  })
}
