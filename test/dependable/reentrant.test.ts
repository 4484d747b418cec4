/**
 * A program that runs is not evicted by the calls that code of the user makes inside it: of the same jitted function with so many new
 * signatures that the least recently used must go, or of lazy tensors of so many structures.
 *
 * Sites looked at: api/jit/jit.ts (entries of a function, its end while it runs), api/tensor/lazy.ts (programs by structure), runtime/region.ts
 * (callsHost, in loops too), graph tables (weak), cli/session.ts (one program, which calls nothing), the kernels that devices keep
 * (counted by holders).
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as s from '../../src/index.ts'
import { atNight } from '../support/nightly.ts'

beforeAll(() => s.setDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

const signatures = 140

/** A user's kernel that does something and hands on what it got. */
const around = (body: () => void): Parameters<typeof s.opaque>[0] => ({
  name: 'around',
  shapeRule: ([x]) => ({ shape: x?.shape ?? [], dtype: 'f32' }),
  run: ([x], out) => {
    body()
    ;(out as Float32Array).set(x as Float32Array)
  },
})

/** What stands before and after a user's kernel, with intermediates. */
const sandwich = (kernel: Parameters<typeof s.opaque>[0], a: s.Tensor): s.Tensor =>
  s.opaque(kernel, a.matmul(a).add(1)).matmul(a).add(2)

atNight('of the same function with new signatures', () => {
  let inner = 0
  const f: s.JitFunction<[s.Tensor], s.Tensor> = s.jit((a: s.Tensor) =>
    sandwich(
      around(() => {
        if (inner > 0) return
        for (let n = 1; n <= signatures; n++) {
          inner = n
          const y = f(s.ones([n, n]))
          expect(y.dataSync()[0]).toBe((n + 1) * n + 2)
        }
      }),
      a,
    ),
  )
  const x = s.ones([200, 200])
  expect(f(x).dataSync()[0]).toBe(201 * 200 + 2)
  expect(inner).toBe(signatures)
  // The outer one is kept, though it is the least recently used: the same call compiles nothing.
  const programs = s.memory().programs
  f(x)
  expect(s.memory().programs).toBe(programs)
  // A function keeps 128.
  f.dispose()
  expect(s.memory().programs).toBe(programs - 128)
})

// By day the functions that call themselves stand for those whose callers wait.
test('of a function that calls itself ever deeper, each time with a new signature', () => {
  const f: s.JitFunction<[s.Tensor], s.Tensor> = s.jit((a: s.Tensor) =>
    sandwich(
      around(() => {
        const n = a.shape[0] ?? 0
        if (n < signatures) expect(f(s.ones([n + 1, n + 1])).dataSync()[0]).toBe((n + 2) * (n + 1) + 2)
      }),
      a,
    ),
  )
  expect(f(s.ones([1, 1])).item()).toBe(4)
  f.dispose()
})

test('of lazy tensors of other structures', () => {
  let made = 0
  const kernel = around(() => {
    if (made > 0) return
    for (let i = 1; i <= 270; i++) {
      made = i
      expect(s.ones([i]).mul(2).sum().item()).toBe(2 * i)
    }
  })
  const x = s.ones([64, 64])
  expect(sandwich(kernel, x).dataSync()[0]).toBe(65 * 64 + 2)
  expect(made).toBe(270)
})
