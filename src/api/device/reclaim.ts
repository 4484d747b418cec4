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

/**
 * Array buffers that may be resized are reserved page by page. Others come from the C library's heap: once one of a size was freed, glibc takes
 * the next of that size out of its arenas, clears it, and gives nothing smaller than twice the size back to the system.
 */
const Reserved: new (bytes: number, options: { readonly maxByteLength: number }) => ArrayBuffer = ArrayBuffer

const untouched = (bytes: number): ArrayBuffer | undefined => {
  try {
    return new Reserved(bytes, { maxByteLength: bytes })
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

/** Lets the engine run other tasks, among them those that free what was collected. */
const nextTask = (): Promise<void> =>
  new Promise((done) => {
    if (typeof setImmediate === 'function') setImmediate(done)
    else setTimeout(done, 0)
  })

const attempts = 8
const nudge = 256 << 20
/** Growth of what is in use that calls for a look at what can be collected: at most so many bytes, and a quarter of the room that was left. */
const growth = 64 << 20
/** Bytes in use after the last look. */
const settled = new WeakMap<Device, number>()

/**
 * When clearly more of a device's memory is in use than after the last look, the sooner the less room it had then, waits for the engine to
 * collect what is unreachable.
 */
export async function reclaim(device: Device): Promise<void> {
  const { used, limit } = device.memory()
  const before = settled.get(device) ?? 0
  if (used < before) settled.set(device, used)
  const allowed = Math.min(growth, (limit - Math.min(before, limit)) / 4)
  if (used - before < Math.max(allowed, weighedFrom)) return
  // What was collected meanwhile is freed in a task of its own: often that is enough.
  await nextTask()
  for (let i = 0; i < attempts && device.memory().used > before + allowed / 2; i++) {
    untouched(nudge)
    await nextTask()
  }
  settled.set(device, device.memory().used)
}
