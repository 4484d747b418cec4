/** A graph with a region of it as a loop over strips of an axis. */
import { reshape } from '../../compose/broadcast.ts'
import { loopNodes } from '../../compose/control.ts'
import { binary, cast } from '../../compose/elementwise.ts'
import { full, iota } from '../../compose/source.ts'
import { concat, moveAxis, sliceAxis } from '../../compose/views.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { inOrigin } from '../../diagnostics/origin.ts'
import { param, withContext } from '../../graph/build.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { mapGraph, withInputs } from '../../graph/traverse.ts'
import { combinerIdentity, combinerOp } from '../../scalar/ops.ts'
import { computeDType, type DType, dtypeBytes } from '../../types/dtype.ts'
import { resized, type Shape, sizeOf } from '../../types/shape.ts'
import { combinerOf, isFolded, withExtent } from './axes.ts'
import type { StripRegion } from './region.ts'

class Strips {
  private readonly region: StripRegion
  /** Parts of the axis in a strip, and the number of strips that have as many. */
  private readonly rows: number
  readonly count: number
  readonly body: Graph
  private readonly folded: readonly Node[]
  private readonly kept: readonly Node[]

  constructor(region: StripRegion, rows: number) {
    this.region = region
    this.rows = rows
    this.count = Math.floor(region.extent / rows)
    const isFold = (n: Node): boolean => isFolded(n, this.axisOf(n))
    this.folded = region.results.filter(isFold)
    this.kept = region.results.filter((n) => !isFold(n))
    this.body = this.makeBody()
  }

  private axisOf(n: Node): number {
    const axis = this.region.axisOf.get(n)
    invariant(axis !== undefined, 'a node of a strip without an axis')
    return axis
  }

  /** Indices of a node's axis in `parts` parts. */
  private indicesOf(n: Node, parts: number): number {
    return parts * ((n.shape[this.axisOf(n)] ?? 0) / this.region.extent)
  }

  /** The dtype of what is carried from strip to strip. */
  private carriedDType(n: Node): DType {
    return computeDType(n.dtype)
  }

  /** Bytes of what is carried, by the number of the body's parameter. */
  get carried(): ReadonlyMap<number, number> {
    const first = this.region.whole.length
    return new Map(this.folded.map((n, i) => [first + i, sizeOf(n.shape) * dtypeBytes(this.carriedDType(n))]))
  }

  private identityOf(n: Node): Node {
    const combiner = combinerOf(n)
    invariant(combiner !== undefined, 'a fold that has no parts')
    const dtype = this.carriedDType(n)
    return full(n.shape, combinerIdentity(combiner, dtype), dtype)
  }

  private combined(n: Node, sum: Node, part: Node): Node {
    const combiner = combinerOf(n)
    invariant(combiner !== undefined, 'a fold that has no parts')
    return binary(combinerOp[combiner], sum, cast(part, this.carriedDType(n)))
  }

  /** The members over `rows` parts, of which the first has the number `first`: `whole` and `striped` say what stands for what they read. */
  private members(
    whole: ReadonlyMap<Node, Node>,
    striped: ReadonlyMap<Node, Node>,
    rows: number,
    first: Node,
  ): (n: Node) => Node {
    const found = (of: ReadonlyMap<Node, Node>, n: Node): Node => {
      const made = of.get(n)
      invariant(made !== undefined, 'a node of a strip before its inputs')
      return made
    }
    const [all, own] = [new Map(whole), new Map(striped)]
    const { views, members, isWhole } = this.region
    for (const n of views)
      all.set(
        n,
        inOrigin(n.origin, () =>
          withInputs(
            n,
            n.inputs.map((x) => found(all, x)),
          ),
        ),
      )
    for (const n of members) {
      const inputs = n.inputs.map((x, i) => found(isWhole(n, i) ? all : own, x))
      own.set(
        n,
        inOrigin(n.origin, () =>
          withExtent(n, this.axisOf(n), this.indicesOf(n, rows), inputs, binary('mul', first, this.indicesOf(n, 1))),
        ),
      )
    }
    return (n) => found(own, n)
  }

