/** The fusion report as text for people. */
import { printable } from '../diagnostics/text.ts'
import type { FusionReport, InnerReport, KernelReport, LibraryReport, PassesReport, SavedReport } from './data.ts'

const units = ['B', 'KB', 'MB', 'GB', 'TB']

/** Bytes with a unit, to two digits at least: 1.5 MB. */
export function showBytes(n: number): string {
  if (n < 0) return `-${showBytes(-n)}`
  let v = n
  let u = 0
  // What would round to 1000 of a unit is one of the next.
  while (v >= (u === 0 ? 1000 : 999.5) && u < units.length - 1) {
    v /= 1000
    u++
  }
  return `${u === 0 || v >= 99.95 ? v.toFixed(0) : v.toFixed(1)} ${units[u]}`
}

/** What fusion saves of the traffic operation by operation, or how much more it moves for less memory or time. */
export function savedText({ bytes, bytesOpByOp }: FusionReport['totals']): string {
  const saved = bytesOpByOp - bytes
  const share = Math.round((100 * Math.abs(saved)) / Math.max(1, bytesOpByOp))
  if (share === 0) return 'the same'
  return saved > 0
    ? `saved ${showBytes(saved)} (${share}%)`
    : `${showBytes(-saved)} more (${share}%), for less time or less memory at once`
}

/** Milliseconds, to two digits at least. */
export function showMs(ms: number): string {
  const size = Math.abs(ms)
  if (size === 0) return '0'
  return size >= 100 ? ms.toFixed(0) : size >= 1 ? ms.toFixed(2) : size >= 0.001 ? ms.toFixed(4) : ms.toPrecision(2)
}

/** `1 kernel`, `2 kernels`. */
export const counted = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`

/** `2 kernels and 1 library call`. */
export const countedLaunches = ({ kernels, libraryCalls = 0 }: FusionReport['totals']): string =>
  libraryCalls === 0
    ? counted(kernels, 'kernel')
    : `${counted(kernels, 'kernel')} and ${counted(libraryCalls, 'library call')}`

/** Who computes a matrix product, and what the other would take. */
export function libraryLine({ name, choice, callMs, kernelMs, calls, adds, detail }: LibraryReport): string {
  if (choice === 'refused') return `a kernel of its own: ${detail ?? `${name} has no algorithm`}`
  const other =
    choice === 'call' ? `a kernel is modelled at ${showMs(kernelMs)} ms` : `${name} is modelled at ${showMs(callMs)} ms`
  return choice === 'call'
    ? `${calls === undefined ? 'a call' : `${calls} calls, for whole lines and what is left,`} of ${name}${adds === true ? ', which adds to a matrix' : ''}; ${other}`
    : `a kernel of its own; ${other}`
}

/** How often a graph inside control flow runs: `body, 10 steps`. */
export const innerTitle = ({ role, trips }: InnerReport): string =>
  trips === undefined ? role : `${role}, ${counted(trips, 'step')}`

/** Operations of a kernel with repeats counted: `Relu x2`. */
export function countedOperations(k: KernelReport): string[] {
  const counts = new Map<string, number>()
  for (const o of k.operations) counts.set(o.name, (counts.get(o.name) ?? 0) + 1)
  return [...counts].map(([name, n]) => (n > 1 ? `${name} x${n}` : name))
}

function kernelLines(k: KernelReport, index: number): string[] {
  const named = countedOperations(k)
  const parts = k.parts > 1 ? `${counted(k.parts, 'part')}, ` : ''
  const lines = [
    `  ${String(index + 1).padStart(3)}  ${k.kind.padEnd(11)} ${named.join(' + ') || k.name}`,
    `       ${parts}read ${showBytes(k.bytesRead)}, write ${showBytes(k.bytesWritten)}, ${k.intensity.toFixed(1)} flop/B, modelled ${showMs(k.modelledMs)} ms, ${counted(k.programs, 'program')}`,
  ]
  if (k.library !== undefined) lines.push(`       ${libraryLine(k.library)}`)
  for (const i of k.inner ?? [])
    lines.push(`       ${innerTitle(i)}:`, ...i.kernels.flatMap(kernelLines).map((line) => `      ${line}`))
  for (const s of k.stages) lines.push(`       + ${s.stage} stage ${s.name} (${showBytes(s.bytes)})`)
  return lines
}

/** The section on what stands between the passes. */
function passesLines(p: PassesReport): string[] {
  const why = (v: SavedReport): string => {
    if (v.choice === 'result') return 'a result of the program'
    const costs = `keeping ${showMs(v.keepMs)} ms, computing again ${showMs(v.againMs)} ms`
    return v.choice === 'kept' ? `kept: ${costs}` : `computed again: ${costs}`
  }
  const more = `${p.extraMs < 0 ? '-' : '+'}${showMs(Math.abs(p.extraMs))} ms`
  return [
    '',
    `between forward and backward: ${showBytes(p.savedBytes)} kept; intermediates ${showBytes(p.liveBytes)} at most, ${showBytes(p.liveBytesKeepingAll)} computing nothing again (${more})`,
    ...p.values.map((v) => `  ${v.value} [${v.shape.join(', ')}] ${v.form}, ${showBytes(v.bytes)}: ${why(v)}`),
  ]
}

/** What a merge is modelled to lose, or would have gained where it is not possible. */
export const lossText = (ms: number): string =>
  ms < 0 ? `would gain ${showMs(-ms)} ms` : `would lose ${showMs(ms)} ms`

/** Prints a report. */
export function formatReport(r: FusionReport): string {
  const lines = [
    `${r.name}: ${counted(r.totals.operations, 'operation')} in ${countedLaunches(r.totals)}${r.totals.stages > 0 ? ` (+ ${counted(r.totals.stages, 'stage')})` : ''} for ${r.target}, ${r.mode}`,
    `  memory traffic ${showBytes(r.totals.bytes)}; operation by operation ${showBytes(r.totals.bytesOpByOp)}; ${savedText(r.totals)}`,
    `  peak memory ${showBytes(r.memory.peakBytes)} (intermediates ${showBytes(r.memory.arenaBytes)}, ${showBytes(r.memory.unsharedBytes)} without reuse; ${r.memory.inPlace} in place)`,
    '',
    r.kernels.some((k) => k.inner !== undefined)
      ? 'kernels (inside control flow counted once, measured by the step)'
      : 'kernels',
    ...r.kernels.flatMap(kernelLines),
  ]
  if (r.recomputed.length > 0) {
    lines.push('', 'computed again instead of stored')
    for (const c of r.recomputed)
      lines.push(`  ${c.value} in ${counted(c.consumers, 'kernel')}, saves ${showBytes(c.savedBytes)}`)
  }
  if (r.passes !== undefined && r.passes.values.length > 0) lines.push(...passesLines(r.passes))
  if (r.storedBools.length > 0) {
    lines.push('', 'bools between kernels')
    for (const b of r.storedBools)
      lines.push(
        `  ${b.value}: ${b.form}, ${showBytes(b.bytes)}${b.why === undefined ? '' : ` (${b.why.code}: ${b.why.detail})`}`,
      )
  }
  if (r.refused.length > 0) {
    lines.push('', 'not fused')
    for (const f of r.refused)
      lines.push(
        `  ${f.from} -> ${f.to}: ${f.code} (${f.detail}${f.lossMs === undefined ? '' : `; ${lossText(f.lossMs)}`})${f.count > 1 ? `, ${f.count} times` : ''}`,
      )
  }
  return lines.map(printable).join('\n')
}
