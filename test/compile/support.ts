/** Graphs compiled, run through the kernel interpreter and through WebAssembly, and compared with the reference evaluator. */
import { expect } from 'vitest'
import { type Compiled, type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Backend } from '../../src/runtime/backend.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { interpretProgram } from '../support/interpretProgram.ts'

export interface Input {
  readonly shape: readonly number[]
  readonly dtype?: DType
}

export const at = <T>(items: readonly T[], i: number): T => {
  const x = items[i]
  if (x === undefined) throw new Error(`nothing at ${i}`)
  return x
}

/** A graph over inputs of the given shapes. */
export function trace(inputs: readonly Input[], build: (p: readonly Node[]) => Node | Node[]): Graph {
  return withContext(() => {
    const params = inputs.map(({ shape, dtype = 'f32' }, i) => param(i, shape, dtype))
    const out = build(params)
    return { params, outputs: Array.isArray(out) ? out : [out], effects: [] }
  })
}

/** Values in [-2, 2), or small whole numbers, the same on every call. */
export function inputsOf(graph: Graph): HostArray[] {
  let s = 12345
  return graph.params.map((p) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    for (let i = 0; i < out.length; i++) {
      s = (Math.imul(s, 1664525) + 1013904223) >>> 0
      const v = (4 * s) / 2 ** 32 - 2
      writeElement(out, p.dtype, i, p.dtype === 'bool' ? v > 0 : p.dtype === 'f32' ? v : Math.floor(v + 4))
    }
    return out
  })
}

export function expectClose(got: readonly HostArray[], want: readonly HostArray[], graph: Graph, what: string): void {
  want.forEach((w, o) => {
    const dtype = graph.outputs[o]?.dtype ?? 'f32'
    for (let i = 0; i < w.length; i++) {
      const a = Number(readElement(at(got, o), dtype, i))
      const e = Number(readElement(w, dtype, i))
      if (!(Object.is(a, e) || Math.abs(a - e) <= 1e-4 * (1 + Math.abs(e))))
        expect.fail(`${what}: output ${o} is ${a} at ${i}, not ${e}`)
    }
  })
}

/** A graph that a pass made of another: it is well formed, and gives what the other gives. */
export function sameValues(graph: Graph, made: Graph, what: string): Graph {
  verifyGraph(made)
  const data = inputsOf(graph)
  const evaluated = (g: Graph): HostArray[] => evaluateGraph(g, data).map(toHostArray)
  expectClose(evaluated(made), evaluated(graph), graph, what)
  return made
}

/** Compiles and runs a graph on the interpreter, and on a backend where one is given; both must agree with the reference. */
export function check(graph: Graph, options: Partial<CompileOptions> = {}, backend?: Backend): Compiled {
  const compiled = compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true, ...options })
  const inputs = inputsOf(graph)
  const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
  const interpreted = interpretProgram(compiled.program, inputs, 'dtype', graph.outputs)
  expectClose(interpreted, want, graph, 'interpreted')
  if (backend !== undefined) {
    const executable = backend.prepare(compiled.program)
    const bound = inputs.map((data) => {
      const b = backend.alloc(data.byteLength)
      backend.write(b, data)
      return b
    })
    const outputs = executable.run(bound)
    const got = outputs.map((b, i) => {
      const node = at(graph.outputs, i)
      return backend.readSync(b, node.dtype, sizeOf(node.shape))
    })
    expectClose(got, want, graph, 'in WebAssembly')
    executable.dispose()
  }
  return compiled
}
