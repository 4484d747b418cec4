/**
 * The programs of one function whose dimensions vary: templates, each of which serves a range of extents, and programs of their own for
 * extents that no template serves. A template serves extents where the function, traced there, is what the template says (docs/open.md); parts of
 * its range may have kernels of their own.
 */

import { Misaligned } from '../../compile/open/align.ts'
import { primeAbove, primeBelow, samplesOf } from '../../compile/open/samples.ts'
import { traceTemplate } from '../../compile/open/traceTemplate.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { keepingViews } from '../../graph/build.ts'
import type { Graph } from '../../graph/node.ts'
import { nodesOf } from '../../graph/traverse.ts'
import type { FusionReport } from '../../report/data.ts'
import type { DeviceBuffer } from '../../runtime/backend.ts'
import { type Extents, formulaAt, type LaunchNumbers, realAt } from '../../runtime/extents.ts'
import { toHost } from '../../scalar/host.ts'
import { cutInTwo, cutRanges } from './cutRanges.ts'
import type { Compiled, CompileRequest, Device } from './device.ts'
import {
  dropEnd,
  holds,
  type OpenRange,
  outOfMemory,
  reasonOf,
  type Schedule,
  type Template,
  withoutNumbers,
} from './openTemplate.ts'

/** A dimension as its user declares it; without `most` programs are made for ranges that double. */
export interface DeclaredDimension {
  readonly name: string
  readonly least: number
  readonly most: number | undefined
  /** The end of its first range, where it has no bound. */
  readonly first?: number
}

/** Templates of one function, at most. */
const mostTemplates = 8

/** Extents at which a template of some dimensions is looked for in vain before it is not looked for any more. */
const mostRefusals = 2

/** Dimensions whose ends are chosen each for itself. */
const mostCombined = 2

/** The first range of a dimension without a bound. */
const firstRange = 256

/** What a range begins with, if a program serves it all; else as parts of its end. */
const beginnings = [2, 3, 5] as const
const laterBeginnings = [1 / 16, 1 / 4] as const

/** Bytes of constants that programs may have of which there are several. */
const mostRepeated = 32 << 20

/** A program for extents, and what was traced there. */
export interface Served<T> {
  readonly compiled: Compiled
  readonly traced: T
  /** Why it is a program of its own; undefined: a template serves it. */
  readonly reason: string | undefined
}

export class OpenPrograms<T extends { readonly graph: Graph }> {
  readonly dimensions: readonly DeclaredDimension[]
  private readonly device: Device
  private readonly request: (traced: T) => CompileRequest
  private readonly trace: (at: Extents) => T
  private readonly templates: Template[] = []
  /** By the dimensions that were to be open: how often no template was found, and why the last time. */
  private readonly refused = new Map<string, { readonly times: number; readonly reason: string }>()

  /** `trace` gives what the function is at some extents of the dimensions; it may throw where it is defined at fewer. */
  constructor(
    device: Device,
    dimensions: readonly DeclaredDimension[],
    trace: (at: Extents) => T,
    request: (traced: T) => CompileRequest,
  ) {
    this.device = device
    this.dimensions = dimensions
    this.trace = (at) => keepingViews(() => trace(at))
    this.request = request
  }

  /** Programs that serve ranges. */
  get count(): number {
    return this.templates.length
  }

  /** A program for some extents. Its `dispose` gives back what it holds besides its template. Throws what tracing and compiling throw. */
  at(at: Extents): Served<T> {
    const traced = this.trace(at)
    const { compileOpen } = this.device
    if (compileOpen === undefined)
      return this.closed(traced, `the device ${this.device.name} compiles a program for each shape`)
    const have = this.find(at, traced)
    const reason = typeof have === 'object' ? undefined : this.make(at, traced)
    const made = typeof have === 'object' ? have : reason === undefined ? this.find(at, traced) : reason
    if (typeof made !== 'object') return this.closed(traced, made ?? (typeof have === 'string' ? have : ''))
    try {
      return this.served(made, at, traced)
    } catch (error) {
      return this.closed(traced, reasonOf(error))
    }
  }

  dispose(): void {
    for (const t of this.templates.splice(0)) for (const s of t.schedules) s.compiled?.dispose()
  }

  private closed(traced: T, reason: string): Served<T> {
    const compiled = this.device.compile(traced.graph, this.request(traced))
    const { report } = compiled
    const told: FusionReport | undefined = report === undefined ? undefined : { ...report, closed: reason }
    return { compiled: withReport(compiled, told), traced, reason }
  }

