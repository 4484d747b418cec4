/** The library on the WebGPU device: results against the float64 reference, memory, errors, and a device that goes away. */
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { openAdapter, openGpu } from '../../src/backends/webgpu/host.ts'
import * as api from '../../src/index.ts'
import { setDevice, type Tensor, tensor } from '../../src/index.ts'
import { webgpu } from '../../src/webgpu.ts'
import { nightly, some, turn } from '../support/nightly.ts'
import { openSoftware } from './software.ts'

let device: Awaited<ReturnType<typeof openSoftware>> = 'not opened'

beforeAll(async () => {
  // As users open it: Dawn with its defaults.
  device = await openSoftware([])
})
beforeEach(({ skip }) => {
  skip(typeof device === 'string', String(device))
  if (typeof device !== 'string') setDevice(device)
})
afterAll(() => setDevice('wasm'))

/** What a function of tensors gives on a device, flattened. */
async function values(on: Parameters<typeof setDevice>[0], f: () => Tensor | readonly Tensor[]): Promise<number[][]> {
  setDevice(on)
  const out = f()
  const list: readonly Tensor[] = Array.isArray(out) ? out : [out as Tensor]
  return Promise.all(list.map(async (t) => Array.from(await t.data(), Number)))
}

const noise = (n: number, seed: number): number[] =>
  Array.from({ length: n }, (_, i) => Math.sin(seed * 12.9898 + i * 78.233) * 1.7)

async function same(f: () => Tensor | readonly Tensor[], tolerance = 1e-5): Promise<void> {
  if (typeof device === 'string') return
  const got = await values(device, f)
  const want = await values('reference', f)
  expect(got.length).toBe(want.length)
  want.forEach((w, k) => {
    const g = got[k] ?? []
    expect(g.length).toBe(w.length)
    w.forEach((x, i) => {
      const y = g[i] ?? Number.NaN
      const near = Object.is(x, y) || Math.abs(x - y) <= tolerance * (1 + Math.abs(x))
      expect(near || (Number.isNaN(x) && Number.isNaN(y)), `output ${k}[${i}]: ${y}, not ${x}`).toBe(true)
    })
  })
}

