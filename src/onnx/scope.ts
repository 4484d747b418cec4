/** Names of values while a graph is imported: nested scopes, with a mark on values no handler could give. */
import { UserError } from '../diagnostics/errors.ts'
import type { Value } from './codes.ts'

/** The value of a name whose node (or one before it) is unsupported. */
export const poisoned = Symbol('poisoned')

export type Binding = Value | typeof poisoned

export class Scope {
  private readonly names = new Map<string, Binding>()
  private readonly outer: Scope | undefined
  /** Makes values on first use (initialisers). */
  private readonly lazy: Map<string, () => Binding>

  constructor(outer?: Scope, lazy: Map<string, () => Binding> = new Map()) {
    this.outer = outer
    this.lazy = lazy
  }

  set(name: string, value: Binding): void {
    this.names.set(name, value)
  }

  find(name: string): Binding | undefined {
    const have = this.names.get(name)
    if (have !== undefined) return have
    const make = this.lazy.get(name)
    if (make !== undefined) {
      const node = make()
      this.names.set(name, node)
      return node
    }
    return this.outer?.find(name)
  }

  get(name: string, reader: string): Binding {
    const have = this.find(name)
    if (have === undefined)
      throw new UserError('E_ONNX_MALFORMED', `${reader} reads "${name}", which nothing defines`, {
        help: 'the model lacks a part: export it again',
      })
    return have
  }
}
