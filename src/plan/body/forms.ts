/** Forms of regions: what a region computes, without regard for which nodes of the graph do. Regions of one form make one kernel. */
import type { Node } from '../../graph/node.ts'
import { attrsKey } from '../../graph/table.ts'
import { inStoringOrder, isFree, type Region, shallowFirst } from './region.ts'
import type { StoredForms } from './stored.ts'

export interface Form {
  /** Equal for regions of one form. */
  readonly key: string
  /** The nodes that the region evaluates and reads, in an order that is the same for all regions of the form. */
  readonly nodes: readonly Node[]
}

/** What forms say of a node, found once: there are more trials than nodes. */
interface Known {
  readonly free: boolean
  /** Its code where it is evaluated, and where it is read. */
  computed: string | undefined
  read: string | undefined
}

/**
 * Forms of the regions of a graph. A body follows from its results in the order in which they are bound, and from the operations below
 * them, each with its operands in the order in which they are evaluated, down to what is read: its dtype, shape and format.
 */
export class Forms {
  private readonly codes = new Map<string, number>()
  private readonly known = new Map<Node, Known>()

  of({ members, outputs }: Region, { bits, rows }: StoredForms): Form {
    // Where each node stands in `nodes`; those that wait for their operands are `waiting`.
    const numbers = new Map<Node, number>()
    const waiting = -1
    const nodes: Node[] = []
    const stack: Node[] = []
    let key = ''
    const roots = inStoringOrder(outputs)
    for (const root of roots) {
      stack.push(root)
      for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
        const seen = numbers.get(n)
        if (seen !== undefined && seen !== waiting) continue
        const { inputs } = n
        const known = this.known.get(n) ?? this.know(n)
        const isComputed = seen === waiting || known.free || members.has(n)
        if (isComputed && seen === undefined && inputs.length > 0) {
          numbers.set(n, waiting)
          stack.push(n)
          for (let i = inputs.length - 1; i >= 0; i--) {
            const x = inputs[i]
            if (x !== undefined) stack.push(x)
          }
          continue
        }
        if (isComputed) {
          key += known.computed ??= this.codeOfComputed(n)
          for (const x of inputs) key += `,${numbers.get(x)}`
        } else key += known.read ??= `r${this.codeOf(`${n.dtype}[${n.shape.join()}]`)}`
        const row = rows.get(n)
        key += row !== undefined ? `/${row};` : bits.has(n) ? '*;' : ';'
        numbers.set(n, nodes.length)
        nodes.push(n)
      }
    }
    return { key: `${key}>${roots.map((n) => numbers.get(n)).join()}`, nodes }
  }

  private know(n: Node): Known {
    const made: Known = { free: isFree(n), computed: undefined, read: undefined }
    this.known.set(n, made)
    return made
  }

  private codeOfComputed(n: Node): string {
    const order = shallowFirst(n)
    const asGiven = order.every((x, i) => x === i)
    return `${this.codeOf(`${n.op} ${attrsKey(n)} ${n.dtype}[${n.shape.join()}]${asGiven ? '' : order.join()}`)}`
  }

  /** A short name for a text. */
  private codeOf(text: string): number {
    const have = this.codes.get(text) ?? this.codes.size
    this.codes.set(text, have)
    return have
  }
}
