/** Nests that go along windows that overlap (src/schedule/simt/part/windows.ts). */
import type { Place } from '../access/place.ts'
import type { PointStep, SlidingNest, WindowPlace } from './sequence.ts'

/** How a nest goes along the windows of its part; undefined for one that does not, or computes nothing that they share. */
export function slidingOf({ part, layout }: Place, steps: readonly PointStep[]): SlidingNest | undefined {
  const { windows } = part
  const loops = steps[0]?.loops ?? []
  if (windows === undefined || !steps.some((s) => s.gives !== undefined && windows.shared.has(s.gives)))
    return undefined
  const repeats = (axis: string): number => loops.find((l) => l.axis === axis && l.over === 'rep')?.count ?? 1
  const [along, over] = [repeats(windows.along), repeats(windows.over)]
  if (along === 1 || over === 1 || layout.axis(windows.along).bits.length + layout.axis(windows.over).bits.length > 0)
    return undefined
  return { windows, places: placesOf(along, over, windows) }
}

/** The places of `count` windows of `length`, each `step` behind the one before; terms of a window come in their order. */
function placesOf(count: number, length: number, { step, way }: SlidingNest['windows']): WindowPlace[] {
  const places = Array.from({ length: (count - 1) * step + length }, (_, at) =>
    Array.from({ length: count }, (_, along) => ({ along, over: at - along * step })).filter(
      ({ over }) => over >= 0 && over < length,
    ),
  ).filter((place) => place.length > 0)
  if (way === 1) return places
  // Windows that are read the other way round: the last place has the first terms.
  return places.map((place) => place.map(({ along, over }) => ({ along, over: length - 1 - over }))).reverse()
}