describe('results', () => {
  test('elementwise', () =>
    same(() => {
      const x = tensor(noise(1037, 1))
      return [x.exp().add(1).log(), x.mul(x).sub(0.5).tanh(), x.greater(0)]
    }))

  test.for(some(['f32', 'f16', 'bf16'] as const, 2))(
    'a literal zero times and over what is not finite or zero: %s',
    async (dtype) => {
      const x = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, -0, 3, -3, 0.25]
      const show = (v: number): string => (Object.is(v, -0) ? '-0' : String(v))
      for (const mode of turn(['fast', 'strict'] as const, dtype === 'f32' ? 0 : 1))
        for (const zero of [0, -0]) {
          const f = api.jit((a: Tensor) => [a.mul(zero), api.full([8], zero, dtype).div(a), a.mul(2).mul(zero)], {
            mode,
          })
          const got = await Promise.all(f(tensor(x).astype(dtype)).map((t) => t.data()))
          const want = [x.map((v) => v * zero), x.map((v) => zero / v), x.map((v) => v * zero)]
          expect(got.map((data) => Array.from(data, Number).map(show))).toEqual(want.map((w) => w.map(show)))
        }
    },
  )

  test('reductions and softmax, odd sizes', () =>
    same(() => {
      const x = tensor(noise(37 * 61, 2)).reshape([37, 61])
      return nightly ? [x.sum(), x.mean(0), x.max(1), x.softmax(-1), x.argmax(1)] : [x.mean(0), x.softmax(-1)]
    }))

  test('matrix product with an epilogue', () =>
    same(() => {
      const a = tensor(noise(9 * 12, 3)).reshape([9, 12])
      const b = tensor(noise(12 * 10, 4)).reshape([12, 10])
      return a
        .matmul(b)
        .add(tensor(noise(10, 5)))
        .relu()
    }, 1e-4))

  // Branches for the second side of each `and` would take the software adapter's compiler minutes, and this test past its limit.
  test('a matrix product with odd edges', () =>
    same(() => {
      const a = tensor(noise(33 * 47, 10)).reshape([33, 47])
      return a.matmul(tensor(noise(47 * 29, 11)).reshape([47, 29]))
    }, 1e-4))

  test('gradient', () =>
    same(() => {
      const w = tensor(noise(20 * 9, 6)).reshape([20, 9])
      const x = tensor(noise(15 * 20, 7)).reshape([15, 20])
      return api.grad((v: Tensor) => api.tanh(x.matmul(v)).sum())(w)
    }, 1e-4))

  test('random bits are those of the reference', () => same(() => api.random.uniform(api.random.key(7), [513]), 0))

  test('half precision', () =>
    same(() => {
      const x = tensor(noise(300, 8), { dtype: 'f16' })
      return x.mul(2).add(x).astype('f32')
    }, 2e-3))

  test('empty tensors', () => same(() => tensor([]).add(1)))

  test('a loop of known length with sequences', () =>
    same(() => {
      const xs = tensor(noise(7 * 5, 9)).reshape([7, 5])
      const f = api.jit((s: Tensor) => {
        const [c, ys] = api.scan((carry: Tensor, x: Tensor) => [carry.mul(0.5).add(x), carry.sum()], api.zeros([5]), s)
        return [c, ys] as const
      })
      return [...f(xs)] as Tensor[]
    }))

  describe('a loop whose kernels read one range of memory as two operands', () => {
    const x = (): Tensor => tensor(noise(6, 12)).reshape([2, 3])

    test('of two shapes', () =>
      same(() =>
        api.jit((v: Tensor) => {
          const t = v.softmax()
          const r = t.reshape([6])
          const step = (c: Tensor): [Tensor, Tensor] => [api.tanh(c.add(t).add(r.reshape([2, 3]))), c.sum()]
          return api.scan(step, v.cos(), null, { length: 3 })
        })(x()),
      ))

    test('of one shape, the initial carry and a sequence', () =>
      same(() =>
        api.jit((v: Tensor) => {
          const t = v.softmax()
          const step = (c: Tensor, e: Tensor): [Tensor, Tensor] => [
            api.tanh(c.mul(e.sum()).add(t.slice(0).sum())),
            c.add(e),
          ]
          return api.scan(step, t, t)
        })(x()),
      ))
  })
})

test('the steps of a long loop give their memory back', { timeout: 120_000 }, async () => {
  if (typeof device === 'string') return
  const f = api.jit((s: Tensor) => {
    const [c, ys] = api.scan((carry: Tensor, x: Tensor) => [carry.add(x), carry.flip(0)], tensor(new Uint8Array(3)), s)
    return [c, ys] as const
  })
  const n = 2100
  const run = async (): Promise<unknown> => {
    const xs = tensor(Uint8Array.from({ length: 3 * n }, (_, i) => i % 7)).reshape([n, 3])
    const [c, ys] = f(xs)
    const out = [Array.from(await c.data(), Number), Array.from((await ys.data()).slice(-3), Number)]
    for (const t of [xs, c, ys]) t.dispose()
    return out
  }
  const first = await run()
  const before = device.memory().used
  expect(await run()).toEqual(first)
  // Up to how the pool rounds: every step takes several buffers.
  expect(device.memory().used).toBeLessThan(before + 256 * n)
  setDevice('reference')
  expect(await run()).toEqual(first)
})

