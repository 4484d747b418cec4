/**
 * A plan made at one sample of the dimensions, carried over to the others node by node, and opened: each kernel's body is built at every
 * sample from the same nodes, and what they have in common is the body of the open kernel. Grids, cuts and blocks are then chosen once, for
 * the most that extents may be.
 */

import { InternalError, invariant } from '../../diagnostics/errors.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import { operationOf } from '../../graph/tooLarge.ts'
import type { NumericsMode } from '../../kernel/ir.ts'
import { partialOfChain } from '../../plan/axes/chainParts.ts'
import type { MatrixRole } from '../../plan/axes/fusedReductions.ts'
import { matrixBlocks } from '../../plan/axes/matrixBlocks.ts'
import { type PartialResult, partialOf, partialOfBlocks, partialOfDepth } from '../../plan/axes/partials.ts'
import { plannedBody } from '../../plan/axes/plannedBody.ts'
import type { Roles } from '../../plan/axes/roles.ts'
import type { Body } from '../../plan/body/body.ts'
import { buildBody } from '../../plan/body/buildBody.ts'
import { longestAxis } from '../../plan/body/collapse.ts'
import { inStoringOrder } from '../../plan/body/region.ts'
import { type ScatterBody, scatterBody } from '../../plan/body/scatterBody.ts'
import { partsOf, segmentsOf } from '../../plan/body/segments.ts'
import { callOf } from '../../plan/cost/library.ts'
import type { BoundaryGroup, FusionPlan, KernelGroup, LibraryCall, PlannedGroup } from '../../plan/plan.ts'
import type { VaryingProduct } from '../../runtime/extents.ts'
import type { Machine } from '../../target/machine.ts'
import { type Aligned, cannotBeOpen } from './align.ts'
import { constantsApart } from './apart.ts'
import type { Fitter } from './fit.ts'
import { NoFormula, OtherForm } from './noFormula.ts'
import { BodyOpener, bodyForm } from './openBody.ts'
import type { Opening } from './opening.ts'
import { openCall } from './openProduct.ts'

/** How bodies of one region may be built: planning takes the cheapest, and the others follow it. */
const variants = [
  {},
  { untied: true },
  { inPieces: true },
  { untied: true, inPieces: true },
  { overhang: true },
  { untied: true, overhang: true },
] as const

/** Does what builds bodies: so that their masks are kept, or simply. */
export type Building = <T>(body: () => T) => T

export class PlanOpener {
  private readonly opening: Opening
  private readonly opener: BodyOpener
  private readonly target: Machine
  private readonly mode: NumericsMode
  private readonly nodes: Aligned['nodes']
  private readonly numbers: readonly ReadonlyMap<Node, number>[]
  private readonly fitter: Fitter
  /** How bodies are built at other samples, as they were where the plan was made. */
  private readonly building: Building
  /** What varies of the library's products. */
  readonly products = new Map<LibraryCall, VaryingProduct>()

  constructor(
    fitter: Fitter,
    opening: Opening,
    target: Machine,
    mode: NumericsMode,
    { nodes }: Aligned,
    building: Building,
  ) {
    this.building = building
    this.fitter = fitter
    this.opening = opening
    this.opener = new BodyOpener(fitter, opening)
    this.target = target
    this.mode = mode
    this.nodes = nodes
    this.numbers = nodes.map((list) => new Map(list.map((n, i) => [n, i])))
  }

  /** The plan of the first sample with open bodies. Throws E_UNSUPPORTED naming the operation that cannot be open. */
  open(plan: FusionPlan): FusionPlan {
    return { ...plan, groups: plan.groups.map((g) => this.group(g)) }
  }

  /** A node of the first sample at another. */
  private at(node: Node, sample: number): Node {
    const number = this.numbers[0]?.get(node)
    const there = this.nodes[sample]?.[number ?? -1]
    invariant(there !== undefined, 'a planned node that is not in the graph')
    return there
  }

  private varies(node: Node): boolean {
    return this.nodes.some((_, s) => this.at(node, s).shape.join() !== node.shape.join())
  }

