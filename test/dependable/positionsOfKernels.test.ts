/**
 * Kernels that would count beyond 32 bits are refused by the user's operation and line, and axes are not joined to such that do.
 *
 * Sites looked at: plan/body/collapse.ts (joins), plan/body/segments.ts (ranges joined again), compile/assemble.ts (kernels, unions, scatters,
 * programs inside control flow), codegen/wasm/kernel.ts and simt/capability.ts (kernels without a graph: the last guard).
 */
import { describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { beyond32 } from '../../src/kernel/beyond32.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'

const graphOf = (shape: readonly number[], build: (x: Node) => Node): Graph =>
  withContext(() => {
    const x = param(0, shape, 'u8')
    return { params: [x], outputs: [withOrigin('halve', 'model.ts:12:3', () => build(x))], effects: [] }
  })

const targets: readonly Machine[] = [wasmTarget, webgpuTarget()]
const half = (x: Node): Node => c.binary('shr', x, 1)

describe.each(targets.map((t) => [t.name, t] as const))('%s', (_, target) => {
  const compiled = (shape: readonly number[], build = half) =>
    compileGraph(graphOf(shape, build), { mode: 'fast', target, verify: true }).program

  test('axes whose product does not fit are not joined', () => {
    // Each position fits, blocks beyond the end of a joined axis would not.
    for (const shape of [
      [32768, 65535],
      [46340, 46340],
      [8, 16, 16776000],
    ]) {
      const program = compiled(shape)
      for (const s of program.steps) if (s.kind === 'kernel') expect(beyond32(s.kernel)).toBeUndefined()
      expect(program.steps.length).toBe(1)
    }
  })

  test('the error names the operation and its line', () => {
    for (const [shape, build] of [
      [[2 ** 31 + 8], half],
      [[2 ** 16, 2 ** 15 + 1], half],
      [[2 ** 31 + 8], (x: Node) => c.reduceMax(x)],
      [[2 ** 31 + 8], (x: Node) => c.argmax(x)],
      [[2 ** 16, 2 ** 15 + 1], (x: Node) => c.reduceMax(half(x), [0])],
    ] as const) {
      let error: unknown
      try {
        compiled(shape, build)
      } catch (e) {
        error = e
      }
      if (!(error instanceof UserError)) throw error ?? new Error('nothing was thrown')
      expect(error.code).toBe('E_UNSUPPORTED')
      expect(error.summary).toContain(`u8[${shape.join(', ')}], whose positions do not fit the 32 bits`)
      expect(error.summary).not.toMatch(/axis|kernel k/)
      expect(error.where).toBe('model.ts:12:3')
    }
  })
})

test('WebAssembly prepares what is not joined', () => {
  const { program } = compileGraph(graphOf([32768, 65535], half), { mode: 'fast', target: wasmTarget })
  const backend = createWasmBackend({ threads: 1 })
  backend.prepare(program).dispose()
})

test('targets that count further take both', () => {
  for (const shape of [[32768, 65535], [2 ** 31 + 8]])
    expect(
      compileGraph(graphOf(shape, half), { mode: 'fast', target: cudaTarget, verify: true }).program.steps.length,
    ).toBe(1)
})
