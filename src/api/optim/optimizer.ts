/** What all optimisers share: their state as a tree, the checks of a step, and one rule applied to every tensor. */
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import { computeDType, type DType, isFloat } from '../../types/dtype.ts'
import { showShape } from '../../types/shape.ts'
import { asUser } from '../calls/place.ts'
import { zeros } from '../ops/creation.ts'
import { named } from '../tensor/core.ts'
import { Tensor, type TensorLike } from '../tensor/tensor.ts'
import { leavesOf, rebuildTree, type TreeSpec } from '../tensor/tree.ts'
import { leavesLike, readTree, type TensorTree } from '../tensor/zip.ts'
import { taker } from '../transforms/apply.ts'
import { check, nonNegative } from './check.ts'
import type { Schedule } from './schedules.ts'

/** A fixed rate, or one for each step. */
export type LearningRate = number | Schedule

/** Which tensors decay: by the tensor and its path, as in `params.layers[0].weight`. */
export type DecayMask = (leaf: Tensor, path: string) => boolean

/** The state of an optimiser: updates done so far (i32), and trees like the parameters under the names of its slots. */
export type OptimizerState<Slots extends string, P> = { readonly step: Tensor } & { readonly [S in Slots]: P }

/**
 * An optimiser: two pure functions, to be called anywhere, in `jit` above all. Parameters are a tree of float tensors.
 * Parameters in half precision have state in f32, and their new values are computed in f32 and rounded once: steps below the
 * spacing of the dtype are lost, so train f32 parameters and cast them in the loss where that matters.
 */
export interface Optimizer<Slots extends string> {
  /** The state before the first update: zeros. Throws E_STRUCTURE, E_DTYPE. */
  init<P>(params: P): OptimizerState<Slots, P>
  /**
   * Parameters and state after one update. Gradients have the shapes of the parameters, and their dtypes or those of the
   * state. Throws E_STRUCTURE, E_SHAPE, E_DTYPE.
   */
  update<P>(
    gradients: NoInfer<P>,
    state: OptimizerState<Slots, NoInfer<P>>,
    params: P,
  ): { params: P; state: OptimizerState<Slots, P> }
}

/** What a step decides for all tensors that compute in one dtype. */
export interface StepScalars {
  /** Number of this update, from 1. */
  readonly count: Tensor
  readonly rate: TensorLike
}

/** One tensor's part of a step, all in the dtype it computes in. */
export interface Leaf<Slots extends string> {
  readonly param: Tensor
  readonly gradient: Tensor
  readonly slots: { readonly [S in Slots]: Tensor }
  readonly decays: boolean
}

/** An optimiser as what it does to one tensor. */
export interface UpdateRule<Slots extends string> {
  readonly name: string
  readonly slots: readonly Slots[]
  readonly learningRate: LearningRate
  readonly decays?: DecayMask | undefined
  /** Called once for each dtype; the result once for each tensor. */
  at(step: StepScalars): (leaf: Leaf<Slots>) => Omit<Leaf<Slots>, 'gradient' | 'decays'>
}

function readParameters(params: unknown): TensorTree {
  const read = readTree(params, 'params')
  const bad = leavesOf(read.structure, 'params').find((leaf) => !isFloat(leaf.dtype))
  if (bad !== undefined)
    throw new UserError('E_DTYPE', `${bad.path} is ${bad.dtype}${showShape(bad.shape)}`, {
      help: 'parameters are float tensors: pass the others beside them',
    })
  if (read.tensors.length === 0)
    throw new UserError('E_STRUCTURE', 'params holds no tensor', { help: 'numbers are static: pass tensor(x) instead' })
  return read
}

/** A structure whose tensors have the dtypes of the state. */
function computed(s: TreeSpec): TreeSpec {
  if (s.kind === 'static') return s
  if (s.kind === 'tensor') return { ...s, dtype: computeDType(s.dtype) }
  return { ...s, items: s.items.map(computed) }
}

const stepSpec: TreeSpec = { kind: 'tensor', shape: [], dtype: 'i32' }