  /** The template that serves some extents, or why none does; undefined where none is for them. */
  private find(at: Extents, { graph }: T): Template | string | undefined {
    let reason: string | undefined
    for (const t of this.templates) {
      if (!t.ranges.every(({ least, most }, i) => least <= (at[i] ?? 0) && (at[i] ?? 0) <= most)) continue
      reason = t.trace.mismatch(
        graph,
        t.open.map((i) => at[i] ?? 0),
      )
      if (reason === undefined) return t
    }
    return reason
  }

  /** Makes a template whose range holds some extents, or says why there is none. */
  private make(at: Extents, traced: T): string | undefined {
    if (this.templates.length >= mostTemplates) return `${mostTemplates} programs serve other extents`
    const taken = numbersIn(traced.graph)
    const isOpen = (i: number): boolean => (at[i] ?? 0) > 1
    const open = this.dimensions.flatMap((_, i) => (isOpen(i) ? [i] : []))
    if (open.length === 0) return 'all its dimensions are 1 or 0'
    const tried = this.refused.get(open.join())
    if (tried !== undefined && tried.times >= mostRefusals) return tried.reason
    let reason = ''
    /** Ends and beginnings at which the instances were not alike. */
    const failed = { ends: new Set<string>(), beginnings: new Set<string>() }
    for (const ranges of this.attempts(at, open, taken)) {
      const key = (end: 'lo' | 'hi'): string => ranges.map((r) => `${r.dimension}:${r[end]}`).join()
      if (ranges.length === 0 || failed.ends.has(key('hi')) || failed.beginnings.has(key('lo'))) continue
      const made = this.attempt(at, ranges, taken)
      if ('template' in made) {
        this.templates.push(made.template)
        return undefined
      }
      if (made.at === 'end') failed.ends.add(key('hi'))
      if (made.at === 'beginning') failed.beginnings.add(key('lo'))
      // Numbers aside, the same at another end: it is no matter of where ranges end.
      if (made.at === undefined && withoutNumbers(made.reason) === withoutNumbers(reason))
        failed.beginnings.add(key('lo'))
      reason = made.reason
    }
    this.refused.set(open.join(), { times: (tried?.times ?? 0) + 1, reason })
    return reason
  }

  /** Ranges to try, the widest first. Dimensions whose value is behind the end of a range are closed. */
  private *attempts(at: Extents, open: readonly number[], taken: ReadonlySet<number>): Generator<OpenRange[]> {
    const used = new Set(taken)
    /** Of each dimension, ends to try: a prime behind its range, its range's, a prime inside. */
    const ends = open.map((i) => {
      const top = this.top(i, at[i] ?? 0)
      const found = [primeAbove(top, used), top, primeBelow(top, used)]
      for (const n of found) used.add(n)
      return found
    })
    const starts = [
      ...beginnings.map((n) => (_: number, k: number) => n + (n > 2 ? 2 * k : 0)),
      ...laterBeginnings.map((share) => (hi: number) => Math.floor(hi * share)),
    ]
    for (const start of starts)
      for (const his of combinations(ends))
        yield open.flatMap((dimension, k): OpenRange[] => {
          const value = at[dimension] ?? 0
          const { name = '', least = 0 } = this.dimensions[dimension] ?? {}
          const hi = his[k] ?? value
          if (value > hi) return []
          const lo = Math.min(value, Math.max(2, least, start(hi, k)))
          return lo === hi ? [] : [{ dimension, name, lo, hi }]
        })
  }

  /** The end of the range of a dimension that holds a value. */
  private top(i: number, value: number): number {
    const most = this.dimensions[i]?.most
    if (most !== undefined) return most
    let top = this.dimensions[i]?.first ?? firstRange
    while (top < value) top *= 2
    return top
  }

