/** Seeing values from inside compiled code, and users' own kernels. */
import * as c from '../../compose/index.ts'
import { callInspector, UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import { printable } from '../../diagnostics/text.ts'
import type { Node, OpaqueKernel } from '../../graph/node.ts'
import type { DType } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import type { Shape } from '../../types/shape.ts'
import { checkFunction, notOperand } from '../calls/options.ts'
import { asUser, placed } from '../calls/place.ts'
import { currentTrace, named, nodeIn, record, storageOf, type TensorTrace } from '../tensor/core.ts'
import { formatElements } from '../tensor/print.ts'
import { many, Tensor, wrap } from '../tensor/tensor.ts'

/** A value seen by `inspect`: raw row-major elements (f16 and bf16 as bits), shape and dtype. */
export type Inspector = (data: HostArray, shape: Shape, dtype: DType) => void

const print =
  (label: string): Inspector =>
  (data, shape, dtype) => {
    console.log(`${printable(label)}: ${dtype}[${shape.join(', ')}]\n${formatElements(data, dtype, shape)}`)
  }

/** The effect that the next one of a trace follows: where the trace is applied in another, the last one there. */
function previousEffect(trace: TensorTrace): Node | undefined {
  const last = trace.effects.at(-1)
  const { outer, purpose } = trace
  if (last !== undefined || outer === undefined || purpose.program) return last
  const before = previousEffect(outer)
  if (before === undefined) return undefined
  return trace.capture(wrap({ kind: 'traced', node: before, trace: outer }), before, before.shape, before.dtype)
}

/**
 * x itself, seen by a callback (or printed under a label) whenever it is computed. Inside jit, effects run in the order they
 * were traced, even when nothing uses the result; fusion does not cross them. Outside, the value is computed and seen at once.
 * @throws E_CALLBACK when the callback throws, E_ARGUMENT for what is no tensor and no function, E_UNSUPPORTED inside the
 * functions of `cond`, `scan` and loops
 * @example
 * const seen: number[] = []
 * const f = jit((x: Tensor) => inspect(x.mul(2), (data) => seen.push(Number(data[0]))).add(1))
 * f(tensor([3])) // [7]
 * seen // [6]
 */
export function inspect(x: Tensor, callback: Inspector | string = 'inspect'): Tensor {
  named('inspect', () => {
    if (!((x as unknown) instanceof Tensor)) throw notOperand(x)
    if (typeof callback !== 'string') checkFunction(callback, 'inspect')
  })
  const label = typeof callback === 'string' ? callback : 'inspect'
  const call = typeof callback === 'string' ? print(label) : callback
  const trace = currentTrace()
  if (trace === undefined) {
    const data = storageOf(x, 'inspect').readSync()
    placed(() => callInspector(label, () => asUser(() => call(data, x.shape, x.dtype))))
    return x
  }
  return wrap(
    record('inspect', [x], () => {
      const node = c.inspect(nodeIn(trace, x, 'inspect'), { label, call }, previousEffect(trace))
      trace.effects.push(node)
      return node
    }),
  )
}

/** Throws E_ARGUMENT for what is no kernel of the user. */
function checkKernel(kernel: Partial<OpaqueKernel> | null | undefined): void {
  const wrong =
    typeof kernel !== 'object' || kernel === null
      ? `the kernel is ${kindOf(kernel)}`
      : typeof kernel.name !== 'string'
        ? 'the kernel has no name'
        : typeof kernel.shapeRule !== 'function'
          ? `the kernel "${kernel.name}" has no function shapeRule`
          : typeof kernel.run !== 'function'
            ? `the kernel "${kernel.name}" has no function run`
            : undefined
  if (wrong !== undefined)
    throw new UserError('E_ARGUMENT', wrong, {
      help: 'give { name, shapeRule: (inputs) => ({ shape, dtype }), run: (inputs, output) => { ... } }',
    })
}

/**
 * A user's kernel applied to tensors: `shapeRule` gives the result's shape and dtype, `run` fills it from row-major host views.
 * Fusion does not cross it; it has no derivative of its own (`customVjp` gives it one).
 * @throws E_ARGUMENT for what is no kernel and for a shape rule that gives something else, E_SHAPE and E_DTYPE for a shape or
 * dtype that is none, E_CALLBACK when `run` throws
 * @example
 * const reversed = {
 *   name: 'reversed',
 *   shapeRule: ([x]: readonly { shape: Shape; dtype: DType }[]) => ({ shape: x?.shape ?? [], dtype: x?.dtype ?? 'f32' }),
 *   run: ([x]: readonly HostArray[], y: HostArray) => y.set(([...(x ?? [])] as number[]).reverse() as never),
 * }
 * opaque(reversed, tensor([1, 2, 3])) // [3, 2, 1]
 */
export function opaque(kernel: OpaqueKernel, ...inputs: readonly Tensor[]): Tensor {
  named('opaque', () => checkKernel(kernel))
  return many(kernel.name, inputs, (nodes) => c.opaque(kernel, ...nodes))
}
