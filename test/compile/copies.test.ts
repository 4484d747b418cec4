/** Copies in programs: made where another needs what is copied, and nowhere else; the model of a scatter says the same (where others
 * read the target before, it counts a copy that may not be made). */
import { expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { at, check, type Input, trace } from './support.ts'

const [rows, updates] = [33, 50]
const inputs: readonly Input[] = [{ shape: [updates, 1], dtype: 'i32' }, { shape: [updates, 7] }, { shape: [rows, 7] }]
const bytes = rows * 7 * 4
const backend = createWasmBackend({ threads: 1 })

const into = (target: Node, p: readonly Node[]): Node => c.scatterND(target, at(p, 0), at(p, 1), 'sum')
const zeros = (): Node => c.full([rows, 7], 0, 'f32')

const cases: [string, (p: readonly Node[]) => Node | Node[], copies: number, modelled?: number][] = [
  ['zeros', (p) => into(zeros(), p), 0],
  ['zeros, read again', (p) => c.exp(into(zeros(), p)), 0],
  ['a computed target', (p) => into(c.exp(at(p, 2)), p), 0],
  ['one scatter into another', (p) => into(into(zeros(), p), p), 0],
  ['zeros of two scatters', (p) => [into(zeros(), p), c.scatterND(zeros(), at(p, 0), c.exp(at(p, 1)), 'max')], 1, 2],
  ['an input', (p) => into(at(p, 2), p), 1],
  [
    'a target that is a result too',
    (p) => {
      const target = c.exp(at(p, 2))
      return [target, into(target, p)]
    },
    1,
  ],
  [
    'a target that another kernel reads',
    (p) => {
      const target = c.cumsum(at(p, 2), 0)
      return [into(target, p), c.sum(target, [1])]
    },
    0,
    1,
  ],
]

test.each(cases)('%s', (_, build, copies, modelled = copies) => {
  const { program, report } = check(trace(inputs, build), {}, backend)
  expect(program.steps.filter((s) => s.kind === 'copy')).toHaveLength(copies)
  const scatters = report.kernels.filter((k) => k.kind === 'scatter')
  const places = updates * 7 * 4
  const copied = scatters.reduce((n, k) => n + k.bytesWritten - places, 0)
  expect(copied).toBe(modelled * bytes)
})

test('a donated target is written over', () => {
  const graph = trace(inputs, (p) => into(at(p, 2), p))
  const { report } = check(graph, { donated: [false, false, true] })
  expect(report.memory.inPlace).toBe(1)
  expect(report.kernels.find((k) => k.kind === 'scatter')?.bytesWritten).toBe(updates * 7 * 4)
})
