/** Kernels of one form are lowered once: those of layers that are alike share their statements, each with a name and tensors of its own. */
import { afterAll, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { lowerGroup } from '../../src/lower/lowerGroup.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, check, trace } from '../compile/support.ts'
import { compiledBackend } from '../support/device.ts'

const backend = compiledBackend({ threads: 1 })
afterAll(() => backend.dispose())

/** Layers of a product and a softmax of its rows; the means of their columns are results. */
const layersOf = (rows: number, columns: number) =>
  trace(
    [rows, ...Array<number>(5).fill(columns)].map((n) => ({ shape: [n, columns] })),
    ([x, ...weights]) => {
      const results: Node[] = []
      weights.reduce(
        (y, w) => {
          const next = c.softmax(c.matmul(y, w), 1)
          results.push(c.mean(next, 0))
          return next
        },
        at([x], 0) as Node,
      )
      return results
    },
  )

test.each([
  [33, 52, 'fast'],
  [64, 64, 'strict'],
] as const)('layers of %i x %i in %s mode', (rows, columns, mode) => {
  const { program, plan } = check(layersOf(rows, columns), { mode }, backend)
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s] : []))
  const differing = (of: (s: (typeof kernels)[number]) => unknown): number => new Set(kernels.map(of)).size
  // The first layer and the last are of forms of their own.
  expect(kernels).toHaveLength(5)
  expect(differing((s) => s.kernel.parts)).toBe(3)
  expect(differing((s) => s.kernel.params)).toBe(3)
  expect(differing((s) => s.kernel.name)).toBe(kernels.length)
  expect(differing((s) => s.buffers.join())).toBe(kernels.length)
  // Roles of their own are lowered for themselves: the same kernels on the same tensors.
  for (const g of plan.groups) {
    if (g.kind !== 'kernel') continue
    const [alone, again] = [{ ...g, roles: { ...g.roles } }, g].map((group) => lowerGroup('k', group, wasmTarget, mode))
    expect(again).toEqual(alone)
  }
})
