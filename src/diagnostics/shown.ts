/** Values in messages. */

/** What a caller gave, as text: the value where it is a plain one, else its kind. Some objects have no text of their own, nor have symbols. */
export function shown(x: unknown): string {
  if (typeof x === 'function') return 'a function'
  if (typeof x === 'symbol') return 'a symbol'
  if (typeof x !== 'object' || x === null) return String(x)
  return Array.isArray(x) ? 'a list' : 'an object'
}
