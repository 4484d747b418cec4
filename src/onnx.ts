/**
 * The entry `sinter/onnx`: ONNX models as functions of tensors. Their float initialisers are parameters, so they differentiate and train.
 * @module sinter/onnx
 */

import { checkOptions, kinds, optionNames } from './api/calls/options.ts'
import { placed, withPlace } from './api/calls/place.ts'
import { takeKept } from './api/device/kept.ts'
import { declareDynamic } from './api/jit/dynamic.ts'
import { storageOf } from './api/tensor/core.ts'
import { Dim, OpenSpec } from './api/tensor/openSpec.ts'
import { Storage } from './api/tensor/storage.ts'
import { Tensor, wrap } from './api/tensor/tensor.ts'
import { TensorSpec } from './api/tensor/tree.ts'
import { applyGraph, taker } from './api/transforms/apply.ts'
import { UserError } from './diagnostics/errors.ts'
import { kindOf } from './diagnostics/shown.ts'
import type { NodeOf } from './graph/node.ts'
import {
  type Dimension,
  type ExternalLoader,
  type ImportedModel,
  importModel,
  type Lengths,
  Models,
  readModel,
  splitLengths,
} from './onnx/index.ts'
import { evaluateConstant } from './reference/evaluate.ts'
import { inlineGraph } from './transforms/index.ts'
import type { DType } from './types/dtype.ts'
import { type Shape, sameShape, showShape } from './types/shape.ts'

export type { ExternalLoader } from './onnx/index.ts'

/** Tensors by name. */
export type TensorRecord = Readonly<Record<string, Tensor>>

/** Options of `importOnnx`. */
export interface OnnxOptions {
  /** Shapes of inputs that the model leaves open. */
  readonly inputShapes?: Readonly<Record<string, Shape>>
  /**
   * Extents by the names that the model has for them: `{ batch: 1, sequence: 128 }`; or the least and the most that one may be,
   * `{ sequence: [8, 512] }`: then `jit(model.apply)` makes programs that serve the range (docs/open.md).
   */
  readonly lengths?: Readonly<Record<string, number | readonly [least: number, most: number]>>
  /**
   * Most results of nodes whose number of them depends on data (NonMaxSuppression, NonZero, Unique, Compress), by the name of the node or an
   * output of it; as many as there can be unless given.
   */
  readonly bounds?: Readonly<Record<string, number>>
  /** A file of `sinter compile`: programs that it has are not compiled again. It is code, as trusted as a module is. */
  readonly compiled?: Uint8Array
  /** Values of inputs: their shapes, and where shapes depend on an input's values, those values for good. */
  readonly inputValues?: TensorRecord
  /** Reads tensors that the model keeps in other files. */
  readonly external?: ExternalLoader
  /**
   * The bytes, and those that `external` gives, are given away: large weights stand in them rather than in copies, and are moved there to be
   * aligned. Nobody else may read or write them afterwards.
   */
  readonly donated?: boolean
}

const onnxOptions = optionNames<OnnxOptions>('{ inputShapes: { x: [1, 3] } }', {
  inputShapes: kinds.anything,
  lengths: kinds.anything,
  bounds: kinds.anything,
  compiled: { what: 'the bytes of a file of `sinter compile`', holds: (x) => x instanceof Uint8Array },
  inputValues: kinds.anything,
  external: kinds.call,
  donated: kinds.flag,
})

/** An imported model. */
export interface OnnxModel {
  /** The float initialisers that no shape depends on, by name, with the values the model has. */
  readonly parameters: Record<string, Tensor>
  /** Types of the inputs, by name; where extents vary, at the most they may be. */
  readonly inputs: Readonly<Record<string, TensorSpec>>
  /** Types of the inputs whose extents vary, by name: with the dimensions that `lengths` gave ranges. */
  readonly varying: Readonly<Record<string, OpenSpec>>
  /** Names of the outputs, in order. */
  readonly outputs: readonly string[]
  /**
   * Outputs whose number of results depends on data (NonMaxSuppression, NonZero): `axis` has room for a bound, and the output named `count`, which
   * `apply` gives too, is how many there are (an i64 scalar; more than the axis is long where the bound is too low).
   */
  readonly counts: Readonly<Record<string, { readonly axis: number; readonly count: string }>>
  /**
   * The outputs by name. Traces under jit, grad, vmap and the like as any function of tensors does. Throws E_STRUCTURE for a
   * parameter or an input that is missing or unknown, E_SHAPE, E_DTYPE for one of another type.
   */
  apply(parameters: TensorRecord, inputs: TensorRecord): Record<string, Tensor>
}

const show = (x: { readonly shape: Shape; readonly dtype: DType }): string => `${x.dtype}${showShape(x.shape)}`

