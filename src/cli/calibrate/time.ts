/** Timing for calibration: what a machine can do undisturbed. */
import type { BoundProgram } from '../session.ts'

/** Milliseconds without getting quicker, after which code is as good as it gets: the engine's optimising compiler comes in after some runs. */
const settled = 120
/** Milliseconds after which it is taken as it is. */
const longest = 1500

/** Seconds of each program, the best of interleaved runs; programs are disposed of. */
export async function bestSeconds(programs: readonly BoundProgram[], rounds = 24): Promise<readonly number[]> {
  const best = programs.map(() => Number.POSITIVE_INFINITY)
  const started = performance.now()
  let improved = started
  for (let round = 0; ; round++) {
    const now = performance.now()
    if (round >= rounds && (now - improved >= settled || now - started >= longest)) break
    for (const [i, p] of programs.entries()) {
      const seconds = (await p.time()) / 1e3
      if (seconds < 0.95 * (best[i] ?? 0)) improved = performance.now()
      best[i] = Math.min(best[i] ?? 0, seconds)
    }
  }
  for (const p of programs) p.dispose()
  return best
}
