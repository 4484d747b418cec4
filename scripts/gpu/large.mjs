/**
 * Tensors around 2^31 and 2^32 elements and bytes on a device: made there, and compared with float64 at sampled positions: at the beginning,
 * around both limits, and at the end. A subset is small enough for a memory checker.
 */
import { compileGraph } from '../../src/compile/index.ts'
import { compileFor } from '../../src/compile/prepare.ts'
import * as c from '../../src/compose/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import { maxElements } from '../../src/types/shape.ts'
import { G2, G4, items, period } from './largeItems.mjs'

/** Runs graphs on a device, without the API: results are buffers. */
class Runner {
  constructor(open) {
    this.backend = open.backend
    this.target = open.target
    this.steps = 0
  }

  /** The results of a program over buffers; `specs` are the inputs' shapes and dtypes. */
  run(specs, build, inputs, target = this.target) {
    const graph = withOrigin('large', undefined, () =>
      withContext(() => {
        const params = specs.map(([shape, dtype], i) => param(i, shape, dtype))
        return { params, outputs: [build(...params)].flat(), effects: [] }
      }),
    )
    const { executable } = compileFor(this.backend, target, (t) => compileGraph(graph, { mode: 'fast', target: t }))
    this.kinds = executable.program.steps.map((s) => s.kind)
    try {
      return executable.run(inputs)
    } finally {
      executable.dispose()
    }
  }

  /** Buffer of host values. */
  upload(data) {
    const b = this.backend.alloc(data.byteLength)
    this.backend.write(b, data)
    return b
  }

  free(...buffers) {
    for (const b of new Set(buffers)) this.backend.free(b)
  }

  /** A tensor of `valueAt` (of bools: `boolAt`). */
  input(shape, dtype) {
    const build = () => {
      let at
      shape.forEach((d, axis) => {
        const digit = c.iota(shape, axis, 'i64')
        at = at === undefined ? digit : c.add(c.mul(at, d), digit)
      })
      const mod = (x, by) => c.sub(x, c.mul(c.div(x, by), by))
      const value = c.add(mod(c.mul(mod(at, period), 37), 101), c.div(at, G2))
      return dtype === 'bool' ? c.compare('eq', mod(value, 2), 1) : c.cast(value, dtype)
    }
    return this.run([], build, [])[0]
  }

  /** Elements of a tensor at flat positions, as numbers. */
  async sample(buffer, n, dtype, at) {
    const idx = this.upload(BigInt64Array.from(at, BigInt))
    const specs = [
      [[n], dtype],
      [[at.length], 'i64'],
    ]
    const [out] = this.run(specs, (x, i) => c.cast(c.take(x, i, 0), 'f64'), [buffer, idx])
    try {
      return Array.from(await this.backend.read(out, 'f64', at.length), Number)
    } finally {
      this.free(idx, out)
    }
  }
}

/** Checks all (or what a memory checker has time for); `wanted`: words of which one stands in an item's name. */
export async function checkLarge(open, { subset, wanted, report }) {
  const r = new Runner(open)
  const results = []
  // The input that stands on the device: the last one made.
  let held
  const drop = () => {
    if (held !== undefined) r.free(held.buffer)
    held = undefined
  }
  const inputs = (shape, dtype) => {
    const key = `${dtype}[${shape.join()}]`
    if (held?.key !== key) {
      drop()
      held = { key, buffer: r.input(shape, dtype) }
    }
    return held.buffer
  }
  for (const item of items(subset)) {
    if (wanted !== undefined && !wanted.some((w) => item.name.includes(w))) continue
    const start = performance.now()
    let why
    try {
      if (maxElements < G4 + 7) throw new Error(`shapes hold at most ${maxElements} elements`)
      why = await item.run(r, inputs)
    } catch (e) {
      why = e instanceof Error ? e.message : String(e)
      drop()
      // After a fault the device is lost: nothing more can be said.
      if (/ILLEGAL_ADDRESS|LAUNCH_FAILED/.test(why)) {
        results.push({ name: item.name, why })
        report(item.name, why)
        break
      }
    }
    const seconds = (performance.now() - start) / 1e3
    results.push({ name: item.name, seconds, ...(why === undefined ? {} : { why }) })
    report(item.name, why, seconds)
  }
  drop()
  return results
}
