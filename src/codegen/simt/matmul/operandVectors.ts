/** Where a thread's results lie along an operand of a product in vectors of four (vectorProduct.ts). */
import { spanOf } from '../../../schedule/simt/layout/layout.ts'
import { lanes as four, type VectorOperand } from '../../../schedule/simt/part/vectorProduct.ts'
import { rowMajorStrides } from '../../../types/shape.ts'
import { add, type Block, type Ex, int, mul, v } from '../ir/ir.ts'
import type { Lanes } from '../ir/registers.ts'
import { digitOf, type Scope } from '../nest/scope.ts'

/** A thread's vectors of an operand's tile: the registers each stands for, and its place in a row. */
export interface Vectors {
  readonly repeats: readonly Lanes[]
  /** The place of the first thread's, and how far the last thread's is behind it. */
  readonly first: readonly number[]
  readonly most: number
  readonly at: (i: number) => Ex
}

export function vectorsOf(scope: Scope, o: VectorOperand, out: Block): Vectors {
  const { layout, unit } = scope
  const strides = rowMajorStrides(o.own.map((x) => spanOf(layout.axis(x))))
  let repeats: Lanes[] = [new Map()]
  let offsets = [0]
  let base: Ex = int(0)
  let most = 0
  o.own.forEach((x, i) => {
    const { bits, reps, vec } = layout.axis(x)
    const stride = ((strides[i] ?? 1) * vec) / four
    base = add(base, mul(digitOf(bits), int(stride)))
    most += (2 ** bits.length - 1) * stride
    repeats = repeats.flatMap((m) =>
      Array.from({ length: reps }, (_, rep): Lanes => new Map([...m, [x, { rep: int(rep), lane: int(0) }]])),
    )
    offsets = offsets.flatMap((n) => Array.from({ length: reps }, (_, rep) => n + rep * 2 ** bits.length * stride))
  })
  const name = unit.name(`${o.vector}_at`)
  out.push({ k: 'let', name, value: base })
  return { repeats, first: offsets, most, at: (i) => add(v('i32', name), int(offsets[i] ?? 0)) }
}
