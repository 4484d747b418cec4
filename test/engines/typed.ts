/** TypeScript that an engine runs as it stands, where it does: types are left away, lines stay. */
interface Product<T> {
  readonly value: T
}

export const atFault = <T>(matmul: (a: T, b: T) => T, a: T, b: T): Product<T> => ({
  // the call at fault
  value: matmul(a, b),
})
