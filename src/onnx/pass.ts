/**
 * One pass over a model. Nodes are imported in order through the handler table (`ops/`); local functions are inlined. Everything
 * unsupported is listed at once.
 */
import { UserError } from '../diagnostics/errors.ts'
import { inOrigin, makeOrigin } from '../diagnostics/origin.ts'
import { keepsViews, makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf, TensorType } from '../graph/node.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import { type Shape, sizeOf } from '../types/shape.ts'
import { isCoded, type Value } from './codes.ts'
import { type ImportServices, OpContext, Unsupported } from './context.ts'
import { type CountedRoot, countedOutputs, dependsOn, type OutputCount, refusalOfRoom, withCounts } from './counted.ts'
import { functionKey, instantiate } from './functions.ts'
import { givenFor, type InputOptions, type ModelInput } from './inputs.ts'
import { literal } from './nodes.ts'
import { findHandler, refusalOf } from './ops/index.ts'
import { isUnsupported, type Problem, Problems, remedyOf } from './problems.ts'
import type { FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto } from './proto.ts'
import { type Binding, poisoned, Scope } from './scope.ts'
import { mark, type StepBody, stepBody, stepParams, type Unfit } from './stepBody.ts'
import { type ExternalLoader, type HostTensor, tensorFromProto } from './tensors.ts'
import { HostValues, NeedsInputValues, NeedsStepValue } from './values.ts'
import { Written } from './work.ts'

export interface ImportOptions extends InputOptions {
  /** Computes a node that depends on constants only (the caller gives its reference evaluator). */
  readonly evaluate: (node: Node) => HostArray
  /** Reads external data; without it, models that keep tensors in other files are refused. */
  readonly external?: ExternalLoader
  /**
   * Float initialisers become parameters of the graph, after the inputs, so that derivatives in them exist. Those whose values
   * fix shapes or attributes stay constants, as do whole exponents (a power of negative numbers has no derivative in its
   * exponent), unused ones and those of subgraphs.
   */
  readonly parameters?: boolean
  /** Told what was refused so far where an import, or a try of one with shapes that are not known, gives no model. */
  readonly onRefused?: (parts: readonly Problem[]) => void
}

/** A float initialiser that is a parameter of the graph, and its value in the model. */
export interface ModelParameter {
  readonly name: string
  readonly value: HostTensor
}

export interface ImportedModel {
  readonly graph: Graph
  /** Names of the inputs: the graph's first parameters, by parameter number. */
  readonly inputNames: readonly string[]
  /** Float initialisers, the graph's parameters after the inputs; none unless asked for. */
  readonly parameters: readonly ModelParameter[]
  readonly outputNames: readonly string[]
  /** Inputs whose values were needed to fix shapes: they are constants of the graph, not parameters. */
  readonly specialised: readonly string[]
  /** For each output what number its results have, where that depends on data: the graph has the numbers as further outputs. */
  readonly counts: readonly (OutputCount | undefined)[]
}

/** The name of ONNX's own domain is empty. */
export const normaliseDomain = (domain: string): string => (domain === 'ai.onnx' ? '' : domain)
export const fullName = (n: NodeProto): string =>
  normaliseDomain(n.domain) === '' ? n.opType : `${n.domain}.${n.opType}`

/** Local functions may call each other, but not without end. */
const maxCallDepth = 64
/** Results up to this many elements that depend on constants only are folded at once: shape computations. */
const foldLimit = 1024
/** ... unless computing them takes more than this. */
const heavyLimit = 2 ** 18

/** A host tensor as a value. */
function toValue(t: HostTensor): Value {
  return t.coded === undefined ? literal(t) : { coded: t.coded, node: literal(t) }
}

const isValue = (x: Value | readonly (Value | undefined)[]): x is Value => !Array.isArray(x)

type Opsets = ReadonlyMap<string, number>
const opsetsOf = (list: readonly { domain: string; version: number }[]): Opsets =>
  new Map(list.map((o) => [normaliseDomain(o.domain), o.version]))

/** A model that was read, to be imported for one set of shapes after another: its weights are read once. */
export interface ReadModel {
  readonly model: ModelProto
  /** The tensors that were read so far: passes over the model share them. */
  readonly tensors: Map<TensorProto, HostTensor>
  /** The bytes, and those that `external` gives, are nobody else's any more: tensors stand in them, and may be moved there. */
  readonly donated: boolean
}

