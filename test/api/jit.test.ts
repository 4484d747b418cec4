/** jit as users call it: signatures, closures, donation, effects, errors, and the types that follow. */
import { beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import type { JitFunction } from '../../src/index.ts'
import * as s from '../../src/index.ts'
import { codeOf, messageOf } from './messages.ts'

beforeAll(() => s.setDevice('reference'))

const { jit, tensor } = s

describe('signatures', () => {
  it('traces once per structure, shape, dtype and static value', () => {
    let traces = 0
    const f = jit((x: s.Tensor, k: number, o: { scale?: s.Tensor }) => {
      traces++
      return o.scale === undefined ? x.mul(k) : x.mul(k).mul(o.scale)
    })
    const x = tensor([1, 2])
    expect(f(x, 2, {}).tolist()).toEqual([2, 4])
    expect(f(tensor([5, 6]), 2, {}).tolist()).toEqual([10, 12])
    expect(traces).toBe(1)
    expect(f(x, 3, {}).tolist()).toEqual([3, 6])
    expect(f(x, 2, { scale: tensor(10) }).tolist()).toEqual([20, 40])
    expect(f(tensor([1]), 2, {}).tolist()).toEqual([2])
    expect(f(tensor([1, 2], { dtype: 'i32' }), 2, {}).dtype).toBe('i32')
    expect(traces).toBe(5)
    f(x, 2, {})
    f(x, 3, {})
    expect(traces).toBe(5)
  })
  it('takes and gives nested structures', () => {
    const f = jit((p: { layers: { w: s.Tensor; name: string }[] }, x: s.Tensor) => ({
      y: p.layers.reduce((h, l) => h.matmul(l.w), x),
      names: p.layers.map((l) => l.name),
      both: [x, x.add(1)] as const,
    }))
    const r = f(
      {
        layers: [
          { w: s.eye(2), name: 'a' },
          { w: s.eye(2).mul(2), name: 'b' },
        ],
      },
      tensor([[1, 2]]),
    )
    expect(r.y.tolist()).toEqual([[2, 4]])
    expect(r.names).toEqual(['a', 'b'])
    expect(r.both.map((t) => t.tolist())).toEqual([[[1, 2]], [[2, 3]]])
    expectTypeOf(r).toEqualTypeOf<{ y: s.Tensor; names: string[]; both: readonly [s.Tensor, s.Tensor] }>()
  })
  it('refuses what is no tree', () => {
    const f = jit((x: unknown) => tensor(x === undefined ? 1 : 2))
    expect(messageOf(() => f(Float32Array.of(1)))).toMatchInlineSnapshot(`
      "UserError: [E_STRUCTURE] arguments[0] is a Float32Array
        at test/api/jit.test.ts
        help: make a tensor of it first: tensor(data)"
    `)
    expect(() => f({ a: [new Map()] })).toThrow(/E_STRUCTURE.*argument.*a\[0\] is a Map/)
    const loop: unknown[] = []
    loop.push(loop)
    expect(codeOf(() => f(loop))).toBe('E_STRUCTURE')
    expect(codeOf(() => f(s.spec([1])))).toBe('E_ARGUMENT')
    const g = jit(async (x: s.Tensor) => x)
    expect(() => g(tensor(1))).toThrow(/E_ARGUMENT.*async/)
  })
  it('inlines jitted functions inside jit', () => {
    let inner = 0
    const f = jit((x: s.Tensor) => {
      inner++
      return x.mul(2)
    })
    const g = jit((x: s.Tensor) => f(f(x)))
    expect(g(tensor([1])).tolist()).toEqual([4])
    expect(inner).toBe(2)
  })
})

describe('closed-over tensors', () => {
  it('are read at each call, not frozen', () => {
    const w = tensor([1, 2])
    const lazy = w.mul(10)
    const f = jit((x: s.Tensor) => [x.add(w), x.add(lazy), w] as const)
    const x = tensor([1, 1])
    expect(f(x).map((t) => t.tolist())).toEqual([
      [2, 3],
      [11, 21],
      [1, 2],
    ])
    w.dispose()
    expect(() => f(x)).toThrow(/E_DISPOSED.*closes over/)
  })
  it('literals made inside are part of the program', () => {
    const f = jit((x: s.Tensor) => x.add(tensor([1, 2])).add(s.random.uniform(s.random.key(3), [2]).mul(0)))
    expect(f(tensor([0, 0])).tolist()).toEqual([1, 2])
  })
})

describe('errors', () => {
  it('E_NOT_CONCRETE when a value is read inside', () => {
    const f = jit((x: s.Tensor) => (Number(x.sum().item()) > 0 ? x : x.neg()))
    expect(messageOf(() => f(tensor([1, 2])))).toMatchInlineSnapshot(`
      "UserError: [E_NOT_CONCRETE] item() of a tensor inside jit: f32[] has no value while the function is traced
        at test/api/jit.test.ts
        help: return it, look at it with inspect(x, callback), or compute with where instead of branching on it"
    `)
  })
  it('E_LEAKED_TRACER when a tracer escapes', () => {
    let leak = tensor(0)
    const f = jit((x: s.Tensor) => {
      leak = x.mul(2)
      return leak
    })
    expect(f(tensor([1])).tolist()).toEqual([2])
    expect(messageOf(() => leak.dataSync())).toMatchInlineSnapshot(`
      "UserError: [E_LEAKED_TRACER] dataSync() of a tensor that belongs to a finished jit trace
        at test/api/jit.test.ts
        help: return it from the jitted function instead of storing it outside"
    `)
    expect(codeOf(() => leak.add(1))).toBe('E_LEAKED_TRACER')
    expect(codeOf(() => jit((x: s.Tensor) => x.add(leak))(tensor([1])))).toBe('E_LEAKED_TRACER')
    expect(String(leak)).toBe('Tensor(f32[1], inside jit)')
  })
  it('a function that throws leaves the library usable', () => {
    const f = jit((x: s.Tensor) => x.reshape([7]))
    expect(codeOf(() => f(tensor([1])))).toBe('E_SHAPE')
    expect(tensor([1]).add(1).tolist()).toEqual([2])
  })
  it('errors inside jit say where', () => {
    const f = jit((x: s.Tensor) => x.add(tensor([1, 2, 3])))
    expect(() => f(tensor([1, 2]))).toThrow(/E_SHAPE\] add: .*\n {2}at .*jit\.test\.ts:\d+:\d+/)
  })
  it('explain on a device that compiles nothing', () => {
    expect(codeOf(() => jit((x: s.Tensor) => x.add(1)).explain(s.spec([2])))).toBe('E_DEVICE')
    expect(codeOf(() => s.setDevice('abacus' as 'wasm'))).toBe('E_DEVICE')
  })
})