/** The tensors of a record for named parameters of the graph, in their order. */
function chosen(
  given: TensorRecord,
  wanted: readonly { readonly name: string; readonly param: NodeOf<'param'> }[],
  what: 'parameter' | 'input',
): Tensor[] {
  const fail = (code: 'E_STRUCTURE' | 'E_SHAPE' | 'E_DTYPE', message: string, help: string): UserError =>
    new UserError(code, `model.apply: ${message}`, { help, ...withPlace() })
  const names = new Set(wanted.map((w) => w.name))
  if (typeof given !== 'object' || given === null)
    throw fail('E_STRUCTURE', `the ${what}s are ${kindOf(given)}`, 'call model.apply(model.parameters, { x })')
  const list = [...names].slice(0, 8).join(', ') + (names.size > 8 ? ', ...' : '')
  const odd = Object.keys(given).find((k) => !names.has(k))
  if (odd !== undefined) throw fail('E_STRUCTURE', `the model has no ${what} "${odd}"`, `it has ${list || 'none'}`)
  return wanted.map(({ name, param }) => {
    const x: unknown = Object.hasOwn(given, name) ? given[name] : undefined
    if (!(x instanceof Tensor))
      throw fail(
        'E_STRUCTURE',
        `the ${what} "${name}" is ${x === undefined ? 'missing' : 'no tensor'}`,
        `give ${show(param)}`,
      )
    if (x.dtype !== param.dtype)
      throw fail(
        'E_DTYPE',
        `the ${what} "${name}" is ${show(x)}, the model takes ${show(param)}`,
        'cast it with astype',
      )
    if (!sameShape(x.shape, param.shape))
      throw fail(
        'E_SHAPE',
        `the ${what} "${name}" is ${show(x)}, the model takes ${show(param)}`,
        'import the model again with the new shape in inputShapes',
      )
    return x
  })
}

/** The parameters of a model's graph that are its inputs, by name. */
const inputsOf = ({ graph, inputNames }: ImportedModel) =>
  inputNames.flatMap((name, i) => {
    const param = graph.params[i]
    return param === undefined ? [] : [{ name, param }]
  })

/** The name of a number of results: that of the first output that has it. */
const numberName = ({ outputNames, counts }: ImportedModel, output: number): string =>
  `${outputNames[counts.findIndex((c) => c?.output === output)] ?? ''}.count`

/** A model's outputs by name. */
function applied(model: ImportedModel, given: TensorRecord, values: TensorRecord): Record<string, Tensor> {
  const { graph, inputNames, parameters } = model
  const trained = parameters.flatMap(({ name }, i) => {
    const param = graph.params[inputNames.length + i]
    return param === undefined ? [] : [{ name, param }]
  })
  const operands = [...chosen(values, inputsOf(model), 'input'), ...chosen(given, trained, 'parameter')]
  const next = taker(applyGraph('model.apply', operands, (nodes) => inlineGraph(graph, nodes)))
  return Object.fromEntries(
    graph.outputs.flatMap((_, i) => {
      const name = model.outputNames[i] ?? numberName(model, i)
      const y = next()
      return y === undefined ? [] : [[name, y]]
    }),
  )
}

/** The inputs of a model whose extents vary, with dimensions for what has a range. */
function varyingOf(models: Models, model: ImportedModel): Readonly<Record<string, OpenSpec>> {
  const dims = new Map(models.ranges.map(({ name, least, most }) => [name, new Dim(name, least, most)]))
  /** The dimension that a declared extent is; undefined where it does not vary. */
  const dimOf = (d: Dimension): Dim | undefined => {
    if (d === undefined || typeof d === 'number') return undefined
    const sum = models.sums.get(d)
    if (sum === undefined) return dims.get(d)
    const terms = sum.names.map((name) => dims.get(name) ?? models.fixed[name] ?? 0)
    const [first, ...others] = terms.filter((t) => t instanceof Dim)
    const rest = terms.reduce<number>((n, t) => (typeof t === 'number' ? n + t : n), sum.plus)
    const all = others.reduce((x, y) => x?.plus(y), first)
    return rest === 0 ? all : all?.plus(rest)
  }
  return Object.fromEntries(
    inputsOf(model).flatMap(({ name, param }) => {
      const shape = param.shape.map((n, a) => {
        return dimOf(models.declared(name)?.[a]) ?? n
      })
      return shape.some((d) => d instanceof Dim) ? [[name, new OpenSpec(shape, param.dtype)]] : []
    }),
  )
}

/** The extents that inputs give the names that vary. Throws E_SHAPE for those outside their range. */
function extentsOf(models: Models, varying: Readonly<Record<string, OpenSpec>>, values: TensorRecord): Lengths {
  const at: Record<string, number> = {}
  for (const [name, { shape }] of Object.entries(varying)) {
    const x: unknown = values[name]
    if (!(x instanceof Tensor)) continue
    for (const [a, d] of shape.entries()) {
      if (!(d instanceof Dim) || d.sum !== undefined || at[d.name] !== undefined) continue
      const n = x.shape[a] ?? 0
      if (n < d.least || n > (d.most ?? n))
        throw new UserError(
          'E_SHAPE',
          `model.apply: the input "${name}" is ${show(x)}, and ${d.name} is from ${d.least} to ${d.most}`,
          {
            help: 'give extents within the ranges of lengths, or import the model with wider ones',
            ...withPlace(),
          },
        )
      at[d.name] = n
    }
  }
  return Object.fromEntries(models.ranges.map((r) => [r.name, at[r.name] ?? r.most]))
}

