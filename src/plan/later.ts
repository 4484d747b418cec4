/** A value that is found when it is first asked for. What it is found from is let go then: reports outlive the planning that they tell of. */
export class Later<T> {
  private state: { readonly find: () => T } | { readonly value: T }

  constructor(find: () => T) {
    this.state = { find }
  }

  get value(): T {
    if ('find' in this.state) this.state = { value: this.state.find() }
    return this.state.value
  }
}
