/**
 * Faults of the user's code are the user's. On the command line what a program module throws is E_CALLBACK with the user's stack and
 * exit code 1 (sites: loading it, tracing it, its `inspect` callbacks, its opaque kernels); what breaks inside Sinter is a defect
 * still. In the library a function's own error reaches the caller's `catch` as it is, and the library works on (sites: `jit`, `explain`,
 * `grad`, `valueAndGrad`, `vjp`, `jvp`, `linearize`, `jacfwd`, `jacrev`, `hessian`, `vmap`, `checkpoint`, `cond`, `scan`, `whileLoop`,
 * `foriLoop`, `associativeScan`, `customJvp`, `customVjp`, `tree.map`, schedules, `program`); what runs on a device or later
 * (`inspect`, `opaque`) is E_CALLBACK with it as cause.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { errorData } from '../../src/cli/console.ts'
import * as s from '../../src/index.ts'
import { sinter, temporaryFolder } from '../cli/support.ts'

const dir = temporaryFolder()
const module = (name: string, body: string, head = ''): string => {
  const path = join(dir, name)
  const exported = `export default program(({ x }) => ${body}, { x: { shape: [2] } })`
  writeFileSync(path, `import { program, inspect, jit, grad, vmap, nn } from 'sinter'\n${head}\n${exported}\n`)
  return path
}

describe('a program module that throws', () => {
  const cases: [string, string, string][] = [
    ['a name that is not', module('a.ts', 'softmx(x)'), 'ReferenceError: softmx is not defined'],
    ['a method that is not', module('b.mjs', 'x.softmx()'), 'TypeError: x.softmx is not a function'],
    ['an error of its own', module('c.ts', 'own(x)', 'const own = (x) => { throw new RangeError("mine") }'), 'mine'],
    ['inside jit', module('d.ts', 'jit((y) => y.softmx())(x)'), 'y.softmx is not a function'],
    ['inside grad', module('e.ts', 'grad((y) => y.softmx())(x)'), 'y.softmx is not a function'],
    ['inside vmap', module('f.ts', 'vmap((y) => y.softmx())(x)'), 'y.softmx is not a function'],
    ['while it loads', module('g.ts', 'x', 'null.x'), 'TypeError'],
    ['no error', module('h.mjs', 'own()', 'const own = () => { throw "text" }'), 'text'],
    ['in inspect', module('i.ts', 'inspect(x, () => { null.x })'), 'the inspect callback "inspect" threw'],
  ]
  it.each(cases)('%s', async (_, path, message) => {
    const r = await sinter('run', path, '--device', 'reference')
    expect(r.err).toContain('error [E_CALLBACK]')
    expect(r.err).toContain(message)
    expect(r.err).not.toContain('defect of Sinter')
    expect(r.code).toBe(1)
    if (message !== 'text') expect(r.err).toContain(path)
    const { error } = JSON.parse((await sinter('run', path, '--device', 'reference', '--json')).out)
    expect(error.code).toBe('E_CALLBACK')
    for (const line of error.stack ?? []) expect(line).not.toMatch(/\/src\/|jiti|node:/)
    if (message !== 'text') expect(error.stack[0]).toContain(path)
  })

  it('an export that is not there, or text that is no program, does not load', async () => {
    for (const text of ["import { nothing } from './nowhere.mjs'\n", 'export default (((']) {
      const path = join(dir, 'none.mjs')
      writeFileSync(path, text)
      const r = await sinter('run', path)
      expect(r.err).toContain('error [E_FILE]')
      expect(r.code).toBe(1)
    }
  })

  it('what breaks inside Sinter is a defect', () => {
    expect(errorData(new TypeError('broken')).code).toBe('E_INTERNAL')
  })
})

describe('a function that throws in the library', () => {
  const x = s.tensor([1, 2])
  const mine = new Error('mine')
  const fail = (..._: readonly unknown[]): never => {
    throw mine
  }
  const one = s.tensor(1)
  const sites: Record<string, () => unknown> = {
    jit: () => s.jit(fail)(x),
    explain: () => s.jit(fail).explain(x),
    grad: () => s.grad(fail)(x),
    valueAndGrad: () => s.valueAndGrad(fail)(x),
    vjp: () => s.vjp(fail, x),
    jvp: () => s.jvp(fail, [x], [x]),
    linearize: () => s.linearize(fail, x),
    jacfwd: () => s.jacfwd(fail)(x),
    jacrev: () => s.jacrev(fail)(x),
    hessian: () => s.hessian(fail)(x),
    vmap: () => s.vmap(fail)(x),
    checkpoint: () => s.checkpoint(fail)(x),
    cond: () => s.cond(x.sum().greater(0), fail, fail),
    scan: () => s.scan(fail, one, x),
    'whileLoop (condition)': () => s.whileLoop(fail, (v: s.Tensor) => v, one),
    'whileLoop (body)': () => s.whileLoop((v: s.Tensor) => v.less(3), fail, one),
    foriLoop: () => s.foriLoop(0, 3, fail, one),
    associativeScan: () => s.associativeScan(fail, x),
    customJvp: () => s.customJvp(fail, fail)(x),
    'customJvp (rule)': () =>
      s.jvp(
        s.customJvp((v: s.Tensor) => v.mul(2), fail),
        [x],
        [x],
      ),
    'customVjp (rule)': () =>
      s.grad((v: s.Tensor) =>
        s
          .customVjp(
            (u: s.Tensor) => u.mul(2),
            fail,
            fail,
          )(v)
          .sum(),
      )(x),
    'tree.map': () => s.tree.map(fail, { x }),
    program: () => s.program(fail, { x: { shape: [2] } }).trace(),
    nested: () => s.jit((v: s.Tensor) => s.vmap(s.grad(fail))(v))(x),
  }
  it.each(Object.entries(sites))('%s: the same error, and the library works on', (_, call) => {
    let caught: unknown
    try {
      call()
    } catch (error) {
      caught = error
    }
    expect(caught).toBe(mine)
    expect([
      ...s
        .jit((v: s.Tensor) => v.mul(2))(x)
        .dataSync(),
    ]).toEqual([2, 4])
    expect([...x.add(1).dataSync()]).toEqual([2, 3])
  })

  it('inspect and opaque kernels: E_CALLBACK, and the error is its cause', () => {
    for (const call of [
      () => s.inspect(x, fail),
      () =>
        s
          .jit((v: s.Tensor) => s.inspect(v, fail))(x)
          .dataSync(),
    ]) {
      let caught: unknown
      try {
        call()
      } catch (error) {
        caught = error
      }
      expect(caught).toBeInstanceOf(s.UserError)
      expect(caught).toMatchObject({ code: 'E_CALLBACK', cause: mine })
    }
  })
})
