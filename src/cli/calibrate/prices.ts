/**
 * Prices of operations by measuring: programs that compute an operation a few times and more often for each element of a working set that
 * stays in a cache. What the further ones take, less what the operations around them do, is the price.
 */
import { binary, cast, compare, full, randomBits, unary, where } from '../../compose/index.ts'
import { param, withContext } from '../../graph/build.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { type BinaryName, type ScalarOp, scalarInfo, scalarOps, type UnaryName } from '../../scalar/ops.ts'
import { elementsPerCall } from '../../scalar/threefry.ts'
import { type Arithmetic, arithmeticOf, arithmetics, type Prices } from '../../target/prices.ts'
import { allDTypes, type DType, dtypeClass, isFloat } from '../../types/dtype.ts'
import type { Mode, Session } from '../session.ts'
import { drawTensor } from '../values.ts'
import { bestSeconds } from './time.ts'

/** Elements: 128 KB of f32, beside as many results, stay in the second-level cache of any processor. */
const elements = 1 << 15
/** The same where formats are measured: all that is read and written stays in the nearest memory, so that wide formats take no longer to move than narrow ones. */
const formatElements = 1 << 10
/** How often a program computes the operation: few times and often; functions less, whose values would not all stay in registers. */
const counts = { plain: [2, 8], special: [1, 3] } as const

/** A step: the accumulator, a value that differs from step to step, one that does not. */
type Step = (acc: Node, varied: Node, fixed: Node) => Node

/** Takes a value into the accumulator so that no step can be taken together with another. */
const take = (a: Node, b: Node): Node => binary(isFloat(a.dtype) ? 'sub' : 'xor', a, b)

/** The step that measures an operation, and how many additions stand around it. */
function stepOf(op: ScalarOp, dtype: DType): { readonly step: Step; readonly around: number } {
  if (op === 'select') return { step: (acc, v, y) => where(compare('lt', v, y), acc, v), around: 2 }
  if (op === 'cast') {
    const other = ({ f32: 'i32', i32: 'f32', f64: 'i64', i64: 'f64' } as const)[arithmeticOf(dtype)]
    return { step: (acc, v) => take(acc, cast(cast(v, other), dtype)), around: 2 }
  }
  const { arity, result } = scalarInfo(op)
  const of = (v: Node, y: Node): Node => (arity === 1 ? unary(op as UnaryName, v) : binary(op as BinaryName, v, y))
  // A comparison's result chooses.
  if (result === 'bool') return { step: (acc, v, y) => where(of(v, y), acc, v), around: 2 }
  return { step: (acc, v, y) => take(acc, of(v, y)), around: 2 }
}

/** Seconds an element of one step: acc = step(acc, x + c, y) for different c, which no rewriting takes together unless it is linear. */
async function stepSeconds(
  session: Session,
  dtype: DType,
  step: Step,
  mode: Mode,
  [few, often]: readonly [number, number] = counts.plain,
): Promise<number> {
  const chain = (times: number): Graph =>
    withContext(() => {
      const [x, y] = [param(0, [elements], dtype), param(1, [elements], dtype)]
      let acc: Node = y
      for (let i = 1; i <= times; i++) {
        const shift = isFloat(dtype) ? i / 256 : dtype === 'i64' ? BigInt(i) : i
        acc = step(acc, binary('add', x, full([elements], shift, dtype)), y)
      }
      return { params: [x, y], outputs: [acc], effects: [] }
    })
  const inputs = [drawTensor([elements], dtype, 0, 0), drawTensor([elements], dtype, 0, 1)]
  const programs = [few, often].map((n) => session.bind(chain(n), { name: 'calibrate', mode }, inputs))
  const [short = 0, long = 0] = await bestSeconds(programs)
  return Math.max(0, long - short) / ((often - few) * elements)
}

/** Prices on the session's device. */
export async function measurePrices(session: Session, tell: (what: string) => void): Promise<Prices> {
  const scalar: Record<string, Partial<Record<Arithmetic, number>>> = {}
  const fold: Record<Arithmetic, number> = { f32: 0, f64: 0, i32: 0, i64: 0 }
  for (const dtype of arithmetics) {
    tell(`operations of ${dtype}`)
    // Strict mode computes each: linear ones would be taken together.
    const add = (await stepSeconds(session, dtype, take, 'strict')) / 2
    fold[dtype] = add
    for (const op of Object.keys(scalarOps) as ScalarOp[]) {
      const { on, cost } = scalarInfo(op)
      if (!on.includes(dtypeClass(dtype))) continue
      const prices = scalar[op] ?? {}
      scalar[op] = prices
      if (cost === 'free') prices[dtype] = 0
      else if (op === 'add' || op === 'sub') prices[dtype] = add
      else {
        const { step, around } = stepOf(op, dtype)
        const seconds =
          cost === 'special'
            ? await stepSeconds(session, dtype, step, 'fast', counts.special)
            : await stepSeconds(session, dtype, step, 'strict')
        // What measures less hides behind its neighbours.
        prices[dtype] = Math.max((seconds - around * add) / (op === 'cast' ? 2 : 1), add / 2)
      }
    }
  }
  tell('formats and random bits')
  return {
    scalar: scalar as Prices['scalar'],
    fold,
    ...(await measureFormats(session)),
    random: await measureRandom(session),
  }
}

/** Reading and writing formats that are not computed in, beyond what f32 takes. */
async function measureFormats(session: Session): Promise<Pick<Prices, 'read' | 'write'>> {
  const most = 4
  const seconds = async (dtype: DType, write: boolean): Promise<number> => {
    const work = isFloat(dtype) ? 'f32' : 'i32'
    const programs = [1, most].map((n) => {
      const graph = withContext(() => {
        const params = Array.from({ length: write ? 1 : n }, (_, i) => param(i, [formatElements], write ? work : dtype))
        const values = Array.from({ length: n }, (_, i) =>
          take(cast(params[write ? 0 : i] ?? param(0, [formatElements], work), work), full([formatElements], i, work)),
        )
        const outputs = write ? values.map((v) => cast(v, dtype)) : [values.reduce(take)]
        return { params, outputs, effects: [] }
      })
      const inputs = graph.params.map((p, i) => drawTensor([formatElements], p.dtype, 0, i))
      return session.bind(graph, { name: 'calibrate', mode: 'strict' }, inputs)
    })
    const [short = 0, long = 0] = await bestSeconds(programs)
    return (long - short) / ((most - 1) * formatElements)
  }
  const measured = async (write: boolean): Promise<Readonly<Record<DType, number>>> => {
    const plain = { f32: await seconds('f32', write), i32: await seconds('i32', write) }
    const out: Record<string, number> = {}
    for (const d of allDTypes) {
      const computed = ['f32', 'i32', 'u32', 'f64', 'i64', 'u64'].includes(d)
      out[d] = computed ? 0 : Math.max(0, (await seconds(d, write)) - plain[isFloat(d) ? 'f32' : 'i32'])
    }
    return out as Record<DType, number>
  }
  return { read: await measured(false), write: await measured(true) }
}

async function measureRandom(session: Session): Promise<number> {
  const programs = [elements, 4 * elements].map((n) => {
    const graph = withContext(() => {
      const key = param(0, [2], 'u32')
      return { params: [key], outputs: [randomBits(key, [n])], effects: [] }
    })
    return session.bind(graph, { name: 'calibrate', mode: 'fast' }, [drawTensor([2], 'u32', 0, 0)])
  })
  const [short = 0, long = 0] = await bestSeconds(programs)
  return (elementsPerCall('u32') * (long - short)) / (3 * elements)
}
