/** Correctness on a device: the hard cases of the kernel IR, random programs, and the rows at small odd sizes, against float64. */

import { checkCapabilities } from '../../src/compile/capability.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { compileFor } from '../../src/compile/prepare.ts'
import * as api from '../../src/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { allDTypes } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { loadKernels } from '../../test/kernel/hard-cases/case.ts'
import { hardCases } from '../../test/kernel/hard-cases/cases.ts'
import { difference, smallBlocks } from '../../test/random/execute.ts'
import { randomGraph } from '../../test/random/graphs.ts'
import { leaves, makeInputs, rows } from './rows.mjs'

const message = (e) => (e instanceof Error ? `${e.message}` : String(e)).slice(0, 4000)

/** A launch plan of kernels over buffers by name, all of them inputs that it writes over. */
function programOf(kernels, buffers) {
  const names = Object.keys(buffers)
  const params = new Map(kernels.flatMap((k) => k.params.map((p) => [p.name, p])))
  // Launch scalars are numbers that a launch hands over.
  const numbers = names.map((name) => {
    const isHanded = kernels.some((k) => k.scalars?.some((s) => s.param === name))
    if (!isHanded) return { dtype: 'f32', reals: [] }
    const formulas = Array.from(buffers[name], (coef) => ({ of: [{ coef, powers: [] }], by: 1, rounds: 'down' }))
    return { dtype: 'i32', formulas }
  })
  const program = {
    name: 'case',
    buffers: names.map((name, index) => {
      const p = params.get(name)
      return {
        dtype: p?.dtype ?? 'f32',
        shape: p?.shape ?? [buffers[name].length],
        format: p?.format ?? 'plain',
        bytes: buffers[name].byteLength,
        source: { kind: 'input', index },
      }
    }),
    steps: kernels.map((kernel, launch) => ({
      kind: 'kernel',
      stage: 'main',
      launch,
      kernel,
      buffers: kernel.params.map((p) => names.indexOf(p.name)),
    })),
    inputs: names.map((_, i) => i),
    donated: names.map(() => true),
    outputs: names.map((_, i) => i),
    arenaBytes: 0,
    ...(kernels.some((k) => k.scalars !== undefined) ? { open: { dimensions: [], numbers } } : {}),
  }
  return { names, program }
}

async function hardCase(backend, c, mode) {
  const kernels = loadKernels(c.file).map((k) => ({ ...k, mode }))
  const buffers = c.buffers()
  const expected = c.expected(c.buffers())
  const { names, program } = programOf(kernels, buffers)
  const executable = backend.prepare(program)
  const inputs = names.map((n) => {
    const b = backend.alloc(buffers[n].byteLength)
    backend.write(b, buffers[n])
    return b
  })
  const outputs = executable.run(inputs, [])
  const tolerance = c.tolerance ?? 1e-5
  try {
    for (const [name, want] of Object.entries(expected)) {
      const i = names.indexOf(name)
      const data = buffers[name]
      const raw = await backend.read(outputs[i], 'u8', data.byteLength)
      const got = Array.from(new data.constructor(raw.buffer, raw.byteOffset, data.length), Number)
      for (let k = 0; k < want.length; k++) {
        const close =
          Object.is(got[k], want[k]) || Math.abs(got[k] - want[k]) <= tolerance * Math.max(1, Math.abs(want[k]))
        if (!close) return `${name}[${k}] is ${got[k]}, expected ${want[k]}`
      }
    }
    return undefined
  } finally {
    for (const b of new Set(outputs)) backend.free(b)
    executable.dispose()
  }
}

/** A library that is asked for products of any size. */
const anyProduct = (library) => ({ ...library, leastFlops: 1, launch: 0 })