/** One pass over a model with a given set of specialised inputs. */
export class ImportPass {
  private readonly read: ReadModel
  private readonly model: ModelProto
  private readonly options: ImportOptions
  private readonly functions: ReadonlyMap<string, FunctionProto>
  private readonly values: HostValues
  private readonly problems = new Problems()
  private readonly written = new Written()
  /** Inputs and initialisers that are constants because their values fix shapes. */
  private readonly specialised: ReadonlySet<string>
  private readonly params: NodeOf<'param'>[] = []
  private readonly parameters: ModelParameter[] = []
  /** Results in room for a bound. */
  private readonly roots: CountedRoot[] = []
  /** Names of nodes and outputs that a bound may be given for. */
  private readonly boundable = new Set<string>()

  constructor(read: ReadModel, options: ImportOptions, specialised: ReadonlySet<string>) {
    const { model } = read
    this.read = read
    this.model = model
    this.options = options
    this.specialised = specialised
    this.functions = new Map(
      model.functions.map((f) => [functionKey(normaliseDomain(f.domain), f.name, f.overload), f]),
    )
    this.values = new HostValues(options.evaluate)
  }

  /** Inputs and initialisers whose values were asked for: they must be specialised. */
  get asked(): ReadonlySet<string> {
    return this.values.asked
  }

  /** What was refused so far. */
  get refused(): readonly Problem[] {
    return this.problems.all
  }

  private tensor(proto: TensorProto): HostTensor {
    const { tensors, donated } = this.read
    const have = tensors.get(proto)
    if (have !== undefined) return have
    const made = tensorFromProto(proto, this.options.external, donated)
    tensors.set(proto, made)
    return made
  }

  private initialisers(graph: GraphProto): Map<string, () => Binding> {
    if (graph.sparseInitializers > 0)
      this.problems.add('sparse initialiser', graph.name, 'sparse tensors are not imported')
    const trained = this.options.parameters === true && graph === this.model.graph
    return new Map(graph.initializer.map((t) => [t.name, () => this.initialiser(t, trained)]))
  }

  private param(name: string, shape: Shape, dtype: DType, value: HostTensor | undefined, own: boolean): Node {
    const p = makeNode('param', [], { index: this.params.length, shape, dtype })
    this.params.push(p)
    this.values.nameParam(p, name, value, own)
    return p
  }

  private initialiser(t: TensorProto, trained: boolean): Binding {
    try {
      const value = this.tensor(t)
      if (!trained || value.coded !== undefined || !isFloat(value.dtype) || this.specialised.has(t.name))
        return toValue(value)
      this.parameters.push({ name: t.name, value })
      return this.param(t.name, value.shape, value.dtype, value, true)
    } catch (error) {
      if (!isUnsupported(error)) throw error
      this.problems.add('initialiser', t.name, error.summary)
      return poisoned
    }
  }

  private record(n: NodeProto, reason: string): void {
    this.problems.add(fullName(n), n.name || n.output.find((o) => o !== '') || '(unnamed)', reason)
  }

  /** Nodes after an unsupported one are not built, but their kinds are still checked, so that the list is whole. */
  private checkKnown(n: NodeProto, opsets: Opsets): void {
    if (this.functions.has(functionKey(normaliseDomain(n.domain), n.opType, n.overload))) return
    const reason = this.reasonAgainst(n)
    if (reason !== undefined) this.record(n, reason)
    for (const a of n.attribute)
      for (const g of a.g === undefined ? a.graphs : [a.g, ...a.graphs])
        for (const m of g.node) this.checkKnown(m, opsets)
  }

  /** Throws E_ONNX_UNSUPPORTED for operators that are not here. Branches and functions may never run: those are left aside. */
  checkOperators(): void {
    for (const n of this.model.graph.node) {
      const reason = this.reasonAgainst(n)
      if (reason !== undefined) this.record(n, reason)
    }
    this.problems.report()
  }

  /** Why a node is refused whatever it reads; undefined where that depends on it. */
  private reasonAgainst(n: NodeProto): string | undefined {
    const domain = normaliseDomain(n.domain)
    const isLocal = this.functions.has(functionKey(domain, n.opType, n.overload))
    return isLocal ? undefined : refusalOf(domain, n.opType)
  }

  private runNode(n: NodeProto, scope: Scope, opsets: Opsets, depth: number): void {
    if (depth > 0) this.written.add()
    const inputs = n.input.map((name) => (name === '' ? undefined : scope.get(name, `${n.opType} "${n.name}"`)))
    if (inputs.includes(poisoned)) {
      this.checkKnown(n, opsets)
      for (const o of n.output) scope.set(o, poisoned)
      return
    }
    const nodes = inputs.filter((x) => x !== poisoned)
    const results = this.resultsOf(n, nodes, scope, opsets, depth)
    n.output.forEach((name, i) => {
      if (name === '') return
      const r = results === undefined ? poisoned : results[i]
      if (r !== undefined) scope.set(name, r)
    })
  }

