/** Constants: literals computed at compile time, literals gathered at one place of an expression. */
import { makeNode } from '../graph/build.ts'
import type { Node, OpName } from '../graph/node.ts'
import { familyOf, opTable, scalarOf } from '../graph/table.ts'
import { overElements } from '../host/engine.ts'
import { evalScalar, roundTo } from '../scalar/eval.ts'
import { readElement, scalarOf as scalarIn, writeElement } from '../scalar/host.ts'
import { type Scalar, type ScalarOp, scalarOps } from '../scalar/ops.ts'
import { type DType, dtypeBytes, isFloat } from '../types/dtype.ts'
import { type HostArray, hostArray } from '../types/host.ts'
import { rowMajorStrides, type Shape, sameShape, sizeOf } from '../types/shape.ts'
import { foldLimit, isDecidedByChance, isFoldable, isLiteral, literalLeaf, storedAsItIs } from './facts.ts'
import { type Generic, type RewriteContext, type Rule, rule, ruleOn } from './rule.ts'

const elementwise = Object.keys(scalarOps) as readonly ScalarOp[]

/** The dtype an elementwise node's operation works on. */
const operandDType = (node: Node): DType => node.inputs.at(-1)?.dtype ?? node.dtype

function evaluate(node: Node, op: ScalarOp, args: readonly Scalar[]): Scalar {
  return roundTo(node.dtype, evalScalar(op, operandDType(node), node.dtype, args))
}

/** All elements of a `full` are equal, so one evaluation gives all results. */
const foldFull = ruleOn(
  elementwise,
  'exact',
  'fold-full',
  'an operation on repeated values repeats its result',
  (node, { generic }) => {
    const scalar = scalarOf(node)
    if (scalar === undefined || node.inputs.length === 0 || isDecidedByChance(node, generic)) return undefined
    const args: Scalar[] = []
    for (const x of node.inputs) {
      if (x.op !== 'full') return undefined
      args.push(roundTo(x.dtype, x.attrs.value))
    }
    return makeNode('full', [], { shape: node.shape, dtype: node.dtype, value: evaluate(node, scalar.op, args) })
  },
)

/** Reads a literal's elements by row-major position. */
function reader(n: Node): ((i: number) => Scalar) | undefined {
  switch (n.op) {
    case 'full': {
      const value = roundTo(n.dtype, n.attrs.value)
      return () => value
    }
    case 'constant': {
      const { data, dtype } = n.attrs
      return (i) => readElement(data, dtype, i)
    }
    case 'iota': {
      const stride = rowMajorStrides(n.shape)[n.attrs.axis] ?? 1
      const extent = n.shape[n.attrs.axis] ?? 1
      return (i) => roundTo(n.dtype, scalarIn(n.dtype, Math.floor(i / stride) % extent))
    }
    default:
      return undefined
  }
}

/** An elementwise operation on literals, element by element. */
function foldElementwise(node: Node): HostArray | undefined {
  const scalar = scalarOf(node)
  const readers = node.inputs.map(reader)
  if (scalar === undefined) return undefined
  const n = sizeOf(node.shape)
  const data = hostArray(node.dtype, n)
  for (let i = 0; i < n; i++) {
    const args: Scalar[] = []
    for (const read of readers) {
      if (read === undefined) return undefined
      args.push(read(i))
    }
    writeElement(data, node.dtype, i, evaluate(node, scalar.op, args))
  }
  return data
}

/** Results of index arithmetic are cheaper computed than loaded beyond this many elements. */
const indexFoldLimit = 64
/** A result may be this large though its stored leaves are smaller. */
const smallResult = 1024
/** Most multiplications a contraction of literals may take. */
const foldWork = 2 ** 24

/**
 * Whether evaluating a node of literals once and storing it is better than computing it in a kernel; where extents are `generic`, what index
 * arithmetic gives is no literal at others.
 */
function worthStoring(node: Node, generic: Generic | undefined): boolean {
  const leaves: Node[] = []
  for (const x of node.inputs) {
    const leaf = literalLeaf(x)
    if (leaf === undefined) return false
    leaves.push(leaf)
  }
  if (generic !== undefined && node.shape.some((n) => generic.varying.has(n))) return false
  const size = sizeOf(node.shape)
  const stored = leaves.reduce((n, leaf) => n + (leaf.op === 'constant' ? sizeOf(leaf.shape) : 0), 0)
  const read = node.inputs.reduce((n, x) => Math.max(n, sizeOf(x.shape)), 1)
  if (node.op === 'contract' && read * size > foldWork) return false
  if (stored === 0) return generic === undefined && size <= indexFoldLimit && read <= foldLimit
  return size <= foldLimit && read <= 16 * foldLimit && size <= Math.max(smallResult, stored)
}

