/** Planned groups as steps, by their kind: launches of kernels, calls of a library, copies and scatters, users' code. */
import { invariant } from '../diagnostics/errors.ts'
import type { Node, NodeOf } from '../graph/node.ts'
import type { NumericsMode } from '../kernel/ir.ts'
import type { Launch } from '../lower/launch.ts'
import { lowerGroup } from '../lower/lowerGroup.ts'
import { packBits } from '../lower/packed.ts'
import { lowerScatter } from '../lower/scatter.ts'
import { lowerUnion } from '../lower/union.ts'
import { copiesTarget } from '../plan/body/reads.ts'
import { scatterBody } from '../plan/body/scatterBody.ts'
import { type BoundaryGroup, type KernelGroup, membersOf, type PlannedGroup } from '../plan/plan.ts'
import type { Machine } from '../target/machine.ts'
import { sizeOf } from '../types/shape.ts'
import type { Assembly } from './assembly.ts'
import { checkPositions } from './positions.ts'

/** The name of a launch's kernel, by the operations it computes. */
export const kernelName = (nodes: Iterable<Node>, index: number): string => {
  const called = [...nodes].map((n) => n.origin).sort((a, b) => a.id - b.id)
  const names = [...new Set(called.map((o) => o.name))].filter((n) => n !== 'unknown').slice(0, 3)
  return `k${index}_${names.length === 0 ? 'kernel' : names.join('_').replace(/[^A-Za-z0-9_]/g, '')}`
}

/** Adds the steps of group number `number`, which is no region. Gives its launch, if it has kernels. */
export function addGroup(
  a: Assembly,
  group: PlannedGroup,
  number: number,
  target: Machine,
  mode: NumericsMode,
): Launch | undefined {
  const launch = (made: Launch): Launch => {
    checkPositions(made, group, target)
    const opened = a.open?.launch(made) ?? made
    a.launch(opened, number)
    return opened
  }
  switch (group.kind) {
    case 'kernel': {
      if (isWithoutSteps(a, group, number)) return undefined
      return launch(packBits(lowerGroup(kernelName(group.members, number), group, target, mode), a.stored.bits))
    }
    case 'union':
      return launch(packBits(lowerUnion(kernelName(membersOf(group), number), group, target, mode), a.stored.bits))
    case 'scatter': {
      const node = group.node as NodeOf<'scatter'>
      if (!addTarget(a, node)) return undefined
      const body = group.scattered ?? scatterBody(node)
      return launch(lowerScatter(kernelName([node], number), node, body, target, mode))
    }
    case 'opaque':
      addCall(a, group)
      return undefined
    case 'effect':
      addInspection(a, group)
      return undefined
    case 'region':
      invariant(false, `${group.node.op} is added with its programs`)
  }
}

/** Whether a kernel is none in the program: results without elements have buffers alone, and a library's product is a call of it. */
function isWithoutSteps(a: Assembly, group: KernelGroup, number: number): boolean {
  if (group.outputs.every((n) => sizeOf(n.shape) === 0)) {
    for (const n of group.outputs) a.of(n)
    return true
  }
  if (group.called === undefined) return false
  a.product(kernelName(group.members, number), group, group.called, number)
  return true
}

/** The copy of a scatter's target, into which its updates are combined. Whether there are any. */
function addTarget(a: Assembly, node: NodeOf<'scatter'>): boolean {
  const [x, updates] = node.inputs
  invariant(x !== undefined && updates !== undefined, 'scatter without inputs')
  if (copiesTarget(node)) a.steps.push({ kind: 'copy', from: a.of(x), to: a.of(node) })
  else a.of(node)
  return sizeOf(updates.shape) > 0 && sizeOf(x.shape) > 0
}

function addCall(a: Assembly, { node }: BoundaryGroup): void {
  invariant(node.op === 'opaque', 'an opaque group of another op')
  const { name, run } = node.attrs.kernel
  const inputs = node.inputs.map((x) => a.of(x))
  a.steps.push({ kind: 'opaque', name, run, inputs, output: a.of(node) })
}

function addInspection(a: Assembly, { node }: BoundaryGroup): void {
  const [x] = node.inputs
  invariant(node.op === 'inspect' && x !== undefined, 'an effect group of another op')
  const { label, call } = node.attrs.callback
  a.steps.push({ kind: 'inspect', label, call: (data, _, dtype) => call(data, node.shape, dtype), buffer: a.of(x) })
}
