/**
 * A jitted function that is compiled at nearly every call says so once, names the argument, and the remedy.
 *
 * Sites: src/api/jit/jit.ts (the one place where a call compiles), src/api/jit/recompiles.ts, src/api/calls/warnings.ts. Values that change
 * outside jit are literals of lazy graphs, which have no argument to name.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'

const x = s.ones([4])
let heard: s.Warning[] = []
const device = s.getDevice()
beforeAll(() => s.setDevice('reference'))
beforeEach(() => {
  heard = []
  s.onWarning((w) => heard.push(w))
})
afterAll(() => {
  s.onWarning(null)
  s.setDevice(device)
})

const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

describe('said once, with the remedy', () => {
  const cases: readonly (readonly [what: string, summary: string, help: string, run: () => void])[] = [
    [
      'a number',
      'the jitted function step has been compiled 8 times: argument 1 is another number (0, 0.1, 0.2, ...) from call to call',
      'a number is part of the program: pass tensor(x), whose value is not',
      () => {
        const f = s.jit(function step(v: s.Tensor, rate: number): s.Tensor {
          return v.mul(rate)
        })
        for (const i of count(40)) f(x, i / 10)
      },
    ],
    [
      'a number in a tree',
      'the jitted function program has been compiled 8 times: argument 0.rates[1] is another number (0, 1, 2, ...) from call to call',
      'a number is part of the program: pass tensor(x), whose value is not',
      () => {
        const f = s.jit((p: { v: s.Tensor; rates: number[] }) => p.v.mul(p.rates[1] ?? 0))
        for (const i of count(20)) f({ v: x, rates: [1, i] })
      },
    ],
    [
      'a shape',
      'the jitted function program has been compiled 8 times: argument 0 has another shape ([1], [2], [3], ...) from call to call',
      'a program has fixed shapes: keep to a few, as by padding to the next of some sizes',
      () => {
        const f = s.jit((v: s.Tensor) => v.add(1))
        for (const i of count(20)) f(s.ones([i + 1]))
      },
    ],
    [
      'two shapes and a number together',
      'the jitted function program has been compiled 8 times: argument 0 has another shape ([1, 2], [2, 2], [3, 2], ...), argument 1 has another shape ([1], [2], [3], ...), argument 2 is another number (0, 1) from call to call',
      'a program has fixed shapes: keep to a few, as by padding to the next of some sizes; a number is part of the program: pass tensor(x), whose value is not',
      () => {
        const f = s.jit((a: s.Tensor, b: s.Tensor, n: number) => a.sum(1).add(b).mul(n))
        for (const i of count(8)) f(s.ones([i + 1, 2]), s.ones([i + 1]), i % 2)
      },
    ],
    [
      'a function made at each call',
      'the jitted function program has been compiled 8 times: argument 1 is another function from call to call',
      'a function is part of the program: make it once, outside the loop, and pass the same one',
      () => {
        const f = s.jit((v: s.Tensor, g: (y: s.Tensor) => s.Tensor) => g(v))
        for (const i of count(10)) f(x, (y) => y.add(i))
      },
    ],
    [
      'a list that grows',
      'the jitted function program has been compiled 8 times: argument 0 has another length (1, 2, 3, ...) from call to call',
      'a program has a fixed number of tensors: keep to a few lengths, or stack them into one tensor',
      () => {
        const f = s.jit((list: s.Tensor[]) => s.concat(list))
        for (const i of count(10)) f(count(i + 1).map(() => x))
      },
    ],
    [
      'text',
      'the jitted function program has been compiled 8 times: argument 1 is another value ("a0", "a1", "a2", ...) from call to call',
      'such a value is part of the program: keep to a few, or pass tensors',
      () => {
        const f = s.jit((v: s.Tensor, _: string) => v.add(1))
        for (const i of count(10)) f(x, `a${i}`)
      },
    ],
  ]
  it.each(cases)('%s', (_, summary, help, run) => {
    run()
    expect(heard.map(({ code, summary, help }) => ({ code, summary, help }))).toEqual([
      { code: 'W_RECOMPILES', summary, help },
    ])
    expect(heard[0]?.where).toMatch(/recompiles\.test\.ts:\d+:\d+$/)
  })
  it('by each function for itself', () => {
    for (const f of [s.jit((v: s.Tensor, n: number) => v.add(n)), s.jit((v: s.Tensor, n: number) => v.mul(n))])
      for (const i of count(9)) f(x, i)
    expect(heard.length).toBe(2)
  })
  it('also where other calls come between, and one number alone changes', () => {
    const f = s.jit((v: s.Tensor, n: number, on: boolean) => (on ? v.add(n) : v.sub(n)))
    for (const i of count(9)) {
      f(x, i, true)
      f(x, 7.5, false)
    }
    expect(heard.map((w) => w.summary)).toEqual([expect.stringContaining('argument 1 is another number')])
  })
})

describe('not said', () => {
  it('for seven signatures, however often they are used', () => {
    const f = s.jit((v: s.Tensor, n: number) => v.add(n))
    for (const i of count(70)) f(x, i % 7)
    expect(heard).toEqual([])
  })
  it('where programs are used many times before another is compiled', () => {
    const f = s.jit((v: s.Tensor, n: number) => v.add(n))
    for (const i of count(10)) for (const _ of count(60)) f(x, i)
    expect(heard).toEqual([])
  })
  it('for functions of different structure, dtype or rank', () => {
    const f = s.jit((v: Record<string, s.Tensor>) => v)
    for (const i of count(10)) f({ [`a${i}`]: x })
    const g = s.jit((v: s.Tensor) => v.add(1))
    for (const i of count(7)) for (const dtype of ['f32', 'i32'] as const) g(s.ones([i + 1], dtype))
    for (const i of count(10)) g(s.ones(count(i).map(() => 1)))
    expect(heard).toEqual([])
  })
  it('for explain and compile, which compile on purpose', () => {
    const f = s.jit((v: s.Tensor) => v.add(1))
    for (const i of count(20)) f.compile(s.spec([i + 1]))
    expect(heard).toEqual([])
  })
  it('with a tensor, as the remedy says', () => {
    const f = s.jit((v: s.Tensor, rate: s.Tensor) => v.mul(rate))
    for (const i of count(20)) f(x, s.tensor(i))
    expect(heard).toEqual([])
  })
})

describe('in Node', () => {
  const program = `
    import * as s from '${join(import.meta.dirname, '../../src/index.ts')}'
    s.setDevice('reference')
    process.on('warning', (w) => console.log(JSON.stringify([w.name, w.code])))
    const f = s.jit((v, n) => v.add(n))
    for (let i = 0; i < 20; i++) f(s.ones([2]), i)
  `
  it('it is a process warning with its code, once', async () => {
    const jiti = join(import.meta.dirname, '../../node_modules/jiti/lib/jiti-cli.mjs')
    const folder = await mkdtemp(join(import.meta.dirname, '.warned-'))
    try {
      await writeFile(join(folder, 'a.mjs'), program)
      const { stdout, stderr } = await promisify(execFile)(process.execPath, [jiti, join(folder, 'a.mjs')])
      expect(stdout.trim()).toBe('["SinterWarning","W_RECOMPILES"]')
      expect(stderr).toContain('[W_RECOMPILES] SinterWarning: the jitted function program has been compiled 8 times')
      expect(stderr).toContain('help: a number is part of the program')
    } finally {
      await rm(folder, { recursive: true })
    }
  })
})
