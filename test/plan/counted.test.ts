/** The model counts what kernels compute: no value is evaluated by many programs and counted once. */
import { describe, expect, it } from 'vitest'
import { graphOf, programOf } from '../../bench/cliffs/programs.ts'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { compileGraph } from '../../src/compile/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { spec, type Tensor } from '../../src/index.ts'
import type { Kernel, Stmt } from '../../src/kernel/ir.ts'
import { scalarInfo } from '../../src/scalar/ops.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { nightly } from '../support/nightly.ts'

/** Operations that the programs of a kernel do, each loop in full. */
function operations(kernel: Kernel): number {
  let sum = 0
  for (const part of kernel.parts) {
    const extent = new Map(part.axes.map((a) => [a.name, a.extent]))
    const walk = (
      body: readonly Stmt[],
      around: readonly { readonly axis: string; readonly block: number }[],
    ): void => {
      for (const s of body) {
        if (s.kind === 'loop') walk(s.body, [...around, s])
        if (s.kind !== 'let') continue
        const { op } = s
        const axes = new Set([...s.axes, ...(op.kind === 'reduce' || op.kind === 'dot' ? op.axes : [])])
        let points = 1
        for (const { axis, block } of around)
          points *= axes.has(axis) ? (extent.get(axis) ?? 1) : Math.ceil((extent.get(axis) ?? 1) / block)
        for (const a of axes) if (!around.some((x) => x.axis === a)) points *= extent.get(a) ?? 1
        if (op.kind === 'dot') sum += 2 * points
        else if (op.kind === 'reduce' || op.kind === 'scan') sum += points
        else if (op.kind === 'scalar' && scalarInfo(op.op).cost !== 'free') sum += points
      }
    }
    walk(part.body, part.grid)
  }
  return sum
}

/** Whether programs walk a part of an axis only, or look for the updates that are theirs: what they do is less than `operations`. */
const isPartial = (kernel: Kernel): boolean =>
  kernel.parts.some((p) =>
    p.body.some((s) => (s.kind === 'loop' && s.from !== undefined) || (s.kind === 'store' && s.combiner !== undefined)),
  )

function countsOf(graph: Graph, target: Machine): { readonly done: number; readonly counted: number } | undefined {
  const { program, report } = compileGraph(graph, { mode: 'fast', target })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  if (kernels.some(isPartial) || program.steps.some((s) => s.kind !== 'kernel')) return undefined
  return {
    done: kernels.reduce((n, k) => n + operations(k), 0),
    counted: report.kernels.reduce((n, k) => n + k.flops + k.specialFunctions, 0),
  }
}

const machines = { wasm: wasmTarget, cuda: cudaTarget } as const

describe.each(Object.entries(machines))('operations by %s', (_, target) => {
  it('of random programs are those that the model counts', () => {
    let compared = 0
    for (let seed = 1; seed <= (nightly ? 60 : 15); seed++) {
      const counts = countsOf(graphOf(programOf(seed, { mostBytes: 1 << 20 })), target)
      if (counts === undefined) continue
      compared++
      expect(counts.done, `seed ${seed}`).toBeLessThan(1.6 * counts.counted + 1e5)
    }
    expect(compared).toBeGreaterThan(nightly ? 40 : 9)
  })

  it('of a row through two matrices, normalised between them and searched at the end, are those of each matrix once', () => {
    const f = (x: Tensor, w: Tensor, r: Tensor, e: Tensor): Tensor => {
      const y = x.matmul(w).add(r)
      return y
        .mul(y.square().mean(-1, { keepdims: true }).add(1e-6).rsqrt())
        .matmul(e.transpose())
        .argmax(-1)
    }
    const [inner, width, words] = [512, 256, 8192]
    const shapes = [
      [1, inner],
      [inner, width],
      [1, width],
      [words, width],
    ]
    const { graph } = traceFunction(
      f as (...args: never[]) => unknown,
      shapes.map((s) => spec(s, 'f32')),
    )
    const counts = countsOf(graph, target)
    expect(counts?.done).toBeLessThan(3 * width * (inner + words))
  })
})
