/** The module builder: control flow, locals, calls, imports, atomics and every opcode's encoding. */

import { setFlagsFromString } from 'node:v8'
import { describe, expect, test } from 'vitest'
import { ModuleBuilder, type WasmType } from '../../src/codegen/wasm/binary/builder.ts'
import { opcodes } from '../../src/codegen/wasm/binary/opcodes.ts'

const instantiate = (m: ModuleBuilder, imports: WebAssembly.Imports = {}): WebAssembly.Exports =>
  new WebAssembly.Instance(new WebAssembly.Module(m.finish()), imports).exports

const fn = (e: WebAssembly.Exports, name: string): ((...args: unknown[]) => unknown) =>
  e[name] as (...args: unknown[]) => unknown

setFlagsFromString('--experimental-wasm-relaxed-simd')

describe('module builder', () => {
  test('a loop sums, with constants of every LEB length', () => {
    const m = new ModuleBuilder()
    m.function(
      'sum',
      ['i32'],
      ['i32'],
      (f) => {
        const i = f.local('i32')
        const s = f.local('i32')
        f.forLoop(i, 0, f.param(0), 1, () => {
          f.get(s)
          f.get(i)
          f.op('i32.add')
          f.set(s)
        })
        f.get(s)
      },
      { export: true },
    )
    for (const c of [0, 63, 64, -64, -65, 8191, 8192, -2147483648, 2147483647])
      m.function(`c${c}`, [], ['i32'], (f) => f.i32Const(c), { export: true })
    for (const c of [0n, -1n, 1n << 62n, -(1n << 63n), (1n << 63n) - 1n])
      m.function(`w${c}`, [], ['i64'], (f) => f.i64Const(c), { export: true })
    const e = instantiate(m)
    expect(fn(e, 'sum')(10)).toBe(45)
    expect(fn(e, 'sum')(0)).toBe(0)
    for (const c of [0, 63, 64, -64, -65, 8191, 8192, -2147483648, 2147483647]) expect(fn(e, `c${c}`)()).toBe(c)
    for (const c of [0n, -1n, 1n << 62n, -(1n << 63n), (1n << 63n) - 1n]) expect(fn(e, `w${c}`)()).toBe(c)
  })

  test('imports added while a body is under construction keep indices right', () => {
    const m = new ModuleBuilder()
    const twice = m.function('twice', ['f64'], ['f64'], (f) => {
      f.get(f.param(0))
      f.get(f.param(0))
      f.op('f64.add')
    })
    m.function(
      'go',
      ['f64'],
      ['f64'],
      (f) => {
        f.get(f.param(0))
        f.call(twice)
        f.call(m.importFunction('math', 'sin', ['f64'], ['f64']))
        f.call(m.importFunction('math', 'sin', ['f64'], ['f64']))
      },
      { export: true },
    )
    const e = instantiate(m, { math: { sin: Math.sin } })
    expect(fn(e, 'go')(0.3)).toBe(Math.sin(Math.sin(0.6)))
  })

  test('a set right before a get keeps the value, also at a block border', () => {
    const m = new ModuleBuilder()
    m.function(
      'f',
      ['i32'],
      ['i32'],
      (f) => {
        const t = f.local('i32')
        f.get(f.param(0))
        f.if(() => {
          f.i32Const(7)
          f.set(t)
        })
        f.get(t)
        f.set(t)
        f.get(t)
        f.get(t)
        f.op('i32.add')
        f.release(t)
        expect(f.local('i32')).toBe(t)
      },
      { export: true },
    )
    const e = instantiate(m)
    expect(fn(e, 'f')(1)).toBe(14)
    expect(fn(e, 'f')(0)).toBe(0)
  })

  test('labels reach outer blocks and loops', () => {
    const m = new ModuleBuilder()
    m.function(
      'log2',
      ['i32'],
      ['i32'],
      (f) => {
        const n = f.local('i32')
        f.block((done) => {
          f.loop((again) => {
            f.get(f.param(0))
            f.i32Const(1)
            f.op('i32.le_u')
            f.brIf(done)
            f.get(f.param(0))
            f.i32Const(1)
            f.op('i32.shr_u')
            f.set(f.param(0))
            f.get(n)
            f.i32Const(1)
            f.op('i32.add')
            f.set(n)
            f.br(again)
          })
        })
        f.get(n)
      },
      { export: true },
    )
    const e = instantiate(m)
    expect(fn(e, 'log2')(1000)).toBe(9)
  })

  test('atomics on a shared memory', () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true })
    const m = new ModuleBuilder()
    m.importMemory('env', 'memory', { min: 1, max: 1, shared: true })
    const wait = m.function('wait', ['i32', 'i32', 'i64'], ['i32'], (f, [address, expected, timeout]) => {
      for (const p of [address, expected, timeout]) if (p !== undefined) f.get(p)
      f.atomic('memory.atomic.wait32', 16)
    })
    m.function(
      'bump',
      ['i32'],
      ['i32'],
      (f) => {
        f.get(f.param(0))
        f.i32Const(5)
        f.atomic('i32.atomic.rmw.add', 16)
        f.op('drop')
        f.get(f.param(0))
        f.i32Const(0)
        f.i64Const(0n)
        f.call(wait)
        f.op('drop')
        f.get(f.param(0))
        f.i32Const(1)
        f.atomic('memory.atomic.notify', 16)
        f.op('drop')
        f.atomicFence()
        f.get(f.param(0))
        f.atomic('i32.atomic.load', 16)
      },
      { export: true },
    )
    const e = instantiate(m, { env: { memory } })
    expect(fn(e, 'bump')(4)).toBe(5)
    expect(fn(e, 'bump')(4)).toBe(10)
    expect(new Int32Array(memory.buffer)[5]).toBe(10)
  })

  test('every instruction without immediates has the operand types its name says', () => {
    const scalar = (s: string): WasmType => (s === 'i32' || s === 'i64' || s === 'f32' || s === 'f64' ? s : 'v128')
    const compare = /\.(eqz|eq|ne|lt|gt|le|ge)(_[su])?$/
    const unary =
      /\.(eqz|clz|ctz|popcnt|abs|neg|ceil|floor|trunc|nearest|sqrt|not|any_true|all_true|bitmask|splat|wrap_.*|trunc_.*|extend.*|convert_.*|demote_.*|promote_.*|reinterpret_.*|extadd.*|relaxed_trunc.*)$/
    const ternary = /\.(bitselect|relaxed_n?madd|relaxed_laneselect|relaxed_dot_i8x16_i7x16_add_s)$/
    const m = new ModuleBuilder()
    let count = 0
    for (const [name, code] of opcodes) {
      const prefix = code >>> 16
      if (prefix === 0xfe || (/load|store|lane($|_[su]$)/.test(name) && !name.includes('laneselect'))) continue
      if (['drop', 'select', 'unreachable', 'nop'].includes(name)) continue
      const [type = ''] = name.split('.')
      const vector = scalar(type) === 'v128'
      const from = /_(i32|i64|f32|f64)(_[su])?$/.exec(name)?.[1]
      let operand: WasmType =
        !vector && from !== undefined && !/extend(8|16|32)/.test(name) ? scalar(from) : scalar(type)
      let result: WasmType = scalar(type)
      const shift = vector && /\.(shl|shr_[su])$/.test(name)
      if (/splat$/.test(name))
        operand =
          ({ i8x16: 'i32', i16x8: 'i32', i32x4: 'i32', i64x2: 'i64', f32x4: 'f32', f64x2: 'f64' } as const)[type] ??
          'i32'
      if (/(any_true|all_true|bitmask)$/.test(name) || (!vector && compare.test(name))) result = 'i32'
      const arity = ternary.test(name) ? 3 : unary.test(name) ? 1 : 2
      const params = Array.from({ length: arity }, (_, i): WasmType => (shift && i === 1 ? 'i32' : operand))
      m.function(name, params, [result], (f, ps) => {
        for (const p of ps) f.get(p)
        f.op(name as 'i32.add')
      })
      count++
    }
    expect(count).toBeGreaterThan(300)
    expect(WebAssembly.validate(m.finish())).toBe(true)
  })
})
