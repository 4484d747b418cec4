/** Programs for every elementwise operation, by what the table of operations and their derivatives say; extras where a rule has cases. */
import { add, compare, mul } from '../../src/compose/index.ts'
import { makeNode } from '../../src/graph/build.ts'
import type { AttrsByOp, Node, OpName } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { isApproximated } from '../../src/scalar/approximations.ts'
import {
  type BinaryName,
  isScalarOp,
  type ScalarOp,
  scalarInfo,
  scalarOps,
  type UnaryName,
} from '../../src/scalar/ops.ts'
import { jvpGraph } from '../../src/transforms/index.ts'
import { elementwiseJvp } from '../../src/transforms/jvp/elementwise.ts'
import type { DType } from '../../src/types/dtype.ts'
import { graphOf, type Input, type Program } from './support.ts'

export interface OpCase extends Program {
  readonly name: string
  /** Derivatives exist and are tested; otherwise batching alone is. */
  readonly differentiable: boolean
  /** First derivatives only. */
  readonly once?: true
}

export const make = <O extends OpName>(op: O, inputs: readonly Node[], attrs: AttrsByOp[O]): Node =>
  makeNode(op, inputs, attrs) as Node

export const smooth = (name: string, inputs: readonly Input[], build: Program['build']): OpCase => ({
  name,
  inputs,
  build,
  differentiable: true,
})
export const constant = (name: string, inputs: readonly Input[], build: Program['build']): OpCase => ({
  ...smooth(name, inputs, build),
  differentiable: false,
})

type Plain = UnaryName | BinaryName
type Domain = readonly [lo: number, hi: number]

/** Where functions are smooth: all of [-2, 2] but for these and formulas. */
const domains: Readonly<Partial<Record<Plain, readonly Domain[]>>> = {
  sqrt: [[0.1, 3]],
  rsqrt: [[0.1, 3]],
  log: [[0.1, 3]],
  log1p: [[-0.8, 3]],
  tan: [[-1, 1]],
  asin: [[-0.9, 0.9]],
  acos: [[-0.9, 0.9]],
  acosh: [[1.2, 3]],
  atanh: [[-0.9, 0.9]],
  div: [
    [-2, 2],
    [0.5, 2],
  ],
  rem: [
    [2.05, 2.95],
    [0.98, 1.01],
  ],
  pow: [
    [0.3, 2],
    [-2, 2],
  ],
  atan2: [
    [0.3, 2],
    [-2, 2],
  ],
}
const everywhere: Domain = [-2, 2]
/** Inside the domain of every formula. */
const formulaDomain: Domain = [0.3, 0.9]

/** Operations on integers alone: a dtype for each, so that all widths and signs come up. */
const integers: Readonly<Partial<Record<Plain, DType>>> = { or: 'u8', xor: 'i64', shr: 'u32' }

function hasNoDerivative(op: string): boolean {
  const rule = isScalarOp(op) ? elementwiseJvp[op] : undefined
  return typeof rule === 'object' && 'unsupported' in rule
}

function ofTable(op: Plain): OpCase[] {
  const { arity, on, result } = scalarInfo(op)
  const build = (...xs: Node[]): Node => make<Plain>(op, xs, {})
  const operands = (of: (k: number) => Input): Input[] => Array.from({ length: arity }, (_, k) => of(k))
  if (result === 'bool')
    return [
      constant(
        op,
        operands(() => ({ shape: [7] })),
        build,
      ),
    ]
  if (!on.includes('float')) {
    const dtype = integers[op] ?? 'i32'
    const lo = dtype.startsWith('u') ? 0 : -5
    return [
      constant(
        `${op} ${dtype}`,
        operands(() => ({ shape: [7], dtype, lo, hi: 5 })),
        build,
      ),
    ]
  }
  const inputs = operands((k): Input => {
    const [lo, hi] = domains[op]?.[k] ?? (isApproximated(op) ? formulaDomain : everywhere)
    return { shape: [3, 5], lo, hi, ...(arity === 1 ? { distinct: true } : {}) }
  })
  if (hasNoDerivative(op)) return [constant(op, inputs, build)]
  // A function of steps is differentiated beside one that is not.
  const c = smooth(op, inputs, elementwiseJvp[op] === 'zero' ? (x) => add(build(x), mul(x, x)) : build)
  const derivative = jvpGraph(
    graphOf(c),
    inputs.map(() => true),
  )
  return [nodesOf(derivative).some((n) => hasNoDerivative(n.op)) ? { ...c, once: true } : c]
}

const literal = (value: number, n: number): Node => make('full', [], { value, shape: [n], dtype: 'f64' })

/** Where a rule has cases of its own. */
const more: Readonly<Partial<Record<ScalarOp, readonly OpCase[]>>> = {
  mul: [smooth('square', [{ shape: [7] }], (x) => make('mul', [x, x], {}))],
  pow: [
    smooth('pow of literals', [{ shape: [7], distinct: true }], (x) =>
      add(add(make('pow', [x, literal(2, 7)], {}), x), make('pow', [x, literal(3, 7)], {})),
    ),
  ],
  max: [smooth('max with a literal', [{ shape: [8], distinct: true }], (x) => make('max', [x, literal(0, 8)], {}))],
  min: [smooth('min with a literal', [{ shape: [8], distinct: true }], (x) => make('min', [literal(0, 8), x], {}))],
  select: [
    smooth('select', [{ shape: [7], distinct: true }, { shape: [7] }, { shape: [7] }], (c, x, y) =>
      make('select', [compare('gt', c ?? 0, 0), ...[x, y].filter((n) => n !== undefined)], {}),
    ),
  ],
  cast: [
    constant('cast', [{ shape: [7], dtype: 'i32', lo: -5, hi: 5 }], (x) => make('cast', [x], { dtype: 'f32' })),
    smooth('cast of float', [{ shape: [7] }], (x) =>
      add(make('cast', [make('cast', [x], { dtype: 'i32' })], { dtype: 'f64' }), mul(x, 3)),
    ),
  ],
  bitcast: [
    constant('bitcast', [{ shape: [7], dtype: 'i32', lo: -5, hi: 5 }], (x) => make('bitcast', [x], { dtype: 'u32' })),
  ],
}

const isPlain = (op: ScalarOp): op is Plain => op !== 'select' && op !== 'cast' && op !== 'bitcast'

/** Cases by operation: at least one for each. */
export const elementwiseCases = Object.fromEntries(
  (Object.keys(scalarOps) as ScalarOp[]).map((op) => [op, [...(isPlain(op) ? ofTable(op) : []), ...(more[op] ?? [])]]),
) as unknown as Readonly<Record<ScalarOp, readonly OpCase[]>>
