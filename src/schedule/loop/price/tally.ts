/** What a schedule is priced by: seconds of its operations by name, of its accesses and loops, and the streams it reads and writes. */
import type { Stream } from './streams.ts'

export class Tally {
  /** Seconds by operation. */
  readonly operations = new Map<string, number>()
  /** Seconds that operations wait for each other's results, beyond what other work fills. */
  waiting = 0
  /** Seconds of moving values between registers and the nearest memory. */
  accesses = 0
  /** Seconds of loops: rounds, entries, partial steps, merges of lanes, and of folds that wait for themselves. */
  loops = 0
  readonly streams: Stream[] = []

  operate(name: string, seconds: number): void {
    if (seconds > 0) this.operations.set(name, (this.operations.get(name) ?? 0) + seconds)
  }

  /** Seconds of all operations. */
  get arithmetic(): number {
    let sum = 0
    for (const s of this.operations.values()) sum += s
    return sum
  }
}
