/** Accuracy of long sums on a device: errors in units of what docs/numerics.md promises in fast mode, bits of the reference in strict mode. */
import { compileGraph } from '../../src/compile/index.ts'
import { compileFor } from '../../src/compile/prepare.ts'
import { sizeOf } from '../../src/types/shape.ts'
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
]

/** One result of a compiled graph. */
async function resultOf({ backend, target }, graph, mode, x) {
  const { executable } = compileFor(backend, target, (t) => compileGraph(graph, { mode, target: t }))
  const input = backend.alloc(x.byteLength)
  backend.write(input, x)
  try {
    const outputs = executable.run([input])
    const got = await backend.read(outputs[0], 'f32', sizeOf(graph.outputs[0].shape))
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
    for (const name of inputNames) {
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
  return results
}
