/** Seeded random models as graphs: forward passes, gradients, batches, directional and second derivatives, steps of training. */
import type { Graph } from '../../../src/graph/node.ts'
import * as s from '../../../src/index.ts'
import { program, type Tensor } from '../../../src/index.ts'
import { writeElement } from '../../../src/scalar/host.ts'
import { type DType, isFloat } from '../../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { makeRng, type Rng } from '../rng.ts'
import { dense, layers, someLayer } from './layers.ts'
import { lossOf } from './losses.ts'
import { Model, type ModelInput } from './model.ts'
import { images, pooled, sequenceLayers } from './sequences.ts'

export interface ModelProgram {
  readonly seed: number
  readonly graph: Graph
  readonly inputs: readonly ModelInput[]
  /** What was drawn, in words. */
  readonly text: string
}

/** The rows that a model ends in, [..., width]. */
function rowsOf(m: Model): Tensor {
  const start = m.rng.int(0, 9)
  const batch = m.pick([[], [], [1], [2], [3]])
  let x: Tensor
  if (start === 0) x = images(m)
  else if (start <= 2) {
    const [count, width] = [m.extent(33), m.extent()]
    m.note('embedding')
    x = s.embedding(m.weight([count, width], 1), m.indices([...batch, m.extent(40)], count))
  } else if (start <= 5) x = m.data([m.extent(), m.extent()])
  else x = m.data([...batch, m.extent(40), m.extent()])
  const isSequence = start !== 0 && (start <= 2 || start > 5)
  for (let i = m.rng.int(1, 3); i > 0; i--) {
    const list = isSequence ? [...layers.map(([w, f]) => [w / 2, f] as const), ...sequenceLayers] : layers
    x = someLayer(m, list)(m, x)
    // What a layer makes of rows without end is cut down.
    if (x.size > 6000) x = x.mean(-2)
    if (x.rank < 2) x = x.expandDims(0)
  }
  if (isSequence && x.rank > 2 && m.chance(0.5)) x = pooled(m, x)
  if (m.chance(0.5)) x = dense(m, x, m.extent())
  return x
}

/** What is computed of a model. */
const kinds = [
  'rows',
  'rows',
  'loss',
  'gradient',
  'gradient',
  'gradient',
  'pullback',
  'direction',
  'second',
  'step',
] as const

const isSmall = (input: ModelInput): boolean => sizeOf(input.shape) <= 3000

/** The program of a seed. */
export function modelProgram(seed: number, options: { readonly dtypes?: readonly DType[] } = {}): ModelProgram {
  const rng = makeRng(seed * 7 + 3)
  const dtype = rng.pick(options.dtypes ?? (['f32', 'f32', 'f32', 'f32', 'bf16', 'f16'] as const))
  const kind = rng.pick(kinds)
  const ends = kind === 'rows' || kind === 'pullback' ? rowsOf : (m: Model): Tensor => lossOf(m, rowsOf(m))
  const learnt = new Model(seed, dtype)
  const probe = ends(learnt)
  const { inputs, notes } = learnt
  const model = (given: readonly Tensor[]): Tensor => ends(new Model(seed, dtype, given))
  const batch = kind !== 'step' && rng.chance(0.2) && inputs.every(isSmall) ? rng.pick([1, 2, 3]) : undefined
  const extra: ModelInput[] = []
  const wrt = inputs.flatMap((input, i) => (isFloat(input.dtype) && rng.chance(0.85) ? [i] : []))
  const isDerived = wrt.length > 0
  if (kind === 'pullback' && isDerived) extra.push({ shape: probe.shape, dtype: probe.dtype, most: 1, data: true })
  if ((kind === 'direction' || kind === 'second') && isDerived)
    extra.push(...wrt.map((i) => ({ ...(inputs[i] as ModelInput), most: 1, data: false })))
  if (kind === 'step' && isDerived)
    for (const i of wrt) extra.push({ ...(inputs[i] as ModelInput), most: 0.1, data: false })
  const derived = derivedOf(kind, model, wrt, inputs.length, rng)
  const all = [...inputs, ...extra]
  const f = batch === undefined ? derived : batched(derived, all)
  const given = batch === undefined ? all : all.map((i) => (i.data ? { ...i, shape: [batch, ...i.shape] } : i))
  const specs = Object.fromEntries(given.map(({ shape, dtype: of }, i) => [`x${i}`, { shape, dtype: of }]))
  const traced = program(
    (named: Record<string, Tensor>) => f(given.map((_, i) => named[`x${i}`] as Tensor)),
    specs,
    'model',
  )
  const text = `${kind}${batch === undefined ? '' : ` of a batch of ${batch}`} in ${dtype}: ${notes.join(', ')}; ${inputs
    .map((i) => `${i.dtype}[${i.shape}]`)
    .join(' ')}`
  return { seed, graph: traced.trace().graph, inputs: given, text }
}

