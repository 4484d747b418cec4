/**
 * Patterns over elementwise expressions: rules as data. A pattern is a variable (`'x'`), a repeated literal (`'#c'`, or one
 * of a given value: `1`), or an operation on patterns (`['mul', 'x', 1]`). A variable that stands twice matches one node.
 */
import { InternalError } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { Node, OpName } from '../graph/node.ts'
import { scalarOf } from '../scalar/host.ts'
import { type BinaryName, type Scalar, scalarInfo, type UnaryName } from '../scalar/ops.ts'
import { type DType, type DTypeClass, dtypeClass } from '../types/dtype.ts'
import { fullOf, isDecidedByChance } from './facts.ts'
import type { Rule } from './rule.ts'

export type PatternOp = UnaryName | BinaryName | 'select'
export type Pattern = string | number | boolean | readonly [PatternOp, ...Pattern[]]

/** What a pattern's variables stand for. */
export type Bindings = ReadonlyMap<string, Node>

/** The scalar a literal variable stands for. */
export function literalOf(bindings: Bindings, name: string): Scalar {
  const n = bindings.get(name)
  if (n?.op !== 'full') throw new InternalError(`pattern variable ${name} is no literal`)
  return n.attrs.value
}

export interface PatternRule extends Rule {
  readonly from: readonly [PatternOp, ...Pattern[]]
  /** dtype classes of the matched node's data operands. */
  readonly on: readonly DTypeClass[]
  readonly dtypes: readonly DType[] | undefined
  readonly when: ((bindings: Bindings, dtype: DType) => boolean) | undefined
}

const isLiteral = (p: Pattern): boolean => typeof p !== 'string' || p.startsWith('#')

export const isOperation = (p: Pattern): p is readonly [PatternOp, ...Pattern[]] => typeof p === 'object'

const sameScalar = (a: Scalar, b: Scalar): boolean => Object.is(a, b)

/** All ways to match from here on: `then` is called on each, and ends the search by returning true. */
function matchInto(p: Pattern, node: Node, bound: Map<string, Node>, then: () => boolean): boolean {
  if (typeof p === 'string') {
    if (isLiteral(p) && node.op !== 'full') return false
    const have = bound.get(p)
    if (have !== undefined) return have === node && then()
    bound.set(p, node)
    if (then()) return true
    bound.delete(p)
    return false
  }
  if (!isOperation(p)) return node.op === 'full' && sameScalar(node.attrs.value, scalarOf(node.dtype, p)) && then()
  const [op, a, b, c] = p
  if (node.op !== op) return false
  const [x, y, z] = node.inputs
  if (a === undefined || x === undefined) return false
  if (b === undefined) return matchInto(a, x, bound, then)
  if (y === undefined) return false
  if (c !== undefined)
    return z !== undefined && matchInto(a, x, bound, () => matchInto(b, y, bound, () => matchInto(c, z, bound, then)))
  if (matchInto(a, x, bound, () => matchInto(b, y, bound, then))) return true
  if (scalarInfo(op).commutative !== true) return false
  return matchInto(a, y, bound, () => matchInto(b, x, bound, then))
}

/** The first match of a pattern that satisfies `accept`; operands of commutative operations match in both orders. */
export function matchPattern(
  p: Pattern,
  node: Node,
  accept: (b: Bindings) => boolean = () => true,
): Bindings | undefined {
  const bound = new Map<string, Node>()
  return matchInto(p, node, bound, () => accept(bound)) ? bound : undefined
}

/** The expression a pattern describes; literals take the dtype of what stands beside them, at the root that of `like`. */
export function buildPattern(p: Pattern, bindings: Bindings, like: Node): Node {
  if (typeof p === 'string') {
    const n = bindings.get(p)
    if (n === undefined) throw new InternalError(`pattern variable ${p} is not bound`)
    return n
  }
  if (!isOperation(p)) return fullOf(like.shape, like.dtype, p)
  const [op, ...args] = p
  const built = args.map((a) =>
    typeof a === 'object' || typeof a === 'string' ? buildPattern(a, bindings, like) : undefined,
  )
  const beside = built.find((n, i) => n !== undefined && !(op === 'select' && i === 0)) ?? like
  const inputs = built.map((n, i) => n ?? buildPattern(args[i] ?? 0, bindings, beside))
  return makeNode<OpName>(op, inputs, {}) as Node
}

