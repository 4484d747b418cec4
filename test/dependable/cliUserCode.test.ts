/**
 * Code of the user that `sinter` runs besides a program's own function: opaque kernels (their shape rule, what they compute, a dtype or
 * shape they give that is none), schedules of optimisers, `inspect` callbacks and rules of derivatives. What it throws is E_CALLBACK with
 * the user's stack and exit code 1, while a program is traced and while it runs, on both devices and in every command.
 *
 * Sites looked at: cli/load.ts (tracing), cli/run.ts and bench.ts (running), backends/wasm/prepared.ts and
 * reference/evaluate.ts (callKernel, callInspector), api/ops/effects.ts (shape rules), api/optim/schedules.ts, api/transforms/custom.ts.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { sinter, temporaryFolder } from '../cli/support.ts'

const dir = temporaryFolder()
function module(name: string, body: string, head = ''): string {
  const path = join(dir, name)
  const exported = `export default program(({ x }) => ${body}, { x: { shape: [2] } })`
  const imports = "import { program, opaque, optim, grad, customJvp, customVjp, scan, inspect, full } from 'sinter'"
  writeFileSync(path, `${imports}\n${head}\n${exported}\n`)
  return path
}

const kernel = (run: string, rule = "([a]) => ({ shape: a.shape, dtype: 'f32' })"): string =>
  `const kernel = { name: 'mine', shapeRule: ${rule}, run: ${run} }`
const training = (schedule: string): string =>
  `const schedule = ${schedule}\nconst step = optim.sgd({ learningRate: schedule })`
const update = '{ const s = step.init({ x }); return step.update({ x }, s, { x }) }'

/** What throws while a program is traced, and while it runs. */
const traced: Record<string, string> = {
  'a shape rule': module('rule.ts', 'opaque(kernel, x)', kernel('() => {}', '([a]) => a.nothing.here')),
  'a schedule': module('schedule.ts', `(() => ${update})()`, training('(t) => t.softmx()')),
  'a schedule that gives nothing usable, and then throws': module(
    'scheduleThrow.ts',
    `(() => ${update})()`,
    training('(t) => { throw new RangeError("rate") }'),
  ),
  'a derivative rule': module(
    'jvp.ts',
    'grad((y) => f(y).sum())(x)',
    'const f = customVjp((y) => y.mul(2), (y) => [y.mul(2), y], (r, ct) => [ct.nothing()])',
  ),
  'a body of a loop': module('scan.ts', 'scan((c, e) => [c.nothing(), e], x.sum(), x)[0]'),
}
const running: Record<string, string> = {
  'what a kernel computes': module('run.ts', 'opaque(kernel, x).add(1)', kernel('([a], out) => { null.x }')),
  'a kernel that writes out of place': module(
    'range.ts',
    'opaque(kernel, x.mul(2))',
    kernel('([a], out) => { out.set(new Float32Array(99)) }'),
  ),
  'a kernel that throws no error': module('text.mjs', 'opaque(kernel, x)', kernel('() => { throw "text" }')),
  'a callback after a kernel': module(
    'after.ts',
    'inspect(opaque(kernel, x), (d) => d.nothing())',
    kernel('([a], out) => { out.set(a) }'),
  ),
}

async function expectUsers(path: string, ...args: string[]): Promise<void> {
  const r = await sinter(...args)
  expect(r.err).toContain('error [E_CALLBACK]')
  expect(r.err).not.toContain('defect of Sinter')
  expect(r.code).toBe(1)
  if (!path.endsWith('text.mjs')) expect(r.err).toContain(path)
  const { error } = JSON.parse((await sinter(...args, '--json')).out)
  expect(error.code).toBe('E_CALLBACK')
  for (const line of error.stack ?? []) expect(line).not.toMatch(/\/src\/|jiti|node:/)
}

describe('while a program is traced', () => {
  it.each(Object.entries(traced))('%s', async (_, path) => {
    for (const command of ['run', 'explain', 'bench']) await expectUsers(path, command, path)
    await expectUsers(path, 'emit', path, '--target', 'wasm', '--out', join(dir, 'out.wasm'))
  })
})

describe('while a program runs', () => {
  it.each(Object.entries(running))('%s', async (_, path) => {
    for (const device of ['wasm', 'reference']) await expectUsers(path, 'run', path, '--device', device)
    // What is only planned runs nothing.
    expect((await sinter('explain', path)).code).toBe(0)
  })
})

it('while a program is measured', async () => {
  for (const path of Object.values(running).slice(0, 1)) await expectUsers(path, 'bench', path)
})

it('a shape rule that gives no shape is told so', async () => {
  const path = module('none.ts', 'opaque(kernel, x)', kernel('() => {}', '() => ({ shape: [1.5], dtype: "f31" })'))
  const r = await sinter('run', path)
  expect(r.err).toMatch(/error \[E_(SHAPE|DTYPE|ARGUMENT)\]/)
  expect(r.err).toContain(path)
  expect(r.code).toBe(1)
})
