/** What a kernel takes of a block's shared memory: tiles, rings, threads' own cells, and slots that one exchange after another uses. */
import { type RegisterType, registerBytes } from './registerType.ts'

/** An array of `length` elements of a type (of 16 bits: halves). */
export interface SharedArrayPlan {
  readonly type: RegisterType
  readonly length: number
  readonly half?: boolean
  readonly align?: number
  /** Where it stands, over others that are used no more; else behind them. */
  readonly over?: number
}

/** Bytes of a shared array. */
const bytesOf = ({ length, type, half }: SharedArrayPlan): number =>
  Math.ceil((length * (half === true ? 2 : registerBytes(type))) / 16) * 16

/** Where shared arrays stand behind one another, and the bytes they take together. */
export function placeShared(arrays: readonly SharedArrayPlan[]): {
  readonly offsets: readonly number[]
  readonly bytes: number
} {
  let bytes = 0
  const offsets = arrays.map((a) => {
    if (a.over !== undefined) return a.over
    const align = a.align ?? 16
    const at = Math.ceil(bytes / align) * align
    bytes = at + bytesOf(a)
    return at
  })
  return { offsets, bytes }
}

/** Arrays as they are asked for, in order; decisions about what else has room go by it. */
export class SharedMemory {
  private readonly arrays: (SharedArrayPlan & { readonly slots?: string })[] = []
  /** Exchanges in a block so far that take one of two sets of slots by turns, and exchanges among blocks. */
  turns = 0
  exchanges = 0

  /** An array of its own. */
  share(array: SharedArrayPlan): void {
    this.arrays.push({ ...array, length: Math.max(1, array.length) })
  }

  /** Slots that are free again behind what uses them; the most that anything asks for. */
  slots(type: RegisterType, length: number, which = ''): void {
    const slots = `${which}_${type}`
    const at = this.arrays.findIndex((a) => a.slots === slots)
    const have = this.arrays[at]
    if (have === undefined) this.arrays.push({ type, length, slots })
    else this.arrays[at] = { ...have, length: Math.max(have.length, length) }
  }

  get bytes(): number {
    return placeShared(this.arrays).bytes
  }

  /** The bytes with more arrays. */
  bytesWith(...more: readonly SharedArrayPlan[]): number {
    return placeShared([...this.arrays, ...more]).bytes
  }

  /** The bytes of what is no slots. */
  get tileBytes(): number {
    return placeShared(this.arrays.filter((a) => a.slots === undefined)).bytes
  }
}
