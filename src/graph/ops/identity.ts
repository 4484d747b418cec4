/** Numbers for objects whose identity is part of a node's identity: kernels, callbacks, graphs inside. */

const ids = new WeakMap<object, number>()
let next = 1
/** The number of an object; the same for the same object. */
export function identity(x: object): number {
  const id = ids.get(x) ?? next++
  ids.set(x, id)
  return id
}