  private attempt(
    at: Extents,
    ranges: readonly OpenRange[],
    taken: ReadonlySet<number>,
  ): { readonly template: Template } | { readonly reason: string; readonly at: 'end' | 'beginning' | undefined } {
    const open = ranges.map((r) => r.dimension)
    let samples: readonly Extents[] = []
    let tracing = -1
    const traces = new Map<string, Graph>()
    const graphAt = (s: Extents, n: number): Graph => {
      tracing = n
      const graph = traces.get(s.join()) ?? this.trace(withExtents(at, ranges, s)).graph
      traces.set(s.join(), graph)
      tracing = -1
      return graph
    }
    try {
      const { trace, dimensions } = traceTemplate(ranges, taken, (these) => {
        samples = these
        return these.map(graphAt)
      })
      const schedules = this.schedules(at, ranges, taken, trace.divisor)
      const own = at.map((value) => ({ least: value, most: value }))
      open.forEach((i, k) => {
        const d = dimensions[k]
        if (d !== undefined) own[i] = { least: d.least, most: d.most }
      })
      return { template: { schedules, calls: 0, trace, ranges: own, open } }
    } catch (error) {
      const reason = reasonOf(error)
      const sample = samples[error instanceof Misaligned ? error.sample : tracing]
      const isAt = (end: 'lo' | 'hi'): boolean => sample?.every((n, k) => n === ranges[k]?.[end]) === true
      return { reason, at: isAt('hi') ? 'end' : isAt('lo') ? 'beginning' : undefined }
    }
  }

  /** A program for a range of some dimensions, the others as they are in `at`. */
  private program(at: Extents, ranges: readonly OpenRange[], taken: ReadonlySet<number>, divisor: number): Compiled {
    const { compileOpen } = this.device
    invariant(compileOpen !== undefined, 'a device without open programs')
    const { samples, dimensions } = samplesOf(ranges, taken, divisor > 1 ? 'both' : 'primes', divisor)
    const traces = samples.map((s) => this.trace(withExtents(at, ranges, s)))
    const [first] = traces
    invariant(first !== undefined, 'no samples')
    const [near, most, ...others] = samples.map((s, i) => ({ at: s, graph: traces[i]?.graph ?? first.graph }))
    invariant(near !== undefined && most !== undefined, 'too few samples')
    const request = this.request(first)
    try {
      return compileOpen([near, most, ...others], dimensions, request)
    } catch (error) {
      reasonOf(error)
      if (outOfMemory(error)) throw error
      // What is planned near the greatest extents may not hold at them: what is planned there holds below.
      try {
        return compileOpen([most, near, ...others], dimensions, request)
      } catch {
        throw error
      }
    }
  }

  /** The parts of a range, that of some extents compiled; the range as a whole where it cannot be cut. Throws what compiling throws. */
  private schedules(
    at: Extents,
    ranges: readonly OpenRange[],
    taken: ReadonlySet<number>,
    divisor: number,
  ): readonly Schedule[] {
    const cut = cutRanges(ranges, taken)
    const parts = (cut?.parts ?? []).map(
      (part): Schedule => ({
        ranges: ranges.map((r, i) => (i === cut?.range ? { ...r, ...part } : r)),
        compiled: undefined,
      }),
    )
    if (parts.length === 0) return this.fitting([{ ranges, compiled: undefined }], at, taken, divisor)
    let fitting: readonly Schedule[]
    try {
      fitting = this.fitting(parts, at, taken, divisor)
    } catch (error) {
      reasonOf(error)
      return [this.whole(at, ranges, taken, divisor)]
    }
    const own = fitting.find((p) => holds(p, at))?.compiled
    if (own === undefined || constantBytes(own) <= mostRepeated) return fitting
    own.dispose()
    return [this.whole(at, ranges, taken, divisor)]
  }

  /**
   * Parts of a range, that of some extents compiled: cut in two as long as the program of its greatest extents takes more memory than there may be; without a
   * program where it cannot be cut. Throws what else compiling throws.
   */
  private fitting(
    parts: readonly Schedule[],
    at: Extents,
    taken: ReadonlySet<number>,
    divisor: number,
  ): readonly Schedule[] {
    let fitting = parts
    for (;;) {
      const own = fitting.find((p) => holds(p, at))
      if (own === undefined) return fitting
      try {
        if (own.refused === undefined) own.compiled ??= this.program(at, own.ranges, taken, divisor)
      } catch (error) {
        own.refused = outOfMemory(error)
        if (own.refused === undefined) throw error
      }
      const cut = own.refused === undefined ? undefined : cutInTwo(own.ranges, fitting.length, taken)
      if (cut === undefined) return fitting
      const two = cut.parts.map(
        (part): Schedule => ({
          ranges: own.ranges.map((r, i) => (i === cut.range ? { ...r, ...part } : r)),
          compiled: undefined,
        }),
      )
      fitting = fitting.flatMap((p) => (p === own ? two : [p]))
    }
  }

  private whole(at: Extents, ranges: readonly OpenRange[], taken: ReadonlySet<number>, divisor: number): Schedule {
    return { ranges, compiled: this.program(at, ranges, taken, divisor) }
  }