  /** Constants, carries, then the number of a strip's first part and what it reads; the next carries, then results. */
  private makeBody(): Graph {
    const { whole, striped } = this.region
    return withContext(() => {
      const params: ReturnType<typeof param>[] = []
      const next = (shape: Shape, dtype: DType): Node => {
        const made = param(params.length, shape, dtype)
        params.push(made)
        return made
      }
      const all = new Map(whole.map((n) => [n, next(n.shape, n.dtype)]))
      const sums = this.folded.map((n) => next(n.shape, this.carriedDType(n)))
      const first = next([], 'i32')
      const own = new Map(
        striped.map((n) => [n, next(resized(n.shape, this.axisOf(n), this.indicesOf(n, this.rows)), n.dtype)]),
      )
      const at = this.members(all, own, this.rows, first)
      const carried = this.folded.map((n, i) => inOrigin(n.origin, () => this.combined(n, sums[i] as Node, at(n))))
      return { params, outputs: [...carried, ...this.kept.map(at)], effects: [] }
    })
  }

  /** What stands for the members that others read: what they depend on is as it was. */
  values(): Map<Node, Node> {
    const { whole, striped, extent } = this.region
    const { rows, count } = this
    const covered = rows * count
    const split = (n: Node): Node => {
      const axis = this.axisOf(n)
      const x = covered === extent ? n : sliceAxis(n, axis, 0, this.indicesOf(n, covered))
      const [outer, inner] = [n.shape.slice(0, axis), n.shape.slice(axis + 1)]
      return moveAxis(reshape(x, [...outer, count, this.indicesOf(n, rows), ...inner]), axis, 0)
    }
    const joined = (n: Node, x: Node): Node => {
      const axis = this.axisOf(n)
      return reshape(moveAxis(x, 0, axis), resized(n.shape, axis, this.indicesOf(n, covered)))
    }
    const starts = binary('mul', iota([count], 0, 'i32'), rows)
    const { carries, sequences } = loopNodes(
      this.body,
      { length: count },
      whole,
      this.folded.map((n) => this.identityOf(n)),
      [starts, ...striped.map(split)],
    )
    const out = new Map<Node, Node>()
    const rest = extent - covered
    const left = (): ReadonlyMap<Node, Node> =>
      new Map(
        striped.map((n) => [n, sliceAxis(n, this.axisOf(n), this.indicesOf(n, covered), this.indicesOf(n, extent))]),
      )
    const all = new Map<Node, Node>(whole.map((n) => [n, n]))
    const last = rest > 0 ? this.members(all, left(), rest, full([], covered, 'i32')) : undefined
    this.folded.forEach((n, i) => {
      const sum = carries[i] as Node
      out.set(n, cast(last === undefined ? sum : this.combined(n, sum, last(n)), n.dtype))
    })
    this.kept.forEach((n, i) => {
      const part = joined(n, sequences[i] as Node)
      out.set(n, last === undefined ? part : concat([part, last(n)], this.axisOf(n)))
    })
    return out
  }
}

/** A graph with a region of it as a loop. */
export interface InStrips {
  readonly graph: Graph
  readonly body: Graph
  readonly steps: number
  /** Bytes that are carried from step to step, by the number of the body's parameter. */
  readonly carried: ReadonlyMap<number, number>
}

/** The graph with a region of it as a loop over strips of `rows` parts, and behind it what is left of the axis. */
export function inStrips(graph: Graph, region: StripRegion, rows: number): InStrips {
  const strips = new Strips(region, rows)
  const made = strips.values()
  const isMember = new Set<Node>(region.members)
  const image = mapGraph(graph, (n, inputs) => made.get(n) ?? (isMember.has(n) ? n : withInputs(n, inputs)))
  return { graph: image, body: strips.body, steps: strips.count, carried: strips.carried }
}
