/** Runs one emitted scalar operation over arrays: a module that maps memory through registers of one or four elements. */
import { setFlagsFromString } from 'node:v8'
import { Builder } from '../../src/codegen/vector/ir/builder.ts'
import * as X from '../../src/codegen/vector/ir/expr.ts'
import type { Expr, Register } from '../../src/codegen/vector/ir/ir.ts'
import * as T from '../../src/codegen/vector/ir/types.ts'
import { verifyFunction } from '../../src/codegen/vector/ir/verify.ts'
import {
  type Env,
  emitLoadConvert,
  emitScalarOp,
  emitStoreConvert,
  type Lanes,
  mathImports,
  type Reg,
  releaseReg,
} from '../../src/codegen/vector/value/lanes.ts'
import { ModuleBuilder } from '../../src/codegen/wasm/binary/builder.ts'
import { mathModule, printFunction } from '../../src/codegen/wasm/print.ts'
import type { ScalarOp } from '../../src/scalar/ops.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { type DType, dtypeBytes } from '../../src/types/dtype.ts'
import { type HostArray, hostArray, hostView } from '../../src/types/host.ts'

setFlagsFromString('--experimental-wasm-relaxed-simd')

export interface Spec {
  readonly op: ScalarOp
  readonly operand: DType
  readonly result: DType
  readonly lanes: Lanes
  readonly mode: 'fast' | 'strict'
  readonly relaxed: boolean
}

export type Body = (f: Parameters<typeof emitScalarOp>[0], env: Env, args: readonly Reg[]) => Reg

/** A function of one i32 over a memory; its code is verified. */
export function runnable(
  memory: WebAssembly.Memory,
  body: (f: Builder, n: Register) => void,
  hasMultiplyAdd = true,
): (n: number) => void {
  const fn = Builder.function('run', [T.i32], (f, [n]) => n !== undefined && body(f, n))
  verifyFunction(fn, { width: 16, hasMultiplyAdd })
  const m = new ModuleBuilder()
  m.importMemory('env', 'memory', { min: 1 })
  printFunction(fn, m, new Map())
  const module = new WebAssembly.Module(m.finish())
  const instance = new WebAssembly.Instance(module, { env: { memory }, [mathModule]: { ...mathImports } })
  return instance.exports.run as (n: number) => void
}

/** Maps arrays of equal length (a multiple of four) through `body`, element by element or four at a time. */
export function mapArrays(
  dtypes: readonly DType[],
  result: DType,
  lanes: Lanes,
  options: { readonly mode: 'fast' | 'strict'; readonly relaxed: boolean },
  inputs: readonly HostArray[],
  body: Body,
): HostArray {
  const n = inputs[0]?.length ?? 0
  const align = (x: number): number => (x + 63) & ~63
  const offsets: number[] = []
  let end = 0
  for (const d of dtypes) {
    offsets.push(end)
    end = align(end + n * dtypeBytes(d))
  }
  const out = end
  const bytes = align(out + n * dtypeBytes(result))
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / 65536) })
  dtypes.forEach((d, i) => {
    const source = inputs[i]
    if (source !== undefined) hostView(d, memory.buffer, offsets[i] ?? 0, n).set(source as never)
  })
  const env: Env = { mode: options.mode, hasMultiplyAdd: options.relaxed, machine: wasmTarget }
  const run = runnable(memory, (f, count) => {
    const i = f.register(T.i32)
    const address = (base: number, bytesEach: number): Expr => X.add(X.mul(i, bytesEach), base)
    f.for(i, 0, count, lanes, () => {
      const args = dtypes.map((d, k) => emitLoadConvert(f, env, d, lanes, address(offsets[k] ?? 0, dtypeBytes(d))))
      const r = body(f, env, args)
      emitStoreConvert(f, env, r, address(out, dtypeBytes(result)))
      releaseReg(f, r, ...args)
    })
  })
  run(n)
  const copy = hostArray(result, n)
  copy.set(hostView(result, memory.buffer, out, n) as never)
  return copy
}

/** Maps arrays through one scalar operation. */
export function runOp(spec: Spec, inputs: readonly HostArray[]): HostArray {
  const dtypes = spec.op === 'select' ? (['bool', spec.operand, spec.operand] as const) : inputs.map(() => spec.operand)
  return mapArrays(dtypes, spec.result, spec.lanes, spec, inputs, (f, env, args) =>
    emitScalarOp(f, env, spec.op, spec.operand, spec.result, args),
  )
}

/** A seeded generator of 32-bit words (xorshift). */
export function words(seed: number): () => number {
  let s = seed | 1
  return () => {
    s ^= s << 13
    s ^= s >>> 17
    s ^= s << 5
    return s >>> 0
  }
}
