/**
 * Reclaiming tensors nobody refers to. The engine collects garbage when it sees memory fill up, and it does not see device
 * memory; and what it collected is freed in a task of its own, never inside a running one. So large storages weigh on the
 * engine's accounts, and reading a value asynchronously makes way for collection when the device is crowded.
 */
import type { Device } from './device.ts'

const weighedFrom = 1 << 20
/** Enough for a step that hands over all its parameters: making one costs more than the rest of a call. */
const maxSpare = 4096
/** By size, the sizes used longest ago first. */
const spare = new Map<number, ArrayBuffer[]>()
let spares = 0

const untouched = (bytes: number): ArrayBuffer | undefined => {
  try {
    return new ArrayBuffer(bytes)
  } catch {
    // No address space left: go without.
    return undefined
  }
}

/** An array buffer nobody touches, for a large storage to hold: address space, not memory, but the engine counts it. */
export function takeWeight(bytes: number): ArrayBuffer | undefined {
  if (bytes < weighedFrom) return undefined
  const have = spare.get(bytes)?.pop()
  if (have === undefined) return untouched(bytes)
  spares--
  return have
}

/** Gives a weight back for the next storage of its size. */
export function giveWeight(weight: ArrayBuffer | undefined): void {
  if (weight === undefined) return
  const bytes = weight.byteLength
  const same = spare.get(bytes) ?? []
  spare.delete(bytes)
  spare.set(bytes, same)
  same.push(weight)
  if (++spares <= maxSpare) return
  for (const [size, list] of spare) {
    if (list.pop() === undefined) {
      spare.delete(size)
      continue
    }
    spares--
    return
  }
}

/** Lets the engine run other tasks. */
const nextTask = (): Promise<void> =>
  new Promise((done) => {
    setTimeout(done, 0)
  })

const attempts = 8
const nudge = 256 << 20
/** Bytes in use when nothing could be reclaimed: no use trying again until there are clearly more. */
const futile = new WeakMap<Device, number>()
const growth = 32 << 20

/** When more than half of a device's memory is in use, waits for the engine to collect what is unreachable. */
export async function reclaim(device: Device): Promise<void> {
  const { used, limit } = device.memory()
  if (used < limit / 2 || used < (futile.get(device) ?? 0) + growth) return
  for (let i = 0; i < attempts; i++) {
    untouched(nudge)
    await nextTask()
    if (device.memory().used < used) {
      futile.delete(device)
      return
    }
  }
  futile.set(device, used)
}
