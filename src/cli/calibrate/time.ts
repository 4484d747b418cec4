/** Timing for calibration: what a machine can do undisturbed. */
import type { BoundProgram } from '../session.ts'

/** Seconds of each program, the best of interleaved runs; programs are disposed of. */
export async function bestSeconds(programs: readonly BoundProgram[], rounds = 24): Promise<readonly number[]> {
  const best = programs.map(() => Number.POSITIVE_INFINITY)
  // The engine's optimising compiler comes in after some runs.
  const until = performance.now() + 50
  for (let round = 0; round < rounds || performance.now() < until; round++)
    for (const [i, p] of programs.entries()) best[i] = Math.min(best[i] ?? 0, (await p.time()) / 1e3)
  for (const p of programs) p.dispose()
  return best
}
