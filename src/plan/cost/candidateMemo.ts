/**
 * Candidates remembered: what a region would be as a kernel. Planning asks for the same regions again, for other reasons and, with
 * copies of what the backward pass computes again, for a graph that is the same in most places; and programs repeat themselves,
 * layer by layer and step by step. Regions of one form, whatever their nodes, are one kernel.
 */
import type { Node } from '../../graph/node.ts'
import { stillCompiling } from '../../host/engine.ts'
import type { Body, BodyTensor } from '../body/body.ts'
import { Forms } from '../body/forms.ts'
import type { Region } from '../body/region.ts'
import type { StoredForms } from '../body/stored.ts'
import type { KernelGroup, PlanningWork } from '../plan.ts'
import type { Refused } from '../refusal.ts'

/** What a region is as a kernel. */
export type Made = Omit<KernelGroup, 'kind' | 'members' | 'outputs'>

export type Outcome = ({ readonly ok: true } & Made) | Refused

/** Statements of remembered bodies, together at most. */
const mostStatements = 1 << 18

/** An outcome, and the nodes of its region in the order of its form. */
interface Remembered {
  readonly outcome: Outcome
  readonly nodes: readonly Node[]
  /** Where in `nodes` each stands, once that is asked for. */
  places?: ReadonlyMap<Node, number>
}

/** Seconds of the schedules of a kernel. */
export type PriceOf = (made: Made) => number

const keyOf = ({ single }: { readonly single: boolean }, form: string): string => (single ? `single ${form}` : form)

/** Outcomes of trials on one target in one mode. */
export class CandidateMemo {
  /** Undefined where the machine's schedules have no price. */
  readonly priceOf: PriceOf | undefined
  private readonly outcomes = new Map<string, Remembered>()
  private readonly forms = new Forms()
  private remembered = 0
  private trials = 0
  private built = 0
  private statements = 0

  constructor(priceOf?: PriceOf) {
    this.priceOf = priceOf
  }

  /** The outcome for a region (`single`: one without limits), remembered or from `build`. The formats of what it touches follow from `storable`. */
  of(region: Region & { readonly single: boolean }, storable: StoredForms, build: () => Outcome): Outcome {
    this.trials++
    const form = this.forms.of(region, storable)
    const key = keyOf(region, form.key)
    const have = this.outcomes.get(key)
    if (have !== undefined) return have.outcome.ok ? renamed(have.outcome, have, form.nodes) : have.outcome
    stillCompiling()
    const outcome = build()
    const statements = outcome.ok ? outcome.body.lets.length : region.members.size
    this.built++
    this.statements += statements
    if (this.remembered + statements <= mostStatements) {
      this.remembered += statements
      this.outcomes.set(key, { outcome, nodes: form.nodes })
    }
    return outcome
  }

  /** The outcome for a region, where it is remembered. */
  known(region: Region & { readonly single: boolean }, storable: StoredForms): Outcome | undefined {
    const form = this.forms.of(region, storable)
    const have = this.outcomes.get(keyOf(region, form.key))
    return have?.outcome.ok ? renamed(have.outcome, have, form.nodes) : have?.outcome
  }

  get work(): Omit<PlanningWork, 'visited'> {
    const { trials, built, statements } = this
    return { trials, built, statements }
  }
}

/** An outcome in the nodes of another region of the same form. */
function renamed(
  made: { readonly ok: true } & Made,
  from: Remembered,
  to: readonly Node[],
): { readonly ok: true } & Made {
  if (from.nodes.every((n, i) => n === to[i])) return made
  const at = (n: Node): Node => {
    from.places ??= new Map(from.nodes.map((n, i) => [n, i]))
    return to[from.places.get(n) ?? -1] ?? n
  }
  const tensor = <T extends BodyTensor>(t: T): T => ({ ...t, node: at(t.node) })
  const origins = new Map<Body['origin'], Body['origin']>()
  const originOf = (b: Body): Body['origin'] => {
    const origin = origins.get(b.origin) ?? new Map([...b.origin].map(([id, n]) => [id, at(n)]))
    origins.set(b.origin, origin)
    return origin
  }
  // Of most trials nobody asks which nodes they load, store or compute.
  const body = (b: Body): Body => {
    let loads: Body['loads'] | undefined
    let stores: Body['stores'] | undefined
    return {
      axes: b.axes,
      lets: b.lets,
      get loads() {
        loads ??= new Map([...b.loads].map(([name, t]) => [name, tensor(t)]))
        return loads
      },
      get stores() {
        stores ??= b.stores.map(tensor)
        return stores
      },
      get origin() {
        return originOf(b)
      },
    }
  }
  const whole = body(made.body)
  return { ...made, body: whole, segments: made.segments.map((s) => (s === made.body ? whole : body(s))) }
}
