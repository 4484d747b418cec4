/** What an op handler sees: one ONNX node with its inputs, attributes, operator-set version, and host values on demand. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node, TensorType } from '../graph/node.ts'
import { readElement } from '../scalar/host.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import { normaliseAxis, type Shape, showShape } from '../types/shape.ts'
import { isCoded, type Value } from './codes.ts'
import { type AttributeProto, attributeType, type GraphProto, type NodeProto, type TensorProto } from './proto.ts'
import type { StepBody, Unfit } from './stepBody.ts'
import { dtypeOfElement, elementTypeName, type HostTensor } from './tensors.ts'
import type { Because } from './values.ts'

/** Thrown by a handler for what the importer cannot express; the importer collects all of them before it gives up. */
export class Unsupported extends Error {}

/** What the importer offers to handlers beyond the node itself. */
export interface ImportServices {
  /**
   * The host value of a node; inputs it depends on become value-specialised. `because`: what is wrong with the part of the model that
   * the value decides on.
   */
  hostValue(node: Node, what: string, because?: Because): HostTensor
  /** Whether a node is computed from constants alone. */
  isStatic(node: Node): boolean
  /** Whether a node's value is known without the values of inputs; asking for it may turn parameters into constants. */
  isFixed(node: Node): boolean
  /** The value that the model has for a node which is an initialiser taken as a parameter. */
  ownValue(node: Node): HostTensor | undefined
  tensor(proto: TensorProto): HostTensor
  /** The most results that the caller wants room for, of a node whose number of them depends on data; undefined where nobody says. */
  bound(): number | undefined
  /** Says that a value has `count` results along an axis, and room behind them; gives the value. */
  counted(node: Node, axis: number, count: Node): Node
  /** Whether a value is computed of results with room behind them: its extents say nothing of their number. */
  hasRoom(node: Node): boolean
  /** Imports a subgraph in the scope of the node that holds it; gives its outputs. */
  subgraph(graph: GraphProto, inputs: readonly Node[]): readonly Node[]
  /**
   * Imports a subgraph once for all steps, on parameters of the given types. Unfit where it cannot be: it asks for the value
   * of a parameter, is unsupported on values known at run time alone, or is wrong, which counts only if it runs.
   */
  stepBody(graph: GraphProto, types: readonly TensorType[]): StepBody | Unfit
}

const utf8 = new TextDecoder()

export class OpContext {
  readonly node: NodeProto
  /** Version of the operator set the node's domain is imported at. */
  readonly opset: number
  readonly inputs: readonly (Value | undefined)[]
  readonly services: ImportServices
  private readonly attributes: ReadonlyMap<string, AttributeProto>

  constructor(node: NodeProto, opset: number, inputs: readonly (Value | undefined)[], services: ImportServices) {
    this.node = node
    this.opset = opset
    this.inputs = inputs
    this.services = services
    this.attributes = new Map(node.attribute.map((a) => [a.name, a]))
  }

  /** Number of outputs the node names (trailing unnamed ones included). */
  get outputs(): number {
    return this.node.output.length
  }

  /** Whether output i has a reader's name. */
  wants(i: number): boolean {
    return (this.node.output[i] ?? '') !== ''
  }

  private malformed(what: string): UserError {
    return new UserError('E_ONNX_MALFORMED', `${this.node.opType}: ${what}`)
  }

  /** A required input. */
  need(i: number): Node {
    return this.opt(i) ?? this.missing(i)
  }

  /** An optional input. */
  opt(i: number): Node | undefined {
    const x = this.inputs[i]
    return x !== undefined && isCoded(x) ? this.fail(`input ${i} has elements of type ${x.coded}`) : x
  }

  private missing(i: number): never {
    throw this.malformed(`input ${i} is missing`)
  }

  /** A required input that may hold codes. */
  value(i: number): Value {
    return this.inputs[i] ?? this.missing(i)
  }

  /** The same node on other inputs. */
  withInputs(inputs: readonly (Value | undefined)[]): OpContext {
    return new OpContext(this.node, this.opset, inputs, this.services)
  }

  /** All inputs, each of them required, and one at least. */
  all(): Node[] {
    if (this.inputs.length === 0) this.missing(0)
    return this.inputs.map((_, i) => this.need(i))
  }

  /** Rejects the node: the importer reports the reason with all others. */
  fail(reason: string): never {
    throw new Unsupported(reason)
  }

  has(name: string): boolean {
    return this.attributes.has(name)
  }

  private attr(name: string, type: number): AttributeProto | undefined {
    const a = this.attributes.get(name)
    if (a !== undefined && a.type !== type)
      throw this.malformed(`attribute "${name}" is of kind ${a.type}, where kind ${type} is expected`)
    return a
  }