describe('jit', () => {
  test('many calls, results kept', async () => {
    const f = api.jit((x: Tensor, y: Tensor) => x.mul(y).sum(-1).exp())
    const kept: Tensor[] = []
    for (let i = 0; i < 5; i++) kept.push(f(tensor([[i, 1]]), tensor([[1, i]])))
    const got = await Promise.all(kept.map(async (t) => (await t.data())[0]))
    got.forEach((v, i) => {
      expect(Number(v)).toBeCloseTo(Math.exp(2 * i), 2)
    })
  })

  test('a donated argument is written over', async () => {
    const step = api.jit((p: Tensor, g: Tensor) => p.sub(g.mul(0.5)), { donate: [0] })
    let p = tensor([1, 2, 3, 4])
    const g = tensor([2, 2, 2, 2])
    const first = p
    for (let i = 0; i < 3; i++) p = step(p, g)
    expect(Array.from(await p.data(), Number)).toEqual([-2, -1, 0, 1])
    await expect(async () => first.data()).rejects.toThrow('E_DISPOSED')
  })

  test('a donated argument someone else holds is copied', async () => {
    const twice = api.jit((x: Tensor) => {
      const y = x.add(1)
      return [y, y] as const
    })
    const [p, alias] = twice(tensor([0, 1, 2]))
    const step = api.jit((x: Tensor) => x.add(1), { donate: [0] })
    expect(Array.from(await step(p).data(), Number)).toEqual([2, 3, 4])
    expect(Array.from(await alias.data(), Number)).toEqual([1, 2, 3])
  })

  test('the report names the target', () => {
    const f = api.jit((x: Tensor) => x.softmax(-1))
    expect(f.explain(api.spec([64, 64], 'f32')).target).toBe('webgpu')
  })
})

describe('errors', () => {
  test('values cannot be read synchronously', () => {
    const x = tensor([1, 2]).add(1)
    expect(() => x.dataSync()).toThrow(
      /E_DEVICE\] values on a WebGPU device cannot be read synchronously\n {2}at .*device\.test\.ts.*await tensor\.data\(\) reads them/s,
    )
  })

  test('64-bit floats are refused with the operation and the call', () => {
    const f = api.jit((x: Tensor) => x.astype('f64').exp())
    let message = ''
    try {
      f(tensor([1]))
    } catch (e) {
      message = String(e)
    }
    expect(message).toContain('E_UNSUPPORTED')
    expect(message).toContain('WebGPU has no 64-bit floats')
    expect(message).toContain('device.test.ts')
  })

  test('a while loop is refused before anything runs', () => {
    const f = api.jit((x: Tensor) =>
      api.whileLoop(
        (v: Tensor) => v.sum().less(10),
        (v: Tensor) => v.mul(2),
        x,
      ),
    )
    expect(() => f(tensor([1, 1]))).toThrow(/E_UNSUPPORTED.*WebGPU cannot wait/s)
  })

  test('a buffer beyond the limit', async () => {
    const small = await webgpu({ memoryLimit: 1 << 20 })
    setDevice(small)
    expect(() =>
      api
        .zeros([1 << 20])
        .add(1)
        .dataSync(),
    ).toThrow('E_OUT_OF_MEMORY')
    expect(Array.from(await tensor([1]).add(1).data(), Number)).toEqual([2])
  })

  test('an error of an earlier call leaves what is donated to the next one', async () => {
    const double = api.jit((x: Tensor) => x.mul(2), { donate: [0] })
    let x = double(tensor([1, 2]))
    await x.data()
    class GPUOutOfMemoryError {
      readonly message = 'none left'
    }
    const gpu = await (await openAdapter(await openGpu())).requestDevice()
    const scopes = vi.spyOn(Object.getPrototypeOf(gpu) as GPUDevice, 'popErrorScope')
    gpu.destroy()
    scopes.mockResolvedValueOnce(new GPUOutOfMemoryError())
    api.zeros([3001]).add(1).evaluate()
    await new Promise((done) => setTimeout(done))
    scopes.mockRestore()
    expect(() => double(x)).toThrow('E_OUT_OF_MEMORY')
    x = double(x)
    expect(Array.from(await x.data(), Number)).toEqual([4, 8])
  })
})