async function randomProgram(open, seed) {
  const { backend, target, name } = open
  const dtypes = allDTypes.filter((d) => name === 'cuda' || d !== 'f64')
  const p = randomGraph(seed, { dtypes, maxElements: 300 })
  const expected = evaluateGraph(p.graph, p.inputs, { rounding: 'dtype' }).map(toHostArray)
  const small = { ...target, elementBlock: smallBlocks.elementBlock, dotBlock: smallBlocks.dotBlock, minPrograms: 6 }
  const mode = seed % 5 === 4 ? 'strict' : 'fast'
  if (open.capabilities !== undefined) checkCapabilities(p.graph, name, open.capabilities)
  const chosen = seed % 2 === 0 ? small : target
  const all = seed % 4 < 2 || target.library === undefined ? chosen : { ...chosen, library: anyProduct(target.library) }
  const { executable } = compileFor(backend, all, (t) => compileGraph(p.graph, { mode, target: t }))
  const inputs = p.inputs.map((data) => {
    const b = backend.alloc(data.byteLength)
    backend.write(b, data)
    return b
  })
  try {
    // Twice: the second run of a program goes another way on CUDA.
    for (let run = 0; run < 2; run++) {
      const outputs = executable.run(inputs)
      for (let i = 0; i < expected.length; i++) {
        const node = p.graph.outputs[i]
        const got = await backend.read(outputs[i], node.dtype, sizeOf(node.shape))
        const why = difference(got, expected[i], node.dtype, p.tolerances[i] ?? 0)
        if (why !== undefined) return `run ${run}, ${mode}, output ${i}: ${why}`
      }
      for (const b of outputs) backend.free(b)
    }
    return undefined
  } finally {
    for (const b of inputs) backend.free(b)
    executable.dispose()
  }
}

/** Rows that registers do not hold, walked in chunks. */
const long = 300_001
const longRows = [
  { name: 'long softmax', specs: () => [[[3, long]]], f: (x) => x.softmax(-1) },
  { name: 'long deviation', specs: () => [[[3, long], 'bf16']], f: (x) => x.astype('f32').std(-1) },
  {
    name: 'long layernorm',
    specs: () => [[[3, long]], [[long]], [[long]]],
    f: (x, scale, bias) => api.nn.layerNorm(x, { scale, bias }),
  },
  {
    name: 'long cross_entropy',
    specs: () => [
      [[3, long], 'bf16'],
      [[3], 'i32', [0, long]],
    ],
    f: (x, t) => api.valueAndGrad((l) => api.nn.crossEntropy(l.astype('f32'), t).mean())(x),
  },
]

const numbers = (data) => Array.from(data, Number)

async function rowCase(open, row) {
  const specs = row.specs(true)
  api.setDevice('reference')
  const made = makeInputs(specs, 5).map((t) => ({ data: t.dataSync(), shape: t.shape, dtype: t.dtype }))
  const run = async (device) => {
    api.setDevice(device)
    const args = made.map(({ data, shape, dtype }) => api.tensor(data, { shape, dtype }))
    const out = []
    for (const t of leaves(api.jit(row.f)(...args))) out.push({ dtype: t.dtype, data: await t.data() })
    return out
  }
  const want = await run('reference')
  const got = await run(open.device)
  for (let i = 0; i < want.length; i++) {
    const half = want[i].dtype === 'bf16'
    const tolerance = row.tolerance ?? (half ? 2e-2 : 1e-5)
    const [g, w] = [numbers(got[i].data), numbers(want[i].data)]
    for (let k = 0; k < w.length; k++)
      if (!(Object.is(g[k], w[k]) || Math.abs(g[k] - w[k]) <= tolerance * (1 + Math.abs(w[k]))))
        return `output ${i}[${k}] is ${g[k]}, expected ${w[k]}`
  }
  return undefined
}

/** Every check with what went wrong with it. */
export async function checkDevice(open, { parts, wanted, seeds, report }) {
  const results = []
  const check = async (name, body) => {
    const start = performance.now()
    let why
    try {
      why = await body()
    } catch (e) {
      why = message(e)
    }
    results.push({ name, ...(why === undefined ? {} : { why }) })
    report(name, why)
    const seconds = (performance.now() - start) / 1e3
    if (seconds > 3) console.log(`slow: ${name} took ${seconds.toFixed(1)} s`)
  }
  if (parts.includes('cases'))
    for (const c of hardCases)
      for (const mode of ['fast', 'strict'])
        await check(`case ${c.name} (${mode})`, () => hardCase(open.backend, c, mode))
  if (parts.includes('cases')) {
    // Partial results of folds take turns in what shared memory there is.
    const [c] = hardCases.filter((h) => h.file === 'column_powers')
    open.shareAtMost(16384)
    await check(`case ${c.name} (fast, in 16 KiB)`, () => hardCase(open.backend, c, 'fast'))
    open.shareAtMost(open.sharedBytes)
  }
  if (parts.includes('rows'))
    for (const row of [...rows, ...longRows])
      if (wanted === undefined || wanted.includes(row.name)) await check(`row ${row.name}`, () => rowCase(open, row))
  if (parts.includes('random'))
    for (let seed = 0; seed < seeds; seed++) await check(`random program ${seed}`, () => randomProgram(open, seed))
  return results
}
