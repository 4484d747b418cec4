/** Programs as files: a function with named input specs, loadable by the command line. */
import { causeOf, UserError } from '../../diagnostics/errors.ts'
import { isRevoked, kindOf } from '../../diagnostics/shown.ts'
import type { Graph } from '../../graph/node.ts'
import type { DType } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import type { Shape } from '../../types/shape.ts'
import { callSite } from '../calls/callsite.ts'
import { checkFunction, checkNames, isRecord, kinds, type OptionKind } from '../calls/options.ts'
import { placed, withPlace } from '../calls/place.ts'
import { storageOf } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { traceFunction } from '../tensor/traceFunction.ts'
import { TensorSpec, type TreeSpec } from '../tensor/tree.ts'

/** Shape and dtype (f32 unless given) of one named input. */
export interface InputSpec {
  /** Its extents. */
  readonly shape: Shape
  /** Its element type; f32 unless given. */
  readonly dtype?: DType
}

/** A program traced into a graph; closed-over tensors become inputs named `captured.N`. */
export interface TracedProgram {
  /** What it computes, for `sinter`'s own passes. */
  readonly graph: Graph
  /** Name of each parameter, by number. */
  readonly inputs: readonly string[]
  /** Name of each output of the graph: its path in the result. */
  readonly outputs: readonly string[]
  /** Values of the closed-over inputs, by name. */
  readonly captured: Readonly<
    Record<string, { readonly data: HostArray; readonly shape: Shape; readonly dtype: DType }>
  >
}

const brand = Symbol.for('sinter.program')

/** A function of named tensors, with their specs. */
export interface ProgramModule {
  readonly [brand]: true
  /** What reports call it: the function's name unless given. */
  readonly name: string
  /** Shape and dtype of each input. */
  readonly specs: Readonly<Record<string, Required<InputSpec>>>
  /** The function as it was given. */
  readonly fn: (inputs: never) => unknown
  /** Traces it with inputs of these types. Throws what the function throws. */
  trace(): TracedProgram
}

/** Paths of the tensors of a result. */
function pathsOf(s: TreeSpec, path: string): string[] {
  const join = (k: string | number): string => (path === '' ? String(k) : `${path}.${k}`)
  switch (s.kind) {
    case 'tensor':
      return [path === '' ? 'result' : path]
    case 'static':
      return []
    case 'list':
      return s.items.flatMap((item, i) => pathsOf(item, join(i)))
    case 'record':
      return s.items.flatMap((item, i) => pathsOf(item, join(s.keys[i] ?? i)))
  }
}

/** Errors that no call inside the program says the place of are at the program's definition. */
function definedAt<R>(where: string | undefined, body: () => R): R {
  try {
    return body()
  } catch (error) {
    if (!(error instanceof UserError) || error.where !== undefined) throw error
    const { code, summary, help } = error
    throw new UserError(code, summary, {
      ...withPlace(where),
      ...(help === undefined ? {} : { help }),
      cause: causeOf(error),
    })
  }
}

function nameOf(fn: (inputs: never) => unknown): string {
  placed(() => checkFunction(fn, 'program'))
  return fn.name === '' ? 'program' : fn.name
}

const specNames = { shape: kinds.anything, dtype: kinds.anything } as const satisfies Record<
  keyof InputSpec,
  OptionKind
>

/** The specs of a program with their dtypes. Throws E_ARGUMENT for what are none. */
function checkedSpecs(specs: Readonly<Record<string, InputSpec>>, name: string): ProgramModule['specs'] {
  const help = 'give the shape of each input by its name: { x: { shape: [8, 4] } }'
  if (!isRecord(specs)) throw new UserError('E_ARGUMENT', `the inputs of ${name} are ${kindOf(specs)}`, { help })
  const entries = Object.entries<unknown>(specs).map(([k, spec]) => {
    if (spec instanceof TensorSpec) return [k, { shape: spec.shape, dtype: spec.dtype }] as const
    if (!isRecord(spec)) throw new UserError('E_ARGUMENT', `the input ${k} of ${name} is ${kindOf(spec)}`, { help })
    checkNames(spec, `the input ${k} of ${name} has no`, specNames, 'an input has')
    if (spec.shape === undefined) throw new UserError('E_ARGUMENT', `the input ${k} of ${name} has no shape`, { help })
    const { shape, dtype = 'f32' } = spec as unknown as InputSpec
    const checked = new TensorSpec(shape, dtype)
    return [k, { shape: checked.shape, dtype }] as const
  })
  return Object.fromEntries(entries)
}

/**
 * Makes the default export of a program module, which the command line loads: a function of named tensors, with the shape and
 * dtype of each. Tracing it throws what the function throws.
 * @throws E_ARGUMENT for what is no function and for inputs that are none, E_SHAPE and E_DTYPE for a shape or dtype that is
 * none
 * @example
 * const p = program(({ x, w }) => relu(matmul(x, w)), { x: { shape: [8, 4] }, w: { shape: [4, 2] } }, 'layer')
 * p.specs.x // { shape: [8, 4], dtype: 'f32' }
 * p.trace().outputs // ['result']
 */
export function program<S extends Readonly<Record<string, InputSpec>>>(
  fn: (inputs: { [K in keyof S]: Tensor }) => unknown,
  specs: S,
  name = nameOf(fn),
): ProgramModule {
  const where = callSite()
  const full = placed(() => {
    checkFunction(fn, 'program')
    if (typeof name !== 'string')
      throw new UserError('E_ARGUMENT', `the name of a program is ${kindOf(name)}`, {
        help: 'leave it out, or give text',
      })
    return checkedSpecs(specs, name)
  })
  return {
    [brand]: true,
    name,
    specs: full,
    fn: fn as (inputs: never) => unknown,
    trace: () => {
      const inputs = definedAt(where, () =>
        Object.fromEntries(Object.entries(full).map(([k, s]) => [k, new TensorSpec(s.shape, s.dtype)])),
      )
      const traced = definedAt(where, () => traceFunction(fn as (inputs: never) => unknown, [inputs]))
      const paths = pathsOf(traced.result, '')
      const outputs = traced.graph.outputs.map((_, i) => paths[traced.places.indexOf(i)] ?? `output.${i}`)
      return {
        graph: traced.graph,
        inputs: [...Object.keys(full), ...traced.captured.map((_, i) => `captured.${i}`)],
        outputs,
        captured: Object.fromEntries(
          traced.captured.map((t, i) => [
            `captured.${i}`,
            { data: storageOf(t, 'a program that closes over it: use').readSync(), shape: t.shape, dtype: t.dtype },
          ]),
        ),
      }
    },
  }
}

/**
 * Whether a value, such as a module's default export, was made by `program`.
 * @throws nothing
 * @example
 * isProgram(program(({ x }) => x.neg(), { x: { shape: [2] } })) // true
 * isProgram({}) // false
 */
export const isProgram = (x: unknown): x is ProgramModule =>
  typeof x === 'object' && x !== null && !isRevoked(x) && brand in x
