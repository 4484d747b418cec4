/**
 * Approximated functions on GPUs, against exact values: WGSL on the software adapter, CUDA on the host, and what nvcc makes of them.
 * (All dtypes at edges and random operands: scalar-ops.test.ts.)
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { type Approximated, approximated } from '../../../src/scalar/approximations.ts'
import { boundOf, ulpOf, withinBound } from '../../../src/scalar/bounds.ts'
import { scalarInfo } from '../../../src/scalar/ops.ts'
import { cudaSimt } from '../../../src/target/simt.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { exactValues } from '../../dependable/exactValues.ts'
import { some } from '../../support/nightly.ts'
import { inBothDialects } from '../dialects/dialects.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { compile, nvcc } from '../dialects/nvcc.ts'

type Wide = 'f32' | 'f64'

const values = Object.fromEntries(approximated.map((op) => [op, exactValues(op)]))
const n = Math.max(...Object.values(values).map((rows) => rows.length))
const rowOf = (op: string, i: number): readonly number[] => {
  const rows = values[op] ?? []
  return rows[i % rows.length] ?? []
}

/** Every function of its own operands. */
function kernelOn(dtype: Wide, ops: readonly Approximated[]): Kernel {
  const lines = [`kernel formulas_${dtype} {`]
  for (const op of ops) {
    for (let k = 0; k < scalarInfo(op).arity; k++) lines.push(`  param ${op}_${k}: ${dtype}[${n}] read`)
    lines.push(`  param ${op}: ${dtype}[${n}] write`)
  }
  lines.push(`  axes i: ${n}`, '  grid i/32')
  let id = 0
  for (const op of ops) {
    const args = Array.from({ length: scalarInfo(op).arity }, (_, k) => {
      lines.push(`  %${id} ${dtype}{i} = load ${op}_${k}[i]`)
      return `%${id++}`
    })
    lines.push(`  %${id} ${dtype}{i} = ${op} ${args.join(', ')}`, `  store ${op}[i] = %${id++}`)
  }
  return parseKernel([...lines, '}'].join('\n'))
}

function buffersOf(dtype: Wide, ops: readonly Approximated[]): Record<string, HostArray> {
  const make = (of: (i: number) => number): HostArray =>
    dtype === 'f32'
      ? Float32Array.from({ length: n }, (_, i) => of(i))
      : Float64Array.from({ length: n }, (_, i) => of(i))
  return Object.fromEntries(
    ops.flatMap((op): [string, HostArray][] => [
      ...Array.from({ length: scalarInfo(op).arity }, (_, k): [string, HostArray] => [
        `${op}_${k}`,
        make((i) => rowOf(op, i)[k] ?? Number.NaN),
      ]),
      [op, make(() => 7)],
    ]),
  )
}

/** Subnormal operands may count as zero in WGSL. */
const tiny = (x: number): boolean => x !== 0 && Math.abs(x) < 2 ** -126

function check(
  dtype: Wide,
  dialect: 'wgsl' | 'cuda',
  ops: readonly Approximated[],
  buffers: Record<string, HostArray>,
): void {
  for (const op of ops)
    for (let i = 0; i < n; i++) {
      const row = rowOf(op, i)
      const expected = row[scalarInfo(op).arity] ?? Number.NaN
      if (dialect === 'wgsl' && row.slice(0, -1).some(tiny)) continue
      const got = Number(buffers[op]?.[i])
      // The absolute error scales with the format.
      const slack = dtype === 'f64' ? (boundOf(op).absolute ?? 0) * 2 ** -29 + ulpOf('f64', expected) : 0
      const close = withinBound(op, dtype, got, expected) || Math.abs(got - expected) <= slack
      expect(close, `${op}(${row.slice(0, -1)}) = ${got}, not ${expected}`).toBe(true)
    }
}

// A shader binds eight buffers.
const sets = approximated.reduce<Approximated[][]>((out, op) => {
  const last = out.at(-1)
  if (last === undefined || last.length === 2) out.push([op])
  else last.push(op)
  return out
}, [])

for (const ops of some(sets, 2))
  inBothDialects(
    ops.join(', '),
    kernelOn('f32', ops),
    () => buffersOf('f32', ops),
    (b, dialect) => check('f32', dialect, ops, b),
  )

test.skipIf(!hasCompiler())('in CUDA on the host in f64 (skipped where g++ is missing)', () => {
  const emulated = new Emulated([kernelOn('f64', approximated)])
  const buffers = buffersOf('f64', approximated)
  emulated.run(0, buffers)
  emulated.dispose()
  check('f64', 'cuda', approximated, buffers)
})

test.skipIf(nvcc === undefined)(
  'compile for a GPU and stay in registers (skipped where nvcc is missing)',
  { timeout: 120_000 },
  async () => {
    const kernels = (['f32', 'f64'] as const).flatMap((dtype) =>
      some(approximated, 3).map((op) => kernelOn(dtype, [op])),
    )
    const sources = kernels.map((k, i) => emitKernel({ ...k, name: `k${i}_${k.name}` }, cudaSimt).source)
    const folder = mkdtempSync(join(tmpdir(), 'sinter-formulas-'))
    try {
      const found = await compile(sources, folder, 'formulas')
      expect(found.size).toBe(kernels.length)
      for (const [i, used] of found) expect(used, kernels[i]?.name).toMatchObject({ stack: 0, spills: 0 })
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
)
