/**
 * ONNX model to graph: the model is decoded and put in order (`arrange.ts`), then passed over (`pass.ts`). Inputs whose values fix
 * shapes are value-specialised: the pass is made again with them as constants.
 */
import { UserError } from '../diagnostics/errors.ts'
import { withContext } from '../graph/build.ts'
import { arrange } from './arrange.ts'
import { decodeModel } from './decode.ts'
import { type ModelInput, modelInputs } from './inputs.ts'
import { hasExternal, openShapes } from './open.ts'
import { type ImportedModel, type ImportOptions, ImportPass, type ReadModel } from './pass.ts'
import type { ModelProto } from './proto.ts'
import { type Because, NeedsInputValues } from './values.ts'

const quoted = (names: readonly string[]): string => [...new Set(names)].map((name) => `"${name}"`).join(', ')

/** What to tell of a value that is missing; or of the part of the model that cannot be imported, if the value decides on it. */
function missing(error: Because): UserError {
  if (error instanceof UserError) return error
  const names = quoted(error.names)
  if (error.because === undefined)
    return new UserError('E_ONNX_INPUT', `the value of input ${names} fixes shapes`, {
      where: error.reader,
      help: 'give a value for this input: the program is compiled for that value',
    })
  const { code, summary, where, help } = missing(error.because)
  const otherwise = `if this part of the model is not to run, give the value of input ${names}, on which it depends`
  return new UserError(code, summary, {
    ...(where === undefined ? {} : { where }),
    help: help === undefined ? otherwise : `${help}; ${otherwise}`,
  })
}

/** Passes over a model until no more input is asked to be a constant. */
function passOver(read: ReadModel, inputs: readonly ModelInput[], options: ImportOptions): ImportedModel {
  const specialised = new Set<string>()
  for (;;) {
    const pass = new ImportPass(read, options, specialised)
    try {
      const imported = withContext(() => pass.run(inputs))
      if (pass.asked.size === 0) return imported
    } catch (error) {
      const told = error instanceof NeedsInputValues ? missing(error) : error
      if (!(told instanceof UserError) || pass.asked.size === 0) {
        options.onRefused?.(pass.refused)
        throw told
      }
    }
    for (const name of pass.asked) specialised.add(name)
  }
}

/** Puts a decoded model in order, whose bytes may be `donated`. Throws E_ONNX_MALFORMED. */
export const arrangeModel = (model: ModelProto, donated = false): ReadModel => ({
  model: arrange(model),
  tensors: new Map(),
  donated,
})

/** Reads a serialised ONNX model. Bytes that are `donated` nobody else may read or write any more. Throws E_ONNX_MALFORMED. */
export const readModel = (bytes: Uint8Array, donated = false): ReadModel => arrangeModel(decodeModel(bytes), donated)

/** Throws E_ONNX_UNSUPPORTED, listing every node whose operator is not here, whatever the shapes. */
export const checkOperators = (read: ReadModel, options: ImportOptions): void =>
  new ImportPass(read, options, new Set()).checkOperators()

/**
 * Imports a serialised ONNX model. Throws E_ONNX_MALFORMED, E_ONNX_UNSUPPORTED (listing every node at fault), E_ONNX_INPUT
 * (a shape or value of an input is missing), E_SHAPE and E_DTYPE (the model contradicts itself), E_OVERFLOW (it writes out to too
 * many nodes, or a tensor is too large).
 */
export const importOnnx = (bytes: Uint8Array, options: ImportOptions): ImportedModel =>
  importModel(readModel(bytes), options)

/** Imports a model that was read. Throws as `importOnnx` does. */
export function importModel(read: ReadModel, options: ImportOptions): ImportedModel {
  const { model } = read
  const { inputs, open } = modelInputs(model.graph, options)
  if (open.length === 0) return passOver(read, inputs, options)
  const readable = options.external !== undefined || !hasExternal(model)
  throw openShapes(model, readable, open, (remedy) => {
    const inputShapes = Object.fromEntries([...Object.entries(options.inputShapes ?? {}), ...remedy])
    const given = { ...options, inputShapes }
    passOver(read, modelInputs(model.graph, given).inputs, given)
  })
}