  private group(g: PlannedGroup): PlannedGroup {
    if (g.kind === 'kernel') return this.kernel(g)
    if (g.kind === 'union') return { ...g, parts: g.parts.map((p) => this.kernel(p)) }
    return this.boundary(g)
  }

  private boundary(g: BoundaryGroup): BoundaryGroup {
    const { node } = g
    if (![node, ...node.inputs, ...g.results].some((n) => this.varies(n))) return g
    if (g.kind === 'region') return this.counted(g)
    if (node.op === 'scatter') return this.named(node, () => this.scatter(g, node))
    const what = g.kind === 'opaque' ? "a user's kernel" : 'a callback'
    const why = `${operationOf(node)} is ${what} over an extent that varies`
    throw cannotBeOpen(this.opening.dimensions, why, node)
  }

  /** Control flow, whose graphs are programs of their own. Throws where the target would have to know numbers that vary. */
  private counted(g: BoundaryGroup): BoundaryGroup {
    if (this.target.countsLoops || g.node.op !== 'loop') return g
    const { carries, consts, length } = g.node.attrs
    const results = g.results.filter((r) => (r as NodeOf<'result'>).attrs.index >= carries)
    const isFixed =
      ![...g.node.inputs.slice(consts + carries), ...results].some((n) => this.varies(n)) &&
      this.nodes.every((_, s) => (this.at(g.node, s) as NodeOf<'loop'>).attrs.length === length)
    if (isFixed) return g
    const why = `${operationOf(g.node)} is a loop whose steps or elements vary, which the target ${this.target.name} cannot count`
    throw cannotBeOpen(this.opening.dimensions, why, g.node)
  }

  /** A scatter with the body that it has at all extents. */
  private scatter(g: BoundaryGroup, node: NodeOf<'scatter'>): BoundaryGroup {
    const all = this.nodes.map((_, s) => scatterBody(this.at(node, s) as NodeOf<'scatter'>))
    const [first] = all
    const form = ({ body, inside }: ScatterBody, s: number): string => `${this.formAt(body, s)} if ${inside}`
    if (first === undefined || all.some((b, s) => form(b, s) !== form(first, 0)))
      throw new OtherForm('its kernel has another form at another length', node)
    return { ...g, scattered: { ...first, body: this.opener.open(all.map((b) => b.body)) } }
  }

  private kernel(g: KernelGroup): KernelGroup {
    return this.named(g.outputs[0], () => this.opened(g))
  }

  /** What opens a group; throws E_UNSUPPORTED naming its node, or the one that has no formula. */
  private named<G>(node: Node | undefined, made: () => G): G {
    try {
      return made()
    } catch (error) {
      if (!(error instanceof NoFormula)) throw error
      throw cannotBeOpen(this.opening.dimensions, error.message, error.node ?? node, error)
    }
  }

  private opened(g: KernelGroup): KernelGroup {
    const form = this.formAt(g.body, 0)
    const bodies = this.building(() => this.nodes.map((_, s) => (s === 0 ? g.body : this.bodyAt(g, s, form).body)))
    const body = this.opener.open(bodies)
    const isWhole = g.segments.length === 1 && g.segments[0] === g.body
    const segments = isWhole ? [body] : this.segments(g, bodies)
    const { called: _, choice: __, ...rest } = g
    const called = g.called === undefined ? undefined : this.called(g, form)
    const own = called === undefined ? rest : { ...rest, called }
    return { ...own, body, segments, roles: this.roles(g.roles, body) }
  }

  /** A group's call of the library with formulas for what varies; undefined where calls at other samples are others: then it is a kernel. */
  private called(g: KernelGroup, form: string): LibraryCall | undefined {
    const greatest = this.opening.dimensions.map((d) => d.most)
    const calls = this.building(() => this.nodes.map((_, s) => callOf(this.bodyAt(g, s, form).apart)))
    const made = openCall(calls, this.fitter, greatest)
    if (made?.varying !== undefined) this.products.set(made.call, made.varying)
    return made?.call
  }

  private formAt(body: Body, sample: number): string {
    const numbers = this.numbers[sample]
    return bodyForm(body, (n) => numbers?.get(n))
  }

