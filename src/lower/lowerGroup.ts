/** Lowering of a planned kernel group: by the kind its roles say. Whatever the planner accepts, this lowers. */
import type { Node } from '../graph/node.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import type { Roles } from '../plan/axes/roles.ts'
import { type Body, isOfOneForm } from '../plan/body/body.ts'
import type { KernelGroup } from '../plan/plan.ts'
import type { Machine } from '../target/machine.ts'
import { lowerChain } from './chain.ts'
import type { BoundKernel, Launch } from './launch.ts'
import { lowerMatrix } from './matrix.ts'
import { lowerSegments, lowerStraight } from './straight.ts'

/** What of a group is lowered. */
type Lowerable = Pick<KernelGroup, 'body' | 'segments' | 'roles'>

/** A launch, and what it was made of. */
interface Lowered {
  readonly name: string
  readonly group: Lowerable
  readonly target: Machine
  readonly mode: NumericsMode
  readonly launch: Launch
}

/** The last launch of each form, by its roles: regions of one form share them (candidateMemo.ts), whether a kernel is priced or is one of several layers'. */
const lowered = new WeakMap<Roles, Lowered>()

/** The launch of a group; groups of one form have the same kernels, but for their names. */
export function lowerGroup(name: string, group: Lowerable, target: Machine, mode: NumericsMode): Launch {
  const have = lowered.get(group.roles)
  if (have?.target === target && have.mode === mode && haveOneForm(have.group, group)) return renamed(have, name, group)
  const { body, segments, roles } = group
  const launch = lower(name, group, target, mode)
  lowered.set(roles, { name, group: { body, segments, roles }, target, mode, launch })
  return launch
}

function lower(name: string, { body, segments, roles }: Lowerable, target: Machine, mode: NumericsMode): Launch {
  if (segments.length > 1) return lowerSegments(name, segments, target, mode)
  switch (roles.kind) {
    case 'matrix':
      return lowerMatrix(name, body, roles, target, mode)
    case 'chain':
      return lowerChain(name, body, roles, target)
    default:
      return lowerStraight(name, body, roles, target, mode)
  }
}

const haveOneForm = (a: Lowerable, b: Lowerable): boolean =>
  isOfOneForm(a.body, b.body) &&
  a.segments.length === b.segments.length &&
  a.segments.every((s, i) => isOfOneForm(s, b.segments[i]))

/** A launch under another name, bound to the nodes of another group of its form. */
function renamed(from: Lowered, name: string, to: Lowerable): Launch {
  const nodes = new Map<Node, Node>()
  const pair = (a: Body, b: Body | undefined): void => {
    for (const [param, { node }] of a.loads) nodes.set(node, b?.loads.get(param)?.node ?? node)
    for (const [i, { node }] of a.stores.entries()) nodes.set(node, b?.stores[i]?.node ?? node)
  }
  pair(from.group.body, to.body)
  for (const [i, s] of from.group.segments.entries()) pair(s, to.segments[i])
  const bound = ({ kernel, bindings }: BoundKernel): BoundKernel => ({
    kernel: { ...kernel, name: name + kernel.name.slice(from.name.length) },
    bindings: bindings.map((b) => (b.kind === 'node' ? { kind: 'node', node: nodes.get(b.node) ?? b.node } : b)),
  })
  return { ...from.launch, main: bound(from.launch.main), finishing: from.launch.finishing.map(bound) }
}