/** A model of fixed extents, or of extents that vary, which is then imported anew for each set of them. */
function modelOf(model: ImportedModel, models?: Models): OnnxModel {
  const varying = models === undefined ? {} : varyingOf(models, model)
  const apply: OnnxModel['apply'] = (given, values) => {
    const isRecord = typeof (values as unknown) === 'object' && (values as unknown) !== null
    const own = models === undefined || !isRecord ? model : models.at(extentsOf(models, varying, values))
    return applied(own, given, values)
  }
  if (models !== undefined) declareDynamic(apply, [undefined, varying])
  const { parameters } = model
  return {
    parameters: Object.fromEntries(
      parameters.map(({ name, value: { data, shape, dtype } }) => [
        name,
        wrap({ kind: 'stored', storage: Storage.ofHost(data, shape, dtype) }),
      ]),
    ),
    inputs: Object.fromEntries(
      inputsOf(model).map(({ name, param }) => [name, new TensorSpec(param.shape, param.dtype)]),
    ),
    varying,
    outputs: model.outputNames,
    counts: Object.fromEntries(
      model.outputNames.flatMap((name, i) => {
        const c = model.counts[i]
        return c === undefined ? [] : [[name, { axis: c.axis, count: numberName(model, c.output) }]]
      }),
    ),
    apply,
  }
}

/** Runs the importer: an error at a node of the model says the call that imported it too. */
function atNode<R>(body: () => R): R {
  try {
    return body()
  } catch (error) {
    if (!(error instanceof UserError) || error.where === undefined) throw error
    const { code, summary, help } = error
    const { where = '' } = withPlace()
    throw new UserError(code, summary, {
      where: where === '' ? error.where : `${error.where}, imported at ${where}`,
      ...(help === undefined ? {} : { help }),
      cause: error,
    })
  }
}

/**
 * A serialised ONNX model (https://onnx.ai/onnx) as a function of its parameters and inputs: `model.apply` traces, differentiates and
 * trains as any function of tensors does.
 * @throws E_ONNX_MALFORMED for bytes that are no model, E_ONNX_UNSUPPORTED listing every node at fault, E_ONNX_INPUT for a shape or value of
 * an input that is missing, E_FILE for a file of kept programs that is malformed, E_SHAPE and E_DTYPE for a model that contradicts itself, E_ARGUMENT for what are no bytes and for options that
 * are none
 * @example
 * const { readFile } = await import('node:fs/promises')
 * const model = importOnnx(await readFile('examples/digits/digits.onnx'))
 * const image = ones(model.inputs.image?.shape ?? [])
 * const { digit } = jit(model.apply)(model.parameters, { image })
 * digit?.shape // [256]
 */
export function importOnnx(bytes: Uint8Array, options: OnnxOptions = {}): OnnxModel {
  return placed(() => {
    const given: unknown = bytes
    if (!(given instanceof Uint8Array))
      throw new UserError('E_ARGUMENT', `importOnnx takes the bytes of a model, and got ${kindOf(given)}`, {
        help: 'read the file first: importOnnx(await readFile(path)), or new Uint8Array(await response.arrayBuffer())',
      })
    checkOptions(options, 'importOnnx', onnxOptions)
    const { inputShapes, inputValues, lengths, bounds, compiled, external, donated } = options
    if (compiled !== undefined) takeKept(compiled)
    const values = Object.entries(inputValues ?? {}).map(([name, x]) => {
      if (!((x as unknown) instanceof Tensor))
        throw new UserError('E_ARGUMENT', `inputValues.${name} is ${kindOf(x)}, not a tensor`, {
          help: 'make a tensor of it first: tensor(data)',
        })
      const data = storageOf(x, 'importOnnx').readSync()
      return [name, { data, shape: x.shape, dtype: x.dtype }] as const
    })
    const { fixed, ranges } = splitLengths(lengths ?? {})
    const asked = {
      evaluate: evaluateConstant,
      parameters: true,
      inputValues: Object.fromEntries(values),
      lengths: fixed,
      ...(inputShapes === undefined ? {} : { inputShapes }),
      ...(bounds === undefined ? {} : { bounds }),
      ...(external === undefined ? {} : { external }),
    }
    if (ranges.length === 0) return modelOf(atNode(() => importModel(readModel(bytes, donated), asked)))
    const models = new Models(
      atNode(() => readModel(bytes, donated)),
      asked,
      ranges,
    )
    return atNode(() => {
      models.atEnd('least')
      return modelOf(models.atEnd('most'), models)
    })
  })
}
