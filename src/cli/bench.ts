/** `sinter bench`: what runs measure, fused against unfused, and how near the machine's own limits each kernel comes. */
import { availableParallelism } from 'node:os'
import type { KernelReport } from '../report/data.ts'
import { counted, showBytes, showMs } from '../report/format.ts'
import type { StepTime } from '../runtime/backend.ts'
import type { Program, ProgramStep } from '../runtime/program.ts'
import { type Console, printData } from './console.ts'
import type { DeviceName } from './devices.ts'
import { fillInputs, loadModel } from './load.ts'
import { type MachineLimits, measureMachine } from './machine.ts'
import { type InputTexts, parseInputs } from './options.ts'
import { type BoundProgram, type Mode, Session } from './session.ts'
import { bold, dim } from './style.ts'

export interface BenchOptions extends InputTexts {
  readonly device: DeviceName
  readonly mode: Mode
  readonly seed: number
  readonly threads?: number
  readonly index?: number
  /** Seconds of measuring, beyond warming up. */
  readonly seconds: number
  readonly json: boolean
}

/** The middle of a list; the mean of the two middle ones where its length is even. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const at = sorted.length >> 1
  const high = sorted[at] ?? Number.NaN
  return sorted.length % 2 === 1 ? high : ((sorted[at - 1] ?? high) + high) / 2
}

export interface MeasuredKernel {
  readonly name: string
  readonly kind: string
  readonly operations: readonly string[]
  /** Median over runs, stages included. */
  readonly ms: number
  readonly modelledMs: number
  /** Bytes a second, and as a share of the machine's copy. */
  readonly bandwidth: number
  readonly bandwidthShare: number
  /** Operations a second, and as a share of the machine's matrix product. */
  readonly flops: number
  readonly flopsShare: number
}

export interface BenchResult {
  readonly model: string
  readonly device: DeviceName
  readonly mode: Mode
  /** Threads of the device, where they are the host's (wasm). */
  readonly threads?: number
  readonly machine: MachineLimits
  readonly runs: number
  readonly fused: { readonly ms: number; readonly kernels: number; readonly bytes: number; readonly modelledMs: number }
  readonly unfused: { readonly ms: number; readonly kernels: number; readonly bytes: number }
  readonly speedup: number
  /** Modelled over measured time. */
  readonly modelOverMeasured: number
  readonly kernels: readonly MeasuredKernel[]
  /** Milliseconds of steps that are no kernels (copies, a user's kernels). */
  readonly otherMs: number
}

/** The name reports give control flow and library calls. */
const controlName = (s: ProgramStep): string | undefined =>
  s.kind === 'cond' || s.kind === 'while' || s.kind === 'loop' || s.kind === 'product' ? s.name : undefined

/** Milliseconds of each launch in one profiled run; `other` are steps outside launches. */
export function launchTimes(
  program: Program,
  times: readonly StepTime[],
): { byKernel: Map<string, number>; other: number } {
  const names = new Map<number, string>()
  for (const s of program.steps) if (s.kind === 'kernel' && s.stage === 'main') names.set(s.launch, s.kernel.name)
  const byKernel = new Map<string, number>()
  let other = 0
  for (const t of times) {
    const step = program.steps[t.step]
    const name = step === undefined ? undefined : step.kind === 'kernel' ? names.get(step.launch) : controlName(step)
    if (name === undefined) other += t.ms
    else byKernel.set(name, (byKernel.get(name) ?? 0) + t.ms)
  }
  return { byKernel, other }
}

function measuredKernel(k: KernelReport, ms: number, machine: MachineLimits): MeasuredKernel {
  const seconds = Math.max(ms, 1e-6) / 1e3
  const bandwidth = (k.bytesRead + k.bytesWritten) / seconds
  const flops = (k.flops + k.specialFunctions) / seconds
  return {
    name: k.name,
    kind: k.kind,
    operations: k.operations.map((o) => o.name),
    ms,
    modelledMs: k.modelledMs,
    bandwidth,
    bandwidthShare: bandwidth / machine.bandwidth,
    flops,
    flopsShare: flops / machine.flops,
  }
}

/** Runs two programs in turn until the time is over, at least `least` times each. */
export async function interleave(
  programs: readonly BoundProgram[],
  seconds: number,
  least: number,
  tick: (share: number) => void = () => {},
): Promise<number[][]> {
  for (const p of programs) for (let i = 0; i < 3; i++) await p.time()
  const times = programs.map((): number[] => [])
  const started = performance.now()
  for (let run = 0; ; run++) {
    const share = (performance.now() - started) / (seconds * 1e3)
    if (run >= least && share >= 1) return times
    tick(Math.min(1, share))
    for (const [i, p] of programs.entries()) times[i]?.push(await p.time())
  }
}

const fewestRuns = 5

