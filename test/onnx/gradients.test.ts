/**
 * Gradients of the ten models' first outputs, summed, in their float initialisers: reverse mode against forward mode and
 * central differences in float64, and compiled against float64. Runs when SINTER_SHARED names the folder of the models.
 */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import * as s from '../../src/index.ts'
import {
  decodeModel,
  type HostTensor,
  type ImportedModel,
  importOnnx as importGraph,
  readTensorProto,
} from '../../src/onnx/index.ts'
import { importOnnx, type TensorRecord } from '../../src/onnx.ts'
import { evaluateConstant, evaluateGraph } from '../../src/reference/evaluate.ts'
import { pullBack, pushForward } from '../../src/transforms/index.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { makeRng } from '../random/rng.ts'
import { chooseDevice } from '../support/device.ts'
import { nightly } from '../support/nightly.ts'
import { archivesPresent, models, unpack } from './archives.ts'

const directions = nightly ? 2 : 1

interface Loaded {
  readonly bytes: Uint8Array
  readonly values: Readonly<Record<string, HostTensor>>
  readonly model: ImportedModel
}

function load(root: string, name: string): Loaded {
  const bytes = readFileSync(join(root, name, 'model.onnx'))
  const { graph } = decodeModel(bytes)
  const initialised = new Set(graph.initializer.map((t) => t.name))
  const inputs = graph.input.map((v) => v.name).filter((n) => !initialised.has(n))
  const values = Object.fromEntries(
    inputs.map((n, i) => [n, readTensorProto(readFileSync(join(root, name, 'test_data_set_0', `input_${i}.pb`)))]),
  )
  return {
    bytes,
    values,
    model: importGraph(bytes, { inputValues: values, evaluate: evaluateConstant, parameters: true }),
  }
}

const at = <T>(list: readonly T[], i: number): T => {
  const x = list[i]
  if (x === undefined) throw new Error(`nothing at ${i}`)
  return x
}

/** Parameters: the model's, then weights of its first output. Outputs: the gradient of the weighted sum in each initialiser. */
function gradientGraph({ graph, inputNames, parameters }: ImportedModel): Graph {
  return withContext(() => {
    const y = at(graph.outputs, 0)
    const weights = param(graph.params.length, y.shape, y.dtype)
    const wrt = parameters.map((_, i) => inputNames.length + i)
    const found = pullBack(graph, graph.params, wrt).gradients([weights])
    const complete = found.map((g, k) => {
      const p = at(graph.params, at(wrt, k))
      return g ?? c.zeros(p.shape, p.dtype)
    })
    return { params: [...graph.params, weights], outputs: complete, effects: [] }
  })
}

/**
 * Parameters: the model's, weights of its first output, a direction for each initialiser, a step along it. Outputs: the
 * weighted sum there, and its derivative along the direction in forward mode.
 */
function alongGraph({ graph, inputNames }: ImportedModel): Graph {
  return withContext(() => {
    const weights = param(graph.params.length, at(graph.outputs, 0).shape, at(graph.outputs, 0).dtype)
    const first = inputNames.length
    const own = graph.params.slice(first)
    const along = own.map((p, i) => param(graph.params.length + 1 + i, p.shape, p.dtype))
    const step = param(graph.params.length + 1 + along.length, [], 'f64')
    const moved = own.map((p, i): Node => c.add(p, c.mul(at(along, i), c.cast(step, p.dtype))))
    const { outputs, tangents } = pushForward(
      graph,
      [...graph.params.slice(0, first), ...moved],
      graph.params.map((_, i) => along[i - first]),
    )
    const total = (y: Node | undefined): Node => c.sum(c.mul(y ?? 0, weights))
    return {
      params: [...graph.params, weights, ...along, step],
      outputs: [total(outputs[0]), total(tangents[0])],
      effects: [],
    }
  })
}

const largest = (g: ArrayLike<number | bigint>): number => {
  let top = 0
  for (let i = 0; i < g.length; i++) top = Math.max(top, Math.abs(Number(g[i])))
  return top
}

