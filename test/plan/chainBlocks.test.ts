/** Rows of a program of a chain on a matrix unit, how many of its blocks stand on a multiprocessor, and the grains of wide heads. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { gridSize, type Kernel } from '../../src/kernel/ir.ts'
import { allStmts } from '../../src/kernel/walk.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { at, trace } from '../compile/support.ts'
import { hidden, key, query } from '../support/scores.ts'

/** Attention in bf16, in one kernel. */
function kernelOf(heads: number, length: number, width: number, mask = (s: Node): Node => s): Kernel {
  const input = { shape: [heads, length, width], dtype: 'bf16' } as const
  const graph = trace([input, input, input], (p) =>
    c.matmul(c.softmax(mask(c.matmul(at(p, 0), c.permute(at(p, 1), [0, 2, 1]))), -1), at(p, 2)),
  )
  const kernels = compileGraph(graph, { mode: 'fast', target: cudaTarget }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [s.kernel] : [],
  )
  const [kernel, ...others] = kernels
  if (kernel === undefined || others.length > 0) expect.fail(`${kernels.length} kernels`)
  return kernel
}

/** Programs, threads of a block, blocks of a multiprocessor and the width that is multiplied. */
function blocksOf(heads: number, length: number, width: number): readonly [number, number, number, number] {
  const kernel = kernelOf(heads, length, width)
  const { parts, schedule } = scheduleThreads(kernel, cudaTarget.simt)
  const [product] = parts[0]?.chain?.tiles ?? []
  return [gridSize(at(kernel.parts, 0)), schedule.threads, schedule.together, product?.depthSize ?? 0]
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

const causal = (s: Node): Node => c.where(c.compare('le', key(s), query(s)), s, hidden)
const biased = (s: Node): Node => c.add(s, c.cast(c.sub(key(s), query(s)), 'bf16'))

test.each<[string, readonly [number, number, number], ((s: Node) => Node) | undefined, number]>([
  ['128 keys where registers have room', [64, 2048, 64], undefined, 128],
  ['under a mask of narrower heads', [64, 2048, 48], causal, 128],
  ['64 under a mask', [64, 2048, 64], causal, 64],
  ['64 beside biases', [64, 2048, 64], biased, 64],
  ['64 of wider heads', [64, 2048, 72], undefined, 64],
  ['64 where 128 would reach further beyond the last', [64, 777, 64], undefined, 64],
  ['128 where they reach as far', [64, 1000, 64], undefined, 128],
])('a step takes %s', (_, [heads, length, width], mask, want) => {
  const [part] = kernelOf(heads, length, width, mask).parts
  const loops = [...allStmts(part?.body ?? [])].flatMap((s) => (s.kind === 'loop' ? [s.block] : []))
  expect(loops).toEqual([want])
})
