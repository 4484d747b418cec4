/** What loops cost by measuring: small programs whose time is mostly one of accesses, rounds of loops, or folds, in the nearest caches. */

import { scheduledSteps, stepSeconds } from '../../compile/predicted.ts'
import { add, concat, flip, mul, pad, permute, reduceMax, reshape, slice, sum, take } from '../../compose/index.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { param, withContext } from '../../graph/build.ts'
import type { Graph, Node } from '../../graph/node.ts'
import type { LoopMachine } from '../../target/loops.ts'
import type { Machine } from '../../target/machine.ts'
import type { DType } from '../../types/dtype.ts'
import type { Shape } from '../../types/shape.ts'
import type { Session } from '../session.ts'
import { drawTensor } from '../values.ts'
import { fitLoops, type Probe } from './fitLoops.ts'
import { bestSeconds } from './time.ts'

interface LoopProgram {
  readonly inputs: readonly { readonly shape: Shape; readonly dtype: DType }[]
  readonly of: (...inputs: readonly Node[]) => Node
}

const f32 = (...shape: readonly number[]): LoopProgram['inputs'][number] => ({ shape, dtype: 'f32' })
const one = (shape: readonly number[], of: (x: Node) => Node): LoopProgram => ({
  inputs: [f32(...shape)],
  of: (x) => {
    invariant(x !== undefined, 'a program of one input')
    return of(x)
  },
})

/** Rows of some lengths of about as many elements together: the shorter, the more of their time are entries, ends and partial steps. */
const lengths = [4, 7, 16, 31, 64, 127, 300, 1027]
const rowsOf = (length: number): readonly number[] => [Math.ceil(16384 / length), length]

/** The programs by what they are mostly. */
const programs: readonly LoopProgram[] = [
  // Whole vectors.
  { inputs: [f32(8192), f32(8192), f32(8192)], of: (x, y, z) => add(add(x as Node, y as Node), z as Node) },
  one([16384], (x) => mul(x, x)),
  // Turned around, every second, every seventh.
  one([16384], (x) => mul(flip(x), 3)),
  one([4104], (x) =>
    [1, 2, 3, 4, 5, 6, 7].map((n) => flip(slice(x, [{ start: n, stop: 4096 + n }]))).reduce((y, z) => add(y, z)),
  ),
  one([16384], (x) => mul(slice(x, [{ step: 2 }]), 3)),
  one([28672], (x) => mul(slice(x, [{ step: 7 }]), 3)),
  one([64, 257], (x) => mul(permute(x), 3)),
  one([16, 32, 33], (x) => mul(permute(x, [1, 0, 2]), 3)),
  // Elements at indices, rows at indices.
  { inputs: [f32(4096), { shape: [8192], dtype: 'i32' }], of: (x, at) => take(x as Node, at as Node) },
  { inputs: [f32(64, 5), { shape: [4096], dtype: 'i32' }], of: (x, at) => take(x as Node, at as Node) },
  // Divided indices, masks.
  one([129, 96], (x) => mul(reshape(slice(x, [undefined, { stop: 95 }]), [5, -1]), 3)),
  one([100, 120], (x) =>
    mul(
      pad(x, [
        [3, 2],
        [1, 3],
      ]),
      3,
    ),
  ),
  { inputs: [f32(64, 65), f32(64, 63)], of: (x, y) => mul(concat([x as Node, y as Node], 1), 3) },
  // Rows beside one number each, rows that are folded, columns that are.
  ...lengths.map(
    (n): LoopProgram => ({
      inputs: [f32(...rowsOf(n)), f32(rowsOf(n)[0] ?? 1, 1)],
      of: (x, y) => mul(x as Node, y as Node),
    }),
  ),
  ...lengths.map((n) => one(rowsOf(n), (x) => sum(x, 1))),
  ...[16, 300].map((n) => one(rowsOf(n), (x) => reduceMax(x, 1))),
  ...[7, 64, 300].map((n) => one(rowsOf(n), (x) => sum(x, 0))),
  one([3331, 1024], (x) => sum(x, 0)),
]

/** The programs as graphs, with what they take. */
export const loopPrograms = (): readonly { readonly graph: Graph; readonly inputs: LoopProgram['inputs'] }[] =>
  programs.map(({ inputs, of }) => ({
    inputs,
    graph: withContext(() => {
      const params = inputs.map(({ shape, dtype }, i) => param(i, shape, dtype))
      return { params, outputs: [of(...params)], effects: [] }
    }),
  }))

/** The record's loops with their seconds as this machine has them; `machine` has the other rates measured. */
export async function measureLoops(session: Session, machine: Machine): Promise<LoopMachine> {
  const { loops } = machine
  const planned = session.machine
  invariant(loops !== undefined && planned !== undefined, 'loops are measured where kernels are loops')
  const probes: Probe[] = []
  for (const { inputs, graph } of loopPrograms()) {
    const data = inputs.map(({ shape, dtype }, i) => drawTensor(shape, dtype, 0, i))
    const bound = session.bind(graph, { name: 'calibrate', mode: 'fast' }, data)
    const steps = scheduledSteps(bound.compiled.program, planned)
    const [seconds = 0] = await bestSeconds([bound])
    const predict = (by: LoopMachine): number =>
      steps.reduce((n, s) => n + stepSeconds(s, { ...machine, loops: by }), 0)
    probes.push({ seconds, predict })
  }
  return fitLoops(loops, probes)
}
