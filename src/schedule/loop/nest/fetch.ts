/** What a nest brings into the cache before its loops read it. */
import { strideOf, valuesOf } from '../../../affine/expr.ts'
import { cacheLine } from '../../../target/loops.ts'
import type { Fetch } from '../ir/schedule.ts'
import type { Places } from '../tiles/places.ts'
import { farRows, type Work } from './work.ts'

/** Below this many instructions a vector, enough loads are in flight for the memory to keep up. */
const fetchAbove = 8

/** Bytes of a row worth fetching ahead: it must stay in the cache. */
const [leastFetch, mostFetch] = [1024, 65536]

/**
 * Reads to fetch ahead. A loop that computes much for each element and writes nothing keeps few loads in flight, and where
 * the processor does not prefetch well it waits for memory: one load a cache line over the whole row goes first.
 */
export function fetches(places: Places, work: Work, vector: string): Fetch[] {
  if (work.arithmetic < fetchAbove || work.touches.some((t) => t.write && t.param !== undefined)) return []
  return work.touches.flatMap(({ param, position, masked, unit, packed }) => {
    const bytes = unit * places.axes.view(vector).max
    const contiguous = valuesOf(position).size === 0 && strideOf(position, vector) === unit
    return param === undefined || packed === true || masked || !contiguous || bytes < leastFetch || bytes > mostFetch
      ? []
      : [{ param, position, unit }]
  })
}

/**
 * Rows to fetch ahead where lanes go down them: each is on a page of its own, so that every step would wait for all of them. One load a cache line brings
 * them in the order of memory, many at once, if they stay in the cache until the last columns are taken.
 */
export function columnFetches(places: Places, { touches }: Work, vector: string, folded: readonly string[]): Fetch[] {
  const [rows, more] = folded
  const { loops } = places.facts.machine
  if (rows === undefined || more !== undefined || loops === undefined) return []
  const [height, width] = [places.axes.view(rows).max, places.axes.view(vector).max]
  return touches.flatMap(({ param, position, masked, unit, packed, write }) => {
    const bytes = height * width * unit
    const isFar = Math.abs(strideOf(position, rows) ?? 0) >= farRows && strideOf(position, vector) === unit
    if (param === undefined || packed === true || masked || write || !isFar || valuesOf(position).size > 0) return []
    // Lines of all rows that fit the nearest memory wait for one row at a time.
    const isHeld = bytes <= loops.own / 2 && height * cacheLine > loops.nearest / 4
    return isHeld && width * unit >= 4 * cacheLine ? [{ param, position, unit, rows }] : []
  })
}
