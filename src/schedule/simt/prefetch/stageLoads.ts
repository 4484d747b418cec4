/**
 * Loads ahead of a product in vectors, where nothing copies in the background: what its operands are computed from is loaded into registers a step of the
 * depth early, so that loads of both operands are on their way together while the step before is multiplied. A thread loads what it will write into the tiles.
 */
import type { LetStmt, LoopStmt, ValueId } from '../../../kernel/ir.ts'
import { allStmts } from '../../../kernel/walk.ts'
import { copyPlanOf, elementPlanOf, isEarly } from '../access/loads.ts'
import type { LoadedEarly, Place } from '../access/place.ts'
import { stageLayout } from '../layout/partLayout.ts'

/** Registers of results and loaded values up to which a multiprocessor has room for a second block, which multiplies while the first waits. */
const fewRegisters = 88
/** The same of loads that go element by element: in place each waits for the one before to be written into its tile, which takes longer than a block alone. */
const mostRegisters = 128
/** The same beside matrices of subgroups, which are read into registers too: two blocks have 256 each. */
const besideMatrices = 200

/** Loads that a loop makes a step early for its stages, under the layouts that those are filled by. */
export interface StageLoads {
  readonly of: readonly LoadedEarly[]
  /** Threads find what no step changes of their places before the loop: not where the registers for that would cost a second block its room. */
  readonly findsPlaces: boolean
  /** The product on matrices while which they are on their way: behind the writing of the tiles, so that words stand once. */
  readonly during?: ValueId
}

/** What a loop loads early for its stages; undefined where that is nothing, or more than registers hold. */
export function stageLoadsOf(at: Place, loop: LoopStmt): StageLoads | undefined {
  const { part, setting } = at
  if (setting.machine.hasAsyncCopy || !setting.loadsAhead || part.isChain) return undefined
  const stages = [...allStmts(loop.body)].flatMap((t) => (t.kind === 'let' && t.op.kind === 'stage' ? [t] : []))
  const dots = new Set(stages.map((l) => part.vectorsOn(l.id)?.product.dot))
  const [dot] = dots
  if (dot === undefined || dots.size > 1 || loop.body.some((t) => t.kind === 'loop')) return undefined
  const uses = usesOf(at, stages)
  const early = stages.flatMap((l): LoadedEarly[] => {
    const layout = stageLayout(part, l, setting.machine, at.layout.threads)
    if (!part.ownStages.has(l.id) || [...layout.axes.values()].some((a) => a.chunks > 1)) return []
    const inner = at.inside({ layout, open: new Set() })
    const loads = closureOf(at, l).flatMap((x) =>
      uses.get(x.id) === 1 && isEarly(at, loop.axis, x) ? (copyPlanOf(inner, x) ?? elementPlanOf(inner, x) ?? []) : [],
    )
    return loads.length === 0 ? [] : [{ layout, loads }]
  })
  const loads = early.flatMap((e) => e.loads)
  const results = at.registers(part.axesOf(dot))
  if (part.vectorProducts.get(dot)?.onMatrices) {
    const words = loads.reduce((n, x) => n + x.groups * x.words, 0)
    if (loads.length === 0 || results + words > besideMatrices) return undefined
    return { of: early, findsPlaces: false, during: dot }
  }
  // Values stand twice: those of this step, taken out of their words, and those of the next.
  const values = loads.reduce((n, x) => n + (x.groups * x.n) / (x.repeats ?? 1), 0)
  const registers = results + 2 * values
  const places = loads.reduce((n, x) => n + x.groups, 0)
  const most = loads.some((x) => x.n === 1) ? mostRegisters : fewRegisters
  if (loads.length === 0 || registers > most) return undefined
  return { of: early, findsPlaces: registers > fewRegisters || registers + places <= fewRegisters }
}

const closureOf = ({ part }: Place, { op }: LetStmt): readonly LetStmt[] =>
  op.kind === 'stage' ? part.closureOf([op.of]).lets : []

/** In how many places the values of some stages are computed. */
function usesOf(at: Place, stages: readonly LetStmt[]): ReadonlyMap<ValueId, number> {
  const out = new Map<ValueId, number>()
  for (const l of stages)
    for (const x of closureOf(at, l)) out.set(x.id, (out.get(x.id) ?? (at.part.isMain(x.id) ? 1 : 0)) + 1)
  return out
}