  /** The program of a template for some extents. Where all bounds are known, all its programs are made by the second call. */
  private scheduled(t: Template, at: Extents, { graph }: T): Compiled {
    const isBound = t.open.every((i) => this.dimensions[i]?.most !== undefined)
    const taken = numbersIn(graph)
    const isSecond = ++t.calls === 2
    const own = t.schedules.find((s) => holds(s, at))
    if (isBound && isSecond)
      for (const s of t.schedules.filter((s) => s !== own && s.refused === undefined))
        try {
          s.compiled ??= this.program(at, s.ranges, taken, t.trace.divisor)
        } catch (error) {
          reasonOf(error)
          const refused = outOfMemory(error)
          if (refused === undefined) dropEnd(t, s)
          else s.refused = refused
        }
    try {
      t.schedules = this.fitting(t.schedules, at, taken, t.trace.divisor)
    } catch (error) {
      reasonOf(error)
      // A part that has no program: one program serves them all.
      const [first, last] = [t.schedules[0], t.schedules.at(-1)]
      const ranges = (first?.ranges ?? []).map((r, i) => ({ ...r, hi: last?.ranges[i]?.hi ?? r.hi }))
      // Calls that were served keep theirs.
      t.schedules = [
        this.whole(at, ranges, taken, t.trace.divisor),
        ...t.schedules.filter((s) => s.compiled !== undefined),
      ]
    }
    const { compiled, refused } = t.schedules.find((s) => holds(s, at)) ?? {}
    if (refused !== undefined) throw refused
    invariant(compiled !== undefined, 'extents of a template that no part of it holds')
    return compiled
  }

  private served(t: Template, at: Extents, traced: T): Served<T> {
    const values = t.open.map((i) => at[i] ?? 0)
    const compiled = this.scheduled(t, at, traced)
    const { device } = this
    let numbers: DeviceBuffer[] | undefined
    const served: Compiled = {
      run: (inputs) => {
        numbers ??= (compiled.program?.open?.numbers ?? []).map((n) => device.upload(numbersAt(n, values)))
        return compiled.run([...inputs, ...numbers], values)
      },
      get hasBegun() {
        return compiled.hasBegun
      },
      report: compiled.report,
      program: compiled.program,
      get residentBytes() {
        return compiled.residentBytes
      },
      dispose: () => {
        for (const b of numbers ?? []) device.free(b)
        numbers = undefined
      },
    }
    return { compiled: served, traced, reason: undefined }
  }
}

const constantBytes = ({ program }: Compiled): number =>
  (program?.buffers ?? []).reduce((n, b) => (b.source.kind === 'constant' ? n + b.bytes : n), 0)

/** The extents of a graph, and the numbers that literals of it repeat: what samples had better be none of. */
const numbersIn = (graph: Graph): ReadonlySet<number> =>
  new Set(nodesOf(graph).flatMap((n) => (n.op === 'full' ? [...n.shape, Number(n.attrs.value)] : n.shape)))

/** Extents with those of a sample in the place of the ranges'. */
function withExtents(at: Extents, ranges: readonly OpenRange[], sample: Extents): Extents {
  const whole = [...at]
  ranges.forEach(({ dimension }, k) => {
    whole[dimension] = sample[k] ?? 0
  })
  return whole
}

/** One choice of each list, those of first choices first; of many lists, the same choice of all. */
function combinations(lists: readonly (readonly number[])[]): readonly (readonly number[])[] {
  const choices = [0, 1, 2]
  if (lists.length > mostCombined) return choices.map((c) => lists.map((list) => list[c] ?? 0))
  let all: readonly { readonly values: readonly number[]; readonly rank: number }[] = [{ values: [], rank: 0 }]
  for (const list of lists)
    all = all.flatMap(({ values, rank }) => list.map((n, c) => ({ values: [...values, n], rank: rank + c })))
  return [...all].sort((a, b) => a.rank - b.rank).map(({ values }) => values)
}

/** What a launch at some extents hands over. */
const numbersAt = (n: LaunchNumbers, at: Extents) =>
  toHost('formulas' in n ? n.formulas.map((f) => formulaAt(f, at)) : n.reals.map((f) => realAt(f, at)), n.dtype)

const withReport = (compiled: Compiled, report: FusionReport | undefined): Compiled => ({
  run: (inputs) => compiled.run(inputs),
  get hasBegun() {
    return compiled.hasBegun
  },
  report,
  program: compiled.program,
  get residentBytes() {
    return compiled.residentBytes
  },
  dispose: () => compiled.dispose(),
})
