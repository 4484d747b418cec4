/** The state of a tensor: concrete, pending, traced or gone; and how an operation on tensors becomes nodes. */

import './disposal.ts'
import type { Operand } from '../../compose/elementwise.ts'
import { InternalError, UserError } from '../../diagnostics/errors.ts'
import { withContext } from '../../graph/build.ts'
import type { Node } from '../../graph/node.ts'
import { bytesOf } from '../../plan/body/region.ts'
import type { Scalar } from '../../scalar/ops.ts'
import type { DType } from '../../types/dtype.ts'
import { type Shape, showShape } from '../../types/shape.ts'
import { callSite } from '../calls/callsite.ts'
import { isScalar, notOperand } from '../calls/options.ts'
import { isOutermost, placed, within, withPlace } from '../calls/place.ts'
import { boundTo, eldestOf, evaluateNodes, leafOf, pendingSize, Readers, wasRead } from './lazy.ts'
import { track } from './scope.ts'
import { retain, type Storage } from './storage.ts'
import { leaked, type Purpose, Trace } from './trace.ts'

/** A lazy graph is evaluated when it grows beyond this many nodes. */
const maxPending = 500

/** A trace of tensors. */
export type TensorTrace = Trace<TensorCore>

/** What a tensor is now. */
export type State =
  | { readonly kind: 'stored'; readonly storage: Storage }
  | { readonly kind: 'lazy'; readonly node: Node; readonly size: number }
  | { readonly kind: 'traced'; readonly node: Node; readonly trace: TensorTrace }
  | { readonly kind: 'gone'; readonly why: 'disposed' | 'donated' }

/** Tensors with a pending graph: they are evaluated before memory they read is freed. */
const pending = new Set<WeakRef<TensorCore>>()
let sweepAt = 256

/** Who waits for which storages, as long as the task at hand lasts: longer, it would hold what nobody else does. */
let readers: Readers<TensorCore> | undefined

function readersSince(since: number): Readers<TensorCore> {
  if (readers !== undefined && readers.since <= since) return readers
  // Asked for older values than before: more will follow.
  const made = new Readers<TensorCore>(readers === undefined ? since : 0)
  if (readers === undefined)
    queueMicrotask(() => {
      readers = undefined
    })
  for (const ref of pending) {
    const t = ref.deref()
    const state = t === undefined ? undefined : read(t)
    if (t !== undefined && state?.kind === 'lazy') made.add(state.node, t)
  }
  readers = made
  return made
}

function addPending(t: TensorCore, node: Node): WeakRef<TensorCore> {
  readers?.add(node, t)
  const ref = new WeakRef(t)
  pending.add(ref)
  if (pending.size > sweepAt) {
    for (const r of pending) if (r.deref() === undefined) pending.delete(r)
    sweepAt = Math.max(256, pending.size * 2)
  }
  return ref
}

let read: (t: TensorCore) => State
let write: (t: TensorCore, state: State) => void

/** Shape, dtype and state; `Tensor` adds the operations. */
export abstract class TensorCore {
  /** Extents, outermost first. */
  readonly shape: Shape
  /** Element type. */
  readonly dtype: DType
  #state: State
  #pending: WeakRef<TensorCore> | undefined

  protected constructor(shape: Shape, dtype: DType, state: State) {
    this.shape = shape
    this.dtype = dtype
    this.#state = state
    if (state.kind === 'lazy') this.#pending = addPending(this, state.node)
    track(this)
  }

