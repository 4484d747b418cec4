/** Every scalar operation on every dtype, in WGSL on the software adapter and in CUDA on the host, against the scalar oracle. */
import { beforeAll, describe, expect, test } from 'vitest'
import * as ix from '../../../src/affine/expr.ts'
import { unsupportedDType } from '../../../src/codegen/simt/capability.ts'
import { wgslDialect } from '../../../src/codegen/simt/dialects/wgsl/print.ts'
import type { Kernel, LetStmt, Stmt } from '../../../src/kernel/ir.ts'
import { boundOf, ulpOf, withinBound } from '../../../src/scalar/bounds.ts'
import { evalScalar, roundTo } from '../../../src/scalar/eval.ts'
import { readElement, toHost } from '../../../src/scalar/host.ts'
import { type Scalar, type ScalarOp, scalarInfo, scalarOps } from '../../../src/scalar/ops.ts'
import { allDTypes, type DType, dtypeBits, dtypeClass, isFloat } from '../../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { nightly } from '../../support/nightly.ts'
import { edges, randoms } from '../../wasm-math/values.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { type Adapter, openDevice, runWgsl } from '../dialects/wgsl.ts'

interface Task {
  readonly op: ScalarOp
  readonly operand: DType
  readonly result: DType
}

/** Tasks on operands of one dtype that one kernel does. */
interface Job {
  readonly kernel: Kernel
  readonly tasks: readonly Task[]
  /** Operands by parameter name; the condition of select is `c`. */
  readonly inputs: Readonly<Record<string, HostArray>>
}

const perKernel = 8
const names = Object.keys(scalarOps) as ScalarOp[]

/** All pairs of edges, then random rows. */
function columns(dtype: DType): [Scalar[], Scalar[]] {
  const e = edges(dtype)
  const random = (k: number): Scalar[] => randoms(dtype, 400, 12345 + 77 * k)
  return [
    [...e.flatMap((a) => e.map(() => a)), ...random(0)],
    [...e.flatMap(() => e), ...random(1)],
  ]
}

function tasksOn(dtype: DType): Task[] {
  const plain = names.filter((op) => op !== 'cast' && op !== 'bitcast' && scalarInfo(op).on.includes(dtypeClass(dtype)))
  return [
    ...plain.map((op): Task => ({ op, operand: dtype, result: scalarInfo(op).result === 'bool' ? 'bool' : dtype })),
    ...allDTypes.map((to): Task => ({ op: 'cast', operand: dtype, result: to })),
    ...allDTypes
      .filter((to) => dtypeBits(to) === dtypeBits(dtype))
      .map((to): Task => ({ op: 'bitcast', operand: dtype, result: to })),
  ]
}

function jobOf(dtype: DType, tasks: readonly Task[]): Job {
  const [a, b] = columns(dtype)
  const n = a.length
  // Not aligned, so that a shader holds each operation once.
  const at = [ix.addConst(ix.axis('i', n), 1)]
  const load = (id: number, param: string, d: DType): LetStmt => ({
    kind: 'let',
    id,
    dtype: d,
    axes: ['i'],
    op: {
      kind: 'load',
      param,
      index: at,
      mask: [],
      other: d === 'bool' ? false : dtypeBits(d) === 64 && !isFloat(d) ? 0n : 0,
    },
  })
  const body: Stmt[] = [load(0, 'a', dtype), load(1, 'b', dtype), load(2, 'c', 'bool')]
  tasks.forEach((t, k) => {
    const { arity } = scalarInfo(t.op)
    const args = t.op === 'select' ? [2, 0, 1] : arity === 1 ? [0] : [0, 1]
    body.push({ kind: 'let', id: 3 + k, dtype: t.result, axes: ['i'], op: { kind: 'scalar', op: t.op, args } })
    body.push({ kind: 'store', param: `y${k}`, index: at, mask: [], value: 3 + k })
  })
  const param = (name: string, d: DType, access: 'read' | 'write'): Kernel['params'][number] => ({
    name,
    dtype: d,
    shape: [n + 1],
    access,
    format: 'plain',
  })
  return {
    kernel: {
      name: `ops_${dtype}`,
      mode: 'fast',
      params: [
        param('a', dtype, 'read'),
        param('b', dtype, 'read'),
        param('c', 'bool', 'read'),
        ...tasks.map((t, k) => param(`y${k}`, t.result, 'write')),
      ],
      parts: [{ axes: [{ name: 'i', extent: n }], grid: [{ axis: 'i', block: 32 }], body }],
    },
    tasks,
    inputs: {
      a: toHost([a[0] ?? 0, ...a], dtype),
      b: toHost([b[0] ?? 0, ...b], dtype),
      c: toHost(randoms('bool', n + 1, 5), 'bool'),
    },
  }
}