  private resultsOf(
    n: NodeProto,
    inputs: readonly (Value | undefined)[],
    scope: Scope,
    opsets: Opsets,
    depth: number,
  ): readonly (Value | undefined)[] | undefined {
    const domain = normaliseDomain(n.domain)
    const fn = this.functions.get(functionKey(domain, n.opType, n.overload))
    if (fn !== undefined) return this.call(fn, n, inputs, depth)
    const handler = findHandler(domain, n.opType)
    if (handler === undefined) {
      this.checkKnown(n, opsets)
      return undefined
    }
    const services: ImportServices = {
      hostValue: (node, what, because) => this.values.get(node, `${n.opType} "${n.name}" (${what})`, because),
      isStatic: (node) => this.values.isStatic(node),
      isFixed: (node) => this.values.isFixed(node),
      ownValue: (node) => this.values.ownValue(node),
      tensor: (proto) => this.tensor(proto),
      bound: () => this.boundOf(n),
      counted: (node, axis, count) => {
        if (depth > 0 || inputs.some((x) => x !== undefined && this.hasRoom(isCoded(x) ? x.node : x)))
          throw new Unsupported(
            'how many results it has depends on data, inside a graph or after others of which that is so',
          )
        this.roots.push({ node, axis, count, op: fullName(n), name: n.name || n.output.find((o) => o !== '') || '' })
        return node
      },
      hasRoom: (node) => this.hasRoom(node),
      subgraph: (graph, args) => this.subgraph(graph, args, scope, opsets, depth),
      stepBody: (graph, types) => this.stepBody(graph, types, scope, opsets, depth),
    }
    const context = new OpContext(n, opsets.get(domain) ?? 1, inputs, services)
    const where = n.name || n.output.find((o) => o !== '')
    try {
      const out = inOrigin(makeOrigin(n.opType, where), () => handler(context))
      const list: readonly (Value | undefined)[] = isValue(out) ? [out] : out
      return list.map((x) => (x === undefined ? undefined : this.fold(x)))
    } catch (error) {
      if (error instanceof Unsupported) {
        if (error.message !== '') this.record(n, error.message)
        return undefined
      }
      if (isUnsupported(error)) {
        this.record(n, error.summary)
        return undefined
      }
      if (error instanceof UserError && error.where === undefined)
        throw new UserError(error.code, error.summary, {
          where: `${n.opType} "${where ?? ''}"`,
          help: error.help ?? remedyOf(error),
        })
      throw error
    }
  }

  private hasRoom(node: Node): boolean {
    return dependsOn(node, this.roots)
  }

  /** The bound that the caller gives a node, by its name or an output's. Throws E_ONNX_INPUT for what is none. */
  private boundOf(n: NodeProto): number | undefined {
    const names = [n.name, ...n.output].filter((name) => name !== '')
    for (const name of names) this.boundable.add(name)
    const name = names.find((x) => givenFor(this.options.bounds, x) !== undefined)
    const bound = name === undefined ? undefined : givenFor(this.options.bounds, name)
    if (bound !== undefined && (!Number.isSafeInteger(bound) || bound < 0))
      throw new UserError('E_ONNX_INPUT', `the bound of "${name}" is ${bound}`, {
        help: 'a bound is a whole number of at least 0',
      })
    return bound
  }

  /** Throws E_ONNX_INPUT for a bound of what takes none. */
  private checkBounds(): void {
    const odd = Object.keys(this.options.bounds ?? {}).find((name) => !this.boundable.has(name))
    if (odd !== undefined)
      throw new UserError(
        'E_ONNX_INPUT',
        `a bound is given for "${odd}", which has no number of results that depends on data`,
        {
          help:
            this.boundable.size === 0 ? 'nothing of this model has' : `these have: ${[...this.boundable].join(', ')}`,
        },
      )
  }

  /** Small values of constants become constants at once, so that chains of shape arithmetic stay short. */
  private fold(x: Value): Value {
    if (isCoded(x)) return { ...x, node: this.foldNode(x.node) }
    return this.foldNode(x)
  }

  private foldNode(x: Node): Node {
    // What is computed over extents that vary is another literal at each: a single number has a formula.
    const limit = keepsViews() ? 1 : foldLimit
    if (x.op === 'constant' || sizeOf(x.shape) > limit || !this.values.isStatic(x)) return x
    if (this.values.isHeavy(x, heavyLimit)) return x
    return literal(this.values.get(x, 'a constant'))
  }

