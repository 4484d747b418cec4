/** The report on what stands between the forward and the backward pass. */
import type { Node } from '../graph/node.ts'
import type { PassesReport, SavedReport } from '../report/data.ts'
import type { Passes } from './planGraph.ts'

type Value = Passes['saved'][number]

/** Values largest first, those computed again behind those kept. */
export function passesReport(passes: Passes, describe: (n: Node) => string): PassesReport {
  const line = (v: Value, choice: SavedReport['choice']): SavedReport => ({
    value: describe(v.node),
    shape: v.node.shape,
    form: v.form,
    bytes: v.bytes,
    choice,
    keepMs: v.choice.keep * 1e3,
    againMs: v.choice.again * 1e3,
  })
  const bySize = (vs: readonly Value[]): Value[] => [...vs].sort((a, b) => b.bytes - a.bytes)
  return {
    values: [
      ...bySize(passes.saved).map((v) => line(v, v.result ? 'result' : 'kept')),
      ...bySize(passes.again).map((v) => line(v, 'again')),
    ],
    savedBytes: passes.saved.reduce((n, v) => n + (v.result ? 0 : v.bytes), 0),
    extraMs: passes.extraSeconds * 1e3,
    liveBytes: passes.liveBytes,
    liveBytesKeepingAll: passes.liveBytesKeepingAll,
  }
}
