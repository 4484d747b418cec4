/** Single nodes of onnxruntime's domain and of ai.onnx.ml for tests: run by the reference interpreter, and compiled for a machine. */

import type { Compiled } from '../../src/compile/index.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { type ImportedModel, importOnnx } from '../../src/onnx/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { evaluateConstant, evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { HostArray } from '../../src/types/host.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { type AttributeSpec, encodeModel, type TensorSpec } from './encode.ts'

/** An operand: an input of the model, or a constant of it. */
export interface Operand {
  readonly type: number
  readonly dims: readonly number[]
  readonly data: HostArray
  readonly fixed: boolean
}

const of =
  (type: number, make: (values: readonly number[]) => HostArray) =>
  (dims: readonly number[], values: readonly number[]): Operand => ({ type, dims, data: make(values), fixed: false })

export const f32 = of(tensorType.FLOAT, (v) => Float32Array.from(v))
export const i32 = of(tensorType.INT32, (v) => Int32Array.from(v))
export const i64 = of(tensorType.INT64, (v) => BigInt64Array.from(v, BigInt))
export const u8 = of(tensorType.UINT8, (v) => Uint8Array.from(v))
export const i8 = of(tensorType.INT8, (v) => Int8Array.from(v))
export const bool = of(tensorType.BOOL, (v) => Uint8Array.from(v))

/** The operand as a constant of the model. */
export const fixed = (x: Operand): Operand => ({ ...x, fixed: true })

export type Attributes = Readonly<Record<string, AttributeSpec>>

export interface NodeCase {
  readonly domain?: string
  readonly op: string
  readonly inputs: readonly (Operand | undefined)[]
  readonly attrs?: Attributes
  readonly outputs?: number
  /** Outputs that have no name. */
  readonly skipped?: readonly number[]
  readonly version?: number
}

export interface Result {
  readonly shape: readonly number[]
  readonly data: number[]
}

function imported(c: NodeCase): { readonly model: ImportedModel; readonly values: HostArray[] } {
  const domain = c.domain ?? 'com.microsoft'
  const out = Array.from({ length: c.outputs ?? 1 }, (_, i) => (c.skipped?.includes(i) === true ? '' : `y${i}`))
  const names = c.inputs.map((x, i) => (x === undefined ? '' : `x${i}`))
  const given = c.inputs.flatMap((x, i) => (x === undefined ? [] : [{ name: `x${i}`, x }]))
  const tensor = ({ name, x }: (typeof given)[number]): TensorSpec => ({
    name,
    type: x.type,
    dims: x.dims,
    raw: new Uint8Array(x.data.buffer, x.data.byteOffset, x.data.byteLength),
  })
  const bytes = encodeModel({
    nodes: [{ op: c.op, domain, in: names, out, ...(c.attrs === undefined ? {} : { attrs: c.attrs }) }],
    inputs: given.filter(({ x }) => !x.fixed).map(({ name, x }) => ({ name, type: x.type, dims: x.dims })),
    outputs: out.filter((name) => name !== '').map((name) => ({ name, type: tensorType.FLOAT })),
    initializers: given.filter(({ x }) => x.fixed).map(tensor),
    opsets: domain === '' ? {} : { [domain]: c.version ?? 1 },
  })
  const model = importOnnx(bytes, { evaluate: evaluateConstant })
  const values = model.inputNames.flatMap((name) => given.find((g) => g.name === name)?.x.data ?? [])
  return { model, values }
}

/** What the reference interpreter computes of a node. */
export function run(c: NodeCase): Result[] {
  const { model, values } = imported(c)
  return evaluateGraph(model.graph, values, { rounding: 'dtype' }).map((t) => ({
    shape: t.shape,
    data: Array.from(toHostArray(t) as ArrayLike<number | bigint>, Number),
  }))
}

/** The node compiled for a machine. */
export const compiled = (c: NodeCase, target: Machine = wasmTarget): Compiled =>
  compileGraph(imported(c).model.graph, { mode: 'fast', target, verify: true })

/** What the kernels of a node compute, interpreted. */
export function runCompiled(c: NodeCase): number[][] {
  const { model, values } = imported(c)
  const { program } = compileGraph(model.graph, { mode: 'fast', target: wasmTarget, verify: true })
  return interpretProgram(program, values).map((t) => Array.from(t as ArrayLike<number | bigint>, Number))
}

/** Seeded numbers in [-1, 1). */
export function numbers(count: number, seed: number): number[] {
  let state = seed >>> 0
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.fround((state / 2 ** 32) * 2 - 1)
  })
}

/** Seeded whole numbers in [0, below). */
export const wholes = (count: number, below: number, seed: number): number[] =>
  numbers(count, seed).map((v) => Math.floor(((v + 1) / 2) * below))

/** The greatest distance of two lists, relative to the greatest expected number but at least 1. */
export function distance(got: readonly number[] | undefined, want: readonly number[]): number {
  if (got === undefined || got.length !== want.length) return Number.POSITIVE_INFINITY
  const scale = Math.max(1, ...want.map((v) => (Number.isFinite(v) ? Math.abs(v) : 0)))
  return Math.max(
    0,
    ...want.map((v, i) => {
      const g = got[i] ?? Number.NaN
      return g === v || (Number.isNaN(g) && Number.isNaN(v)) ? 0 : Math.abs(g - v) / scale
    }),
  )
}
