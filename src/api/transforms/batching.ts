/** `vmap`: a function of single examples, applied to a batch of them at once. */
import { broadcastTo } from '../../compose/broadcast.ts'
import { moveAxis } from '../../compose/views.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { type BatchedNode, batchGraph } from '../../transforms/index.ts'
import { showShape } from '../../types/shape.ts'
import { checkTransform, kinds, optionNames } from '../calls/options.ts'
import { placed } from '../calls/place.ts'
import { named } from '../tensor/core.ts'
import type { Tensor } from '../tensor/tensor.ts'
import { leavesOf, rebuildTree, TensorSpec, type TreeLeaf, type TreeSpec } from '../tensor/tree.ts'
import { type AnyFunction, type Argument, applyGraph, argumentsOf, taker, traceCall } from './apply.ts'

/** Batch axes of a tree T: one for all its tensors, or a tree of the same structure; null: no batch, one value for all. */
export type BatchAxes<T> =
  | number
  | null
  | (T extends Tensor
      ? never
      : T extends (...args: never[]) => unknown
        ? never
        : T extends object
          ? { readonly [K in keyof T]: BatchAxes<T[K]> }
          : never)

/** Options of `vmap`. */
export interface VmapOptions<A extends readonly unknown[] = readonly unknown[], R = unknown> {
  /** Where the batch is in the arguments: an axis for all of them, or a list with axes for each. 0 unless given. */
  readonly inAxes?: number | null | { readonly [K in keyof A]: BatchAxes<A[K]> }
  /** Where the batch goes in the result: an axis, or a tree of axes. 0 unless given. */
  readonly outAxes?: BatchAxes<R>
}

const vmapOptions = optionNames<VmapOptions>('{ inAxes: 0 }', { inAxes: kinds.anything, outAxes: kinds.anything })

/** The axis of each tensor of a structure. Throws E_STRUCTURE. */
function axesOf(s: TreeSpec, axes: unknown, what: string, path: string): (number | null)[] {
  if (s.kind === 'static') return []
  if (axes === null || typeof axes === 'number') return leavesOf(s, path).map(() => axes)
  const mismatch = (why: string): UserError =>
    new UserError('E_STRUCTURE', `${what} does not have the structure of ${path}: ${why}`, {
      help: 'give one axis (or null) for the whole, or a tree of axes of the same structure',
    })
  if (s.kind === 'tensor' || typeof axes !== 'object') throw mismatch(`${describeAxes(axes)} for a ${s.kind}`)
  if (s.kind === 'list') {
    if (!Array.isArray(axes) || axes.length !== s.items.length)
      throw mismatch(`${describeAxes(axes)} for a list of ${s.items.length}`)
    const list: readonly unknown[] = axes
    return s.items.flatMap((item, i) => axesOf(item, list[i], what, `${path}[${i}]`))
  }
  const record = axes as Readonly<Record<string, unknown>>
  const odd = Object.keys(record).find((k) => !s.keys.includes(k))
  if (odd !== undefined) throw mismatch(`it has an entry ${odd}`)
  return s.items.flatMap((item, i) => {
    const key = s.keys[i] ?? String(i)
    return axesOf(item, record[key], what, `${path}.${key}`)
  })
}

function describeAxes(axes: unknown): string {
  if (Array.isArray(axes)) return `a list of ${axes.length}`
  if (axes === undefined) return 'nothing'
  return typeof axes === 'object' ? 'an object' : `a ${typeof axes}`
}

/** An axis counted from the front. Throws E_AXIS. */
function normalAxis(axis: number | null, rank: number, what: string, leaf: TreeLeaf): number | null {
  if (axis === null) return null
  const at = axis < 0 ? axis + rank : axis
  if (!Number.isInteger(axis) || at < 0 || at >= rank)
    throw new UserError('E_AXIS', `${what} ${axis} for ${leaf.path} of shape ${showShape(leaf.shape)}`, {
      help: rank === 0 ? 'a scalar has no axis to batch: use null' : `axes go from ${-rank} to ${rank - 1}`,
    })
  return at
}

