/** Programs whose products are calls of a library that computes plainly, held against the reference run by run. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect } from 'vitest'
import { type CudaBackend, createCudaBackend } from '../../src/backends/cuda/backend.ts'
import { type Compiled, type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { ProductStep, Program } from '../../src/runtime/program.ts'
import { cublasLt, cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { pricesByClass } from '../../src/target/prices.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, expectClose, type Input, inputsOf, trace } from '../compile/support.ts'
import { type InterpretingDevice, interpretingDevice } from './interpreting.ts'

/** Where a product of a kernel costs far more than a call. */
export const eager: Machine = {
  ...cudaTarget,
  matrixRate: 1e3,
  plainMatrixRate: 1e3,
  prices: pricesByClass({ simple: 1e6, divide: 1e6, special: 1e6, random: 1e6 }),
  library: { ...cublasLt, leastFlops: 1, launch: 1e-9 },
}

export const products = (p: Program): ProductStep[] => p.steps.flatMap((s) => (s.kind === 'product' ? [s] : []))
export const kinds = ({ report }: Compiled): string[] => report.kernels.map((k) => k.kind)

export interface CallingDevice {
  readonly device: InterpretingDevice
  readonly backend: CudaBackend
  readonly folder: string
  /** Seven runs with other inputs each, results kept: so that addresses change and graphs are captured again. */
  check(graph: Graph, options?: Partial<CompileOptions>): Compiled
  dispose(): void
}

/** A device for the tests of a file, made before the first of them. */
export function callingInTests(): { readonly calling: () => CallingDevice } & Pick<CallingDevice, 'check'> {
  let made: CallingDevice | undefined
  const calling = (): CallingDevice => {
    if (made === undefined) throw new Error('no test runs')
    return made
  }
  beforeAll(() => {
    made = callingDevice()
  })
  afterAll(() => {
    made?.dispose()
  })
  return { calling, check: (graph, options) => calling().check(graph, options) }
}

/** The one call that a program is. */
export function aloneOn(
  check: CallingDevice['check'],
  inputs: readonly Input[],
  f: (p: readonly Node[]) => Node,
  options?: Partial<CompileOptions>,
): ProductStep {
  const made = check(trace(inputs, f), options)
  expect(kinds(made)).toEqual(['library'])
  const [step] = products(made.program)
  if (step === undefined) throw new Error('no product')
  return step
}

function callingDevice(): CallingDevice {
  const folder = mkdtempSync(join(tmpdir(), 'sinter-'))
  const device = interpretingDevice()
  const { driver, compiler, products: library } = device
  const backend = createCudaBackend({ driver, compiler, products: library, cacheFolder: folder })
  const check = (graph: Graph, options: Partial<CompileOptions> = {}): Compiled => {
    const made = compileGraph(graph, { mode: 'fast', target: eager, verify: true, ...options })
    const { program } = made
    device.learn(program)
    const executable = backend.prepare(program)
    const kept: (() => void)[] = []
    for (let run = 0; run < 7; run++) {
      const inputs = inputsOf(graph).map((x) => rotated(x, run))
      const buffers = inputs.map((data) => {
        const b = backend.alloc(data.byteLength)
        backend.write(b, data)
        return b
      })
      const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
      const outputs = executable.run(buffers)
      kept.push(() => {
        const got = outputs.map((b, i) => {
          const node = at(graph.outputs, i)
          return backend.readSync(b, node.dtype, sizeOf(node.shape))
        })
        expectClose(got, want, graph, `run ${run}`)
        for (const b of new Set([...outputs, ...buffers.filter((_, i) => program.donated[i] !== true)])) backend.free(b)
      })
    }
    for (const k of kept) k()
    executable.dispose()
    return made
  }
  return {
    device,
    backend,
    folder,
    check,
    dispose: () => {
      backend.dispose()
      rmSync(folder, { recursive: true })
    },
  }
}

function rotated(x: HostArray, by: number): HostArray {
  const out = x.slice()
  for (let i = 0; i < x.length; i++) out[i] = x[(i + by) % x.length] as never
  return out
}
