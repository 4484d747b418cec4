/** One program measured: fused and unfused in interleaved rounds, its results compared, its kernels against the model. */
import { UserError } from '../../src/diagnostics/errors.ts'
import type { Graph } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { formatReport } from '../../src/report/format.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { type Bound, bindGraph } from './bind.ts'
import { differ } from './check.ts'
import { dataOf } from './data.ts'
import { type Floor, floorOf } from './floor.ts'
import type { Machine } from './machine.ts'
import { type CliffProgram, graphOf } from './programs.ts'
import type { Rates } from './rates.ts'
import { median, middleMean } from './stats.ts'

export interface KernelRow {
  readonly name: string
  readonly kind: string
  /** By the planner, from the kernel's body. */
  readonly modelledSeconds: number
  /** By its loop schedule; on GPUs there is none. */
  readonly scheduledSeconds?: number
  readonly seconds: number
}

export interface Row {
  readonly seed: number
  readonly kind: string
  readonly inputs: readonly string[]
  readonly floor: Floor
  readonly seconds: number
  readonly unfusedSeconds: number
  readonly rounds: number
  readonly compileSeconds: number
  readonly unfusedCompileSeconds: number
  readonly modelledSeconds: number
  readonly launches: number
  readonly unfusedLaunches: number
  readonly kernels: readonly KernelRow[]
  /** What is wrong with the fused results. */
  readonly wrong?: string
  readonly source: string
  readonly report: string
}

/** A program that a device refuses, or that failed. */
export interface Failure {
  readonly seed: number
  readonly kind: string
  readonly refused: boolean
  readonly message: string
  readonly source: string
}

/**
 * Results that differ by more than rounding does (the same in the unfused program when its inputs move by a roundoff) and, more than one in 100,000 of
 * them, from the exact ones: fusion leaves roundings out after which other operations give zeros.
 */
async function wrongness(p: CliffProgram, graph: Graph, fused: Bound, unfused: Bound): Promise<string | undefined> {
  const dtypes = new Set(nodesOf(graph).map((n) => n.dtype))
  const narrowest: DType = dtypes.has('bf16') ? 'bf16' : dtypes.has('f16') ? 'f16' : 'f32'
  const [got, want] = [await fused.results(), await unfused.results()]
  const of = graph.outputs.map((n, i) =>
    differ(got[i] ?? new Uint8Array(), want[i] ?? new Uint8Array(), n.dtype, narrowest),
  )
  if (of.every((d) => d.count === 0)) return undefined
  unfused.write(p.inputs.map((x, i) => dataOf(x, i + 1, narrowest)))
  const moved = await unfused.results()
  unfused.write(p.inputs.map((x, i) => dataOf(x, i + 1)))
  let exact: readonly HostArray[] | undefined
  const found = graph.outputs.flatMap((n, i) => {
    const d = of[i]
    if (d === undefined || d.count === 0) return []
    const noise = differ(moved[i] ?? new Uint8Array(), want[i] ?? new Uint8Array(), n.dtype, narrowest)
    if (d.count <= 4 * noise.count) return []
    exact ??= evaluateGraph(
      graph,
      p.inputs.map((x, k) => dataOf(x, k + 1)),
    ).map(toHostArray)
    const fromExact = differ(got[i] ?? new Uint8Array(), exact[i] ?? new Uint8Array(), n.dtype, narrowest)
    if (fromExact.count <= 1e-5 * sizeOf(n.shape)) return []
    const { first } = d
    const where = first === undefined ? '' : `, the first at ${first.index}: ${first.got}, not ${first.want}`
    return [`result ${i} (${n.dtype}[${n.shape}]): ${d.count} elements differ${where}; ${noise.count} by rounding`]
  })
  return found.length === 0 ? undefined : found.join('; ')
}

/** Calls of a program that take about as long as one timing should. */
async function callsOf(machine: Machine, bound: Bound): Promise<number> {
  let calls = 1
  for (;;) {
    const seconds = (await bound.seconds(calls)) * calls
    if (seconds * 1e3 >= machine.batchMs || calls >= 1 << 16) return calls
    calls = Math.max(
      2 * calls,
      Math.min(1 << 16, Math.ceil((calls * machine.batchMs) / 1.5e3 / Math.max(seconds, 1e-7))),
    )
  }
}