describe('donation', () => {
  it('consumes the argument', () => {
    const f = jit((p: { a: s.Tensor }, x: s.Tensor) => p.a.add(x), { donate: [0] })
    const a = tensor([1, 2])
    const pending = a.mul(10)
    expect(f({ a }, tensor([1, 1])).tolist()).toEqual([2, 3])
    expect(a.disposed).toBe(true)
    expect(messageOf(() => a.dataSync())).toMatchInlineSnapshot(`
      "UserError: [E_DISPOSED] dataSync() of a donated tensor f32[2]
        at test/api/jit.test.ts
        help: the program it was donated to owns its memory: use its result instead"
    `)
    expect(pending.tolist()).toEqual([10, 20])
  })
  it('copies a value someone else holds', () => {
    const f = jit((x: s.Tensor) => x.add(1), { donate: [0] })
    const a = tensor([1])
    const same = a.reshape([1])
    expect(f(a).tolist()).toEqual([2])
    expect(same.tolist()).toEqual([1])
  })
  it('refuses aliases and arguments that are not there', () => {
    const f = jit((x: s.Tensor, y: s.Tensor) => x.add(y), { donate: [0] })
    const a = tensor([1])
    expect(codeOf(() => f(a, a))).toBe('E_ARGUMENT')
    expect(codeOf(() => jit((x: s.Tensor) => x, { donate: [1] })(a))).toBe('E_ARGUMENT')
  })
  it('refuses a donated tensor twice, also where its value is held elsewhere', () => {
    const both = jit((x: s.Tensor, y: s.Tensor) => [x.add(y), x.sub(y)], { donate: [0, 1] })
    const a = tensor([1, 2])
    const same = a.reshape([2, 1]).evaluate()
    expect(codeOf(() => both(a, a))).toBe('E_ARGUMENT')
    const used = s.memory().used
    expect(codeOf(() => both(a, a))).toBe('E_ARGUMENT')
    expect(s.memory().used).toBe(used)
    const [sum, difference] = both(a, tensor([1, 1]))
    expect([sum?.tolist(), difference?.tolist(), same.tolist()]).toEqual([
      [2, 3],
      [0, 1],
      [[1], [2]],
    ])
  })
  it('results of any type in the memory of the arguments: dead tensors stay dead, and memory level', () => {
    const turn = jit((x: s.Tensor, y: s.Tensor) => [y, x.add(1), x.reshape([3, 2]), y.bitcast('i32')], {
      donate: [0, 1],
    })
    const make = () => [s.zeros([2, 3]).evaluate(), s.ones([2, 3]).evaluate()] as const
    const once = (): void => {
      const [x, y] = make()
      const results = turn(x, y)
      const [a, b, c, d] = results.map((t) => t.tolist())
      const row = (v: number) => [v, v, v]
      expect([a, b]).toEqual([
        [row(1), row(1)],
        [row(1), row(1)],
      ])
      expect(c).toEqual([
        [0, 0],
        [0, 0],
        [0, 0],
      ])
      expect(d).toEqual([row(0x3f800000), row(0x3f800000)])
      expect([x.disposed, y.disposed, ...results.map((t) => t.disposed)]).toEqual([
        true,
        true,
        false,
        false,
        false,
        false,
      ])
      for (const t of [x, y]) t.dispose()
      expect(results[1]?.tolist()).toEqual([row(1), row(1)])
      for (const t of results) t.dispose()
    }
    once()
    const { used } = s.memory()
    for (let i = 0; i < 5; i++) once()
    expect(s.memory().used).toBe(used)
  })
  it("a result in an argument's memory can be donated again, disposed, and read by what is pending", () => {
    const step = jit((x: s.Tensor) => x.mul(2), { donate: [0] })
    let x = step(tensor([1, 2]))
    const waiting = []
    for (let i = 0; i < 4; i++) {
      waiting.push(x.add(i))
      x = step(x)
    }
    expect(waiting.map((t) => t.tolist())).toEqual([
      [2, 4],
      [5, 9],
      [10, 18],
      [19, 35],
    ])
    const later = x.add(1)
    x.dispose()
    expect(later.tolist()).toEqual([33, 65])
  })
  it('takes nothing for a call that fails before it runs', () => {
    const add = jit((x: s.Tensor, y: s.Tensor) => x.add(y), { donate: [0] })
    const x = add(tensor([1]), tensor([1]))
    const gone = tensor([1])
    gone.dispose()
    expect(codeOf(() => add(x, gone))).toBe('E_DISPOSED')
    expect(x.tolist()).toEqual([2])
  })
  it('a loop of donations keeps memory level', () => {
    const step = jit((x: s.Tensor) => x.mul(0.5).add(1), { donate: [0] })
    let x = step(s.zeros([1000]))
    const before = s.memory().used
    for (let i = 0; i < 50; i++) x = step(x)
    expect(s.memory().used).toBe(before)
    expect(x.slice(0).item()).toBeCloseTo(2, 5)
  })
})

