/** What a machine can do, as measured in the run, and the times that follow from it. */
import type { Work } from './work.ts'

/** Bytes a second over a working set, by the share of them that is written: none, a third, half, all. */
export interface Bandwidth {
  readonly bytes: number
  readonly read: number
  readonly mixed: number
  readonly copy: number
  readonly write: number
}

export interface Rates {
  readonly device: string
  readonly threads?: number
  /** Seconds of a call of the smallest program, and from one kernel of a program to the next. */
  readonly call: number
  readonly launch: number
  /** Bytes that one core, or the blocks that can work on one row together, keep beside them. */
  readonly fastBytes: number
  /** Ascending in bytes. */
  readonly bandwidth: readonly Bandwidth[]
  /** Operations a second: multiply-adds (counted as two), divisions, special functions, products. */
  readonly flops: number
  readonly divide: number
  readonly special: number
  readonly specialHalf: number
  readonly product: number
  readonly productHalf: number
  /** Kinds of arithmetic use the same units, so their times add up. */
  readonly sharesUnits: boolean
}

/** Rates at a working set: interpolated between those measured. What a larger set reaches, a smaller one does at least. */
function bandwidthAt(list: readonly Bandwidth[], bytes: number): Omit<Bandwidth, 'bytes'> {
  const kept = list.map((_, i) => {
    const rest = list.slice(i)
    const best = (k: 'read' | 'mixed' | 'copy' | 'write'): number => Math.max(...rest.map((r) => r[k]))
    return {
      bytes: list[i]?.bytes ?? 0,
      read: best('read'),
      mixed: best('mixed'),
      copy: best('copy'),
      write: best('write'),
    }
  })
  const above = kept.findIndex((r) => r.bytes >= bytes)
  const high = kept[above < 0 ? kept.length - 1 : above]
  const low = kept[above <= 0 ? (above < 0 ? kept.length - 1 : 0) : above - 1]
  if (high === undefined || low === undefined) throw new Error('no bandwidth was measured')
  if (high.bytes === low.bytes) return high
  const t = Math.log(bytes / low.bytes) / Math.log(high.bytes / low.bytes)
  const between = (k: 'read' | 'mixed' | 'copy' | 'write'): number => low[k] ** (1 - t) * high[k] ** t
  return { read: between('read'), mixed: between('mixed'), copy: between('copy'), write: between('write') }
}

/** Seconds to read and write so many bytes out of a working set. */
export function transferSeconds(rates: Rates, read: number, written: number, workingSet: number): number {
  const total = read + written
  if (total <= 0) return 0
  const at = bandwidthAt(rates.bandwidth, Math.max(1, workingSet))
  const points: readonly (readonly [number, number])[] = [
    [0, 1 / at.read],
    [1 / 3, 1 / at.mixed],
    [1 / 2, 1 / at.copy],
    [1, 1 / at.write],
  ]
  const share = written / total
  for (const [i, [x1, y1]] of points.entries()) {
    const [x0, y0] = points[i - 1] ?? [0, y1]
    if (share <= x1) return total * (x1 === x0 ? y1 : y0 + ((y1 - y0) * (share - x0)) / (x1 - x0))
  }
  return total / at.write
}

/** Seconds of arithmetic. Divisions have a unit of their own everywhere. */
export function arithmeticSeconds(rates: Rates, w: Work): number {
  const parts = [
    w.simple / rates.flops,
    w.special / rates.special + w.specialHalf / rates.specialHalf,
    w.product / rates.product + w.productHalf / rates.productHalf,
  ]
  const rest = rates.sharesUnits ? parts.reduce((a, b) => a + b, 0) : Math.max(...parts)
  return Math.max(rest, w.divide / rates.divide)
}
