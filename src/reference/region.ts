/** Ops with graphs inside, step by step: the graphs are evaluated as often as they run. */
import { invariant } from '../diagnostics/errors.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { noForwardRule, type RegionOp, regionResults } from '../graph/ops/region.ts'
import { sizeOf } from '../types/shape.ts'
import { allocate, isNarrow, type RefTensor } from './tensor.ts'

/** Evaluates a graph on arguments by position. */
export type ApplyGraph = (graph: Graph, args: readonly RefTensor[]) => RefTensor[]

type Region = Extract<Node, { readonly op: RegionOp }>

/** The values of a region node on those of its inputs. Throws E_UNSUPPORTED for a derivative known by its transpose alone. */
export function evaluateRegion(node: Region, inputs: readonly RefTensor[], apply: ApplyGraph): readonly RefTensor[] {
  switch (node.op) {
    case 'cond': {
      const [test, ...operands] = inputs
      return apply(isTrue(test) ? node.attrs.then : node.attrs.otherwise, operands)
    }
    case 'while': {
      const consts = inputs.slice(0, node.attrs.consts)
      let carry: readonly RefTensor[] = inputs.slice(node.attrs.consts)
      while (isTrue(apply(node.attrs.test, [...consts, ...carry])[0]))
        carry = apply(node.attrs.body, [...consts, ...carry])
      return carry
    }
    case 'loop':
      return runLoop(node, inputs, apply)
    case 'custom':
      return apply(node.attrs.body, inputs)
    case 'customLinear':
      throw noForwardRule(node)
  }
}

function isTrue(test: RefTensor | undefined): boolean {
  invariant(test !== undefined && test.data.length === 1, 'a test is one value')
  return test.data[0] !== 0 && test.data[0] !== 0n
}

function elementAt(x: RefTensor, i: number): RefTensor {
  const shape = x.shape.slice(1)
  const n = sizeOf(shape)
  return { dtype: x.dtype, shape, data: x.data.slice(i * n, (i + 1) * n) }
}

function store(into: RefTensor, i: number, value: RefTensor): void {
  const n = value.data.length
  if (isNarrow(into.data) && isNarrow(value.data)) into.data.set(value.data, i * n)
  else if (!isNarrow(into.data) && !isNarrow(value.data)) into.data.set(value.data, i * n)
  else invariant(false, 'an element of another kind than its sequence')
}

function runLoop(node: NodeOf<'loop'>, inputs: readonly RefTensor[], apply: ApplyGraph): readonly RefTensor[] {
  const { body, length, reverse, consts, carries } = node.attrs
  const constants = inputs.slice(0, consts)
  const sequences = inputs.slice(consts + carries)
  let carry: readonly RefTensor[] = inputs.slice(consts, consts + carries)
  const made = regionResults(node)
    .slice(carries)
    .map(({ shape, dtype }): RefTensor => ({ shape, dtype, data: allocate(dtype, sizeOf(shape)) }))
  for (let step = 0; step < length; step++) {
    const i = reverse ? length - 1 - step : step
    const outputs = apply(body, [...constants, ...carry, ...sequences.map((x) => elementAt(x, i))])
    carry = outputs.slice(0, carries)
    made.forEach((m, k) => {
      const value = outputs[carries + k]
      invariant(value !== undefined, 'an element is missing')
      store(m, i, value)
    })
  }
  return [...carry, ...made]
}
