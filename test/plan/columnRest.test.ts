/** Rows down columns on GPUs: the last program of an axis of columns has most of what the others have, since its threads compute all the same. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { nn, program, type Tensor } from '../../src/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'

const softmaxOf = (images: number, columns: number) =>
  program(({ x }: Record<string, Tensor>) => nn.softmax(x as Tensor, 1), {
    x: { shape: [images, 21, columns] },
  }).trace().graph

test.each([
  [520, 128],
  [640, 256],
  [1000, 512],
  [1024, 512],
  [96, 96],
])('softmax over 21 channels of %i columns: %i a program', (columns, block) => {
  const { program: compiled } = compileGraph(softmaxOf(4000, columns), { mode: 'fast', target: cudaTarget })
  const [step] = compiled.steps
  const part = step?.kind === 'kernel' ? step.kernel.parts[0] : undefined
  const axis = part?.axes.find((a) => a.extent === columns)
  expect(axis).toBeDefined()
  expect(part?.grid.find((g) => g.axis === axis?.name)?.block).toBe(block)
})
