/** A binary heap: least first by a total order. It knows nothing of plans. */

export class Heap<T> {
  private readonly items: T[] = []
  private readonly compare: (a: T, b: T) => number

  constructor(compare: (a: T, b: T) => number) {
    this.compare = compare
  }

  push(x: T): void {
    const { items, compare } = this
    let i = items.length
    items.push(x)
    while (i > 0) {
      const up = (i - 1) >> 1
      const above = items[up] ?? x
      if (compare(above, x) <= 0) break
      items[i] = above
      items[up] = x
      i = up
    }
  }

  /** The least. */
  peek(): T | undefined {
    return this.items[0]
  }

  pop(): T | undefined {
    const { items, compare } = this
    const top = items[0]
    const last = items.pop()
    if (last === undefined || items.length === 0) return top
    // What was last mostly ends near the leaves again: the lesser child moves up down to them, then it rises to its place. Half as many are compared.
    let i = 0
    for (;;) {
      const left = 2 * i + 1
      const a = items[left]
      if (a === undefined) break
      const b = items[left + 1]
      const isRight = b !== undefined && compare(b, a) < 0
      items[i] = isRight ? b : a
      i = isRight ? left + 1 : left
    }
    while (i > 0) {
      const up = (i - 1) >> 1
      const above = items[up] ?? last
      if (compare(above, last) <= 0) break
      items[i] = above
      i = up
    }
    items[i] = last
    return top
  }
}