  private call(
    fn: FunctionProto,
    n: NodeProto,
    inputs: readonly (Value | undefined)[],
    depth: number,
  ): readonly (Value | undefined)[] | undefined {
    if (depth >= maxCallDepth)
      throw new UserError('E_ONNX_MALFORMED', `the calls of local function "${fn.name}" nest without end`, {
        help: 'functions of a model may not call themselves: export it again',
      })
    const scope = new Scope()
    const absent = new Set<string>()
    fn.input.forEach((name, i) => {
      const x = inputs[i]
      if (x === undefined) absent.add(name)
      else scope.set(name, x)
    })
    const opsets = fn.opsetImport.length > 0 ? opsetsOf(fn.opsetImport) : opsetsOf(this.model.opsetImport)
    for (const m of instantiate(fn, n)) {
      const name = n.name === '' ? m.name : `${n.name}/${m.name || m.output[0] || ''}`
      this.runNode({ ...m, name, input: m.input.map((i) => (absent.has(i) ? '' : i)) }, scope, opsets, depth + 1)
    }
    const out = fn.output.map((name) => scope.find(name))
    if (out.includes(poisoned)) return undefined
    return out.filter((x) => x !== poisoned)
  }

  private stepBody(
    graph: GraphProto,
    types: readonly TensorType[],
    outer: Scope,
    opsets: Opsets,
    depth: number,
  ): StepBody | Unfit {
    const since = mark()
    const params = stepParams(types)
    for (const p of params) this.values.markStep(p)
    const problems = this.problems.count
    let because: Unfit['because']
    try {
      const outputs = this.subgraph(graph, params, outer, opsets, depth)
      if (this.problems.count === problems) return stepBody(params, outputs, since)
    } catch (error) {
      if (error instanceof NeedsStepValue) because = error.because
      else if (error instanceof UserError || error instanceof NeedsInputValues) because = error
      else if (error instanceof Unsupported) {
        if (error.message !== '') this.problems.add('subgraph', graph.name, error.message)
      } else throw error
    }
    because ??= this.problems.since(problems)
    this.problems.back(problems)
    return { because }
  }

  private subgraph(
    graph: GraphProto,
    args: readonly Node[],
    outer: Scope,
    opsets: Opsets,
    depth: number,
  ): readonly Node[] {
    this.written.add()
    if (depth >= maxCallDepth)
      throw new UserError('E_ONNX_MALFORMED', 'subgraphs nest without end', {
        help: 'export the model again',
      })
    const scope = new Scope(outer, this.initialisers(graph))
    graph.input.forEach((v, i) => {
      const x = args[i]
      if (x !== undefined) scope.set(v.name, x)
    })
    for (const n of graph.node) this.runNode(n, scope, opsets, depth + 1)
    return graph.output.map((v) => {
      const x = scope.get(v.name, `an output of subgraph "${graph.name}"`)
      // The nodes at fault are recorded already.
      if (x === poisoned) throw new Unsupported('')
      if (isCoded(x)) throw new Unsupported(`output "${v.name}" of its subgraph has elements of type ${x.coded}`)
      return x
    })
  }

  run(inputs: readonly ModelInput[]): ImportedModel {
    const graph = this.model.graph
    const scope = new Scope(undefined, this.initialisers(graph))
    const inputNames: string[] = []
    for (const v of inputs) {
      if (v.unsupported !== undefined) {
        this.problems.add('input', v.name, v.unsupported)
        scope.set(v.name, poisoned)
        continue
      }
      const value = givenFor(this.options.inputValues, v.name)
      if (value !== undefined && this.specialised.has(v.name)) {
        scope.set(v.name, toValue(value))
        continue
      }
      const p = this.param(v.name, v.shape, v.dtype, value, false)
      inputNames.push(v.name)
      scope.set(v.name, v.coded === undefined ? p : { coded: v.coded, node: p })
    }
    const opsets = opsetsOf(this.model.opsetImport)
    for (const n of graph.node) this.runNode(n, scope, opsets, 0)
    this.problems.report()
    const outputs = graph.output.map((v) => {
      const x = scope.get(v.name, 'the output list of the model')
      if (x === poisoned) throw new UserError('E_ONNX_UNSUPPORTED', `output "${v.name}" depends on an unsupported node`)
      return isCoded(x) ? x.node : x
    })
    this.checkBounds()
    const { counted, takesAll } = countedOutputs(outputs, this.roots)
    if (takesAll !== undefined) this.problems.add(takesAll.root.op, takesAll.root.name, refusalOfRoom(takesAll))
    this.problems.report()
    const whole = withCounts({ params: this.params, outputs, effects: [] }, counted)
    return {
      ...whole,
      inputNames,
      parameters: this.parameters,
      outputNames: graph.output.map((v) => v.name),
      specialised: inputs.flatMap((v) => (this.specialised.has(v.name) ? [v.name] : [])),
    }
  }
}