  /** The body of a group's nodes at a sample that has the form of the planned one; `apart`: before its axes are joined. */
  private bodyAt(g: KernelGroup, sample: number, form: string): { readonly body: Body; readonly apart: Body } {
    const at = (n: Node): Node => this.at(n, sample)
    const region = {
      members: new Set([...g.members].map(at)),
      outputs: g.outputs.map(at),
      order: inStoringOrder(g.outputs).map(at),
    }
    for (const options of variants) {
      const built = buildBody(region, { mode: this.mode, isInside: this.target.undivided !== undefined, ...options })
      if (!built.ok) continue
      const made = plannedBody(built.body, this.target, this.mode)
      if (this.formAt(made.body, sample) === form) return made
      const body = constantsApart(made.body, g.body)
      if (body !== undefined && this.formAt(body, sample) === form) return { ...made, body }
    }
    throw new OtherForm('its kernel has another form at another length', g.outputs[0])
  }

  private segments(g: KernelGroup, bodies: readonly Body[]): readonly Body[] {
    const isCut = g.body.stores.some((s) => s.pieces !== undefined)
    const all = this.building(() =>
      bodies.map((b, s) => (s === 0 ? g.segments : isCut ? partsOf(b) : segmentsOf(b, longestAxis(this.target)))),
    )
    return g.segments.map((first, i) => {
      const form = this.formAt(first, 0)
      const at = all.map((list) => list[i])
      const alike = at.flatMap((b, s) => (b !== undefined && this.formAt(b, s) === form ? [b] : []))
      if (alike.length !== all.length || all.some((list) => list.length !== g.segments.length))
        throw new OtherForm('its kernel is cut into other ranges at another length', g.outputs[0])
      return this.opener.open(alike)
    })
  }

  /** Throws NoFormula where a fold beside a product runs over rows or columns that one block holds as planned, and several at the most. */
  private checkWhole(matrix: MatrixRole, { stages }: Roles, body: Body, extents: ReadonlyMap<string, number>): void {
    const { rows, columns } = matrixBlocks(body, matrix, extents, this.target)
    const cut = new Set([...rows, ...columns].flatMap((b) => ((extents.get(b.axis) ?? 1) > b.block ? [b.axis] : [])))
    for (const l of body.lets) {
      const { op } = l
      if (op.kind !== 'reduce' || matrix.riding.has(l.id) || stages.late.has(l.id)) continue
      if (op.axes.some((a) => cut.has(a)))
        throw new NoFormula(
          'a fold of rows that a block of a product holds whole, but not at another length',
          undefined,
        )
    }
  }

  /** The roles of a body's axes as they were planned, at the most that extents may be. */
  private roles(roles: Roles, body: Body): Roles {
    const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
    const lets = new Map(body.lets.map((l) => [l.id, l]))
    const facts = { lets, extents }
    const { matrix, chain, splitBy, stages } = roles
    const cut = matrix?.parts ?? chain?.parts
    const parts =
      cut === undefined ? undefined : { ...cut, parts: Math.ceil((extents.get(cut.axis) ?? 1) / cut.length) }
    const own = matrix === undefined ? undefined : { ...matrix, parts }
    const others = chain === undefined || parts === undefined ? {} : { chain: { ...chain, parts } }
    if (own !== undefined) this.checkWhole(own, roles, body, extents)
    const partial = (id: number): PartialResult => {
      const l = lets.get(id)
      if (l !== undefined && chain !== undefined && parts !== undefined) return partialOfChain(extents, l, chain, parts)
      if (l === undefined || splitBy === undefined) throw new InternalError('a cut reduction without a way')
      if (splitBy !== 'result-blocks') return partialOf(facts, l, splitBy)
      if (parts !== undefined) return partialOfDepth(facts, l, parts)
      invariant(own !== undefined, 'blocks of no product')
      const { rows, columns } = matrixBlocks(body, own, extents, this.target)
      return partialOfBlocks(facts, l, [...own.batch.map((axis) => ({ axis, block: 1 })), ...rows, ...columns])
    }
    const split = new Map([...stages.split.keys()].map((id) => [id, partial(id)]))
    return { ...roles, extents, stages: { ...stages, split }, ...(own === undefined ? {} : { matrix: own }), ...others }
  }
}
