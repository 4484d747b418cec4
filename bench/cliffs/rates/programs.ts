/** Rates that the library's own smallest programs show: a call, a launch, special functions, matrix products. */
import { traceFunction } from '../../../src/api/tensor/traceFunction.ts'
import * as s from '../../../src/index.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { type Shape, sizeOf } from '../../../src/types/shape.ts'
import { bindGraph } from '../bind.ts'
import { dataOf } from '../data.ts'
import type { Machine } from '../machine.ts'
import type { Rates } from '../rates.ts'

/** Numbers of which large operands repeat: their data would take longer than what is measured. */
const mostNumbers = 1 << 20

function repeatedData(shape: Shape, dtype: DType, k: number): HostArray {
  const out = hostArray(dtype, sizeOf(shape))
  const input = { name: 'x', dtype, lo: -0.5, hi: 1, whole: false }
  const numbers = dataOf({ ...input, shape: [Math.min(out.length, mostNumbers)] }, k)
  for (let i = 0; i < out.length; i += numbers.length)
    out.set(numbers.subarray(0, Math.min(numbers.length, out.length - i)) as never, i)
  return out
}

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
  const bound = bindGraph(
    machine,
    graph,
    shapes.map((shape, i) => repeatedData(shape, dtype, i + 1)),
    fuse,
  )
  let [least, calls, samples] = [Number.POSITIVE_INFINITY, 1, 0]
  while (samples < 15) {
    const seconds = await bound.seconds(calls)
    if (seconds * calls < machine.batchMs / 1e3 && calls < 100_000) {
      calls *= 2
      continue
    }
    least = Math.min(least, seconds)
    // Slow ones are as steady after a few.
    samples += seconds > 1 ? 5 : 1
  }
  bound.dispose()
  return least
}

/** Functions whose fastest stands for all. Several in a row on a GPU, whose memory would hold one back. */
const specials: readonly ((x: s.Tensor) => s.Tensor)[] = [
  (x) => x.exp(),
  (x) => x.tanh(),
  (x) => x.sigmoid(),
  (x) => x.erf(),
  (x) => x.sin(),
  (x) => x.add(2).log(),
]
const repeated =
  (f: (x: s.Tensor) => s.Tensor, times: number): ((x: s.Tensor) => s.Tensor) =>
  (x) => {
    let y = x
    for (let i = 0; i < times; i++) y = f(i === 0 ? y : y.neg())
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
  const onHost = machine.name === 'wasm'
  const n = onHost ? 4096 : 1 << 24
  const rate = async (dtype: DType): Promise<number> => {
    let most = 0
    for (const f of specials)
      for (const times of onHost ? [1, 2] : [8]) {
        const seconds = await best(machine, [[n]], repeated(f, times), dtype)
        most = Math.max(most, (times * n) / (seconds - (onHost ? Math.min(call, seconds / 2) : 0)))
      }
    return most
  }
  const [full, f16, bf16] = [await rate('f32'), await rate('f16'), await rate('bf16')]
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
    special: full,
    specialHalf: Math.max(full, f16, bf16),
    product: await flops('f32'),
    productHalf: Math.max(await flops('bf16'), await flops('f16')),
  }
}
