/** Values in messages. */
/** Names of an object that are listed. */
const mostNames = 3

const short = (name: string): string => (name.length > 40 ? `${name.slice(0, 40)}...` : name)

/** Whether a value is a proxy that was revoked: whatever is asked of it throws. */
export function isRevoked(x: unknown): boolean {
  try {
    Array.isArray(x)
    return false
  } catch {
    return true
  }
}

/** What a value is, in words. */
export function kindOf(x: unknown): string {
  if (isRevoked(x)) return 'a revoked proxy'
  if (x === null || x === undefined) return String(x)
  if (Array.isArray(x)) return 'an array'
  if (typeof x !== 'object') return `a ${typeof x}`
  const name = x.constructor?.name ?? ''
  if (name === '' || name === 'Object') {
    const names = Object.keys(x)
    return names.length === 0 || names.length > mostNames
      ? 'an object'
      : `an object with ${names.map(short).join(', ')}`
  }
  return `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}`
}

/** What a caller gave, as text: the value where it is a plain one, else its kind. Some objects have no text of their own, nor have symbols. */
export function shown(x: unknown): string {
  if (typeof x === 'function') return 'a function'
  if (typeof x === 'symbol') return 'a symbol'
  if (typeof x !== 'object' || x === null) return String(x)
  return !isRevoked(x) && Array.isArray(x) ? 'a list' : kindOf(x)
}
