/** A small seeded generator (mulberry32) and what tests draw from it. */

export interface Rng {
  /** Uniform in [0, 1). */
  readonly unit: () => number
  /** Whole, lo <= v <= hi. */
  readonly int: (lo: number, hi: number) => number
  /** Uniform in [lo, hi). */
  readonly real: (lo: number, hi: number) => number
  readonly chance: (p: number) => boolean
  /** One element of a list that is not empty. */
  readonly pick: <T>(list: readonly T[]) => T
  /** The elements in random order. */
  readonly shuffle: <T>(list: readonly T[]) => T[]
}

/** Equal seeds draw equal sequences. */
export function makeRng(seed: number): Rng {
  let state = (seed ^ 0x9e3779b9) >>> 0
  const unit = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  const int = (lo: number, hi: number): number => lo + Math.floor(unit() * (hi - lo + 1))
  return {
    unit,
    int,
    real: (lo, hi) => lo + unit() * (hi - lo),
    chance: (p) => unit() < p,
    pick: (list) => {
      const x = list[int(0, list.length - 1)]
      if (x === undefined) throw new Error('pick from an empty list')
      return x
    },
    shuffle: (list) => {
      const out = [...list]
      for (let i = out.length - 1; i > 0; i--) {
        const j = int(0, i)
        const a = out[i]
        const b = out[j]
        if (a !== undefined && b !== undefined) {
          out[i] = b
          out[j] = a
        }
      }
      return out
    },
  }
}