type Function = (given: readonly Tensor[]) => readonly Tensor[]

const batched = (f: Function, inputs: readonly ModelInput[]): Function => {
  const axes = inputs.map((i) => (i.data ? 0 : null))
  return axes.some((a) => a === 0)
    ? (given) => s.vmap((...args: Tensor[]) => f(args), { inAxes: axes as never })(...given)
    : f
}

function derivedOf(
  kind: (typeof kinds)[number],
  model: (given: readonly Tensor[]) => Tensor,
  wrt: readonly number[],
  count: number,
  rng: Rng,
): Function {
  if (wrt.length === 0 || kind === 'rows' || kind === 'loss') return (given) => [model(given)]
  const part = (given: readonly Tensor[]): Tensor[] => wrt.map((i) => given[i] as Tensor)
  const put = (given: readonly Tensor[], args: readonly Tensor[]): Tensor[] => {
    const out = [...given]
    wrt.forEach((i, k) => {
      out[i] = args[k] as Tensor
    })
    return out
  }
  const gradient = (given: readonly Tensor[], args: readonly Tensor[]): [Tensor, Tensor[]] =>
    s.valueAndGrad((list: Tensor[]) => model(put(given, list)))([...args])
  if (kind === 'gradient')
    return (given) => {
      const [loss, all] = gradient(given, part(given))
      return [loss, ...all]
    }
  if (kind === 'pullback')
    return (given) => {
      const [value, back] = s.vjp((list: Tensor[]) => model(put(given, list)), part(given))
      return [value, ...back(given.at(-1) as never)[0]]
    }
  if (kind === 'direction')
    return (given) => {
      const tangents = given.slice(count)
      const [value, tangent] = s.jvp((list: Tensor[]) => model(put(given, list)), [part(given)], [tangents] as never)
      return [value, tangent]
    }
  if (kind === 'second') {
    const which = rng.int(0, 1)
    return (given) => {
      const tangents = given.slice(count)
      if (which === 0) {
        // A Hessian times a vector.
        const along = (list: Tensor[]): Tensor =>
          gradient(given, list)[1]
            .map((g, k) => g.mul(tangents[k] as Tensor).sum())
            .reduce((a, b) => a.add(b))
        return s.grad(along)(part(given))
      }
      const penalty = (list: Tensor[]): Tensor => {
        const [loss, all] = gradient(given, list)
        return loss.add(
          all
            .map((g) => g.square().sum())
            .reduce((a, b) => a.add(b))
            .mul(0.1),
        )
      }
      return s.grad(penalty)(part(given))
    }
  }
  const clip = rng.chance(0.4)
  return (given) => {
    const params = part(given)
    const [loss, all] = gradient(given, params)
    const kept = given.slice(count)
    const scale = clip
      ? s.rsqrt(
          all
            .map((g) => g.square().sum())
            .reduce((a, b) => a.add(b))
            .add(1),
        )
      : undefined
    const next = params.map((p, k) => {
      const g = all[k] as Tensor
      const moved = (kept[k] as Tensor).mul(0.9).add(scale === undefined ? g : g.mul(scale))
      return [p.mul(0.999).sub(moved.mul(0.01)), moved]
    })
    return [loss, ...next.flat()]
  }
}

/** Numbers for the inputs of a program, the same for a seed. */
export function inputsOf(p: ModelProgram): HostArray[] {
  const rng = makeRng(p.seed * 31 + 1)
  return p.inputs.map(({ shape, dtype, most, below }) => {
    const out = hostArray(dtype, sizeOf(shape))
    for (let i = 0; i < out.length; i++) {
      const v = below !== undefined ? rng.int(0, below - 1) : dtype === 'bool' ? rng.chance(0.7) : rng.real(-most, most)
      writeElement(out, dtype, i, dtype === 'i8' ? Math.round(Number(v)) : v)
    }
    return out
  })
}
