/** Inputs of a model: their dtypes and shapes from the declarations and from what the caller gives. */
import { UserError } from '../diagnostics/errors.ts'
import type { DType } from '../types/dtype.ts'
import { type Shape, showShape } from '../types/shape.ts'
import { type CodedType, codeDType } from './codes.ts'
import type { OpenInput } from './open.ts'
import type { Dimension, GraphProto, ValueInfo } from './proto.ts'
import { codedOfElement, dtypeOfElement, elementTypeName, type HostTensor } from './tensors.ts'

export interface InputOptions {
  /** Extents by the names that the model has for them. */
  readonly lengths?: Readonly<Record<string, number>>
  readonly inputShapes?: Readonly<Record<string, readonly number[]>>
  /** Most results of nodes whose number of them depends on data, by the node's name or that of an output of it. */
  readonly bounds?: Readonly<Record<string, number>>
  readonly inputValues?: Readonly<Record<string, HostTensor>>
}

export interface ModelInput {
  readonly name: string
  readonly shape: Shape
  readonly dtype: DType
  /** The ONNX type whose codes the input holds, where the graph has no dtype for it. */
  readonly coded?: CodedType
  /** Why the input cannot be imported. */
  readonly unsupported?: string
}

const inputError = (message: string, help: string): UserError => new UserError('E_ONNX_INPUT', message, { help })

/** What a caller gave for a name. Records are the caller's objects: what they inherit is no entry. */
export const givenFor = <T>(record: Readonly<Record<string, T>> | undefined, name: string): T | undefined =>
  record !== undefined && Object.hasOwn(record, name) ? record[name] : undefined

/** Declared extents with symbols bound by the caller's shapes; undefined when nobody says the rank. */
function shapeOf(
  v: ValueInfo,
  given: readonly number[] | undefined,
  symbols: ReadonlyMap<string, number>,
  lengths: ReadonlySet<string>,
): readonly Dimension[] | undefined {
  const declared = v.shape
  if (declared === undefined) return given
  if (given !== undefined && given.length !== declared.length)
    throw inputError(
      `input "${v.name}" has rank ${declared.length}, but shape ${showShape(given)} was given`,
      'give a shape of the declared rank',
    )
  return declared.map((d, i) => {
    const have = given?.[i]
    if (typeof d === 'number') {
      if (have !== undefined && have !== d)
        throw inputError(
          `input "${v.name}" has extent ${d} on axis ${i}, but ${have} was given`,
          'give the declared extent',
        )
      return d
    }
    if (d === undefined) return have
    const bound = symbols.get(d)
    if (have !== undefined && lengths.has(d) && have !== bound)
      throw inputError(
        `input "${v.name}" has extent ${have} on axis ${i}, where "${d}" is ${bound}`,
        'give one of the two, or let them agree',
      )
    return have ?? bound ?? d
  })
}

/** Inputs, and those among them whose shapes are not known: these have no elements here. */
export interface ModelInputs {
  readonly inputs: readonly ModelInput[]
  readonly open: readonly OpenInput[]
}

const isKnown = (shape: readonly Dimension[] | undefined): shape is Shape =>
  shape?.every((d) => typeof d === 'number') === true

/** The extents that are given by name. Throws E_ONNX_INPUT for a name that no input has, and for what is no extent. */
function lengthsOf(infos: readonly ValueInfo[], given: Readonly<Record<string, number>>): Map<string, number> {
  const known = new Set(infos.flatMap((v) => (v.shape ?? []).filter((d) => typeof d === 'string')))
  const entries = Object.entries(given)
  for (const [name, n] of entries) {
    if (!known.has(name))
      throw inputError(
        `the model has no open extent named "${name}"`,
        known.size === 0 ? 'its inputs name none' : `its inputs name ${[...known].join(', ')}`,
      )
    if (!Number.isSafeInteger(n) || n < 0)
      throw inputError(`the extent "${name}" cannot be ${n}`, 'an extent is a whole number of at least 0')
  }
  return new Map(entries)
}

/** The inputs a caller must feed (initialisers may be listed as inputs too, in old models: those are not). */
export function modelInputs(graph: GraphProto, options: InputOptions): ModelInputs {
  const initialised = new Set(graph.initializer.map((t) => t.name))
  const infos = graph.input.filter((v) => !initialised.has(v.name))
  const names = new Set(infos.map((v) => v.name))
  for (const name of [...Object.keys(options.inputShapes ?? {}), ...Object.keys(options.inputValues ?? {})]) {
    if (!names.has(name))
      throw inputError(`the model has no input "${name}"`, `its inputs are ${[...names].join(', ') || 'none'}`)
  }
  const shapeFor = (name: string): readonly number[] | undefined =>
    givenFor(options.inputValues, name)?.shape ?? givenFor(options.inputShapes, name)
  const symbols = lengthsOf(infos, options.lengths ?? {})
  const lengths = new Set(symbols.keys())
  for (const v of infos) {
    const given = shapeFor(v.name)
    v.shape?.forEach((d, i) => {
      const have = given?.[i]
      if (typeof d === 'string' && have !== undefined && !symbols.has(d)) symbols.set(d, have)
    })
  }
  const open: OpenInput[] = []
  const inputs = infos.map((v): ModelInput => {
    const coded = codedOfElement(v.elemType)
    const dtype = coded === undefined ? dtypeOfElement(v.elemType) : codeDType(coded)
    if (v.kind !== 'tensor' || dtype === undefined) {
      const unsupported =
        v.kind === 'tensor' ? `its elements are of type ${elementTypeName(v.elemType)}` : 'it is not a tensor'
      return { name: v.name, shape: [], dtype: 'f32', unsupported }
    }
    const value = givenFor(options.inputValues, v.name)
    if (value !== undefined && value.dtype !== dtype)
      throw inputError(`input "${v.name}" is ${dtype}, but a value of ${value.dtype} was given`, `give ${dtype} values`)
    const shape = shapeOf(v, shapeFor(v.name), symbols, lengths)
    if (!isKnown(shape)) open.push({ name: v.name, shape })
    const input = { name: v.name, shape: isKnown(shape) ? shape : [0], dtype }
    return coded === undefined ? input : { ...input, coded }
  })
  return { inputs, open }
}