/** Families a literal result of which is computed now; a broadcast of a literal is free, random bits stay random bits. */
const foldedFamilies = new Set(['elementwise', 'view', 'gather', 'reduction', 'scan', 'contraction'])
const isOpName = (name: string): name is OpName => Object.hasOwn(opTable, name)
const foldedOps = Object.keys(opTable)
  .filter(isOpName)
  .filter((op) => op !== 'broadcast' && foldedFamilies.has(opTable[op].family))

/** Whether a node widens many stored integers: they stand in the bytes that they have, and products see that they are short. */
function widensMany(node: Node): boolean {
  const [x] = node.inputs
  if (node.op !== 'cast' || x === undefined || isFloat(x.dtype)) return false
  return node.dtype === 'i32' && dtypeBytes(x.dtype) < dtypeBytes(node.dtype) && sizeOf(node.shape) > storedAsItIs
}

function foldNode(node: Node, context: RewriteContext): Node | undefined {
  if (node.inputs.length === 0 || !worthStoring(node, context.generic) || widensMany(node)) return undefined
  const own = familyOf(node) === 'elementwise' ? overElements(() => foldElementwise(node)) : undefined
  const data = own ?? context.fold?.(node)
  return data === undefined ? undefined : makeNode('constant', [], { data, shape: node.shape, dtype: node.dtype })
}

const foldConstant = ruleOn(
  foldedOps,
  'exact',
  'fold-constant',
  'an operation on small literals becomes its result',
  foldNode,
)

const uniform = rule(
  'constant',
  'exact',
  'constant-uniform',
  'a literal of one repeated value -> full',
  ({ attrs, shape, dtype }) => {
    const { data } = attrs
    const [first] = data
    if (first === undefined || !Object.is(data.at(-1), first)) return undefined
    if (!overElements(() => data.every((v: number | bigint) => Object.is(v, first)))) return undefined
    return makeNode('full', [], { shape, dtype, value: readElement(data, dtype, 0) })
  },
)

/** Two foldable literals whose combination folds without growing. */
function combinesSmall(a: Node, b: Node): boolean {
  if (!isFoldable(a) || !isFoldable(b)) return false
  if (a.op === 'full' || b.op === 'full') return true
  if (a.op === 'constant' && b.op === 'constant') return true
  return (
    a.op === 'broadcast' &&
    b.op === 'broadcast' &&
    sameShape(a.attrs.dims, b.attrs.dims) &&
    sameShape(a.inputs[0]?.shape ?? [], b.inputs[0]?.shape ?? [])
  )
}

/** add(add(x, K), L) and mul(mul(x, K), L) where at least one literal varies. */
function gatherLiterals(node: Node, op: 'add' | 'mul'): Node | undefined {
  const [inner, outer] = node.inputs
  const [x, literal] = inner?.inputs ?? []
  if (inner?.op !== op || outer === undefined || x === undefined || literal === undefined) return undefined
  if (!combinesSmall(literal, outer) || (literal.op === 'full' && outer.op === 'full')) return undefined
  return makeNode(op, [x, makeNode(op, [literal, outer], {})], {})
}

const roomy = (dtype: DType): boolean => dtype === 'f32' || dtype === 'f64'

const gathered: readonly Rule[] = (['add', 'mul'] as const).flatMap((op) => [
  rule(op, 'exact', `${op}-literals`, `${op}(${op}(x, K), L) of integers -> ${op}(x, ${op}(K, L))`, (node) =>
    isFloat(node.dtype) ? undefined : gatherLiterals(node, op),
  ),
  rule(op, 'fast', `${op}-literals-float`, `${op}(${op}(x, K), L) -> ${op}(x, ${op}(K, L))`, (node) =>
    roomy(node.dtype) ? gatherLiterals(node, op) : undefined,
  ),
])

const moved: readonly Rule[] = [
  rule('sub', 'exact', 'sub-literals', 'sub(x, K) -> add(x, -K)', ({ inputs: [x, k] }) => {
    if (x === undefined || k === undefined || isLiteral(x) || k.op === 'full' || !isFoldable(k)) return undefined
    return makeNode('add', [x, makeNode('neg', [k], {})], {})
  }),
  rule('div', 'fast', 'div-literals', 'div(x, K) -> mul(x, 1 / K)', ({ inputs: [x, k], dtype, shape }) => {
    if (x === undefined || k === undefined || isLiteral(x) || k.op === 'full') return undefined
    if (!isFoldable(k) || !roomy(dtype)) return undefined
    return makeNode('mul', [x, makeNode('div', [ones(shape, dtype), k], {})], {})
  }),
]

const ones = (shape: Shape, dtype: DType): Node => makeNode('full', [], { shape, dtype, value: 1 })

export const constantRules: readonly Rule[] = [uniform, foldFull, foldConstant, ...moved, ...gathered]
