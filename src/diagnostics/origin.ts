/** Provenance: which of the user's calls (or which ONNX node) a graph node came from. */

/** One user-visible operation. Reports count operations by origin id, not by primitive. */
export interface Origin {
  /** Unique per user call within a process; variants of one origin share it. */
  readonly id: number
  /** The call's name as the user knows it: `softmax`, `Conv`. */
  readonly name: string
  /** `file:line:column`, or the ONNX node's name. */
  readonly where?: string
  /** The checkpointed region it was traced in (the outermost): its values are computed again for the backward pass, not kept. */
  readonly checkpoint?: number
  /** Set on what transposition builds for the operation: its part of a backward pass. */
  readonly phase?: 'backward'
}

let nextId = 1
let nextRegion = 1
let current: Origin | undefined
let region: number | undefined
let backward = false

export const unknownOrigin: Origin = { id: 0, name: 'unknown' }

/** A fresh origin. */
export function makeOrigin(name: string, where?: string): Origin {
  const id = nextId++
  return where === undefined ? { id, name } : { id, name, where }
}

/** Variants of an origin, made once each, so that equal provenance is one object. */
const backwards = new WeakMap<Origin, Origin>()
const checkpoints = new WeakMap<Origin, Map<number, Origin>>()

/** The same operation's part of a backward pass. */
export function backwardOrigin(origin: Origin): Origin {
  if (origin.phase === 'backward') return origin
  const have = backwards.get(origin)
  if (have !== undefined) return have
  const made: Origin = { ...origin, phase: 'backward' }
  backwards.set(origin, made)
  return made
}

function inRegion(origin: Origin, checkpoint: number): Origin {
  if (origin.checkpoint === checkpoint) return origin
  const variants = checkpoints.get(origin) ?? new Map<number, Origin>()
  checkpoints.set(origin, variants)
  const made = variants.get(checkpoint) ?? { ...origin, checkpoint }
  variants.set(checkpoint, made)
  return made
}

/** The origin that nodes built now belong to. */
export function currentOrigin(): Origin {
  const origin = current ?? unknownOrigin
  const placed = region === undefined ? origin : inRegion(origin, region)
  return backward ? backwardOrigin(placed) : placed
}

/** Runs `body` so that nodes built inside belong to one user call; an enclosing call keeps its claim. */
export function withOrigin<T>(name: string, where: string | undefined, body: () => T): T {
  if (current !== undefined) return body()
  current = makeOrigin(name, where)
  try {
    return body()
  } finally {
    current = undefined
  }
}

/** Runs `body` so that nodes built inside carry a given origin (rewrites keep the provenance of what they replace). */
export function inOrigin<T>(origin: Origin, body: () => T): T {
  const outer = current
  current = origin
  try {
    return body()
  } finally {
    current = outer
  }
}

/** Runs `body` so that nodes built inside belong to a checkpointed region of their own; an enclosing region keeps its claim. */
export function inCheckpoint<T>(body: () => T): T {
  if (region !== undefined) return body()
  region = nextRegion++
  try {
    return body()
  } finally {
    region = undefined
  }
}

/** Runs `body` so that nodes built inside, whatever their origin, are parts of a backward pass. */
export function inBackward<T>(body: () => T): T {
  const outer = backward
  backward = true
  try {
    return body()
  } finally {
    backward = outer
  }
}
