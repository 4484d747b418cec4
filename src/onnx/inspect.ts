/**
 * What a model says of itself, read from its bytes alone: inputs and outputs, operators, parameters, metadata, and which nodes are refused
 * whatever their shapes. Works for models that cannot be imported.
 */
import { dtypeBytes } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { codeBits } from './codes.ts'
import { functionKey } from './functions.ts'
import { refusalOf } from './ops/index.ts'
import { fullName, normaliseDomain } from './pass.ts'
import type { Problem } from './problems.ts'
import {
  type Dimension,
  type GraphProto,
  type ModelProto,
  type NodeProto,
  type TensorProto,
  tensorType,
  type ValueInfo,
} from './proto.ts'
import { codedOfElement, dtypeOfElement, elementTypeName } from './tensors.ts'

/** An input or output as it is declared. */
export interface ValueFacts {
  readonly name: string
  /** A dtype of the library, else ONNX's name of the element type, or `not a tensor`. */
  readonly type: string
  /** Extents; names of symbolic ones, undefined for those that are not declared. Absent where the rank is not. */
  readonly shape?: readonly Dimension[]
}

export interface OperatorFacts {
  /** Empty for ONNX's own. */
  readonly domain: string
  readonly name: string
  /** Nodes, those of graphs inside and of local functions each once. */
  readonly count: number
  /** It is a function of the model. */
  readonly local: boolean
}

export interface ParameterFacts {
  readonly type: string
  readonly tensors: number
  readonly elements: number
  readonly bytes: number
}

/** A node that is refused. */
export interface RefusedPart extends Problem {
  /** It stands in a branch, the body of a loop or a function: it counts only if that runs. */
  readonly inside: boolean
}

export interface ModelFacts {
  readonly irVersion: number
  readonly producer: string
  readonly producerVersion: string
  readonly domain: string
  readonly modelVersion: bigint
  readonly description: string
  readonly metadata: ReadonlyMap<string, string>
  readonly opsets: readonly { readonly domain: string; readonly version: number }[]
  readonly graph: string
  readonly inputs: readonly ValueFacts[]
  readonly outputs: readonly ValueFacts[]
  /** Names of symbolic extents of inputs. */
  readonly symbols: readonly string[]
  readonly nodes: number
  /** The most frequent first. */
  readonly operators: readonly OperatorFacts[]
  /** Initialisers and tensors in nodes (`Constant`), by element type; the most bytes first. */
  readonly parameters: readonly ParameterFacts[]
  /** Files that hold some of them. */
  readonly externalFiles: readonly string[]
  readonly refused: readonly RefusedPart[]
}

function typeName(elemType: number): string {
  return codedOfElement(elemType) ?? dtypeOfElement(elemType) ?? elementTypeName(elemType)
}

const valueFacts = (v: ValueInfo): ValueFacts =>
  v.kind === 'tensor'
    ? { name: v.name, type: typeName(v.elemType), ...(v.shape === undefined ? {} : { shape: v.shape }) }
    : { name: v.name, type: 'not a tensor' }

/** Bytes of types that the library has none for. */
const otherBytes: Readonly<Record<number, number>> = { [tensorType.COMPLEX64]: 8, [tensorType.COMPLEX128]: 16 }

/** Bytes of a tensor's elements in a file; those of strings are counted. */
function bytesOf(t: TensorProto): number {
  const n = sizeOf(t.dims)
  const coded = codedOfElement(t.dataType)
  if (coded !== undefined) return Math.ceil((n * codeBits(coded)) / 8)
  const dtype = dtypeOfElement(t.dataType)
  if (dtype !== undefined) return n * dtypeBytes(dtype)
  if (t.dataType === tensorType.STRING) return t.stringData.reduce((sum, s) => sum + s.length, 0)
  return n * (otherBytes[t.dataType] ?? 0)
}

const graphsOf = (n: NodeProto): GraphProto[] =>
  n.attribute.flatMap((a) => (a.g === undefined ? a.graphs : [a.g, ...a.graphs]))

/** Counts over everything that is written in a model. */
class Walk {
  readonly operators = new Map<string, { domain: string; name: string; count: number; local: boolean }>()
  readonly parameters = new Map<string, { tensors: number; elements: number; bytes: number }>()
  readonly files = new Set<string>()
  readonly refused: RefusedPart[] = []
  nodes = 0
  private readonly functions: ReadonlySet<string>

  constructor(model: ModelProto) {
    this.functions = new Set(model.functions.map((f) => functionKey(normaliseDomain(f.domain), f.name, f.overload)))
    this.graph(model.graph, false)
    for (const f of model.functions) for (const n of f.node) this.node(n, true)
  }

  private graph(g: GraphProto, inside: boolean): void {
    for (const t of g.initializer) this.parameter(t)
    if (g.sparseInitializers > 0)
      this.refused.push({ op: 'sparse initialiser', name: g.name, reason: 'sparse tensors are not imported', inside })
    for (const n of g.node) this.node(n, inside)
  }

  private parameter(t: TensorProto): void {
    const type = typeName(t.dataType)
    const { tensors, elements, bytes } = this.parameters.get(type) ?? { tensors: 0, elements: 0, bytes: 0 }
    this.parameters.set(type, {
      tensors: tensors + 1,
      elements: elements + sizeOf(t.dims),
      bytes: bytes + bytesOf(t),
    })
    const file = t.externalData.get('location')
    if (t.external && file !== undefined) this.files.add(file)
  }

  private node(n: NodeProto, inside: boolean): void {
    this.nodes++
    const domain = normaliseDomain(n.domain)
    const local = this.functions.has(functionKey(domain, n.opType, n.overload))
    const key = fullName(n)
    const have = this.operators.get(key)
    if (have === undefined) this.operators.set(key, { domain, name: n.opType, count: 1, local })
    else have.count++
    const reason = local ? undefined : refusalOf(domain, n.opType)
    if (reason !== undefined)
      this.refused.push({ op: key, name: n.name || n.output.find((o) => o !== '') || '(unnamed)', reason, inside })
    for (const a of n.attribute) for (const t of a.t === undefined ? a.tensors : [a.t]) this.parameter(t)
    for (const g of graphsOf(n)) this.graph(g, true)
  }
}

/** What a decoded model says of itself. */
export function inspectModel(model: ModelProto): ModelFacts {
  const { graph } = model
  const walk = new Walk(model)
  const initialised = new Set(graph.initializer.map((t) => t.name))
  const inputs = graph.input.filter((v) => !initialised.has(v.name))
  const symbols = new Set(inputs.flatMap((v) => (v.shape ?? []).filter((d) => typeof d === 'string')))
  return {
    irVersion: model.irVersion,
    producer: model.producer,
    producerVersion: model.producerVersion,
    domain: model.domain,
    modelVersion: model.modelVersion,
    description: model.description,
    metadata: model.metadata,
    opsets: model.opsetImport.map(({ domain, version }) => ({ domain: normaliseDomain(domain), version })),
    graph: graph.name,
    inputs: inputs.map(valueFacts),
    outputs: graph.output.map(valueFacts),
    symbols: [...symbols],
    nodes: walk.nodes,
    operators: [...walk.operators.values()].sort((a, b) => b.count - a.count),
    parameters: [...walk.parameters].map(([type, counts]) => ({ type, ...counts })).sort((a, b) => b.bytes - a.bytes),
    externalFiles: [...walk.files],
    refused: walk.refused,
  }
}
