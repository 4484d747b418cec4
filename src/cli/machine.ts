/** This machine's limits as its own kernels reach them: bandwidth of a copy, and arithmetic of a matrix product. */
import { matmul } from '../compose/index.ts'
import { makeNode, param, withContext } from '../graph/build.ts'
import type { Graph } from '../graph/node.ts'
import type { Shape } from '../types/shape.ts'
import { bestSeconds } from './calibrate/time.ts'
import type { Console } from './console.ts'
import type { BoundProgram, Session } from './session.ts'
import { drawTensor } from './values.ts'

export interface MachineLimits {
  /** Bytes a second, read and written, of y = -x over 64 MB. */
  readonly bandwidth: number
  /** Floating-point operations a second of a 512 x 512 x 512 f32 matrix product. */
  readonly flops: number
}

const streamElements = 1 << 24
const matrixSize = 512

const streamGraph = (): Graph =>
  withContext(() => {
    const x = param(0, [streamElements], 'f32')
    return { params: [x], outputs: [makeNode('neg', [x], {})], effects: [] }
  })

const productGraph = (): Graph =>
  withContext(() => {
    const shape: Shape = [matrixSize, matrixSize]
    const a = param(0, shape, 'f32')
    const b = param(1, shape, 'f32')
    return { params: [a, b], outputs: [matmul(a, b)], effects: [] }
  })

/** Seconds, the best of several runs: a limit is what the machine can do undisturbed. */
async function best(p: BoundProgram, runs: number): Promise<number> {
  const [seconds = Number.NaN] = await bestSeconds([p], runs)
  return seconds
}

/** Measures the session's device. */
export async function measureMachine(session: Session, console: Console): Promise<MachineLimits> {
  console.progress('measuring this machine: a copy of 64 MB')
  const zeros = { data: new Float32Array(streamElements), shape: [streamElements], dtype: 'f32' as const }
  const stream = await best(session.bind(streamGraph(), { name: 'stream', mode: 'fast' }, [zeros]), 7)
  console.progress('measuring this machine: a matrix product')
  return { bandwidth: (2 * 4 * streamElements) / stream, flops: await measureProduct(session) }
}

/** Operations a second of a 512 x 512 x 512 f32 matrix product. */
export async function measureProduct(session: Session): Promise<number> {
  const shape: Shape = [matrixSize, matrixSize]
  const operands = [drawTensor(shape, 'f32', 0, 0), drawTensor(shape, 'f32', 0, 1)]
  return (
    (2 * matrixSize ** 3) / (await best(session.bind(productGraph(), { name: 'product', mode: 'fast' }, operands), 15))
  )
}
