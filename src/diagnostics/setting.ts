/** A setting that holds while a function runs. */
export class Setting<T> {
  #value: T

  constructor(value: T) {
    this.#value = value
  }

  get value(): T {
    return this.#value
  }

  /** Runs a function under another value. */
  during<R>(value: T, body: () => R): R {
    const outer = this.#value
    this.#value = value
    try {
      return body()
    } finally {
      this.#value = outer
    }
  }
}
