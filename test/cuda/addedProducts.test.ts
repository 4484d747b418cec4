/** Products that the device's library adds to a matrix: which bodies they are, what they may be written over, what they cost and give. */
import { describe, expect, test } from 'vitest'
import { type Compiled, type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import { loopNodes } from '../../src/compose/control.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { verifyProduct } from '../../src/runtime/product.ts'
import type { LoopStep, ProductStep } from '../../src/runtime/program.ts'
import { cublasLt, cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { productKey, standsOnAddend } from '../../src/types/product.ts'
import { at, type Input, trace } from '../compile/support.ts'
import { aloneOn, callingInTests, eager, kinds, products } from './libraryCalls.ts'

const { check } = callingInTests()
const f32 = (...shape: number[]): Input => ({ shape })
const bf16 = (...shape: number[]): Input => ({ shape, dtype: 'bf16' })
const t = (x: Node): Node => c.transpose(x, [1, 0])

const alone = (
  inputs: readonly Input[],
  f: (p: readonly Node[]) => Node,
  options?: Partial<CompileOptions>,
): ProductStep => aloneOn(check, inputs, f, options)

/** No call of a program adds. */
function addsNothing(inputs: readonly Input[], f: (p: readonly Node[]) => Node | Node[]): void {
  const made = check(trace(inputs, f))
  expect(products(made.program).map((s) => s.addend)).toEqual(products(made.program).map(() => undefined))
}

describe('a product is added by the library', () => {
  test.each(['f32', 'f64', 'bf16', 'f16'] as const)('to a matrix of its dtype: %s', (dtype) => {
    const shapes = [
      [13, 11],
      [13, 7],
      [7, 11],
    ].map((shape): Input => ({ shape, dtype }))
    for (const f of [
      (p: readonly Node[]) => c.add(at(p, 0), c.matmul(at(p, 1), at(p, 2))),
      (p: readonly Node[]) => c.add(c.matmul(at(p, 1), at(p, 2)), at(p, 0)),
    ]) {
      const { product } = alone(shapes, f)
      expect(product).toMatchObject({
        alpha: 1,
        out: { dtype },
        addend: { dtype, order: 'rows', leading: 11, batch: 0, beta: 1 },
      })
    }
  })

  test('to sums in single precision of products in half', () => {
    const { product } = alone([f32(13, 11), bf16(13, 7), bf16(7, 11)], (p) =>
      c.add(at(p, 0), c.cast(c.matmul(at(p, 1), at(p, 2)), 'f32')),
    )
    expect(product).toMatchObject({ a: { dtype: 'bf16' }, out: { dtype: 'f32' }, addend: { dtype: 'f32' } })
  })

  test('each times a constant, or subtracted', () => {
    const of = (f: (x: Node, y: Node) => Node): readonly [number, number | undefined] => {
      const { product } = alone([f32(13, 11), f32(13, 7), f32(7, 11)], (p) => f(at(p, 0), c.matmul(at(p, 1), at(p, 2))))
      return [product.alpha, product.addend?.beta]
    }
    expect(of((x, y) => c.sub(x, y))).toEqual([-1, 1])
    expect(of((x, y) => c.sub(y, x))).toEqual([1, -1])
    expect(of((x, y) => c.add(c.mul(x, 0.5), c.mul(y, 3)))).toEqual([3, 0.5])
    expect(of((x, y) => c.mul(c.sub(c.neg(x), y), 0.25))).toEqual([-0.25, -0.25])
  })

  test('where it lies in lines of its own: slices, transposed, batches, several calls', () => {
    const cut = alone([f32(20, 30), f32(13, 7), f32(7, 11)], (p) =>
      c.add(c.sliceAxis(c.sliceAxis(at(p, 0), 0, 2, 15), 1, 4, 15), c.matmul(at(p, 1), at(p, 2))),
    )
    expect(cut.product.addend?.leading).toBe(30)
    expect(cut.calls).toEqual([{ a: 0, b: 0, out: 0, addend: 64 }])
    const turned = alone([f32(11, 13), f32(13, 7), f32(7, 11)], (p) => c.add(at(p, 0), t(c.matmul(at(p, 1), at(p, 2)))))
    expect(turned.product.addend?.order).toBe(turned.product.out.order)
    const many = alone([f32(5, 6, 4), f32(5, 6, 7), f32(5, 7, 4)], (p) => c.add(at(p, 0), c.matmul(at(p, 1), at(p, 2))))
    expect(many.product).toMatchObject({ batches: 5, addend: { batch: 24 } })
    const heads = alone([f32(3, 2, 6, 5), f32(3, 6, 2, 8), f32(3, 2, 5, 8)], (p) =>
      c.add(at(p, 0), c.einsum('bshd,bhtd->bhst', [at(p, 1), at(p, 2)])),
    )
    expect(heads.calls.length).toBeGreaterThan(1)
    expect(new Set(heads.calls.map((x) => x.addend)).size).toBe(heads.calls.length)
  })

  test('also to an operand of it', () => {
    const { product, a, addend } = alone([f32(9, 9), f32(9, 9)], (p) => c.add(at(p, 0), c.matmul(at(p, 0), at(p, 1))))
    expect(product.addend?.beta).toBe(1)
    expect(addend).toBe(a)
  })

  test('and not: to what is repeated, of another dtype, laid out otherwise, or two matrices', () => {
    const product = (p: readonly Node[]): Node => c.matmul(at(p, 1), at(p, 2))
    const like = (x: Input): Input[] => [x, f32(13, 7), f32(7, 11)]
    addsNothing(like(f32(11)), (p) => c.add(at(p, 0), product(p)))
    addsNothing(like(f32(13, 1)), (p) => c.add(at(p, 0), product(p)))
    addsNothing(like(bf16(13, 11)), (p) => c.add(c.cast(at(p, 0), 'f32'), product(p)))
    addsNothing([f32(13, 11), bf16(13, 7), bf16(7, 11)], (p) =>
      c.cast(c.add(at(p, 0), c.cast(product(p), 'f32')), 'bf16'),
    )
    addsNothing(like(f32(11, 13)), (p) => c.add(t(at(p, 0)), product(p)))
    addsNothing(like(f32(13, 11)), (p) => c.add(c.flip(at(p, 0), [0]), product(p)))
    addsNothing([f32(13, 11), f32(13, 7), f32(7, 11), f32(13, 11)], (p) => {
      const sum = c.add(product(p), at(p, 0))
      return [c.mul(sum, at(p, 3))]
    })
  })

  test('and not: times zero, or numbers that leave the range', () => {
    for (const by of [0, 1e-30, 1e30, Number.POSITIVE_INFINITY]) {
      const graph = trace([f32(13, 11), f32(13, 7), f32(7, 11)], (p) =>
        c.add(c.mul(at(p, 0), by), c.matmul(at(p, 1), at(p, 2))),
      )
      const { program } = compileGraph(graph, { mode: 'fast', target: eager, verify: true })
      expect(products(program).map((s) => s.addend)).toEqual([undefined])
    }
  })

  test('and not: what the user rounds before it is added, or after it is and before it is scaled', () => {
    const wide = (x: Node): Node => c.cast(x, 'f32')
    const half = [f32(13, 11), bf16(13, 7), bf16(7, 11)]
    addsNothing(half, (p) => c.add(at(p, 0), wide(c.cast(c.matmul(wide(at(p, 1)), wide(at(p, 2))), 'bf16'))))
    const all = [bf16(13, 11), bf16(13, 7), bf16(7, 11)]
    addsNothing(all, (p) => c.mul(c.cast(c.add(wide(at(p, 0)), wide(c.matmul(at(p, 1), at(p, 2)))), 'bf16'), 0.3))
    const strict = compileGraph(
      trace(all, (p) => c.add(at(p, 0), c.matmul(at(p, 1), at(p, 2)))),
      { mode: 'strict', target: eager },
    )
    expect(kinds(strict)).not.toContain('library')
  })
})

describe('it is written over what it is added to', () => {
  const residual = (p: readonly Node[]): Node => c.add(at(p, 0), c.matmul(at(p, 1), at(p, 2)))
  const square = [f32(9, 9), f32(9, 9), f32(9, 9)]

  test('where that is given away', () => {
    const step = alone(square, residual, { donated: [true, false, false] })
    expect(step.out).toBe(step.addend)
    // An operand is read while results are written.
    const other = alone(square, residual, { donated: [false, true, true] })
    expect([other.a, other.b, other.addend]).not.toContain(other.out)
  })

  test('not where it is an operand too', () => {
    const step = alone([f32(9, 9), f32(9, 9)], (p) => c.add(at(p, 0), c.matmul(at(p, 0), at(p, 1))), {
      donated: [true, false],
    })
    expect(step.out).not.toBe(step.addend)
  })

  test('not where it stands in other lines', () => {
    const made = check(
      trace([f32(9, 10), f32(9, 7), f32(7, 5)], (p) => {
        const [left, right] = [c.sliceAxis(at(p, 0), 1, 0, 5), c.sliceAxis(at(p, 0), 1, 5, 10)]
        return [c.add(left, c.matmul(at(p, 1), at(p, 2))), right]
      }),
      { donated: [true, false, false] },
    )
    for (const s of products(made.program)) expect(s.addend === undefined || s.out !== s.addend).toBe(true)
  })

  test('where a kernel made it, and nothing reads it afterwards', () => {
    const rows = [f32(16, 16), f32(16, 16), f32(16, 16)]
    const placeOf = ({ program }: Compiled, buffer: number | undefined): unknown =>
      program.buffers[buffer ?? -1]?.source
    const steps = (p: readonly Node[], f: (x: Node, y: Node) => Node[]): Node[] => {
      const x = c.matmul(at(p, 0), at(p, 1))
      return f(x, c.add(x, c.matmul(at(p, 1), at(p, 2))))
    }
    const adding = (made: Compiled): ProductStep[] => products(made.program).filter((s) => s.addend !== undefined)
    const made = check(trace(rows, (p) => steps(p, (_, y) => [c.matmul(y, at(p, 0))])))
    expect(adding(made).length).toBe(1)
    for (const s of adding(made)) expect(placeOf(made, s.out)).toEqual(placeOf(made, s.addend))
    const kept = check(trace(rows, (p) => steps(p, (x, y) => [c.matmul(y, x)])))
    expect(adding(kept).length).toBe(1)
    for (const s of adding(kept)) expect(placeOf(kept, s.out)).not.toEqual(placeOf(kept, s.addend))
  })

  test('step by step in a loop that carries it', () => {
    const body = trace([f32(6, 5), bf16(7, 6), bf16(7, 5)], (p) => [
      c.add(at(p, 0), c.cast(c.einsum('rv,rd->vd', [at(p, 1), at(p, 2)]), 'f32')),
    ])
    const graph = trace([f32(6, 5), bf16(4, 7, 6), bf16(4, 7, 5)], (p) => [
      ...loopNodes(body, { length: 4 }, [], [c.exp(at(p, 0))], [at(p, 1), at(p, 2)]).carries,
    ])
    const { program } = check(graph)
    const loop = program.steps.find((s): s is LoopStep => s.kind === 'loop')
    const [step] = loop === undefined ? [] : products(loop.body.program)
    expect(step?.product).toMatchObject({ out: { dtype: 'f32' }, addend: { beta: 1 } })
    // No spare: every step writes where it reads.
    expect(loop?.carries.map((x) => x.spare)).toEqual([undefined])
  })
})

describe('strips of a vocabulary', () => {
  const target = { ...cudaTarget, library: cublasLt }
  /** The gradient of the weights of a loss, as it comes from rows of logits. */
  const gradient = (n: number, d: number, v: number): Graph =>
    trace([bf16(n, d), bf16(v, d)], (p) => {
      const logits = c.cast(c.matmul(at(p, 0), t(at(p, 1))), 'f32')
      return [c.matmul(t(c.cast(c.softmax(logits, 1), 'bf16')), at(p, 0))]
    })

  test('carry their sums in place by calls that add', () => {
    const [d, v] = [4096, 128256]
    const { program } = compileGraph(gradient(16384, d, v), {
      mode: 'fast',
      target,
      budgets: { memory: 2.8e9 },
      verify: true,
    })
    expect(program.arenaBytes).toBeLessThanOrEqual(2.8e9)
    const loop = program.steps.find((s): s is LoopStep => s.kind === 'loop')
    const adding = loop === undefined ? [] : products(loop.body.program).filter((s) => s.addend !== undefined)
    expect(adding.map((s) => [s.product.out.dtype, s.product.m * s.product.n])).toEqual([['f32', v * d]])
    expect(loop?.carries.map((x) => x.spare)).toEqual([undefined])
  })

  test('carry them without being asked where calls add at next to no cost, and not where kernels would', () => {
    const loops = (of: Machine): number => {
      const made = compileGraph(gradient(32768, 1024, 32768), { mode: 'fast', target: of })
      return made.report.kernels.filter((k) => k.kind === 'loop').length
    }
    expect(loops(target)).toBe(1)
    // Where operands cost nothing on their way in: else chunks save more.
    const { fillSeconds: _, ...dotBlock } = cudaTarget.dotBlock
    expect(loops({ ...cudaTarget, dotBlock })).toBe(0)
    // Sums as large as the weights of a vocabulary still cost too much.
    expect(kinds(compileGraph(gradient(8192, 1024, 128256), { mode: 'fast', target }))).not.toContain('loop')
  })
})

describe('what is said of it', () => {
  const compiled = (options: Partial<CompileOptions> = {}): Compiled =>
    compileGraph(
      trace([bf16(4096, 4096), bf16(4096, 4096), bf16(4096, 4096)], (p) =>
        c.add(at(p, 0), c.matmul(at(p, 1), at(p, 2))),
      ),
      { mode: 'fast', target: { ...cudaTarget, library: cublasLt }, verify: true, ...options },
    )

  test('the report names it, and its price counts what is added beside the product', () => {
    const made = compiled()
    expect(kinds(made)).toEqual(['library'])
    const [call] = made.report.kernels
    expect(call?.library).toMatchObject({ choice: 'call', adds: true })
    expect(String(made.report)).toContain('a call of cuBLASLt, which adds to a matrix; a kernel is modelled at')
    const apart = compiled({ fuse: false })
    const product = apart.report.kernels.find((k) => k.kind === 'library')
    expect(product?.library?.adds).toBeUndefined()
    const sum = apart.report.kernels.find((k) => k.kind === 'elementwise')
    expect(call?.modelledMs).toBeGreaterThan(product?.modelledMs ?? 0)
    expect(call?.modelledMs).toBeLessThan((product?.modelledMs ?? 0) + (sum?.modelledMs ?? 0))
  })

  test('the key tells it from other products, and what the library refuses is a kernel', () => {
    const [step] = products(compiled().program)
    if (step?.product.addend === undefined) throw new Error('no product that adds')
    const { addend, ...plain } = step.product
    const keys = [plain, step.product, { ...plain, addend: { ...addend, beta: 2 } }].map(productKey)
    expect(new Set(keys).size).toBe(3)
    const library = { ...cublasLt, refused: new Map([[productKey(step.product), 'it adds nothing']]) }
    const made = compiled({ target: { ...cudaTarget, library } })
    // The product alone is a call still, and the sum a kernel.
    expect(products(made.program).map((s) => s.addend)).toEqual([undefined])
    expect(kinds(made)).toEqual(['library', 'elementwise'])
  })

  test('a step whose result stands over other elements of what it adds to is refused', () => {
    const { program } = compiled({ donated: [true, false, false] })
    const [step] = products(program)
    if (step?.product.addend === undefined) throw new Error('no product that adds')
    expect(() => verifyProduct(step, program)).not.toThrow()
    const { addend } = step.product
    const narrow = { ...step.product, n: 2048, addend: { ...addend, leading: 2048 } }
    const moved = { ...step, product: narrow, b: step.b }
    expect(standsOnAddend(moved)).toBe(false)
    expect(() => verifyProduct(moved, program)).toThrow('stands over other elements')
    const { addend: _, ...without } = step
    expect(() => verifyProduct(without, program)).toThrow('an addend without a buffer')
  })
})