  static {
    read = (t) => t.#state
    write = (t, state) => {
      if (t.#pending !== undefined) pending.delete(t.#pending)
      t.#pending = undefined
      t.#state = state
    }
  }

  /**
   * Gives the tensor's memory back now; reading it afterwards throws E_DISPOSED. Results computed from it stay valid: those
   * still pending are evaluated first. Disposing twice is harmless.
   * @example
   * const x = tensor([1, 2])
   * const y = x.add(1)
   * x.dispose()
   * y // [2, 3]
   * x.tolist() // throws E_DISPOSED
   */
  dispose(): void {
    const state = this.#state
    if (state.kind === 'gone') return
    write(this, { kind: 'gone', why: 'disposed' })
    if (state.kind === 'stored') release(state.storage)
  }

  /** Lets `using` dispose the tensor at the end of its block. */
  [Symbol.dispose](): void {
    this.dispose()
  }
}

/** What a tensor is now. */
export const stateOf = (t: TensorCore): State => read(t)

/** Evaluates what is still pending and reads a storage. */
function settle(storage: Storage): void {
  if (pending.size === 0 || !wasRead(storage)) return
  evaluateAll(readersSince(eldestOf(storage)).of(storage))
}

/** One tensor less holds a storage; the last one frees it. */
export function release(storage: Storage): void {
  if (storage.refs === 1) settle(storage)
  storage.refs--
  if (storage.refs === 0) storage.free()
}

/** The storage of a tensor that is to be donated: what is pending on it is evaluated, since its memory may be written over. */
export function settledStorage(t: TensorCore): Storage {
  const storage = storageOf(t, 'donation')
  settle(storage)
  return storage
}

/** Marks a tensor as given to a program, which holds its storage in its place no longer. */
export function donate(t: TensorCore, storage: Storage): void {
  write(t, { kind: 'gone', why: 'donated' })
  storage.refs--
}

function gone(t: TensorCore, why: 'disposed' | 'donated', what: string): UserError {
  const help =
    why === 'disposed'
      ? 'use it before disposing it, or return it from tidy'
      : 'the program it was donated to owns its memory: use its result instead'
  return new UserError('E_DISPOSED', `${what} of a ${why} tensor ${t.dtype}${showShape(t.shape)}`, {
    help,
    ...withPlace(),
  })
}

/** Evaluates pending tensors together in one program. */
export function evaluateAll(tensors: readonly TensorCore[]): void {
  const todo = tensors.flatMap((t) => {
    const state = read(t)
    return state.kind === 'lazy' ? [{ t, node: state.node }] : []
  })
  const unique = [...new Map(todo.map((x) => [x.t, x])).values()]
  if (unique.length === 0) return
  placed(() => evaluateNodes(unique.map((x) => x.node))).forEach((storage, i) => {
    const x = unique[i]
    if (x !== undefined) write(x.t, { kind: 'stored', storage })
  })
}

/** The value of a tensor, evaluated if it is pending. Throws E_DISPOSED, E_NOT_CONCRETE, E_LEAKED_TRACER. */
export function storageOf(t: TensorCore, what: string): Storage {
  let state = read(t)
  if (state.kind === 'lazy') {
    evaluateAll([t])
    state = read(t)
  }
  switch (state.kind) {
    case 'stored':
      return state.storage
    case 'gone':
      throw gone(t, state.why, what)
    case 'traced':
      if (!state.trace.alive) throw leaked(what, state.trace.purpose.name, callSite())
      throw new UserError(
        'E_NOT_CONCRETE',
        `${what} of a tensor inside ${state.trace.purpose.name}: ${t.dtype}${showShape(t.shape)} has no value while the function is traced`,
        {
          help: 'return it, look at it with inspect(x, callback), or compute with where instead of branching on it',
          ...withPlace(),
        },
      )
    case 'lazy':
      throw new InternalError('an evaluated tensor is still pending')
  }
}

let activeTrace: TensorTrace | undefined

/** The trace that operations build into, if a function is being traced. */
export const currentTrace = (): TensorTrace | undefined => activeTrace

/** Runs the body with a fresh trace. */
export function tracing<R>(
  purpose: Purpose,
  body: (trace: TensorTrace) => R,
): { readonly trace: TensorTrace; readonly result: R } {
  const outer = activeTrace
  const trace: TensorTrace = placed(() => new Trace<TensorCore>(purpose, outer))
  activeTrace = trace
  try {
    return { trace, result: trace.run(() => body(trace)) }
  } finally {
    activeTrace = outer
  }
}

/** The node a tensor is within a trace: one from outside becomes a parameter of the graph. */
export function nodeIn(trace: TensorTrace, t: TensorCore, what: string): Node {
  const state = read(t)
  if (state.kind === 'traced') {
    if (state.trace === trace) return state.node
    // Traces that are alive enclose the current one.
    if (trace.purpose.program || !state.trace.alive) throw leaked(what, state.trace.purpose.name, callSite())
    return trace.capture(t, state.node, t.shape, t.dtype)
  }
  if (!trace.purpose.program && state.kind === 'lazy') return trace.capture(t, state.node, t.shape, t.dtype)
  return trace.capture(t, storageOf(t, what), t.shape, t.dtype)
}

/** The node a tensor is in the lazy graph. */
function lazyNode(t: TensorCore, what: string): { readonly node: Node; readonly size: number } {
  const state = read(t)
  switch (state.kind) {
    case 'stored':
      return { node: leafOf(state.storage), size: 0 }
    case 'lazy':
      return state
    case 'gone':
      throw gone(t, state.why, what)
    case 'traced':
      throw leaked(what, state.trace.purpose.name, callSite())
  }
}

/** Runs an operation under its name; errors say the name and the place of the outermost call. */
export const named = <R>(name: string, body: () => R): R =>
  within(name, activeTrace !== undefined && isOutermost() ? callSite() : undefined, body)

/** A tensor's state when it has, or can get, a value. */
export type LiveState = Exclude<State, { kind: 'gone' }>

/** An operand that is no tensor. Throws E_ARGUMENT for what is no number either: callers in JavaScript may pass anything. */
function scalar(x: Scalar): Scalar {
  if (isScalar(x)) return x
  throw notOperand(x)
}

/** Operands as nodes of the running trace or of the lazy graph, and what a result node makes there. */
function enter(
  name: string,
  operands: readonly (TensorCore | Scalar)[],
): { readonly inputs: Operand[]; readonly finish: (node: Node) => LiveState } {
  const trace = activeTrace
  if (trace !== undefined)
    return {
      inputs: operands.map((x) => (x instanceof TensorCore ? nodeIn(trace, x, name) : scalar(x))),
      finish: (node) => ({ kind: 'traced', node, trace }),
    }
  let size = 1
  const inputs = operands.map((x) => {
    if (!(x instanceof TensorCore)) return scalar(x)
    const lazy = lazyNode(x, name)
    size += lazy.size
    return lazy.node
  })
  return { inputs, finish: (node) => pendingState(node, size) }
}

/** A value that is evaluated only because much waits: larger ones may never have to stand in memory. */
const isModest = (node: Node): boolean => bytesOf(node) <= 2 ** 30

/** The state of a lazy node: shared with a tensor that has its value, evaluated when the graph is large, else pending. */
function pendingState(node: Node, estimate: number): LiveState {
  const bound = boundTo(node)
  if (bound !== undefined) return { kind: 'stored', storage: retain(bound) }
  const size = estimate > maxPending ? pendingSize(node) : estimate
  const [storage] = size > maxPending && isModest(node) ? evaluateNodes([node]) : []
  return storage === undefined ? { kind: 'lazy', node, size } : { kind: 'stored', storage }
}

/** The state of an operation's result. */
export function record(
  name: string,
  operands: readonly (TensorCore | Scalar)[],
  build: (operands: Operand[]) => Node,
): LiveState {
  return named(name, () => {
    const { inputs, finish } = enter(name, operands)
    return finish(build(inputs))
  })
}

/** The states of an operation's several results. */
export function recordMany(
  name: string,
  operands: readonly (TensorCore | Scalar)[],
  build: (operands: Operand[]) => readonly Node[],
): LiveState[] {
  return named(name, () => {
    const { inputs, finish } = enter(name, operands)
    return build(inputs).map(finish)
  })
}

/** What a graph gives where it is applied. */
export interface AppliedGraph {
  readonly outputs: readonly Node[]
  /** What must run though nothing reads it. */
  readonly effects: readonly Node[]
}

/** The states of a graph's outputs on operands; outside a trace effects run at once, together with the outputs. */
export function recordGraph(
  name: string,
  operands: readonly TensorCore[],
  build: (operands: readonly Node[]) => AppliedGraph,
): LiveState[] {
  return named(name, () => {
    const trace = activeTrace
    if (trace !== undefined) {
      const { outputs, effects } = build(operands.map((x) => nodeIn(trace, x, name)))
      trace.effects.push(...effects)
      return outputs.map((node) => ({ kind: 'traced', node, trace }))
    }
    const inputs = operands.map((x) => lazyNode(x, name).node)
    const { outputs, effects } = withContext(() => build(inputs))
    const size = pendingSize(...outputs)
    if (effects.length === 0 && size <= maxPending) return outputs.map((node) => pendingState(node, size))
    const storages = evaluateNodes([...outputs, ...effects])
    for (const unread of storages.slice(outputs.length)) release(unread)
    return storages.slice(0, outputs.length).map((storage) => ({ kind: 'stored', storage }))
  })
}

/** Throws E_ARGUMENT for what is no state: data, say, given to `new Tensor`. */
export function checkState(state: LiveState): void {
  const given: Partial<LiveState> | null | undefined = state
  if (given?.kind === undefined)
    throw new UserError('E_ARGUMENT', 'new Tensor: tensors are made by functions', {
      help: 'tensor([1, 2]), zeros([2, 3]), random.normal(key, [2, 3])',
      ...withPlace(),
    })
}

/** Shape and dtype of a live state. */
export function typeOfState(state: LiveState): { readonly shape: Shape; readonly dtype: DType } {
  return state.kind === 'stored' ? state.storage : state.node
}
