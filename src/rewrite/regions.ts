/** Ops with graphs inside: what need not be one is written out, what is in one is simplified, and what nothing reads is dropped. */
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { inlineOutputs } from '../graph/subgraph.ts'
import { fullOf, reshapeTo } from './facts.ts'
import { type Rule, rule } from './rule.ts'
import { type Tightened, tighten } from './tighten.ts'

/** Whether a scalar test is a literal. */
const known = (test: Node | undefined): boolean | undefined =>
  test?.op === 'full' ? test.attrs.value === true : undefined

/** A rule on the results of one kind of region, given all values that stand in their place. */
function onResults<O extends Node['op']>(
  op: O,
  name: string,
  description: string,
  values: (region: Extract<Node, { readonly op: O }>) => readonly Node[] | undefined,
): Rule {
  const isMine = (n: Node | undefined): n is Extract<Node, { readonly op: O }> => n?.op === op
  // Every result asks; the answer is one.
  const found = new WeakMap<Node, readonly Node[]>()
  return rule('result', 'exact', name, description, ({ inputs: [region], attrs }) => {
    if (!isMine(region)) return undefined
    const have = found.get(region) ?? values(region)
    if (have === undefined) return undefined
    found.set(region, have)
    return have[attrs.index]
  })
}

/** A loop of no or one step. */
function writeOut({ attrs, inputs }: NodeOf<'loop'>): readonly Node[] | undefined {
  const { body, length, consts, carries } = attrs
  const first = consts + carries
  if (length === 0)
    return [
      ...inputs.slice(consts, first),
      ...body.outputs.slice(carries).map((y) => fullOf([0, ...y.shape], y.dtype, 0)),
    ]
  if (length !== 1) return undefined
  const elements = inputs.slice(first).map((x) => reshapeTo(x, x.shape.slice(1)))
  const outputs = inlineOutputs(body, [...inputs.slice(0, first), ...elements])
  return outputs.map((y, i) => (i < carries ? y : reshapeTo(y, [1, ...y.shape])))
}

const writtenOut: readonly Rule[] = [
  onResults('custom', 'inline-custom', 'a function with derivative rules of its own is its body', (region) =>
    inlineOutputs(region.attrs.body, region.inputs),
  ),
  onResults('cond', 'cond-of-literal', 'a condition known now is the branch it takes', ({ attrs, inputs }) => {
    const test = known(inputs[0])
    if (test === undefined) return undefined
    return inlineOutputs(test ? attrs.then : attrs.otherwise, inputs.slice(1))
  }),
  onResults('while', 'while-never', 'a loop whose test never holds is its initial carry', ({ attrs, inputs }) =>
    known(attrs.test.outputs[0]) === false ? inputs.slice(attrs.consts) : undefined,
  ),
  onResults('loop', 'short-loop', 'a loop of no or one step is written out', writeOut),
]

/** One answer for all results of a region: they read one region afterwards. */
const answers = new WeakMap<Node, { readonly read: ReadonlySet<number>; readonly tight: Tightened | undefined }>()

function tightened(region: Node, read: ReadonlySet<number>): Tightened | undefined {
  const have = answers.get(region)
  if (have?.read === read) return have.tight
  const tight = tighten(region, read)
  answers.set(region, { read, tight })
  return tight
}

const unused = rule(
  'result',
  'exact',
  'region-unused',
  'results, carries and operands nothing reads, and those that are another value, leave a region',
  ({ inputs: [region], attrs }, context) => {
    const read = region === undefined ? undefined : context.resultsRead(region)
    if (region === undefined || read === undefined) return undefined
    const tight = tightened(region, read)
    const place = tight?.places[attrs.index]
    if (tight === undefined || place === undefined) return undefined
    return typeof place === 'number' ? makeNode('result', [tight.region], { index: place }) : place
  },
)

/** The region on the normal forms of its graphs; undefined where they are normal. */
function rewritten(node: Node, inside: (graph: Graph) => Graph): Node | undefined {
  switch (node.op) {
    case 'cond': {
      const [then, otherwise] = [inside(node.attrs.then), inside(node.attrs.otherwise)]
      if (then === node.attrs.then && otherwise === node.attrs.otherwise) return undefined
      return makeNode('cond', node.inputs, { then, otherwise })
    }
    case 'while': {
      const [test, body] = [inside(node.attrs.test), inside(node.attrs.body)]
      if (test === node.attrs.test && body === node.attrs.body) return undefined
      return makeNode('while', node.inputs, { ...node.attrs, test, body })
    }
    case 'loop': {
      const body = inside(node.attrs.body)
      return body === node.attrs.body ? undefined : makeNode('loop', node.inputs, { ...node.attrs, body })
    }
    default:
      return undefined
  }
}

const insides = (['cond', 'while', 'loop'] as const).map((op) =>
  rule(op, 'exact', `${op}-inside`, `the graphs inside a ${op} are rewritten`, (node, context) =>
    rewritten(node, context.inside),
  ),
)

export const regionRules: readonly Rule[] = [...writtenOut, unused, ...insides]
