/** Running compiled random programs and comparing what they give. */

import type { Backend } from '../../src/runtime/backend.ts'
import type { Program } from '../../src/runtime/program.ts'
import { readElement } from '../../src/scalar/host.ts'
import type { Machine } from '../../src/target/machine.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { compiledTarget } from '../support/device.ts'
import type { RandomProgram } from './graphs.ts'

/** Small blocks: many programs even on small tensors, tails everywhere, split reductions. */
export const smallBlocks: Machine = {
  ...compiledTarget,
  elementBlock: 24,
  dotBlock: { m: 8, n: 16, k: 5 },
  minPrograms: 6,
  rowBytes: 1 << 16,
  rowAlignment: { bytes: 16, least: 0, room: 7, widest: 8 },
}

/** Runs a random program's compiled form on a backend. */
export function execute(backend: Backend, program: Program, p: RandomProgram): HostArray[] {
  const executable = backend.prepare(program)
  const inputs = p.inputs.map((data) => {
    const b = backend.alloc(data.byteLength)
    backend.write(b, data)
    return b
  })
  const outputs = executable.run(inputs)
  const got = outputs.map((b, i) => {
    const node = p.graph.outputs[i]
    return backend.readSync(b, node?.dtype ?? 'f32', sizeOf(node?.shape ?? []))
  })
  for (const b of [...inputs, ...outputs]) backend.free(b)
  executable.dispose()
  return got
}

/** Where two arrays differ by more than a bound; without one, bit for bit (any NaN for any NaN). */
export function difference(actual: HostArray, expected: HostArray, dtype: DType, bound?: number): string | undefined {
  for (let i = 0; i < expected.length; i++) {
    const a = readElement(actual, dtype, i)
    const e = readElement(expected, dtype, i)
    if (Object.is(a, e)) continue
    if (bound !== undefined && (a === e || Math.abs(Number(a) - Number(e)) <= bound)) continue
    return `element ${i}: ${a}, expected ${e} (bound ${bound}, ${dtype})`
  }
  return undefined
}
