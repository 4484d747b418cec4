/** How many statements the kernel of two groups has at least, from the statements of each. */
import type { Node } from '../graph/node.ts'
import type { ValueId } from '../kernel/ir.ts'
import type { Body } from './body.ts'

/** The statements of a body by what becomes of them where another body joins it. */
interface Statements {
  readonly all: number
  /** Those of operations: two bodies share none that they do not both compute. */
  readonly operations: number
  readonly literals: ReadonlySet<string>
  /** Loads of each tensor. */
  readonly loads: ReadonlyMap<Node, number>
  /** Casts and products, which may be left out where they meet others of their kind (`unrounded`, `joinLiterals`). */
  readonly casts: number
  readonly products: number
  /** Tensors whose elements, as loaded, are operands of such. */
  readonly meeting: ReadonlySet<Node>
}

const known = new WeakMap<Body, Statements>()

function statementsOf(body: Body): Statements {
  const have = known.get(body)
  if (have !== undefined) return have
  const literals = new Set<string>()
  const loads = new Map<Node, number>()
  const meeting = new Set<Node>()
  const loaded = new Map<ValueId, Node>()
  let [operations, casts, products] = [0, 0, 0]
  for (const { id, op, dtype } of body.lets)
    switch (op.kind) {
      case 'const':
        literals.add(`${dtype} ${typeof op.value} ${Object.is(op.value, -0) ? '-0' : op.value}`)
        break
      case 'load': {
        const node = body.loads.get(op.param)?.node
        if (node !== undefined) {
          loads.set(node, (loads.get(node) ?? 0) + 1)
          loaded.set(id, node)
        }
        break
      }
      case 'scalar':
        operations++
        if (op.op === 'cast') casts++
        if (op.op === 'mul') products++
        if (op.op === 'cast' || op.op === 'mul')
          for (const a of op.args) {
            const node = loaded.get(a)
            if (node !== undefined) meeting.add(node)
          }
        break
      case 'reduce':
      case 'scan':
      case 'dot':
      case 'random':
        operations++
        break
      default:
    }
  const made = { all: body.lets.length, operations, literals, loads, casts, products, meeting }
  known.set(body, made)
  return made
}

interface Part {
  readonly members: ReadonlySet<Node>
  readonly body: Body
}

/** The fewest statements of the kernel of two groups that have no member in common. */
export function leastStatements(a: Part, b: Part): number {
  const [p, q] = [statementsOf(a.body), statementsOf(b.body)]
  const [more, less, members, others] = p.all > q.all ? [p, q, a.members, b.members] : [q, p, b.members, a.members]
  let all = more.all + less.operations
  for (const l of less.literals) if (!more.literals.has(l)) all++
  for (const n of less.loads.keys()) if (!more.loads.has(n) && !members.has(n)) all++
  for (const [n, count] of more.loads) if (others.has(n)) all -= count
  let meet = false
  for (const n of less.meeting) meet ||= members.has(n)
  for (const n of more.meeting) meet ||= others.has(n)
  return meet ? all - 2 * Math.min(p.casts, q.casts) - 3 * Math.min(p.products, q.products) : all
}

/** Whether two groups compute a node both. */
export function overlap(a: ReadonlySet<Node>, b: ReadonlySet<Node>): boolean {
  const [few, many] = a.size < b.size ? [a, b] : [b, a]
  for (const n of few) if (many.has(n)) return true
  return false
}
