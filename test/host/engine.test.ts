/** What the engine is told while the compiler runs: its optimising compiler waits, and is there again whatever happens. */
import v8 from 'node:v8'
import { beforeEach, expect, test, vi } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { makeNode, param } from '../../src/graph/build.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

const told = vi.spyOn(v8, 'setFlagsFromString')
beforeEach(() => {
  told.mockClear()
})

/** Flags that were set, in order. */
const flags = (): string[] => told.mock.calls.map(([flag]) => flag)

type Engine = typeof import('../../src/host/engine.ts')

/** The module as a process has it that was started with such arguments, on an engine with Maglev or without. */
async function startedOn(hasMaglev: boolean, ...args: string[]): Promise<Engine> {
  vi.resetModules()
  const { execArgv, config } = process
  process.execArgv = [...execArgv, ...args]
  const variables = { ...config.variables, v8_enable_maglev: hasMaglev ? 1 : 0 }
  Object.defineProperty(process, 'config', { value: { ...config, variables }, configurable: true })
  try {
    return await import('../../src/host/engine.ts')
  } finally {
    process.execArgv = execArgv
    Object.defineProperty(process, 'config', { value: config, configurable: true })
  }
}

const started = (...args: string[]): Promise<Engine> => startedOn(false, ...args)

test('a pass runs unoptimised, also inside another one; loops over data inside it do not', async () => {
  const { compiling, overElements } = await started()
  const whole = (): string[] => compiling(10, () => compiling(10, () => [...flags(), ...overElements(flags)]))
  expect(whole()).toEqual(['--no-opt', '--no-opt', '--opt'])
  expect(flags()).toEqual(['--no-opt', '--opt', '--no-opt', '--opt'])
  expect(overElements(flags)).toHaveLength(4)
})

test('errors leave the engine as it was', async () => {
  const { compiling, overElements } = await started()
  const fail = (): never => {
    throw new Error('no')
  }
  expect(() => compiling(10, () => overElements(fail))).toThrow('no')
  expect(flags()).toEqual(['--no-opt', '--opt', '--no-opt', '--opt'])
  const x = param(0, [2 ** 30, 2 ** 20], 'f32')
  const beyond = { params: [x], outputs: [makeNode('exp', [x], {})], effects: [] }
  told.mockClear()
  expect(() => compileGraph(beyond, { mode: 'fast', target: wasmTarget })).toThrow()
  // This one is as the engine of the tests has it, with Maglev or without.
  expect(flags().filter((flag) => !flag.endsWith('maglev'))).toEqual(['--no-opt', '--opt'])
})

test('large passes, and those of a process that has compiled for long, are optimised', async () => {
  const { compiling } = await started()
  expect(compiling(1e6, flags)).toEqual([])
  const now = vi.spyOn(performance, 'now')
  for (const at of [0, 1500, 2000, 2600]) now.mockReturnValueOnce(at)
  expect(compiling(10, flags)).toEqual(['--no-opt'])
  expect(compiling(10, flags)).toHaveLength(3)
  now.mockRestore()
  expect(compiling(10, flags)).toHaveLength(4)
  expect(flags()).toEqual(['--no-opt', '--opt', '--no-opt', '--opt'])
})

test('a pass that turns out to be long is optimised from then on', async () => {
  const { compiling, overElements, stillCompiling } = await startedOn(true)
  const now = vi.spyOn(performance, 'now')
  const goOn = (at: number): string[] => {
    now.mockReturnValueOnce(at)
    told.mockClear()
    stillCompiling()
    return flags()
  }
  now.mockReturnValueOnce(0)
  compiling(10, () => {
    expect(goOn(300)).toEqual([])
    expect(goOn(500)).toEqual(['--maglev'])
    expect(overElements(() => goOn(2100))).toEqual([])
    expect(goOn(2100)).toEqual(['--opt'])
    expect(goOn(9000)).toEqual([])
    told.mockClear()
    now.mockReturnValueOnce(9500)
  })
  expect(flags()).toEqual([])
  stillCompiling()
  expect(compiling(10, flags)).toEqual([])
  now.mockRestore()
})

test('Maglev waits too where the engine has it, and not for as long', async () => {
  const { compiling } = await startedOn(true)
  const now = vi.spyOn(performance, 'now')
  for (const at of [0, 500, 500, 900]) now.mockReturnValueOnce(at)
  expect(compiling(10, flags)).toEqual(['--no-opt', '--no-maglev'])
  expect(flags()).toEqual(['--no-opt', '--no-maglev', '--opt', '--maglev'])
  told.mockClear()
  expect(compiling(10, flags)).toEqual(['--no-opt'])
  expect(flags()).toEqual(['--no-opt', '--opt'])
  now.mockRestore()
  for (const given of ['--no-maglev', '--maglev']) {
    told.mockClear()
    expect((await startedOn(true, given)).compiling(10, flags), given).toEqual(['--no-opt'])
  }
})

test('whoever starts the process decides', async () => {
  for (const given of ['--no-opt', '--no_turbofan', '--jitless', '--opt']) {
    const { compiling } = await started(given)
    expect(compiling(10, flags), given).toEqual([])
  }
  for (const given of ['--optimize-for-size', '--import=/opt/x.mjs']) {
    const { compiling } = await started(given)
    expect(compiling(10, flags), given).toEqual(['--no-opt'])
    told.mockClear()
  }
})

test('modules are compiled at once, hot ones by the optimising compiler, unless whoever started the process decided', async () => {
  const { compilingModule } = await started()
  expect(compilingModule(true, flags)).toEqual(['--no-wasm-lazy-compilation', '--no-liftoff'])
  expect(flags().slice(2)).toEqual(['--wasm-lazy-compilation', '--liftoff'])
  told.mockClear()
  expect(() =>
    compilingModule(false, () => {
      throw new Error('no')
    }),
  ).toThrow('no')
  expect(flags()).toEqual(['--no-wasm-lazy-compilation', '--wasm-lazy-compilation'])
  for (const given of ['--no-liftoff', '--wasm_lazy_compilation']) {
    told.mockClear()
    expect((await started(given)).compilingModule(true, flags), given).toEqual([])
  }
})
