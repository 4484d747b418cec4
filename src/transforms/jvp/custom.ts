/** Functions with derivative rules of their own. */
import { customLinearNodes, resultsOf } from '../../compose/control.ts'
import { zeros } from '../../compose/source.ts'
import type { Node } from '../../graph/node.ts'
import { inlineOutputs } from '../../graph/subgraph.ts'
import { isFloat } from '../../types/dtype.ts'
import { refuse } from '../rule.ts'
import { flags, present, spreadTo } from './places.ts'
import { materialised, type RegionCall, type RegionDerivative } from './rule.ts'

const floats = (nodes: readonly { readonly dtype: Node['dtype'] }[]): boolean[] => nodes.map((n) => isFloat(n.dtype))

export function customJvp({ node, tangents, mode, push }: RegionCall<'custom'>): RegionDerivative {
  const { body, rule } = node.attrs
  const float = floats(node.inputs)
  const along = node.inputs.flatMap((x, i) => (float[i] === true ? [materialised(tangents[i], x)] : []))
  const count = body.outputs.length
  const has = floats(body.outputs)
  if (rule.kind === 'vjp') {
    const made = inlineOutputs(rule.forward, node.inputs)
    const results = body.outputs.filter((y) => isFloat(y.dtype)).map(({ shape, dtype }) => ({ shape, dtype }))
    const linear = customLinearNodes({ name: rule.name, backward: rule.backward, results }, made.slice(count), along)
    return { outputs: made.slice(0, count), tangents: spreadTo(has, linear) }
  }
  if (mode === 'joint') {
    const made = inlineOutputs(rule.graph, [...node.inputs, ...along])
    return { outputs: made.slice(0, count), tangents: spreadTo(has, made.slice(count)) }
  }
  // A linear function is its own derivative at zero: differentiating it leaves only what can be transposed.
  const still = along.map((t) => zeros(t.shape, t.dtype))
  const pushed = push(rule.graph, [...node.inputs, ...still], [...node.inputs.map(() => undefined), ...along])
  const [outputs, moved] = [pushed.outputs.slice(0, count), pushed.tangents.slice(count)]
  let next = 0
  return { outputs, tangents: has.map((h) => (h ? moved[next++] : undefined)) }
}

/** Linear in its tangents; of what it needs of the values nothing is known but the transpose. */
export function customLinearJvp({ node, tangents }: RegionCall<'customLinear'>): RegionDerivative {
  const { residuals, ...attrs } = node.attrs
  const known = node.inputs.slice(0, residuals)
  const own = node.inputs.slice(residuals)
  const outputs = resultsOf(node)
  if (present(tangents.slice(0, residuals)).length > 0)
    return refuse(
      node,
      'the derivative',
      `the forward derivative of ${attrs.name} is not known: it has a rule for reverse mode alone`,
      'differentiate it in reverse mode, or give it a rule for forward mode (customJvp)',
    )
  const along = tangents.slice(residuals)
  if (!flags(along).includes(true)) return { outputs, tangents: outputs.map(() => undefined) }
  return {
    outputs,
    tangents: customLinearNodes(
      attrs,
      known,
      own.map((x, i) => materialised(along[i], x)),
    ),
  }
}