/** The axis of each tensor of the arguments, and the size of the batch. Throws E_STRUCTURE, E_AXIS, E_SHAPE, E_ARGUMENT. */
function readBatch(args: readonly Argument[], inAxes: unknown): { axes: (number | null)[]; size: number } {
  if (Array.isArray(inAxes) && inAxes.length !== args.length)
    throw new UserError('E_STRUCTURE', `inAxes has ${inAxes.length} entries for ${args.length} arguments`, {
      help: 'give one for each argument; null marks those without a batch',
    })
  if (!Array.isArray(inAxes) && inAxes !== null && typeof inAxes !== 'number')
    throw new UserError('E_STRUCTURE', `inAxes is ${describeAxes(inAxes)}`, {
      help: 'give an axis, null, or a list with an entry for each argument',
    })
  const leaves = args.flatMap((a) => a.leaves)
  const axes = args
    .flatMap((a, i) => axesOf(a.tree, Array.isArray(inAxes) ? inAxes[i] : inAxes, 'inAxes', `argument ${i}`))
    .map((axis, i) => {
      const leaf = leaves[i]
      return leaf === undefined ? null : normalAxis(axis, leaf.shape.length, 'inAxes', leaf)
    })
  const batched = leaves.flatMap((leaf, i) => {
    const axis = axes[i] ?? null
    return axis === null ? [] : [{ leaf, axis, size: leaf.shape[axis] ?? 0 }]
  })
  const [first] = batched
  if (first === undefined)
    throw new UserError('E_ARGUMENT', 'no argument is batched', { help: 'give at least one tensor an axis in inAxes' })
  const other = batched.find((b) => b.size !== first.size)
  if (other !== undefined) {
    const show = (b: typeof first): string => `${b.leaf.path} has ${b.size} along axis ${b.axis}`
    throw new UserError('E_SHAPE', `batches of different sizes: ${show(first)}, ${show(other)}`, {
      help: 'batched tensors share one batch size; null in inAxes marks those without a batch',
    })
  }
  return { axes, size: first.size }
}

/** The axis of each tensor of the result, counted in the batched one. Throws E_STRUCTURE, E_AXIS. */
function readOutAxes(result: TreeSpec, outputs: readonly TreeLeaf[], outAxes: unknown): (number | null)[] {
  return axesOf(result, outAxes, 'outAxes', 'the result').map((axis, i) => {
    const leaf = outputs[i]
    return leaf === undefined ? null : normalAxis(axis, leaf.shape.length + 1, 'outAxes', leaf)
  })
}

/**
 * f over a batch: a function of the same arguments with a batch axis more in those that `inAxes` says, which gives the result
 * with a batch axis at `outAxes` (JAX's `vmap`). What f closes over, and what has the axis null, is the same for every example;
 * an output that does not depend on the batch is repeated, unless its axis is null.
 * @throws E_ARGUMENT for what is no function and options that are none; calls throw E_SHAPE for batches of different sizes,
 * E_AXIS for an axis there is not, E_STRUCTURE for axes that do not fit the trees, E_ARGUMENT when nothing is batched
 * @example
 * const dots = vmap((a: Tensor, b: Tensor) => a.dot(b))
 * dots(tensor([[1, 2], [3, 4]]), tensor([[1, 1], [2, 2]])) // [3, 14]
 * vmap((x: Tensor, y: Tensor) => x.add(y), { inAxes: [0, null] })(tensor([1, 2]), tensor(10)) // [11, 12]
 */
export function vmap<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  options: VmapOptions<A, R> = {},
): (...args: A) => R {
  placed(() => checkTransform<VmapOptions>('vmap', f, options as VmapOptions, vmapOptions))
  const { inAxes = 0, outAxes = 0 } = options
  return (...args) => batched(f, args, inAxes, outAxes) as R
}

function batched(f: AnyFunction, args: readonly unknown[], inAxes: unknown, outAxes: unknown): unknown {
  const described = argumentsOf('vmap', args)
  const { axes, size } = named('vmap', () => readBatch(described, inAxes))
  const examples = described.map((a) => {
    const specs = a.leaves.map(({ shape, dtype }, i) => {
      const axis = axes[a.first + i] ?? null
      return new TensorSpec(axis === null ? shape : shape.toSpliced(axis, 1), dtype)
    })
    return rebuildTree(a.tree, taker(specs))
  })
  const call = traceCall('vmap', f, examples, described, false)
  const outputAxes = named('vmap', () => readOutAxes(call.result, call.outputs, outAxes))
  const made = applyGraph('vmap', call.operands, (nodes) => {
    const operands = nodes.map((node, i): BatchedNode => {
      const axis = axes[i] ?? null
      return axis === null ? { node, batched: false } : { node: moveAxis(node, axis, 0), batched: true }
    })
    const { outputs, effects } = batchGraph(call.graph, operands, size)
    const placed = outputs.map(({ node, batched }, i) => {
      const axis = outputAxes[i] ?? null
      if (axis !== null) return moveAxis(batched ? node : broadcastTo(node, [size, ...node.shape]), 0, axis)
      if (!batched) return node
      throw new UserError('E_ARGUMENT', `${call.outputs[i]?.path} depends on the batch, but its axis is null`, {
        help: 'give the axis the batch shall have in it',
      })
    })
    return { outputs: placed, effects }
  })
  return rebuildTree(call.result, taker(made))
}
