/** Memories and launches by measuring: negations of tensors of many sizes, and special functions of one that lies far away. */
import { unary } from '../../compose/index.ts'
import { param, withContext } from '../../graph/build.ts'
import type { Node } from '../../graph/node.ts'
import type { UnaryName } from '../../scalar/ops.ts'
import { bandwidthOf, type Machine, type Memory } from '../../target/machine.ts'
import { type Prices, priceOf } from '../../target/prices.ts'
import type { Session } from '../session.ts'
import { bestSeconds } from './time.ts'

/** Bytes read and written of the smallest and the largest working set. */
const [least, most] = [1 << 17, 1 << 28]

/** A memory ends where the next size moves less than this share of its bytes a second. */
const drop = 0.8

/** Seconds of operations one after another on n elements of f32. */
async function seconds(session: Session, n: number, ops: readonly UnaryName[]): Promise<number> {
  const graph = withContext(() => {
    const x = param(0, [n], 'f32')
    return { params: [x], outputs: [ops.reduce<Node>((y, op) => unary(op, y), x)], effects: [] }
  })
  const data = new Float32Array(n).fill(0.5)
  const program = session.bind(graph, { name: 'calibrate', mode: 'fast' }, [{ data, shape: [n], dtype: 'f32' }])
  const [best = 0] = await bestSeconds([program], n > 1 << 22 ? 7 : 24)
  return best
}

/** Memories, seconds of a launch, and how much of arithmetic and of moving data goes on together. */
export async function measureMemories(
  session: Session,
  prices: Prices,
  name: string,
): Promise<Pick<Machine, 'memories' | 'launch' | 'overlap'>> {
  const launch = await seconds(session, 16, ['neg'])
  const rates: Memory[] = []
  for (let bytes = least; bytes <= most; bytes *= 2) {
    const moved = (await seconds(session, bytes / 8, ['neg'])) - launch
    rates.push({ bytes, bandwidth: bytes / moved })
  }
  const memories: Memory[] = []
  for (const [i, r] of rates.entries()) {
    const next = rates[i + 1]
    if (next === undefined) memories.push({ bytes: Number.POSITIVE_INFINITY, bandwidth: r.bandwidth })
    else if (next.bandwidth < drop * r.bandwidth) memories.push(r)
  }
  const n = most / 8
  const shares: number[] = []
  for (const ops of [['exp'], ['tanh'], ['tanh', 'exp']] as const) {
    const moving = most / bandwidthOf({ memories, name }, most)
    const computing = n * ops.reduce((sum, op) => sum + priceOf(op, 'f32', prices), 0)
    const behind = (moving + computing - (await seconds(session, n, ops))) / Math.min(moving, computing)
    shares.push(Math.min(1, Math.max(0, behind)))
  }
  return { memories, launch, overlap: shares.reduce((a, b) => a + b) / shares.length }
}
