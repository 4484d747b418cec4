/**
 * Published voice and text models (`cases.ts`), imported by the library, compiled and run on WebAssembly, against stored outputs of
 * onnxruntime-node. They import with an If that reads float initialisers first (silero legacy, hey jarvis), with a branch for another rate
 * that does not fit the shapes (silero v5, v6), and with no rate at all as an error that says what is missing.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { jit, type Tensor, tensor } from '../../src/index.ts'
import { importOnnx, type OnnxModel } from '../../src/onnx.ts'
import { errorOf } from '../onnx/models.ts'
import { atNight } from '../support/nightly.ts'
import { cases, installed, type ModelCase, modelPath, placesOf, type StoredOutput, valuesOf } from './cases.ts'
import stored from './outputs.json' with { type: 'json' }

const required = process.env.SINTER_REQUIRE_MODELS === '1'
if (!installed)
  console.warn('\n*** PUBLISHED MODELS NOT RUN: (cd test/models && npm ci --ignore-scripts) installs them. ***\n')

const outputsOf = new Map<string, readonly StoredOutput[]>(Object.entries(stored))

function inputsOf(c: ModelCase): Record<string, Tensor> {
  return Object.fromEntries(
    Object.entries(c.inputs).map(([name, spec]) => [name, tensor(valuesOf(c, name, spec), { shape: spec.shape })]),
  )
}

/** The model with its inputs' shapes, and the values of those that it needs. */
function load(c: ModelCase): OnnxModel {
  const inputs = inputsOf(c)
  const known = Object.fromEntries(Object.entries(inputs).filter(([name]) => c.known?.includes(name) === true))
  const inputShapes = Object.fromEntries(Object.entries(c.inputs).map(([name, spec]) => [name, spec.shape]))
  return importOnnx(readFileSync(modelPath(c)), { inputShapes, inputValues: known })
}

/** Those that take seconds, beside others of their kind: at night. */
const long = new Set([
  'text detection',
  'silero legacy, 16 kHz',
  'direction of text',
  'silero v5, 8 kHz',
  'hey mycroft',
])

describe.skipIf(!installed && !required)('published models', () => {
  // One program serves both rates of the legacy detector, and both inputs of the wake word.
  const programs = new Map<string, { model: OnnxModel; run: (x: Record<string, Tensor>) => Record<string, Tensor> }>()
  for (const c of cases)
    (long.has(c.name) ? atNight : it)(`${c.name}: as onnxruntime`, () => {
      const key = c.known === undefined ? c.file : c.name
      const { model, run } =
        programs.get(key) ??
        (() => {
          const made = load(c)
          return { model: made, run: jit((x: Record<string, Tensor>) => made.apply(made.parameters, x)) }
        })()
      programs.set(key, { model, run })
      // A value decides for good only where the branches do not all fit the shapes: at the higher rate.
      const folded = c.known !== undefined && c.name.endsWith('16 kHz') ? c.known : []
      const inputs = Object.entries(inputsOf(c)).filter(([name]) => !folded.includes(name))
      expect(Object.keys(model.inputs).sort()).toEqual(inputs.map(([name]) => name).sort())
      const results = run(Object.fromEntries(inputs))
      const wanted = outputsOf.get(c.name) ?? []
      expect(model.outputs).toEqual(wanted.map((w) => w.name))
      expect(wanted.length).toBeGreaterThan(0)
      for (const want of wanted) {
        const got = results[want.name]
        expect(got?.shape).toEqual(want.shape)
        const data = got?.dataSync() as Float32Array
        const bound = c.tolerance * (want.largest + 0.01)
        placesOf(data.length).forEach((at, i) => {
          expect(
            Math.abs((data[at] ?? Number.NaN) - (want.values[i] ?? Number.NaN)),
            `${want.name}[${at}]`,
          ).toBeLessThanOrEqual(bound)
        })
        expect(Math.abs(data.reduce((a, b) => a + b, 0) - want.sum)).toBeLessThanOrEqual(bound * Math.sqrt(data.length))
      }
    })
  it('a detector without its rate says which branch does not fit, and that the rate decides', () => {
    for (const version of ['v5', 'v6']) {
      const c = cases.find((x) => x.name === `silero ${version}, 16 kHz`)
      if (c === undefined) throw new Error(`no case of ${version}`)
      const error = errorOf(() => load({ ...c, known: [] }))
      expect(error.code).toBe('E_SHAPE')
      expect(error.where).toContain('LSTM "If_0_else_branch')
      expect(error.help).toContain('give the value of input "sr"')
    }
  })
})
