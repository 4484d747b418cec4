/** Users' own code inside a program: kernels with a shape rule, and callbacks that see a value. */
import { makeNode } from '../graph/build.ts'
import type { InspectCallback, Node, OpaqueKernel } from '../graph/node.ts'

/** x, seen by `callback` when it is computed; after `previous`, if given, has been seen. */
export const inspect = (x: Node, callback: InspectCallback, previous?: Node): Node =>
  makeNode('inspect', previous === undefined ? [x] : [x, previous], { callback })

/** A user's kernel applied to tensors; its shape rule gives the result's shape and dtype. */
export const opaque = (kernel: OpaqueKernel, ...inputs: readonly Node[]): Node => makeNode('opaque', inputs, { kernel })
