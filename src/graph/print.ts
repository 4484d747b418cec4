/** Text of a graph for people: one line a node, `%3 f32[4, 8] = add %1, %2   # softmax at file:line`. */
import { printable } from '../diagnostics/text.ts'
import { readElement } from '../scalar/host.ts'
import type { Scalar } from '../scalar/ops.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import { showShape } from '../types/shape.ts'
import type { Graph, IndexSource, Node } from './node.ts'
import { graphsInside } from './ops/region.ts'
import { nodesOf } from './traverse.ts'

/** The whole graph, parameters first, ending with what it returns and the effects it runs; graphs inside stand below their node. */
export function printGraph(graph: Graph): string {
  const nodes = nodesOf(graph)
  const names = new Map(nodes.map((n, i) => [n, `%${i}`]))
  const nameOf = (n: Node): string => names.get(n) ?? '%?'
  const lines = nodes.map((n) => ({ text: printNode(n, nameOf), origin: n.origin, inside: printInside(n) }))
  const column = Math.min(72, Math.max(0, ...lines.map((l) => l.text.length)))
  const body = lines.map(({ text, origin, inside }) => {
    const call = `${origin.name}${origin.where === undefined ? '' : ` at ${origin.where}`}`
    return [printable(origin.id === 0 ? text : `${text.padEnd(column)}   # ${call}`), ...inside].join('\n')
  })
  const list = (of: readonly Node[]): string => of.map(nameOf).join(', ')
  const tail = [`return ${list(graph.outputs)}`]
  if (graph.effects.length > 0) tail.push(`effects ${list(graph.effects)}`)
  return [...body, ...tail].join('\n')
}

/** The graphs inside a node, indented. */
function printInside(node: Node): string[] {
  return graphsInside(node).flatMap(({ role, graph }) => [
    `  ${role}:`,
    ...printGraph(graph)
      .split('\n')
      .map((line) => `    ${line}`),
  ])
}

/** One node, its inputs named by `nameOf`. */
export function printNode(node: Node, nameOf: (n: Node) => string): string {
  const { modifier, details } = describe(node)
  const head = `${nameOf(node)} ${node.dtype}${showShape(node.shape)} = ${node.op}${modifier === '' ? '' : `.${modifier}`}`
  const operands = node.inputs.map(nameOf).join(', ')
  return [head, operands, ...details].filter((s) => s !== '').join(' ')
}

interface Description {
  /** Stands behind the op's name: `reduce.sum`. */
  readonly modifier: string
  readonly details: readonly string[]
}

const list = (xs: readonly number[]): string => `[${xs.join(', ')}]`

function describe(node: Node): Description {
  const plain = (...details: string[]): Description => ({ modifier: '', details })
  switch (node.op) {
    case 'param':
      return plain(String(node.attrs.index))
    case 'constant':
      return plain(showData(node.attrs.data, node.dtype))
    case 'full':
      return plain(showScalar(node.attrs.value))
    case 'iota':
      return plain(`axis=${node.attrs.axis}`)
    case 'permute':
      return plain(list(node.attrs.perm))
    case 'broadcast':
      return plain(`dims=${list(node.attrs.dims)}`)
    case 'slice': {
      const { start, limit, step } = node.attrs
      return plain(`[${start.map((s, i) => `${s}:${limit[i]}${step[i] === 1 ? '' : `:${step[i]}`}`).join(', ')}]`)
    }
    case 'flip':
      return plain(`axes=${list(node.attrs.axes)}`)
    case 'pad': {
      const { low, high, interior, value } = node.attrs
      const amounts = low.map((l, i) => `${l}+${high[i]}${interior[i] === 0 ? '' : `+${interior[i]}between`}`)
      return plain(`[${amounts.join(', ')}]`, `with ${showScalar(value)}`)
    }
    case 'concat':
      return plain(`axis=${node.attrs.axis}`)
    case 'window': {
      const { axis, size, stride, dilation } = node.attrs
      return plain(`axis=${axis} size=${size} stride=${stride}${dilation === 1 ? '' : ` dilation=${dilation}`}`)
    }
    case 'gather':
      return plain(showSources(node.attrs.sources))
    case 'scatter':
      return {
        modifier: node.attrs.combiner,
        details: [
          showSources(node.attrs.sources),
          ...(node.attrs.distinct === true ? ['distinct'] : []),
          ...(node.attrs.covers === true ? ['covers'] : []),
        ],
      }
    case 'reduce':
      return {
        modifier: node.attrs.combiner,
        details: [`axes=${list(node.attrs.axes)}${node.attrs.last === true ? ' last' : ''}`],
      }
    case 'scan': {
      const { combiner, axis, reverse, exclusive, chunk, tree } = node.attrs
      const kind = `${reverse ? ' reverse' : ''}${exclusive ? ' exclusive' : ''}${tree === true ? ' tree' : ''}`
      return { modifier: combiner, details: [`axis=${axis}${kind}${chunk === undefined ? '' : ` chunk=${chunk}`}`] }
    }
    case 'contract':
      return plain(`${node.attrs.lhs},${node.attrs.rhs}->${node.attrs.out}`)
    case 'opaque':
      return plain(`"${node.attrs.kernel.name}"`)
    case 'inspect':
      return plain(`"${node.attrs.callback.label}"`)
    case 'while':
      return plain(`consts=${node.attrs.consts}`)
    case 'loop': {
      const { length, reverse, consts, carries } = node.attrs
      return plain(`length=${length}${reverse ? ' reverse' : ''} consts=${consts} carries=${carries}`)
    }
    case 'custom':
      return plain(`"${node.attrs.rule.name}"`)
    case 'customLinear':
      return plain(`"${node.attrs.name}" residuals=${node.attrs.residuals}`)
    case 'result':
      return plain(String(node.attrs.index))
    default:
      return plain()
  }
}

const showScalar = (v: Scalar): string => (Object.is(v, -0) ? '-0' : String(v))

/** The first elements of a literal. */
function showData(data: HostArray, dtype: DType): string {
  const shown = Math.min(data.length, 6)
  const values = Array.from({ length: shown }, (_, i) => showScalar(readElement(data, dtype, i)))
  return `{${values.join(', ')}${data.length > shown ? ', ...' : ''}}`
}

const showSources = (sources: readonly IndexSource[]): string =>
  `at [${sources.map((s) => ('axis' in s ? `axis ${s.axis}` : `index ${s.input}`)).join(', ')}]`