describe('effects and opaque kernels', () => {
  it('inspect runs in order, used or not', () => {
    const seen: string[] = []
    const note = (name: string) => (data: s.HostArray) => {
      seen.push(`${name} ${Array.from<unknown>(data).join()}`)
    }
    const f = jit((x: s.Tensor) => {
      s.inspect(x, note('unused'))
      return s.inspect(x.add(1), note('used')).mul(2)
    })
    expect(f(tensor([1])).tolist()).toEqual([4])
    f(tensor([5]))
    expect(seen).toEqual(['unused 1', 'used 2', 'unused 5', 'used 6'])
    s.inspect(tensor([1]).add(1), note('eager'))
    expect(seen.at(-1)).toBe('eager 2')
  })
  it.each(['reference', 'wasm'] as const)(
    'what a function throws is E_CALLBACK, in the same words outside jit and in it, on %s',
    (device) => {
      s.setDevice(device)
      const boom = (): never => {
        throw new Error('boom')
      }
      const odd = (): void => {
        tensor([1, 2]).add(tensor([1, 2, 3]))
      }
      const broken: s.OpaqueKernel = { name: 'broken', shapeRule: () => ({ shape: [], dtype: 'f32' }), run: boom }
      const shapes = '[E_SHAPE] add: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0'
      const wanted = {
        'the inspect callback "inspect" threw: boom': (x: s.Tensor) => s.inspect(x, boom),
        [`the inspect callback "inspect" threw: ${shapes}`]: (x: s.Tensor) => s.inspect(x, odd),
        'the opaque kernel "broken" threw: boom': (x: s.Tensor) => s.opaque(broken, x),
      }
      for (const [summary, f] of Object.entries(wanted))
        for (const way of [f, jit(f)])
          expect(() => way(tensor(1)).item()).toThrow(
            expect.objectContaining({ code: 'E_CALLBACK', summary, help: 'what it threw is the cause of this error' }),
          )
      s.setDevice('reference')
    },
  )
  it('opaque kernels run on host views', () => {
    const reverse: s.OpaqueKernel = {
      name: 'reverse',
      shapeRule: ([x]) => ({ shape: x?.shape ?? [], dtype: 'f32' }),
      run: ([x], out) => {
        out.forEach((_, i) => {
          out[i] = Number(x?.[out.length - 1 - i])
        })
      },
    }
    const f = jit((x: s.Tensor) => s.opaque(reverse, x.add(1)).mul(2))
    expect(f(tensor([1, 2, 3])).tolist()).toEqual([8, 6, 4])
    expect(s.opaque(reverse, tensor([1, 2])).tolist()).toEqual([2, 1])
  })
})

