/** How many statements the kernel of two groups has at least, from the statements of each. */

import { axesOf, type Expr, valuesOf } from '../../affine/expr.ts'
import { predicateKey } from '../../affine/predicate.ts'
import type { Node } from '../../graph/node.ts'
import type { ValueId } from '../../kernel/ir.ts'
import { expressionsOf } from '../../kernel/walk.ts'
import type { Body } from './body.ts'

/** The statements of a body by what becomes of them where another body joins it. */
interface Statements {
  readonly all: number
  /** Those of operations: two bodies share none that they do not both compute. */
  readonly operations: number
  readonly literals: ReadonlySet<string>
  /** Loads of each tensor. */
  readonly loads: ReadonlyMap<Node, number>
  /** Where each load of a tensor reads, by the axes of `frame`. */
  readonly places: ReadonlyMap<string, Node>
  /**
   * The axes, and where on them every result stands, if that is one place: in bodies of one frame a place is the same.
   * None where axes are folded or values say where to read: what they are called means nothing in another body.
   */
  readonly frame: string | undefined
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
  const places = new Map<string, Node>()
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
          places.set(`${node.id} ${keyOf(op.index)} ${predicateKey(op.mask)}`, node)
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
  const frame = frameOf(body)
  const made = { all: body.lets.length, operations, literals, loads, places, frame, casts, products, meeting }
  known.set(body, made)
  return made
}

const keyOf = (index: readonly Expr[]): string => index.map((e) => e.key).join()

function frameOf({ axes, stores, lets }: Body): string | undefined {
  const [first] = stores
  if (first === undefined) return undefined
  const at = keyOf(first.index)
  if (stores.some((s) => s.pieces !== undefined || keyOf(s.index) !== at || `${s.shape}` !== `${first.shape}`))
    return undefined
  const stored = new Set(first.index.flatMap((e) => [...axesOf(e)]))
  if (axes.some((a) => !stored.has(a.name))) return undefined
  if (lets.some(({ op }) => op.kind === 'load' && expressionsOf(op).some((e) => valuesOf(e).size > 0))) return undefined
  return `${axes.map((a) => `${a.name}:${a.extent}`).join()}; ${at}; ${first.shape}`
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
  if (more.frame !== undefined && more.frame === less.frame) {
    for (const [place, n] of less.places) if (!more.places.has(place) && !members.has(n)) all++
  } else for (const n of less.loads.keys()) if (!more.loads.has(n) && !members.has(n)) all++
  if (others.size < more.loads.size) for (const n of others) all -= more.loads.get(n) ?? 0
  else for (const [n, count] of more.loads) if (others.has(n)) all -= count
  let meet = false
  for (const n of less.meeting) meet ||= members.has(n)
  if (more.meeting.size > 0) for (const n of others) meet ||= more.meeting.has(n)
  return meet ? all - 2 * Math.min(p.casts, q.casts) - 3 * Math.min(p.products, q.products) : all
}

/** Whether two groups compute a node both. */
export function overlap(a: ReadonlySet<Node>, b: ReadonlySet<Node>): boolean {
  const [few, many] = a.size < b.size ? [a, b] : [b, a]
  for (const n of few) if (many.has(n)) return true
  return false
}
