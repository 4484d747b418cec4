/** A row times weights of four bits in groups: the depth is one axis, halves of bytes are read once, rows and bytes in vectors. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { at, trace } from '../../compile/support.ts'
import { hasCompiler } from '../dialects/emulator/emulator.ts'
import { expectEmulated } from './emulated.ts'

interface Case {
  readonly k: number
  readonly n: number
  readonly group: number
  readonly dtype: DType
  /** The low half of a byte comes first. */
  readonly low: boolean
}

const rowTimes = ({ k, n, group, dtype, low }: Case): Graph =>
  trace(
    [
      { shape: [1, k], dtype },
      { shape: [n, k / 2], dtype: 'u8' },
      { shape: [n, k / group], dtype },
    ],
    (p) => {
      const bytes = at(p, 1)
      const number = (v: number): Node => c.full(bytes.shape, v, 'u8')
      const halves = [c.binary('and', bytes, number(15)), c.binary('shr', bytes, number(4))]
      const pairs = c.stack(low ? halves : [...halves].reverse(), -1)
      const wide = c.sub(c.cast(c.reshape(pairs, [n, k / group, group]), dtype), 8)
      const scaled = c.mul(wide, c.reshape(at(p, 2), [n, k / group, 1]))
      return c.matmul(at(p, 0), c.transpose(c.reshape(scaled, [n, k]), [1, 0]))
    },
  )

test.skipIf(!hasCompiler()).each<Case>([
  { k: 4096, n: 700, group: 32, dtype: 'bf16', low: true },
  { k: 1088, n: 601, group: 32, dtype: 'f32', low: false },
  { k: 512, n: 129, group: 64, dtype: 'f16', low: true },
  { k: 480, n: 50, group: 16, dtype: 'bf16', low: false },
])('$k x $n in groups of $group, $dtype', { timeout: 60_000 }, async (given) => {
  const graph = rowTimes(given)
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  const [first] = kernels
  const bytes = first?.params.find((p) => p.dtype === 'u8')?.name ?? ''
  const loads = kernels.flatMap((k) =>
    k.parts.flatMap((p) => p.body.filter((s) => s.kind === 'let' && s.op.kind === 'load' && s.op.param === bytes)),
  )
  // A byte has two elements of the depth: one load serves both, and a thread takes words of bytes.
  expect(loads).toHaveLength(1)
  expect(first === undefined ? '' : emitKernel(first, cudaTarget.simt).source).toContain(`${bytes}_w`)
  await expectEmulated(graph, program)
})
