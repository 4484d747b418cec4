/** Matrix products by the device's library: which the planner gives it, and what comes back, on a library that computes plainly. */
import { describe, expect, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { createCudaBackend } from '../../src/backends/cuda/backend.ts'
import { type Compiled, type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import { compileFor } from '../../src/compile/prepare.ts'
import { loopNodes } from '../../src/compose/control.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import * as api from '../../src/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { reportPage } from '../../src/report/html.ts'
import type { Backend } from '../../src/runtime/backend.ts'
import type { ProductStep, Program } from '../../src/runtime/program.ts'
import { cublasLt, cudaTarget } from '../../src/target/cuda.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, type Input, trace } from '../compile/support.ts'
import { difference } from '../random/execute.ts'
import { randomGraph } from '../random/graphs.ts'
import { interpretingDevice } from './interpreting.ts'
import { aloneOn, callingInTests, eager, kinds, products } from './libraryCalls.ts'

describe('the planner', () => {
  const compiled = (m: number, k: number, n: number, options: Partial<CompileOptions> = {}): Compiled =>
    compileGraph(
      trace(
        [
          { shape: [m, k], dtype: 'bf16' },
          { shape: [k, n], dtype: 'bf16' },
          { shape: [n], dtype: 'bf16' },
        ],
        (p) => c.gelu(c.add(c.matmul(at(p, 0), at(p, 1)), at(p, 2))),
      ),
      { mode: 'fast', target: { ...cudaTarget, library: cublasLt }, verify: true, ...options },
    )

  test('gives a large product to the library and computes what follows in a kernel', () => {
    const made = compiled(8192, 4096, 4096)
    expect(kinds(made)).toEqual(['library', 'elementwise'])
    expect(made.report.totals).toMatchObject({ kernels: 1, libraryCalls: 1 })
    expect(made.report.refused.map((r) => r.code)).toContain('library-product')
    const [call] = made.report.kernels
    expect(call?.library).toMatchObject({ name: 'cuBLASLt', choice: 'call' })
    expect(call?.modelledMs).toBeCloseTo(1e3 * ((2 * 8192 * 4096 * 4096) / cublasLt.rate.bf16 + cublasLt.launch), 6)
    expect(call?.library?.kernelMs).toBeGreaterThan(call?.library?.callMs ?? 0)
    const text = String(made.report)
    expect(text).toContain('in 1 kernel and 1 library call for cuda')
    expect(text).toContain('a call of cuBLASLt; a kernel is modelled at')
    expect(text).toContain('library-product')
    expect(reportPage(made.report)).toContain('Matrix products and the library')
  })

  test('computes small products in kernels, with what surrounds them', () => {
    expect(kinds(compiled(64, 64, 64))).toEqual(['matrix'])
    expect(kinds(compiled(256, 512, 512))).toEqual(['matrix'])
  })

  test('keeps an epilogue that costs more apart than the library saves', () => {
    const made = compiled(8192, 64, 8192)
    expect(kinds(made)).toEqual(['matrix'])
    // The product alone is a call.
    expect(kinds(compiled(8192, 64, 8192, { fuse: false }))).toContain('library')
  })

  test('keeps to kernels in strict mode, and where there is no library', () => {
    expect(kinds(compiled(8192, 4096, 4096, { mode: 'strict' }))).not.toContain('library')
    expect(kinds(compiled(8192, 4096, 4096, { target: cudaTarget }))).toEqual(['matrix'])
  })

  test('says what the library refused', () => {
    const [step] = products(compiled(8192, 4096, 4096).program)
    if (step === undefined) throw new Error('no product')
    const { a, b, out } = step.product
    const matrix = (x: typeof a): string => `${x.dtype} ${x.order} ${x.leading} ${x.batch}`
    const key = `1 x 8192 x 4096 x 4096 * 1: ${matrix(a)}, ${matrix(b)}, ${matrix(out)}`
    const target = { ...cudaTarget, library: { ...cublasLt, refused: new Map([[key, 'none of its kernels fits']]) } }
    const made = compiled(8192, 4096, 4096, { target, fuse: false })
    expect(kinds(made)).toContain('matrix')
    expect(String(made.report)).toContain('a kernel of its own: none of its kernels fits')
  })
})

const { calling, check } = callingInTests()

const alone = (inputs: readonly Input[], f: (p: readonly Node[]) => Node): ProductStep => aloneOn(check, inputs, f)

describe('products', () => {
  const f32 = (...shape: number[]): Input => ({ shape })

  test.each(['f32', 'f64', 'bf16', 'f16'] as const)('of odd sizes: %s', (dtype) => {
    const { product } = alone(
      [
        { shape: [13, 7], dtype },
        { shape: [7, 11], dtype },
      ],
      (p) => c.matmul(at(p, 0), at(p, 1)),
    )
    expect(product).toMatchObject({
      m: 13,
      n: 11,
      k: 7,
      batches: 1,
      alpha: 1,
      out: { dtype, order: 'rows', leading: 11 },
    })
  })

  test('of transposed operands, and with a transposed result', () => {
    const t = (x: Node): Node => c.transpose(x, [1, 0])
    const one = alone([f32(7, 13), f32(11, 7)], (p) => c.matmul(t(at(p, 0)), t(at(p, 1))))
    expect([one.product.a.order, one.product.b.order]).toEqual(['columns', 'columns'])
    const two = alone([f32(13, 7), f32(11, 7)], (p) => t(c.matmul(at(p, 0), t(at(p, 1)))))
    expect(two.product.out.order).toBe('columns')
    alone([f32(13, 7)], (p) => c.matmul(at(p, 0), t(at(p, 0))))
  })

  test('of batches: shared operands, several strides, calls', () => {
    expect(alone([f32(5, 6, 7), f32(5, 7, 4)], (p) => c.matmul(at(p, 0), at(p, 1))).product).toMatchObject({
      batches: 5,
      a: { batch: 42 },
      b: { batch: 28 },
      out: { batch: 24 },
    })
    // A shared second operand: batches are rows.
    expect(alone([f32(5, 6, 7), f32(7, 4)], (p) => c.matmul(at(p, 0), at(p, 1))).product).toMatchObject({
      batches: 1,
      m: 30,
    })
    expect(alone([f32(6, 7), f32(5, 7, 4)], (p) => c.matmul(at(p, 0), at(p, 1))).product.a.batch).toBe(0)
    // Heads beside each other in memory: one call a sequence.
    const heads = alone([f32(3, 6, 2, 8), f32(3, 2, 5, 8)], (p) => c.einsum('bshd,bhtd->bhst', [at(p, 0), at(p, 1)]))
    expect(heads.calls.length * heads.product.batches).toBe(6)
    expect(heads.calls.length).toBeGreaterThan(1)
  })

  test('of slices', () => {
    const step = alone([f32(20, 30), f32(16, 9)], (p) =>
      c.matmul(c.sliceAxis(c.sliceAxis(at(p, 0), 0, 3, 13), 1, 5, 21), at(p, 1)),
    )
    expect(step.product).toMatchObject({ m: 10, k: 16, n: 9, a: { leading: 30 } })
    expect(step.calls).toEqual([{ a: 95, b: 0, out: 0 }])
  })

  test('scaled by constants, of half precision into single', () => {
    const half = (...shape: number[]): Input => ({ shape, dtype: 'bf16' })
    const wide = (x: Node): Node => c.cast(x, 'f32')
    const one = alone([half(13, 7), half(7, 11)], (p) => c.mul(c.matmul(wide(at(p, 0)), wide(at(p, 1))), 0.125))
    expect(one.product).toMatchObject({ alpha: 0.125, a: { dtype: 'bf16' }, out: { dtype: 'f32' } })
    const two = alone([half(13, 7), half(7, 11)], (p) => c.matmul(c.neg(at(p, 0)), at(p, 1)))
    expect(two.product).toMatchObject({ alpha: -1, out: { dtype: 'bf16' } })
  })

  test('in half precision, widened by what reads them', () => {
    const half = (...shape: number[]): Input => ({ shape, dtype: 'bf16' })
    const made = check(
      trace([half(13, 7), half(7, 11)], (p) => c.exp(c.mul(c.cast(c.matmul(at(p, 0), at(p, 1)), 'f32'), 0.1))),
    )
    expect(products(made.program).map((s) => s.product.out.dtype)).toEqual(['bf16'])
  })

  test('whose result the user rounds before it is scaled are not scaled by the library', () => {
    const made = check(trace([f32(13, 7), f32(7, 11)], (p) => c.mul(c.cast(c.matmul(at(p, 0), at(p, 1)), 'bf16'), 0.3)))
    expect(products(made.program).map((s) => s.product.alpha)).toEqual([1])
  })

  test('whose scale is zero, or so large or small that sums would leave the range, are not scaled by the library', () => {
    for (const by of [0, 1e-30, 1e30, Number.POSITIVE_INFINITY]) {
      const made = compileGraph(
        trace([f32(13, 7), f32(7, 11)], (p) => c.mul(c.matmul(at(p, 0), at(p, 1)), by)),
        { mode: 'fast', target: eager, verify: true },
      )
      expect(products(made.program).every((s) => s.product.alpha === 1)).toBe(true)
    }
  })

  test('whose result the user rounds to one half precision and then to the other are rounded twice', () => {
    const half: Input[] = [
      { shape: [13, 7], dtype: 'f16' },
      { shape: [7, 11], dtype: 'f16' },
    ]
    const wide = (x: Node): Node => c.cast(x, 'f32')
    const made = check(trace(half, (p) => c.cast(c.cast(c.matmul(wide(at(p, 0)), wide(at(p, 1))), 'bf16'), 'f16')))
    expect(kinds(made)).not.toEqual(['library'])
  })

  test('independent ones are never one kernel', () => {
    const f64 = (...shape: number[]): Input => ({ shape, dtype: 'f64' })
    const made = check(
      trace([f64(5, 7), f64(7, 9), f64(5, 7)], (p) => [c.matmul(at(p, 0), at(p, 1)), c.matmul(at(p, 2), at(p, 1))]),
    )
    expect(kinds(made)).toEqual(['library', 'library'])
  })

  test('with work around them, whose results stand between kernels', () => {
    const made = check(
      trace([f32(13, 7), f32(7, 11), f32(11), f32(11, 5)], (p) => {
        const h = c.gelu(c.add(c.matmul(c.exp(at(p, 0)), at(p, 1)), at(p, 2)))
        return [c.softmax(c.matmul(h, at(p, 3)), -1), c.sum(h, [0])]
      }),
    )
    expect(kinds(made).filter((k) => k === 'library').length).toBe(2)
    expect(made.report.totals.kernels).toBeGreaterThanOrEqual(3)
  })

  test('what is more than a product of strided tensors is a kernel', () => {
    for (const f of [
      (p: readonly Node[]) => c.matmul(c.flip(at(p, 0), [1]), at(p, 1)),
      (p: readonly Node[]) =>
        c.matmul(
          at(p, 0),
          c.pad(c.sliceAxis(at(p, 1), 1, 0, 10), [
            [0, 0],
            [1, 0],
          ]),
        ),
    ]) {
      const made = check(trace([f32(13, 7), f32(7, 11)], f), {
        target: { ...eager, memories: [{ bytes: Number.POSITIVE_INFINITY, bandwidth: 1 }] },
      })
      expect(kinds(made)).not.toContain('library')
    }
    // Sums over two axes that are not neighbours.
    const made = check(trace([f32(5, 4, 6), f32(6, 9, 4)], (p) => c.einsum('ikl,ljk->ij', [at(p, 0), at(p, 1)])))
    expect(kinds(made)).not.toContain('library')
  })

  test('whose operand is donated', () => {
    const made = check(
      trace([f32(9, 9), f32(9, 9)], (p) => [c.matmul(at(p, 0), at(p, 1)), c.exp(at(p, 0))]),
      { donated: [true, false] },
    )
    expect(kinds(made)).toContain('library')
  })

  test('inside loops', () => {
    const square: Input = { shape: [6, 6] }
    const body = trace([square, square], (p) => {
      const next = c.mul(c.matmul(at(p, 0), at(p, 1)), 0.1)
      return [next, c.tanh(next)]
    })
    check(
      trace([square, { shape: [5, 6, 6] }], (p) => {
        const r = loopNodes(body, { length: 5 }, [], [c.exp(at(p, 0))], [at(p, 1)])
        return [...r.carries, ...r.sequences]
      }),
    )
    expect(calling().device.calls.some((x) => x.startsWith('product'))).toBe(true)
  })
})

test('random programs', { timeout: 120_000 }, () => {
  const { device, backend } = calling()
  let calls = 0
  for (let seed = 0; seed < 60; seed++) {
    const { graph, inputs, tolerances } = randomGraph(seed, { maxElements: 300 })
    const { program } = compileGraph(graph, { mode: seed % 5 === 4 ? 'strict' : 'fast', target: eager, verify: true })
    if (products(program).length === 0) continue
    calls += products(program).length
    device.learn(program)
    const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const executable = backend.prepare(program)
    const buffers = inputs.map((data) => {
      const b = backend.alloc(data.byteLength)
      backend.write(b, data)
      return b
    })
    for (let run = 0; run < 2; run++) {
      const outputs = executable.run(buffers)
      outputs.forEach((b, i) => {
        const node = at(graph.outputs, i)
        const got = backend.readSync(b, node.dtype, sizeOf(node.shape))
        const why = difference(got, at(want, i), node.dtype, tolerances[i] ?? 0)
        expect(why, `seed ${seed}, run ${run}, output ${i}`).toBeUndefined()
      })
      for (const b of outputs) backend.free(b)
    }
    for (const b of buffers) backend.free(b)
    executable.dispose()
  }
  expect(calls).toBeGreaterThan(5)
})

test('what the library refuses becomes a kernel, and the report says so', () => {
  const picky = interpretingDevice((p) => (p.n === 11 ? 'not of eleven columns' : undefined))
  const { driver, compiler } = picky
  const own = createCudaBackend({ driver, compiler, products: picky.products, cacheFolder: calling().folder })
  const learning: Backend = Object.assign(Object.create(own) as Backend, {
    prepare: (program: Program) => {
      picky.learn(program)
      return own.prepare(program)
    },
  })
  api.setDevice(createCompiledDevice('cuda', learning, eager))
  try {
    const x = api.ones([13, 7])
    const f = api.jit((a: api.Tensor, w: api.Tensor) => a.matmul(w))
    expect(f(x, api.ones([7, 11])).tolist()).toEqual(Array.from({ length: 13 }, () => new Array(11).fill(7)))
    const report = f.explain(x, api.ones([7, 11]))
    expect(report.kernels.map((k) => [k.kind, k.library?.choice])).toEqual([['matrix', 'refused']])
    expect(String(report)).toContain('not of eleven columns')
    const other = f.explain(x, api.ones([7, 12]))
    expect(other.kernels.map((k) => [k.kind, k.library?.choice])).toEqual([['library', 'call']])
  } finally {
    api.setDevice('wasm')
  }
})

test('what the library refuses inside a long loop shows when the program is prepared', () => {
  const picky = interpretingDevice((p) => (p.n === 3 ? 'not of three columns' : undefined))
  const { driver, compiler } = picky
  const own = createCudaBackend({ driver, compiler, products: picky.products, cacheFolder: calling().folder })
  const square: Input = { shape: [3, 3] }
  const body = trace([square, square], (p) => [c.tanh(c.matmul(at(p, 0), at(p, 1)))])
  const graph = trace([square, { shape: [5000, 3, 3] }], (p) => [
    ...loopNodes(body, { length: 5000 }, [], [at(p, 0)], [at(p, 1)]).carries,
  ])
  const { program } = compileGraph(graph, { mode: 'fast', target: eager })
  picky.learn(program)
  const before = own.memory().used
  expect(() => own.prepare(program)).toThrow('not of three columns')
  expect(own.memory().used).toBe(before)
  const { executable } = compileFor(own, eager, (target) => {
    const made = compileGraph(graph, { mode: 'fast', target })
    picky.learn(made.program)
    return made
  })
  executable.dispose()
  own.dispose()
})
