/** Provenance: which of the user's calls (or which ONNX node) a graph node came from. */

/** One user-visible operation. Reports count operations by origin, not by primitive. */
export interface Origin {
  /** Unique per user call within a process. */
  readonly id: number
  /** The call's name as the user knows it: `softmax`, `Conv`. */
  readonly name: string
  /** `file:line:column`, or the ONNX node's name. */
  readonly where?: string
}

let nextId = 1
let current: Origin | undefined

export const unknownOrigin: Origin = { id: 0, name: 'unknown' }

/** A fresh origin. */
export function makeOrigin(name: string, where?: string): Origin {
  const id = nextId++
  return where === undefined ? { id, name } : { id, name, where }
}

/** The origin that nodes built now belong to. */
export function currentOrigin(): Origin {
  return current ?? unknownOrigin
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