/** The jobs on a dtype; by day every third of them, other ones of the next dtype. */
function jobsOn(dtype: DType, can: (d: DType) => boolean): Job[] {
  const tasks = tasksOn(dtype).filter((t) => can(t.result))
  const count = Math.ceil(tasks.length / perKernel)
  return Array.from({ length: count }, (_, i) => i)
    .filter((i) => nightly || i % 3 === allDTypes.indexOf(dtype) % Math.min(3, count))
    .map((i) => jobOf(dtype, tasks.slice(i * perKernel, (i + 1) * perKernel)))
}

const buffersOf = (job: Job): Record<string, HostArray> => ({
  ...job.inputs,
  ...Object.fromEntries(job.tasks.map((t, k) => [`y${k}`, hostArray(t.result, job.inputs.a?.length ?? 0)])),
})

/** Subnormal operands and results may count as zero. */
const tiny = (v: Scalar): boolean => typeof v === 'number' && v !== 0 && Math.abs(v) < 2 ** -126

/** What is below 2^-109 may be cut to bf16 instead of rounded. */
const isCut = (got: Scalar, raw: Scalar): boolean =>
  typeof got === 'number' &&
  typeof raw === 'number' &&
  Math.abs(raw) < 2 ** -109 &&
  Math.abs(got - raw) < ulpOf('bf16', raw)

function agrees(t: Task, got: Scalar, args: readonly Scalar[], flushing: boolean): boolean {
  const raw = evalScalar(t.op, t.operand, t.result, args)
  const rounded = roundTo(t.result, raw)
  if (Object.is(got, rounded)) return true
  if (flushing && isFloat(t.operand) && (args.some(tiny) || tiny(raw))) return true
  if (flushing && t.result === 'bf16' && isCut(got, raw)) return true
  if (typeof got !== 'number' || typeof raw !== 'number' || !isFloat(t.result) || boundOf(t.op).ulp === 0) return false
  // JavaScript's own pow loses digits on large exponents.
  if (t.op === 'pow' && t.operand === 'f64') return Math.abs(got - raw) <= 1e-12 * Math.abs(raw)
  const { within } = boundOf(t.op)
  if (within !== undefined && Math.abs(Number(args[0])) > within) return true
  return withinBound(t.op, t.result, got, boundOf(t.op).ulp <= 0.5 ? Number(rounded) : raw)
}

function check(job: Job, buffers: Record<string, HostArray>, flushing: boolean): void {
  job.tasks.forEach((t, k) => {
    const n = job.inputs.a?.length ?? 0
    const wrong: string[] = []
    for (let i = 1; i < n; i++) {
      const read = (name: string, d: DType): Scalar => readElement(buffers[name] ?? new Uint8Array(), d, i)
      const [a, b, c] = [read('a', t.operand), read('b', t.operand), read('c', 'bool')]
      const args = t.op === 'select' ? [c, a, b] : scalarInfo(t.op).arity === 1 ? [a] : [a, b]
      const got = read(`y${k}`, t.result)
      if (!agrees(t, got, args, flushing))
        wrong.push(
          `${t.op}(${args.join()}) = ${got}, not ${roundTo(t.result, evalScalar(t.op, t.operand, t.result, args))}`,
        )
    }
    expect(wrong.slice(0, 6), `${t.op} ${t.operand}->${t.result} (${wrong.length} wrong)`).toEqual([])
  })
}

describe('in WGSL', () => {
  let machine: Adapter | string
  beforeAll(async () => {
    machine = await openDevice()
  })
  const can = (d: DType): boolean => unsupportedDType(wgslDialect, d) === undefined
  for (const dtype of allDTypes.filter(can))
    test(dtype, async ({ skip }) => {
      skip(typeof machine === 'string', String(machine))
      if (typeof machine === 'string') return
      for (const job of jobsOn(dtype, can)) {
        const buffers = buffersOf(job)
        await runWgsl(machine, [job.kernel], buffers)
        check(job, buffers, true)
      }
    })
})

describe.skipIf(!hasCompiler())('in CUDA on the host (skipped where g++ is missing)', () => {
  test('all dtypes', { timeout: 180_000 }, () => {
    const jobs = allDTypes.flatMap((d) => jobsOn(d, () => true))
    const emulated = new Emulated(jobs.map((j) => j.kernel))
    jobs.forEach((job, i) => {
      const buffers = buffersOf(job)
      emulated.run(i, buffers)
      check(job, buffers, false)
    })
    emulated.dispose()
  })
})
