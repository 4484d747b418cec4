/** The limit of what a kernel counts: positions of 32 bits, where the target has no more. */
import { UserError } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { operationOf } from '../graph/tooLarge.ts'
import { beyond32 } from '../kernel/beyond32.ts'
import type { Launch } from '../lower/launch.ts'
import { membersOf, type PlannedGroup } from '../plan/plan.ts'
import type { Machine } from '../target/machine.ts'
import { showShape, sizeOf } from '../types/shape.ts'

/** The largest of what a group reads and computes: what is counted furthest. */
function largestOf(group: PlannedGroup): Node | undefined {
  const nodes = membersOf(group)
  let largest: Node | undefined
  for (const n of nodes)
    for (const x of [n, ...n.inputs]) if (largest === undefined || sizeOf(x.shape) > sizeOf(largest.shape)) largest = x
  return largest
}

/** Throws E_UNSUPPORTED where a launch counts further than positions of the target go; it names the operation and the user's line. */
export function checkPositions({ main, finishing }: Launch, group: PlannedGroup, target: Machine): void {
  if (target.positionBits === 64) return
  for (const { kernel } of [main, ...finishing]) {
    if (beyond32(kernel) === undefined) continue
    const node = largestOf(group)
    const where = node?.origin.where ?? membersOf(group).find((n) => n.origin.where !== undefined)?.origin.where
    const what =
      node === undefined
        ? `positions in the kernel ${kernel.name}`
        : `${operationOf(node)} ${node.op === 'param' ? 'is' : 'gives'} ${node.dtype}${showShape(node.shape)}, whose positions`
    throw new UserError(
      'E_UNSUPPORTED',
      `${what} do not fit the 32 bits that kernels of the target ${target.name} count with`,
      {
        help: 'work on smaller pieces of the tensor, or run this program on another device',
        ...(where === undefined ? {} : { where }),
      },
    )
  }
}
