/** Scopes: tensors made inside a `tidy` go with it. */

/** Something a scope can free. */
export interface Scoped {
  dispose(): void
}

let current: Set<Scoped> | undefined

/** Puts a new tensor into the innermost scope. */
export function track(x: Scoped): void {
  current?.add(x)
}

/** Runs `body` in a scope; what it made, except what `keep` gives, is freed at the end (also when it throws). */
export function inScope<R>(body: () => R, keep: (result: R) => Iterable<Scoped>): R {
  const outer = current
  const mine = new Set<Scoped>()
  current = mine
  try {
    const result = body()
    for (const x of keep(result)) if (mine.delete(x)) outer?.add(x)
    return result
  } finally {
    current = outer
    for (const x of mine) x.dispose()
  }
}