describe('types', () => {
  it('follow the function', () => {
    const f = jit((x: s.Tensor, o: { n: number; deep: [s.Tensor] }) => ({ x, n: o.n }))
    expectTypeOf(f).toExtend<JitFunction<[s.Tensor, { n: number; deep: [s.Tensor] }], { x: s.Tensor; n: number }>>()
    expectTypeOf(f).parameters.toEqualTypeOf<[x: s.Tensor, o: { n: number; deep: [s.Tensor] }]>()
    expectTypeOf<s.Abstract<{ n: number; deep: [s.Tensor] }>>().toEqualTypeOf<{
      n: number
      deep: [s.Tensor | s.TensorSpec]
    }>()
    expectTypeOf(tensor(1).data()).resolves.toEqualTypeOf<s.HostArray>()
    // @ts-expect-error a string is no tensor
    expect(() => f('x', { n: 1, deep: [tensor(1)] })).not.toThrow()
  })
})

describe('programs', () => {
  it('name their inputs and outputs', () => {
    const w = tensor([2, 3])
    const p = s.program(({ x, k }) => ({ y: x.mul(w), deep: [k, x.add(k)] }), {
      x: { shape: [2] },
      k: { shape: [], dtype: 'f64' },
    })
    expect(s.isProgram(p)).toBe(true)
    expect(s.isProgram({ fn: () => 0 })).toBe(false)
    const t = p.trace()
    expect(t.inputs).toEqual(['x', 'k', 'captured.0'])
    expect(t.outputs).toEqual(['y', 'deep.0', 'deep.1'])
    expect(t.captured).toEqual({ 'captured.0': { data: Float32Array.of(2, 3), shape: [2], dtype: 'f32' } })
    expect(t.graph.params.map((q) => `${q.dtype}[${q.shape.join()}]`)).toEqual(['f32[2]', 'f64[]', 'f32[2]'])
    expect(s.program(({ x }) => x, { x: { shape: [1] } }).trace().outputs).toEqual(['result'])
  })
})
