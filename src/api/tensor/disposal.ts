/**
 * `Symbol.dispose` for users whose `lib` does not declare it: without it the methods of that name have a type that is an error, and
 * an error in a computed name makes an index signature. It merges with the declaration of `lib: esnext.disposable`.
 */

declare global {
  interface SymbolConstructor {
    readonly dispose: unique symbol
  }
}

export {}