  int(name: string, fallback: number): number {
    return Number(this.attr(name, attributeType.INT)?.i ?? fallback)
  }
  optInt(name: string): number | undefined {
    const a = this.attr(name, attributeType.INT)
    return a === undefined ? undefined : Number(a.i)
  }
  flag(name: string, fallback: boolean): boolean {
    return this.int(name, fallback ? 1 : 0) !== 0
  }
  float(name: string, fallback: number): number {
    return this.attr(name, attributeType.FLOAT)?.f ?? fallback
  }
  optFloat(name: string): number | undefined {
    return this.attr(name, attributeType.FLOAT)?.f
  }
  /** A number that some operators keep as a float and others as an integer. */
  optNumber(name: string): number | undefined {
    return this.attributes.get(name)?.type === attributeType.INT ? this.optInt(name) : this.optFloat(name)
  }
  string(name: string, fallback: string): string {
    const a = this.attr(name, attributeType.STRING)
    return a === undefined ? fallback : utf8.decode(a.s)
  }
  ints(name: string): number[] | undefined {
    return this.attr(name, attributeType.INTS)?.ints.map(Number)
  }
  floats(name: string): number[] | undefined {
    return this.attr(name, attributeType.FLOATS)?.floats
  }
  strings(name: string): string[] | undefined {
    return this.attr(name, attributeType.STRINGS)?.strings.map((s) => utf8.decode(s))
  }
  tensor(name: string): HostTensor | undefined {
    const t = this.attr(name, attributeType.TENSOR)?.t
    return t === undefined ? undefined : this.services.tensor(t)
  }
  graph(name: string): GraphProto {
    const g = this.attr(name, attributeType.GRAPH)?.g
    if (g === undefined) throw this.malformed(`attribute "${name}" is missing`)
    return g
  }

  /** The dtype an integer attribute names (TensorProto.DataType). */
  dtype(name: string, fallback = 0): DType {
    const type = this.int(name, fallback)
    return dtypeOfElement(type) ?? this.fail(`it asks for elements of type ${elementTypeName(type)}`)
  }

  /** The host value of an input, needed to fix shapes or attributes. */
  host(i: number, what: string, because?: Because): HostTensor {
    return this.services.hostValue(this.need(i), what, because)
  }

  /** The elements of an input as numbers. */
  numbersOf(i: number, what: string, because?: Because): number[] {
    const t = this.host(i, what, because)
    return Array.from({ length: t.data.length }, (_, k) => Number(readElement(t.data, t.dtype, k)))
  }

  /** The integers of an input. */
  intsOf(i: number, what: string, because?: Because): number[] {
    const values = this.numbersOf(i, what, because)
    const odd = values.find((v) => !Number.isInteger(v))
    if (odd !== undefined) throw this.malformed(`${what} holds ${odd}, which is not a whole number`)
    return values
  }

  /** The one number of an input. */
  intOf(i: number, what: string, because?: Because): number {
    const values = this.intsOf(i, what, because)
    const [v] = values
    if (v === undefined || values.length !== 1) throw this.malformed(`${what} must be one number`)
    return v
  }

  /** An integer list that older operator sets keep in an attribute and newer ones in an input. */
  intsFrom(name: string, input: number): number[] | undefined {
    const a = this.ints(name)
    if (a !== undefined) return a
    return this.opt(input) === undefined ? undefined : this.intsOf(input, name)
  }

  axis(fallback: number, rank: number, name = 'axis'): number {
    return normaliseAxis(this.int(name, fallback), rank)
  }

  /** Requires `shape`, that of an operand of the node, to be as told. */
  requireShape(met: boolean, shape: Shape, what: string): void {
    if (met) return
    throw new UserError('E_SHAPE', `${this.node.opType}: ${what} has the shape ${showShape(shape)}`, {
      help: 'check that inputShapes and inputValues are those the model was exported for',
    })
  }

  /** Requires so many numbers of a list, for as many axes. */
  requireLength(what: string, list: readonly number[], length: number): void {
    if (list.length !== length) throw this.malformed(`${what} holds ${list.length} numbers, not ${length}`)
  }

  requireFloat(x: Node): void {
    if (!isFloat(x.dtype)) this.fail(`it is not defined on ${x.dtype}`)
  }
}

/** The graph nodes of an ONNX node's outputs, in order; undefined for outputs it does not give. */
export type Handler = (c: OpContext) => Value | readonly (Value | undefined)[]
export type HandlerTable = Readonly<Record<string, Handler>>