const same = (a: DType, b: DType): boolean => a === b

function rateAt(rate: LearningRate, step: Tensor, dtype: DType): TensorLike {
  if (typeof rate === 'number') return rate
  const value: unknown = asUser(() => rate(step))
  if (!(value instanceof Tensor) || value.shape.length > 0 || !isFloat(value.dtype))
    throw new UserError(
      'E_ARGUMENT',
      `the schedule gives ${value instanceof Tensor ? `${value.dtype}${showShape(value.shape)}` : kindOf(value)}`,
      {
        help: 'return a float scalar',
      },
    )
  return value.astype(dtype)
}

/** Makes an optimiser of a rule. Throws E_ARGUMENT for a learning rate that is none. */
export function optimizer<Slots extends string>(rule: UpdateRule<Slots>): Optimizer<Slots> {
  const { name, slots } = rule
  if (typeof rule.learningRate !== 'function')
    check(
      { learningRate: rule.learningRate },
      { learningRate: { ...nonNegative, what: 'a number of at least 0, or a schedule' } },
    )

  const stateOf = (step: Tensor, trees: (slot: Slots) => unknown): unknown => ({
    step,
    ...Object.fromEntries(slots.map((slot) => [slot, trees(slot)])),
  })

  function init(params: unknown): unknown {
    const { structure } = named(`${name}.init`, () => readParameters(params))
    const kept = computed(structure)
    const fresh = (): unknown =>
      rebuildTree(kept, taker(leavesOf(kept, 'params').map((leaf) => zeros(leaf.shape, leaf.dtype))))
    return stateOf(zeros([], 'i32'), fresh)
  }

  function update(gradients: unknown, state: unknown, params: unknown): unknown {
    const read = named(`${name}.update`, () => {
      const { structure, tensors } = readParameters(params)
      const kept = computed(structure)
      const given = leavesLike(structure, gradients, {
        path: 'gradients',
        like: 'params',
        help: 'pass the gradients of these parameters, as grad gives them',
        accepts: (dtype, want) => dtype === want || dtype === computeDType(want),
      })
      const states: TreeSpec = { kind: 'record', keys: ['step', ...slots], items: [stepSpec, ...slots.map(() => kept)] }
      const help = `pass the state that init or the last update of this ${name} gave for these parameters`
      const [step, ...rest] = leavesLike(states, state, { path: 'state', like: 'the optimiser', help, accepts: same })
      const paths = leavesOf(structure, 'params').map((leaf) => leaf.path)
      const decays = tensors.map((t, i) => asUser(() => rule.decays?.(t, paths[i] ?? '')) ?? true)
      return { structure, tensors, given, step: step ?? zeros([], 'i32'), rest, decays }
    })
    const { structure, tensors, given, step, rest } = read
    const next = step.add(1)
    const rules = new Map<DType, ReturnType<typeof rule.at>>()
    const ruleFor = (dtype: DType): ReturnType<typeof rule.at> => {
      const made =
        rules.get(dtype) ??
        named(name, () => rule.at({ count: next.astype(dtype), rate: rateAt(rule.learningRate, step, dtype) }))
      rules.set(dtype, made)
      return made
    }
    const results = tensors.map((param, i) => {
      const dtype = computeDType(param.dtype)
      const apply = ruleFor(dtype)
      return named(name, () => {
        const own = Object.fromEntries(slots.map((slot, k) => [slot, rest[k * tensors.length + i]]))
        const result = apply({
          param: param.astype(dtype),
          gradient: (given[i] ?? param).astype(dtype),
          slots: own as { [S in Slots]: Tensor },
          decays: read.decays[i] === true,
        })
        return { ...result, param: result.param.astype(param.dtype) }
      })
    })
    return {
      params: rebuildTree(structure, taker(results.map((r) => r.param))),
      state: stateOf(next, (slot) => rebuildTree(structure, taker(results.map((r) => r.slots[slot])))),
    }
  }

  return { init, update } as Optimizer<Slots>
}
