/**
 * Seeded random programs over every kind of operation, with inputs on which their results are finite and comparable:
 * discontinuous operations get exact operands only, and each output comes with a bound on what order and precision of
 * evaluation may change.
 */
import type { Graph, Node } from '../../src/graph/node.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { Builder, type RandomOptions, type Step } from './builder.ts'
import { elementwiseSteps } from './elementwise.ts'
import { foldingSteps } from './folding.ts'
import { makeRng } from './rng.ts'
import { structureSteps } from './structure.ts'
import type { Tracked } from './tracked.ts'

export type { RandomOptions } from './builder.ts'

export interface RandomProgram {
  readonly graph: Graph
  /** Data by parameter index. */
  readonly inputs: readonly HostArray[]
  /** For each output, the most an element may differ between executions; 0: bit for bit (integers, moved values). */
  readonly tolerances: readonly number[]
}

/** Every step a program may take. */
export const steps: readonly Step[] = [...elementwiseSteps, ...structureSteps, ...foldingSteps]

const allDTypes: readonly DType[] = [
  'f32',
  'f32',
  'f64',
  'f16',
  'bf16',
  'i8',
  'i16',
  'i32',
  'i32',
  'i64',
  'u8',
  'u16',
  'u32',
  'u64',
  'bool',
]

function pickStep(unit: number, among: readonly Step[]): Step | undefined {
  let at = unit * among.reduce((n, s) => n + s.weight, 0)
  return among.find((s) => {
    at -= s.weight
    return at < 0
  })
}

/** The program of a seed: equal seeds and options give equal programs and data. */
export function randomGraph(seed: number, options: RandomOptions = {}): RandomProgram {
  const { operations = 12, dtypes = allDTypes, empties = true, maxElements = 400, only, without } = options
  const rng = makeRng(seed)
  const b = new Builder(rng, { operations, dtypes, empties, maxElements })
  const among = steps.filter((s) => only?.includes(s.name) !== false && without?.includes(s.name) !== true)
  for (let i = rng.int(1, 3); i > 0; i--) b.pool.push(b.param(b.shape(), b.dtype() ?? 'f32'))
  let made = 0
  for (let attempt = 0; made < operations && attempt < operations * 20; attempt++) {
    const x = pickStep(rng.unit(), among)?.apply(b)
    if (x === undefined || b.pool.some((t) => t.node === x.node)) continue
    b.pool.push(x)
    made++
  }
  const outputs = chooseOutputs(b)
  return {
    graph: { params: b.params, outputs: outputs.map((t) => t.node), effects: [] },
    inputs: b.inputs,
    tolerances: outputs.map((t) => t.error),
  }
}

/** The youngest node, and now and then others (also ones the youngest uses, and one twice). */
function chooseOutputs(b: Builder): Tracked[] {
  const { rng, pool } = b
  const used = new Set<Node>(pool.flatMap((t) => t.node.inputs))
  const loose = pool.filter((t) => !used.has(t.node))
  const outputs = loose.slice(-rng.int(1, 4))
  if (rng.chance(0.3)) outputs.push(rng.pick(pool))
  return outputs.length > 0 ? outputs : pool.slice(-1)
}