/** Seconds of a call of each in rounds, one after the other in each. */
export async function interleaved(
  machine: Machine,
  list: readonly Bound[],
  { least, most, seconds }: { readonly least: number; readonly most: number; readonly seconds: number },
): Promise<number[][]> {
  // Twice before: code of the engine is replaced by better while it runs.
  for (const b of list) for (let i = 0; i < 2; i++) await b.seconds(1)
  const calls: number[] = []
  for (const b of list) calls.push(await callsOf(machine, b))
  const times = list.map((): number[] => [])
  const start = performance.now()
  for (let round = 0; round < most && (round < least || performance.now() - start < seconds * 1e3); round++)
    for (const [i, b] of list.entries()) times[i]?.push(await b.seconds(calls[i] ?? 1))
  return times
}

/** Profiles of a program: so many at least and at most, within so many milliseconds. */
const profiled = { least: 6, most: 400, ms: 100 }

/** Modelled and measured time of the kernels that take long enough to be timed one by one. */
async function kernelRows(bound: Bound, { readingSeconds }: Machine): Promise<KernelRow[]> {
  const profiles: ReadonlyMap<string, number>[] = []
  await bound.kernelTimes()
  const start = performance.now()
  while (
    profiles.length < profiled.least ||
    (profiles.length < profiled.most && performance.now() - start < profiled.ms)
  )
    profiles.push(await bound.kernelTimes())
  return bound.report.kernels.flatMap((k) => {
    const times = profiles.flatMap((p) => p.get(k.name) ?? [])
    // The mean of the middle half: a clock may count in steps that are a fifth of a kernel.
    const seconds = middleMean(times) / 1e3 - readingSeconds
    if (times.length === 0 || !(seconds >= 5e-6)) return []
    const scheduledSeconds = bound.scheduled.get(k.name)
    return [
      {
        name: k.name,
        kind: k.kind,
        modelledSeconds: bound.planned.get(k.name) ?? k.modelledMs / 1e3,
        ...(scheduledSeconds === undefined ? {} : { scheduledSeconds }),
        seconds,
      },
    ]
  })
}

export interface Limits {
  readonly least: number
  readonly most: number
  readonly seconds: number
}

/** Binds a program fused and unfused, and runs `body`. */
export async function withBound<R>(
  machine: Machine,
  p: CliffProgram,
  body: (fused: Bound, unfused: Bound, graph: Graph) => Promise<R>,
): Promise<R> {
  const graph = graphOf(p)
  const data = p.inputs.map((x, i) => dataOf(x, i + 1))
  const fused = bindGraph(machine, graph, data)
  try {
    const unfused = bindGraph(machine, graph, data, false)
    try {
      return await body(fused, unfused, graph)
    } finally {
      unfused.dispose()
    }
  } finally {
    fused.dispose()
  }
}

/** Measures a program. */
export async function measureProgram(
  machine: Machine,
  rates: Rates,
  p: CliffProgram,
  limits: Limits,
): Promise<Row | Failure> {
  try {
    return await withBound(machine, p, async (fused, unfused, graph): Promise<Row> => {
      const wrong = await wrongness(p, graph, fused, unfused)
      const [times = [], unfusedTimes = []] = await interleaved(machine, [fused, unfused], limits)
      return {
        seed: p.seed,
        kind: p.kind,
        inputs: p.inputs.map((x) => `${x.dtype}[${x.shape}]`),
        floor: floorOf(graph, rates),
        seconds: median(times),
        unfusedSeconds: median(unfusedTimes),
        rounds: times.length,
        compileSeconds: fused.compileSeconds,
        unfusedCompileSeconds: unfused.compileSeconds,
        modelledSeconds: fused.report.totals.modelledMs / 1e3,
        launches: fused.report.totals.kernels,
        unfusedLaunches: unfused.report.totals.kernels,
        kernels: await kernelRows(fused, machine),
        ...(wrong === undefined ? {} : { wrong }),
        source: p.source,
        report: formatReport(fused.report),
      }
    })
  } catch (error) {
    // What a device cannot run at all is no fault of a program.
    const refused = error instanceof UserError && ['E_UNSUPPORTED', 'E_DEVICE', 'E_DTYPE'].includes(error.code)
    const message =
      error instanceof Error ? (error.stack ?? error.message).split('\n').slice(0, 6).join('\n') : String(error)
    return { seed: p.seed, kind: p.kind, refused, message, source: p.source }
  }
}
