/** What a region would be as a kernel on a target: its body, the roles of its axes and its cost, or why it is none. */
import type { NumericsMode } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { analyse, uncutRoles } from '../axes/analyse.ts'
import { foreseen } from '../axes/foreseen.ts'
import { plannedBody } from '../axes/plannedBody.ts'
import type { Roles } from '../axes/roles.ts'
import type { Body } from '../body/body.ts'
import { type BodyOptions, buildBody } from '../body/buildBody.ts'
import { longestAxis } from '../body/collapse.ts'
import type { Region } from '../body/region.ts'
import { isSameBody } from '../body/sameBody.ts'
import { interleaves, partsOf, segmentsOf } from '../body/segments.ts'
import { type StoredForms, withRows } from '../body/stored.ts'
import type { CandidateMemo, Made, Outcome } from '../cost/candidateMemo.ts'
import { costOf } from '../cost/cost.ts'
import { withFormats } from '../cost/formats.ts'
import { withLibrary } from '../cost/library.ts'

/** A target that refuses nothing for its size, or for what an operation alone asks for. */
const unlimited = ({ undivided: _, ...target }: Machine): Machine => ({
  ...target,
  maxBuffers: Infinity,
  maxStatements: Infinity,
  rowBytes: Infinity,
})

/** Less time; or as much with less arithmetic under it, or with neighbours in one program that are in several of the other's. */
function isCheaper(a: Made, b: Made): boolean {
  if (a.cost.seconds !== b.cost.seconds) return a.cost.seconds < b.cost.seconds
  return a.cost.compute < b.cost.compute || (a.segments.length < b.segments.length && interleaves(a.body))
}

/** What whole reductions must leave of the seconds of cut ones: few programs may be slower than modelled, a launch is all that they save. */
const uncutGain = 0.9

/** A number that is found when it is first asked for. */
function once(find: () => number): () => number {
  let found: number | undefined
  return () => {
    found ??= find()
    return found
  }
}

export class Candidates {
  private readonly target: Machine
  private readonly mode: NumericsMode
  private readonly storable: StoredForms
  private readonly trials: CandidateMemo

  /** `storable`: how nodes stand in memory if they are stored. Outcomes are remembered in `trials`. */
  constructor(target: Machine, mode: NumericsMode, storable: StoredForms, trials: CandidateMemo) {
    this.target = target
    this.mode = mode
    this.storable = storable
    this.trials = trials
  }

  /** What a region is as a kernel; `single`: it need not be less than what the target has room for. */
  of(region: Region, single = false): Outcome {
    const build = (): Outcome => this.build(region, single ? unlimited(this.target) : this.target)
    return this.trials.of({ ...region, single }, this.storable, build)
  }

  /** The same, where that is remembered. */
  known(region: Region): Outcome | undefined {
    return this.trials.known({ ...region, single: false }, this.storable)
  }

  /** Whether the schedules of kernels have a price. */
  get isPriced(): boolean {
    return this.trials.priceOf !== undefined
  }

  private build(region: Region, limits: Machine): Outcome {
    const certain = foreseen(region, limits)
    if (certain !== undefined) return certain
    const { mode } = this
    const common = { mode, most: limits.maxStatements, isInside: this.target.undivided !== undefined }
    const kernelOf = (built: ReturnType<typeof buildBody>): Outcome =>
      built.ok ? this.kernelOf(built.body, limits) : built
    const whole = buildBody(region, common)
    let made = kernelOf(whole)
    const tryOther = (options: BodyOptions): boolean => {
      const built = buildBody(region, { ...common, ...options })
      // Pieces and axes that come to nothing leave the very body.
      if (whole.ok && built.ok && isSameBody(whole.body, built.body)) return false
      const other = kernelOf(built)
      const isBetter = other.ok && (!made.ok || isCheaper(other, made))
      if (isBetter) made = other
      return isBetter
    }
    // Unrelated dimensions of equal extents share an axis, unless only axes of their own are a kernel.
    const untied = whole.ties && !made.ok && tryOther({ untied: true })
    // Digits that count beyond a result cost the points that stand there: only where there is no kernel without.
    if (whole.overhangs && !made.ok) tryOther({ untied, overhang: true })
    // Where a kernel joins or reads pieces, its results may be better bound range by range.
    if (whole.branches) tryOther({ untied, inPieces: true })
    return made
  }

  private kernelOf(built: Body, limits: Machine): Outcome {
    const { apart: collapsed, body: joined } = plannedBody(withRows(built, this.storable.rows), this.target, this.mode)
    const body = withFormats(joined, this.storable.bits)
    const analysed = analyse(body, limits, this.mode)
    if (!analysed.ok) return analysed
    const roles = this.quickerRoles(body, analysed.roles, limits)
    const cut = body.stores.some((s) => s.pieces !== undefined)
    const segments =
      roles.kind !== 'elementwise' ? [body] : cut ? partsOf(body) : segmentsOf(body, longestAxis(this.target))
    const cost = costOf(body, segments, roles, this.target)
    const made = { ok: true, body, segments, roles, cost } as const
    const { priceOf } = this.trials
    const priced = priceOf === undefined ? made : { ...made, scheduled: once(() => priceOf(made)) }
    return withLibrary(priced, collapsed, this.target, this.mode)
  }

  /** Reductions that were cut along an axis stay whole where their finishing stage costs more than it brings. */
  private quickerRoles(body: Body, roles: Roles, limits: Machine): Roles {
    if (this.target.stageLaunch === undefined || roles.kind !== 'reduction' || typeof roles.splitBy !== 'object')
      return roles
    const uncut = uncutRoles(body, limits, this.mode)
    const seconds = (r: Roles): number => costOf(body, [body], r, this.target).seconds
    return uncut !== undefined && seconds(uncut) < uncutGain * seconds(roles) ? uncut : roles
  }
}
