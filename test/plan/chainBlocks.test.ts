/** Rows of a program of a chain on a matrix unit, how many of its blocks stand on a multiprocessor, and the grains of wide heads. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { gridSize } from '../../src/kernel/ir.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { at, trace } from '../compile/support.ts'

/** Programs, threads of a block, blocks of a multiprocessor and the width that is multiplied, of attention in bf16. */
function blocksOf(heads: number, length: number, width: number): readonly [number, number, number, number] {
  const input = { shape: [heads, length, width], dtype: 'bf16' } as const
  const graph = trace([input, input, input], (p) =>
    c.matmul(c.softmax(c.matmul(at(p, 0), c.permute(at(p, 1), [0, 2, 1])), -1), at(p, 2)),
  )
  const kernels = compileGraph(graph, { mode: 'fast', target: cudaTarget }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [s.kernel] : [],
  )
  const [kernel, ...others] = kernels
  const [part] = kernel?.parts ?? []
  if (kernel === undefined || part === undefined || others.length > 0) expect.fail(`${kernels.length} kernels`)
  const { parts, schedule } = scheduleThreads(kernel, cudaTarget.simt)
  const [product] = parts[0]?.chain?.tiles ?? []
  return [gridSize(part), schedule.threads, schedule.together, product?.depthSize ?? 0]
}

test.each<[string, readonly [number, number, number], readonly [number, number, number, number]]>([
  ['many programs: 128 rows', [64, 2048, 128], [1024, 256, 2, 128]],
  ['few: 64 rows, since two blocks have room', [64, 1000, 128], [1024, 128, 2, 128]],
  ['few of wide heads, too', [64, 1000, 160], [1024, 128, 2, 160]],
  ['few, of which two have no room: 128 rows', [64, 1000, 192], [512, 256, 1, 192]],
  ['heads of 136 are heads of 160', [64, 2048, 136], [1024, 256, 1, 160]],
  ['heads of 40 are heads of 48', [64, 2048, 40], [1024, 256, 2, 48]],
])('%s', (_, [heads, length, width], want) => {
  expect(blocksOf(heads, length, width)).toEqual(want)
})