/** The sum of the products of two lists of arrays, and the norm of the products. */
function dot(
  a: readonly ArrayLike<number | bigint>[],
  b: readonly ArrayLike<number>[],
): { sum: number; scale: number } {
  let sum = 0
  let scale = 0
  a.forEach((x, i) => {
    const y = at(b, i)
    for (let j = 0; j < x.length; j++) {
      const product = Number(x[j]) * (y[j] ?? 0)
      sum += product
      scale = Math.hypot(scale, product)
    }
  })
  return { sum, scale }
}

describe.skipIf(!archivesPresent('ONNX GRADIENTS'))('gradients of ONNX models', () => {
  let root = ''
  beforeAll(() => {
    root = unpack(['onnx-models'])
    chooseDevice('wasm', { threads: 1 })
  }, 120_000)
  afterAll(() => {
    rmSync(root, { recursive: true, force: true })
    s.setDevice('reference')
  })

  it.each(models.filter((_, i) => nightly || i === 0 || i === 1))(
    '%s',
    (name) => {
      const { bytes, values, model } = load(root, name)
      const random = makeRng(1234)
      const draw = (n: number, scale = 1): Float32Array =>
        Float32Array.from({ length: n }, () => random.real(-scale, scale))
      // Zeros are moved a little: branches that start at zero would put every ReLU after them on its kink.
      const point = model.parameters.map(({ value }) => {
        const noise = draw(sizeOf(value.shape), 1e-3)
        return noise.map((v, i) => Number(value.data[i]) || v)
      })
      const inputs = [...model.inputNames.flatMap((n) => values[n]?.data ?? []), ...point]
      const output = at(model.graph.outputs, 0)
      const [gradients, along] = [gradientGraph(model), alongGraph(model)]

      const tensors = Object.fromEntries(
        Object.entries(values).map(([n, v]) => [n, s.tensor(v.data, { shape: v.shape, dtype: v.dtype })]),
      )
      const user = importOnnx(bytes, { inputValues: tensors })
      expect(Object.keys(user.parameters)).toEqual(model.parameters.map((p) => p.name))
      const parameters = Object.fromEntries(
        model.parameters.map(({ name, value }, i) => [name, s.tensor(at(point, i), { shape: value.shape })]),
      )
      const compiled = s.jit(
        s.grad((p: TensorRecord, x: TensorRecord, weights: s.Tensor) => {
          const [y] = Object.values(user.apply(p, x))
          return s.sum(y?.mul(weights) ?? 0)
        }),
      )

      // A plain sum behind a normalisation has almost no gradient before it, so a weighted one is checked too.
      const size = sizeOf(output.shape)
      for (const weights of [new Float32Array(size).fill(1), draw(size)]) {
        const gradient = evaluateGraph(gradients, [...inputs, weights]).map((g) => g.data)
        for (let k = 0; k < directions; k++) {
          const direction = point.map((p) => draw(p.length))
          const run = (step: number, result: number): number =>
            Number(
              evaluateGraph({ ...along, outputs: [at(along.outputs, result)] }, [
                ...inputs,
                weights,
                ...direction,
                Float64Array.of(step),
              ])[0]?.data[0],
            )
          const { sum, scale } = dot(gradient, direction)
          expect(scale).toBeGreaterThan(1e-3)
          expect(Math.abs(run(0, 1) - sum)).toBeLessThan(1e-11 * scale)
          const step = 1e-8
          expect(Math.abs((run(step, 0) - run(-step, 0)) / (2 * step) - sum)).toBeLessThan(1e-5 * scale)
        }
        const found = compiled(parameters, tensors, s.tensor(weights, { shape: output.shape }))
        const top = Math.max(...gradient.map(largest))
        model.parameters.forEach(({ name: parameter }, i) => {
          const want = at(gradient, i)
          const got = found[parameter]?.dataSync() ?? []
          const wrong = largest(Array.from({ length: want.length }, (_, j) => Number(want[j]) - Number(got[j])))
          expect(wrong, parameter).toBeLessThan(1e-5 * largest(want) + 1e-6 * top)
        })
      }
    },
    60_000,
  )
})
