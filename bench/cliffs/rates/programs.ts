/** Rates that the library's own smallest programs show: a call, a launch, special functions, matrix products. */
import { traceFunction } from '../../../src/api/traceFunction.ts'
import * as s from '../../../src/index.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { bindGraph } from '../bind.ts'
import { dataOf } from '../data.ts'
import type { Machine } from '../machine.ts'
import type { Rates } from '../rates.ts'

/** The least seconds of a call in several batches. */
async function best(
  machine: Machine,
  shapes: readonly (readonly number[])[],
  f: (...x: s.Tensor[]) => s.Tensor,
  dtype: DType = 'f32',
  fuse = true,
): Promise<number> {
  const { graph } = traceFunction(
    f as (...args: never[]) => unknown,
    shapes.map((shape) => s.spec(shape, dtype)),
  )
  const input = { name: 'x', dtype, lo: -0.5, hi: 1, whole: false }
  const bound = bindGraph(
    machine,
    graph,
    shapes.map((shape, i) => dataOf({ ...input, shape }, i + 1)),
    fuse,
  )
  let least = Number.POSITIVE_INFINITY
  let calls = 1
  for (let i = 0; i < 40; i++) {
    const seconds = await bound.seconds(calls)
    if (seconds * calls < machine.batchMs / 1e3) calls = Math.min(100_000, calls * 2)
    else least = Math.min(least, seconds)
    if (i > 12 && seconds * calls > 0.3) break
  }
  bound.dispose()
  return least
}

const chainLength = 8
/** x = exp(-x), over and over: arguments stay between 0 and 1. */
const exponentials = (x: s.Tensor): s.Tensor => {
  let y = x
  for (let i = 0; i < chainLength; i++) y = y.neg().exp()
  return y
}
const launches = 65

/** `side`: of the square matrices that are multiplied; 0 where products have no unit of their own. */
export async function programRates(
  machine: Machine,
  { side }: { readonly side: number },
): Promise<Pick<Rates, 'call' | 'launch' | 'special' | 'specialHalf' | 'product' | 'productHalf'>> {
  const call = await best(machine, [[1]], (x) => x.neg())
  const many = await best(
    machine,
    [[16]],
    (x) => {
      let y = x
      for (let i = 0; i < launches; i++) y = i % 2 === 0 ? y.add(1) : y.mul(0.5)
      return y
    },
    'f32',
    false,
  )
  // Small enough for the nearest cache, large enough for all cores of a GPU.
  const n = machine.name === 'wasm' ? 2048 : 1 << 24
  const rate = async (dtype: DType): Promise<number> => {
    const chain = await best(machine, [[n]], exponentials, dtype)
    const rest = machine.name === 'wasm' ? Math.min(call, chain / 2) : 0
    return (chainLength * n) / (chain - rest)
  }
  const flops = async (dtype: DType): Promise<number> =>
    side === 0
      ? 0
      : (2 * side ** 3) /
        (await best(
          machine,
          [
            [side, side],
            [side, side],
          ],
          (a, b) => a.matmul(b),
          dtype,
        ))
  return {
    call,
    launch: Math.max(0, many - call) / (launches - 1),
    special: await rate('f32'),
    specialHalf: await rate('f16'),
    product: await flops('f32'),
    productHalf: Math.max(await flops('bf16'), await flops('f16')),
  }
}
