/** Elements of 8 and 16 bits that become words of a tile: four at a time, halves in lanes at the edges of a transposition, too. */
import { type DType, dtypeBytes } from '../../../types/dtype.ts'
import type { Builder } from '../ir/builder.ts'
import { emitGatherHalves, emitLoadConvert } from './memory.ts'
import { type Env, isHalf, part, releaseReg } from './reg.ts'
import type { Elements } from './words.ts'

/** How memory of a dtype is read as words. */
export function widened(f: Builder, env: Env, dtype: DType): Elements {
  const all = (body: (lane: number) => void): void => {
    for (let lane = 0; lane < 4; lane++) body(lane)
  }
  const elements: Elements = {
    bytes: dtypeBytes(dtype),
    row: (at, offset) => part(emitLoadConvert(f, env, dtype, 4, at, offset), 0),
    one: (at, offset, use) => {
      const one = emitLoadConvert(f, env, dtype, 1, at, offset)
      use(part(one, 0))
      releaseReg(f, one)
    },
  }
  if (!isHalf(dtype)) return elements
  return {
    ...elements,
    column: (at, offsets) => {
      const places = offsets.map((offset) => ({ local: at, offset }))
      return part(emitGatherHalves(f, env, dtype, places, all), 0)
    },
  }
}