/** The dtype of the data an elementwise node works on: that of its last operand (the result of a comparison is bool). */
const operandDType = (node: Node): DType => node.inputs.at(-1)?.dtype ?? node.dtype

/** A pattern for people: `mul(x, 1)`. */
export function showPattern(p: Pattern): string {
  if (typeof p === 'string') return p.replace('#', '')
  if (!isOperation(p)) return Object.is(p, -0) ? '-0' : String(p)
  const [op, ...args] = p
  return `${op}(${args.map(showPattern).join(', ')})`
}

export interface PatternRuleSpec {
  readonly name: string
  readonly kind: Rule['kind']
  readonly on: readonly DTypeClass[]
  /** Narrower than `on`: exactly these dtypes. */
  readonly dtypes?: readonly DType[]
  readonly from: readonly [PatternOp, ...Pattern[]]
  readonly to: Pattern | ((bindings: Bindings, node: Node) => Node)
  /** What a function as `to` does, for people. */
  readonly describe?: string
  readonly when?: (bindings: Bindings, dtype: DType) => boolean
}

/** Ops that nodes which match a pattern have among their operands: most nodes are told apart by that. */
function operandOps([, ...args]: PatternRule['from']): OpName[] {
  const ops = args.flatMap((p): OpName[] => (isOperation(p) ? [p[0]] : isLiteral(p) ? ['full'] : []))
  return [...new Set(ops)]
}

/** The variables and given literals of a pattern. */
const leavesOf = ([, ...args]: PatternRule['from']): (string | number | boolean)[] => {
  const leaves: (string | number | boolean)[] = []
  const left: Pattern[] = [...args]
  for (let p = left.pop(); p !== undefined; p = left.pop())
    if (isOperation(p)) left.push(...p.slice(1).filter((x) => x !== undefined))
    else leaves.push(p)
  return leaves
}

/** Whether a node reads a result of an op. */
function reads({ inputs }: Node, op: OpName): boolean {
  for (const x of inputs) if (x.op === op) return true
  return false
}

/** A rule from a pattern and what stands in its place. */
export function patternRule(spec: PatternRuleSpec): PatternRule {
  const { name, kind, on, dtypes, from, to, when } = spec
  const right = typeof to === 'function' ? (spec.describe ?? '') : showPattern(to)
  const needed = operandOps(from)
  const leaves = leavesOf(from)
  const given = leaves.filter((p) => typeof p === 'number')
  const literals = leaves.filter((p) => typeof p === 'string').filter(isLiteral)
  return {
    name,
    kind,
    description: `${showPattern(from)} -> ${right}`,
    ops: [from[0]],
    from,
    on,
    dtypes,
    when,
    apply: (node, { generic }) => {
      for (const op of needed) if (!reads(node, op)) return undefined
      const dtype = operandDType(node)
      if (!on.includes(dtypeClass(dtype)) || dtypes?.includes(dtype) === false) return undefined
      const varies = (v: Scalar): boolean => generic?.numbers.has(Number(v)) === true
      if (given.some(varies) || isDecidedByChance(node, generic)) return undefined
      const accept = (b: Bindings): boolean =>
        when === undefined || (when(b, dtype) && (kind === 'fast' || !literals.some((l) => varies(literalOf(b, l)))))
      const bindings = matchPattern(from, node, when === undefined ? undefined : accept)
      if (bindings === undefined) return undefined
      return typeof to === 'function' ? to(bindings, node) : buildPattern(to, bindings, node)
    },
  }
}