/** Measures a model. */
export async function measureModel(path: string, options: BenchOptions, console: Console): Promise<BenchResult> {
  const model = await loadModel(path, parseInputs(options), console)
  const { tensors } = fillInputs(model, options.seed)
  const threads = options.device === 'wasm' ? { threads: options.threads ?? availableParallelism() } : {}
  const { index } = options
  const session = await Session.open(options.device, { ...threads, ...(index === undefined ? {} : { index }) })
  try {
    const { name, graph } = model
    const { mode } = options
    console.progress(`compiling ${name}, fused and unfused`)
    const fused = session.bind(graph, { name, mode }, tensors)
    const unfused = session.bind(graph, { name: `${name}_unfused`, mode, fuse: false }, tensors)
    console.progress('measuring what this machine can do')
    const machine = await measureMachine(session, console)
    const [fusedTimes = [], unfusedTimes = []] = await interleave(
      [fused, unfused],
      options.seconds * 0.7,
      fewestRuns,
      (share) => console.progress(`measuring ${name}, fused and unfused in turn: ${(share * 100).toFixed(0)}%`),
    )
    const profiles: ReturnType<typeof launchTimes>[] = []
    const until = performance.now() + options.seconds * 300
    while (profiles.length < fewestRuns || performance.now() < until) {
      console.progress(`measuring each kernel: run ${profiles.length + 1}`)
      profiles.push(launchTimes(fused.compiled.program, await fused.profile()))
    }
    console.progress(undefined)
    const { report } = fused.compiled
    const kernels = report.kernels
      .filter((k) => k.kind !== 'effect' && profiles.some((p) => p.byKernel.has(k.name)))
      .map((k) => measuredKernel(k, median(profiles.map((p) => p.byKernel.get(k.name) ?? 0)), machine))
    const ms = median(fusedTimes)
    const unfusedMs = median(unfusedTimes)
    const totalsOf = (r: typeof report) => ({ kernels: r.totals.kernels, bytes: r.totals.bytes })
    const result: BenchResult = {
      model: name,
      device: options.device,
      mode,
      ...threads,
      machine,
      runs: fusedTimes.length,
      fused: { ms, ...totalsOf(report), modelledMs: report.totals.modelledMs },
      unfused: { ms: unfusedMs, ...totalsOf(unfused.compiled.report) },
      speedup: unfusedMs / ms,
      modelOverMeasured: report.totals.modelledMs / ms,
      kernels,
      otherMs: median(profiles.map((p) => p.other)),
    }
    fused.dispose()
    unfused.dispose()
    return result
  } finally {
    session.close()
  }
}

const percent = (share: number): string => `${(share * 100).toFixed(0)}%`.padStart(5)
/** In units of 10^9, to two digits at least. */
const giga = (v: number): string =>
  (v >= 1e9 || v === 0 ? (v / 1e9).toFixed(v >= 1e10 ? 0 : 1) : String(Number((v / 1e9).toPrecision(2)))).padStart(5)

/** A name for a kernel: its operations, in at most `width` characters. */
export function kernelTitle(operations: readonly string[], fallback: string, width: number): string {
  const names = [...new Set(operations)].map((n) => {
    const count = operations.filter((o) => o === n).length
    return count > 1 ? `${n} x${count}` : n
  })
  const text = names.join(' + ') || fallback
  return text.length > width ? `${text.slice(0, width - 1)}…` : text
}

/** Prints a measurement. */
export function printBench(r: BenchResult, console: Console): void {
  console.line(
    `${bold(r.model)} on ${r.device}, ${r.threads === undefined ? '' : `${counted(r.threads, 'thread')}, `}${r.mode}; medians of ${r.runs} interleaved runs`,
  )
  console.line(
    `this machine, measured now on the same device: copy ${giga(r.machine.bandwidth).trim()} GB/s, matrix product ${giga(r.machine.flops).trim()} Gflop/s`,
  )
  console.line()
  console.line(dim(`  ${'kernel'.padEnd(38)}       ms   model     GB/s  of copy  Gflop/s  of peak`))
  for (const k of r.kernels)
    console.line(
      `  ${kernelTitle(k.operations, k.name, 38).padEnd(38)} ${showMs(k.ms).padStart(8)} ${showMs(k.modelledMs).padStart(7)}    ${giga(k.bandwidth)}    ${percent(k.bandwidthShare)}    ${giga(k.flops)}    ${percent(k.flopsShare)}`,
    )
  if (r.kernels.some((k) => k.bandwidthShare > 1))
    console.line(dim('  above 100% of copy: what the kernel reads is still in the processor caches'))
  if (r.otherMs > 0) console.line(`  ${'copies and user kernels'.padEnd(38)} ${showMs(r.otherMs).padStart(8)}`)
  console.line()
  console.line(
    `  fused    ${showMs(r.fused.ms).padStart(8)} ms  ${String(r.fused.kernels).padStart(4)} kernels  ${showBytes(r.fused.bytes)}`,
  )
  console.line(
    `  unfused  ${showMs(r.unfused.ms).padStart(8)} ms  ${String(r.unfused.kernels).padStart(4)} kernels  ${showBytes(r.unfused.bytes)}`,
  )
  console.line(bold(`  fusion is ${r.speedup.toFixed(2)}x as fast`))
  console.line(
    `  model ${showMs(r.fused.modelledMs)} ms${(r.threads ?? 1) > 1 ? ' on one thread' : ''} against ${showMs(r.fused.ms)} ms measured: ${r.modelOverMeasured >= 1 ? '+' : ''}${((r.modelOverMeasured - 1) * 100).toFixed(0)}%`,
  )
}

export async function benchCommand(path: string, options: BenchOptions, console: Console): Promise<number> {
  const result = await measureModel(path, options, console)
  if (options.json) printData(result, console)
  else printBench(result, console)
  return 0
}
