/**
 * Scatters of many updates into few places, as many scatters into tables of their own, which a fold makes one (fast mode, combiners that may be
 * reassociated). Programs share out the places of a scatter, so of few places few programs would go through everything. A divided one has its updates in
 * parts of their order, each a batch of its own. Every place takes the updates of a part in order, then the parts are folded: the same from run to run. Halves are
 * summed in f32. No update meets a place that is not its own, so infinities and NaN stay where they are.
 */
import { reshape } from '../compose/broadcast.ts'
import { cast } from '../compose/elementwise.ts'
import { reduce } from '../compose/reduce.ts'
import { full } from '../compose/source.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, IndexSource, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, withInputs } from '../graph/traverse.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import { scatterSeconds, scatterShape } from '../plan/cost/scatterSeconds.ts'
import { combinerIdentity, combinerOp } from '../scalar/ops.ts'
import { type Machine, movingSeconds } from '../target/machine.ts'
import { computeDType, type DType, dtypeBytes, isFloat } from '../types/dtype.ts'
import { type Shape, sizeOf } from '../types/shape.ts'

type Scatter = NodeOf<'scatter'>

/** The share of its seconds that a scatter takes at most where it is divided: what the model errs by. */
const worth = 0.7

/** The graph with scatters in parts where the model finds that faster; itself where there are none. */
export function divideScatters(graph: Graph, machine: Machine, mode: NumericsMode): Graph {
  if (mode === 'strict' || machine.programShare === undefined || machine.simt === undefined) return graph
  return mapGraph(graph, (node, inputs) => {
    const same = withInputs(node, inputs)
    if (same.op !== 'scatter') return same
    const cut = cutOf(same, machine)
    return cut === undefined ? same : inOrigin(node.origin, () => divided(same, cut))
  })
}

/** A dimension of the updates, and parts of it. */
interface Cut {
  readonly axis: number
  readonly parts: number
}

/** What parts are combined in. */
const tableDType = ({ dtype, attrs }: Scatter): DType =>
  attrs.combiner === 'sum' || attrs.combiner === 'prod' ? computeDType(dtype) : dtype

function cutOf(node: Scatter, machine: Machine): Cut | undefined {
  const { attrs, dtype } = node
  if (attrs.combiner === 'set' || attrs.distinct === true || attrs.covers === true || dtype === 'bool') return undefined
  // Narrow integers would wrap elsewhere.
  if (!isFloat(dtype) && dtypeBytes(dtype) < 4) return undefined
  const [, updates, ...indices] = node.inputs
  if (updates === undefined || sizeOf(node.shape) === 0) return undefined
  const { walked, ...shape } = scatterShape(node)
  const indexBytes = indices.reduce((n, x) => n + dtypeBytes(x.dtype), 0)
  const whole = scatterSeconds(shape, indexBytes, machine)
  const axis = walked.reduce(
    (best, d) => ((updates.shape[d] ?? 1) > (updates.shape[best] ?? 1) ? d : best),
    walked[0] ?? 0,
  )
  const extent = updates.shape[axis] ?? 1
  if (whole === undefined || walked.length === 0 || whole < machine.launch) return undefined
  const bytes = dtypeBytes(tableDType(node))
  const widened = bytes === dtypeBytes(dtype) ? 0 : sizeOf(updates.shape) * (dtypeBytes(dtype) + bytes)
  let best: Cut | undefined
  let least = worth * whole
  for (let parts = 2; parts <= extent; parts++) {
    if (extent % parts !== 0) continue
    // Tables take no more than the updates do.
    if (parts * sizeOf(node.shape) > sizeOf(updates.shape)) break
    const part = { ...shape, batch: shape.batch * parts, updates: shape.updates / parts }
    const tables = 2 * parts * sizeOf(node.shape) * bytes
    const seconds =
      (scatterSeconds(part, indexBytes, machine) ?? Number.POSITIVE_INFINITY) +
      movingSeconds(tables + widened, machine) +
      (widened > 0 ? 2 : 1) * machine.launch
    if (seconds >= least) continue
    least = seconds
    best = { axis, parts }
  }
  return best
}

function divided(node: Scatter, { axis, parts }: Cut): Node {
  const [x, updates, ...indices] = node.inputs as readonly [Node, Node, ...Node[]]
  const { combiner, sources } = node.attrs
  if (combiner === 'set') return node
  const dtype = tableDType(node)
  const inParts = (n: Node): Node => partsOf(n, axis, parts)
  const empty = combinerIdentity(combiner, dtype)
  const moved = sources.map((s): IndexSource => ('axis' in s && s.axis > axis ? { axis: s.axis + 1 } : s))
  const tables = makeNode(
    'scatter',
    [full([parts, ...x.shape], empty, dtype), inParts(cast(updates, dtype)), ...indices.map(inParts)],
    { combiner, sources: [{ axis }, ...moved] },
  )
  const folded = reduce(combiner, tables, 0)
  const isEmpty = x.op === 'full' && x.attrs.value === combinerIdentity(combiner, x.dtype)
  const all = isEmpty ? folded : makeNode(combinerOp[combiner], [cast(x, dtype), folded], {})
  return cast(all, node.dtype)
}

/** A dimension as parts of it; what is the same along some stays so by its form. */
function partsOf(n: Node, axis: number, parts: number): Node {
  const cut = (shape: Shape, at: number): Shape => {
    const extent = shape[at] ?? 1
    return [...shape.slice(0, at), parts, extent / parts, ...shape.slice(at + 1)]
  }
  const shape = cut(n.shape, axis)
  const [of] = n.inputs
  if (n.op !== 'broadcast' || of === undefined) return reshape(n, shape)
  const inner = n.attrs.dims.indexOf(axis)
  const whole = inner < 0 ? of : reshape(of, cut(of.shape, inner))
  const dims = n.attrs.dims.flatMap((d) => (d === axis ? [d, d + 1] : d > axis ? d + 1 : d))
  return makeNode('broadcast', [whole], { shape, dims })
}
