/** Accuracy of long sums on a device: errors in units of what docs/numerics.md promises in fast mode, bits of the reference in strict mode. */
import { compileGraph } from '../../src/compile/index.ts'
import { compileFor } from '../../src/compile/prepare.ts'
import { farBandwidth } from '../../src/target/machine.ts'
import { sizeOf } from '../../src/types/shape.ts'
import * as scanning from '../../test/dependable/scanning.ts'
import { errorOf, graphOf, inputNames, inputs, nameOf, strictOf } from '../../test/dependable/summing.ts'

const cases = [
  { shape: [2 ** 25], axis: undefined },
  { shape: [100_000], axis: undefined },
  { shape: [64, 2 ** 19 + 3], axis: 1 },
  { shape: [2 ** 15, 1024], axis: 0 },
  { shape: [2 ** 20, 32], axis: 0 },
  { shape: [16, 2 ** 16 + 1, 32], axis: 1 },
  { shape: [4096, 4096], axis: 1 },
  { shape: [512, 4096], axis: 1, running: {} },
  { shape: [4096, 512], axis: 0, running: { reverse: true, exclusive: true } },
  { shape: [100_000], axis: 0, running: {} },
  { shape: [32, 100_000], axis: 0, running: {} },
  { shape: [64, 100_003], axis: 1, running: { reverse: true } },
  { shape: [100_003, 64], axis: 0, running: {} },
  { shape: [2 ** 25], axis: 0, running: {}, names: ['ones', 'alternating signs'] },
  { shape: [2 ** 25 + 7], axis: 0, running: { reverse: true }, names: ['one before many'] },
]

/** Scans of other dtypes and kinds, and of lengths whose totals take stages of their own. */
const scans = [
  ...['f32', 'f16', 'bf16', 'i64', 'i32', 'u8'].map((dtype) => ({
    dtype,
    combiner: 'sum',
    shape: [2 ** 20 + 7],
    axis: 0,
  })),
  ...['f32', 'bf16', 'i64'].map((dtype) => ({ dtype, combiner: 'sum', shape: [70_001, 40], axis: 0, reverse: true })),
  { dtype: 'f64', combiner: 'sum', shape: [3, 2 ** 18 + 1], axis: 1, exclusive: true },
  { dtype: 'f32', combiner: 'max', shape: [2 ** 22 + 3], axis: 0 },
  { dtype: 'f32', combiner: 'prod', shape: [2 ** 20], axis: 0, reverse: true },
  { dtype: 'u64', combiner: 'min', shape: [100_003, 5], axis: 0, exclusive: true },
  { dtype: 'f32', combiner: 'sum', shape: [8, 2 ** 20 + 1], axis: 1, fused: true },
  { dtype: 'f32', combiner: 'sum', shape: [2 ** 26 + 1], axis: 0 },
]

/** One result of a compiled graph. */
async function resultOf({ backend, target }, graph, mode, x) {
  const { executable } = compileFor(backend, target, (t) => compileGraph(graph, { mode, target: t }))
  const input = backend.alloc(x.byteLength)
  backend.write(input, x)
  try {
    const outputs = executable.run([input])
    const got = await backend.read(outputs[0], graph.outputs[0].dtype, sizeOf(graph.outputs[0].shape))
    for (const b of outputs) backend.free(b)
    return got
  } finally {
    backend.free(input)
    executable.dispose()
  }
}

/** Each sum of each input in both modes: its error in bounds, or what is wrong. */
export async function checkSums(open, { report }) {
  const results = []
  for (const summing of cases) {
    const graph = graphOf(summing)
    for (const name of summing.names ?? inputNames) {
      const x = inputs[name](sizeOf(summing.shape))
      const title = `${nameOf(summing)}, ${name}`
      try {
        const error = errorOf(summing, x, await resultOf(open, graph, 'fast', x))
        const expected = strictOf(graph, x)
        const got = await resultOf(open, graph, 'strict', x)
        const at = expected.findIndex((y, i) => !Object.is(y, got[i]))
        const strict = at < 0 ? undefined : `strict: [${at}] is ${got[at]}, not ${expected[at]}`
        const why = error <= 1 ? strict : `error of ${error.toFixed(2)} bounds`
        results.push({ title, error, ...(why === undefined ? {} : { why }) })
        report(title, error, why)
      } catch (e) {
        const why = e instanceof Error ? e.message : String(e)
        results.push({ title, why })
        report(title, undefined, why)
      }
    }
  }
  for (const scan of scans) {
    if (open.name === 'webgpu' && (scan.dtype === 'f64' || sizeOf(scan.shape) > 2 ** 25)) continue
    const title = scanning.nameOf(scan)
    try {
      const x = scanning.valuesOf(scan)
      const whys = []
      for (const mode of ['fast', 'strict'])
        whys.push(scanning.faultOf(scan, mode, x, await resultOf(open, scanning.graphOf(scan), mode, x)))
      const why = whys.find((w) => w !== undefined)
      results.push({ title, ...(why === undefined ? {} : { why }) })
      report(title, undefined, why)
    } catch (e) {
      const why = e instanceof Error ? e.message : String(e)
      results.push({ title, why })
      report(title, undefined, why)
    }
  }
  for (const mode of ['fast', 'strict']) results.push(await timeOfScan(open, 2 ** 25, mode))
  return results
}

/** Milliseconds of a running sum of n f32, beside those that reading once and writing once takes at the modelled bandwidth. */
async function timeOfScan(open, n, mode) {
  const { backend, target } = open
  const graph = graphOf({ shape: [n], axis: 0, running: {} })
  const { executable } = compileFor(backend, target, (t) => compileGraph(graph, { mode, target: t }))
  const input = backend.alloc(4 * n)
  const run = () => {
    for (const b of executable.run([input])) backend.free(b)
  }
  try {
    for (let i = 0; i < 50; i++) run()
    const ms =
      (await open.time(() => {
        for (let i = 0; i < 100; i++) run()
      })) / 100
    const profiled = await backend.profile(executable, [input])
    for (const b of profiled.outputs) backend.free(b)
    const parts = profiled.times.map((t) => `${(1e3 * t.ms).toFixed(1)}`).join(' + ')
    const floor = (8 * n) / farBandwidth(target) / 1e-3
    const title = `time of a running sum of ${n} f32, ${mode}: ${(1e3 * ms).toFixed(1)} us (${parts}); to read and write once ${(1e3 * floor).toFixed(1)} us`
    console.log(`  ${title}`)
    return { title, ms, floor }
  } finally {
    backend.free(input)
    executable.dispose()
  }
}
