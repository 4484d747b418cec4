/** Algebra of elementwise operations as data: each rule a pattern and what stands in its place. */
import type { Node } from '../graph/node.ts'
import { evalScalar, roundTo } from '../scalar/eval.ts'
import { isModerate } from '../scalar/moderate.ts'
import { type BinaryName, extreme, type Scalar } from '../scalar/ops.ts'
import { type DType, type DTypeClass, isFloat } from '../types/dtype.ts'
import { fullOf } from './facts.ts'
import {
  type Bindings,
  buildPattern,
  literalOf,
  type Pattern,
  type PatternOp,
  type PatternRuleSpec,
  patternRule,
} from './pattern.ts'
import type { Rule } from './rule.ts'

const floats: readonly DTypeClass[] = ['float']
const integers: readonly DTypeClass[] = ['signed', 'unsigned']
const negatable: readonly DTypeClass[] = ['float', 'signed']
const numbers: readonly DTypeClass[] = ['float', 'signed', 'unsigned']
const bools: readonly DTypeClass[] = ['bool']
const discrete: readonly DTypeClass[] = ['signed', 'unsigned', 'bool']
const all: readonly DTypeClass[] = ['float', 'signed', 'unsigned', 'bool']
/** Dtypes whose products and reciprocals have room: halves overflow and lose too much. */
const roomy: readonly DType[] = ['f32', 'f64']

type Root = readonly [PatternOp, ...Pattern[]]

/** One line of a table: where it holds, its name, what is matched and what replaces it. */
const line = (
  kind: Rule['kind'],
  on: readonly DTypeClass[],
  name: string,
  from: Root,
  to: PatternRuleSpec['to'],
  more: Pick<PatternRuleSpec, 'when' | 'describe' | 'dtypes'> = {},
): PatternRuleSpec => ({ kind, on, name, from, to, ...more })

const compute = (op: BinaryName, dtype: DType, a: Scalar, b: Scalar): Scalar =>
  roundTo(dtype, evalScalar(op, dtype, dtype, [a, b]))

const negate = (dtype: DType, a: Scalar): Scalar => roundTo(dtype, evalScalar('neg', dtype, dtype, [a]))

/** `op(x, literal)` where the literal is computed from those matched. */
const withLiteral =
  (op: PatternOp, value: (dtype: DType, b: Bindings) => Scalar) =>
  (b: Bindings, node: Node): Node =>
    buildPattern(
      [op, 'x', '#new'],
      new Map([...b, ['#new', fullOf(node.shape, node.dtype, value(node.dtype, b))]]),
      node,
    )

const c = (b: Bindings): Scalar => literalOf(b, '#c')
const d = (b: Bindings): Scalar => literalOf(b, '#d')

/** A float whose reciprocal is exact: a power of two with a reciprocal the dtype holds. */
function isExactReciprocal(dtype: DType, v: Scalar): boolean {
  if (typeof v !== 'number' || v === 0 || !Number.isFinite(v)) return false
  const r = 1 / v
  const mantissa = Math.abs(v) / 2 ** Math.floor(Math.log2(Math.abs(v)))
  return mantissa === 1 && Number.isFinite(r) && Object.is(roundTo(dtype, r), r)
}

const sameSign = (a: Scalar, b: Scalar): boolean =>
  Number(a) >= 0 === Number(b) >= 0 && Math.abs(Number(a) + Number(b)) < 2 ** 60

const isLeast = (b: Bindings, dtype: DType): boolean => Object.is(c(b), extreme(dtype, 'least'))
const isGreatest = (b: Bindings, dtype: DType): boolean => Object.is(c(b), extreme(dtype, 'greatest'))
/** The bit pattern of ones. */
const isOnes = (b: Bindings, dtype: DType): boolean =>
  dtype.startsWith('i') ? Number(c(b)) === -1 : Object.is(c(b), extreme(dtype, 'greatest'))

const operandIsDiscrete = (b: Bindings): boolean => {
  const x = b.get('x')
  return x !== undefined && !isFloat(x.dtype)
}

const signs: readonly PatternRuleSpec[] = [
  line('exact', numbers, 'neg-neg', ['neg', ['neg', 'x']], 'x'),
  line('exact', integers, 'neg-of-difference', ['neg', ['sub', 'x', 'y']], ['sub', 'y', 'x']),
  line('fast', floats, 'neg-of-difference-float', ['neg', ['sub', 'x', 'y']], ['sub', 'y', 'x']),
  line(
    'exact',
    numbers,
    'neg-of-scaled',
    ['neg', ['mul', 'x', '#c']],
    withLiteral('mul', (t, b) => negate(t, c(b))),
    {
      describe: 'mul(x, -c)',
    },
  ),
  line('exact', negatable, 'mul-minus-one', ['mul', 'x', -1], ['neg', 'x']),
  line(
    'exact',
    numbers,
    'scale-of-neg',
    ['mul', ['neg', 'x'], '#c'],
    withLiteral('mul', (t, b) => negate(t, c(b))),
    {
      describe: 'mul(x, -c)',
    },
  ),
  line('exact', numbers, 'mul-of-negs', ['mul', ['neg', 'x'], ['neg', 'y']], ['mul', 'x', 'y']),
  line('exact', numbers, 'add-of-neg', ['add', 'x', ['neg', 'y']], ['sub', 'x', 'y']),
  line('exact', numbers, 'sub-of-neg', ['sub', 'x', ['neg', 'y']], ['add', 'x', 'y']),
  line('exact', negatable, 'abs-of-neg', ['abs', ['neg', 'x']], ['abs', 'x']),
  line('exact', ['unsigned'], 'abs-unsigned', ['abs', 'x'], 'x'),
  line('exact', negatable, 'square-of-abs', ['mul', ['abs', 'x'], ['abs', 'x']], ['mul', 'x', 'x']),
  line('exact', negatable, 'square-of-neg', ['mul', ['neg', 'x'], ['neg', 'x']], ['mul', 'x', 'x']),
  line('exact', floats, 'abs-of-square', ['abs', ['mul', 'x', 'x']], ['mul', 'x', 'x']),
  line('exact', floats, 'cos-of-neg', ['cos', ['neg', 'x']], ['cos', 'x']),
  line('exact', floats, 'cosh-of-neg', ['cosh', ['neg', 'x']], ['cosh', 'x']),
]

const sums: readonly PatternRuleSpec[] = [
  line('exact', integers, 'add-zero', ['add', 'x', 0], 'x'),
  // x + (+0) turns -0 into +0; x + (-0) keeps both zeros.
  line('exact', floats, 'add-minus-zero', ['add', 'x', -0], 'x'),
  line('fast', floats, 'add-zero-float', ['add', 'x', 0], 'x'),
  line(
    'exact',
    numbers,
    'sub-literal',
    ['sub', 'x', '#c'],
    withLiteral('add', (t, b) => negate(t, c(b))),
    {
      describe: 'add(x, -c)',
    },
  ),
  line('exact', integers, 'sub-self', ['sub', 'x', 'x'], 0),
  line('exact', integers, 'sub-from-zero', ['sub', 0, 'x'], ['neg', 'x']),
  line('exact', floats, 'sub-from-minus-zero', ['sub', -0, 'x'], ['neg', 'x']),
  line('fast', floats, 'sub-from-zero-float', ['sub', 0, 'x'], ['neg', 'x']),
  line(
    'exact',
    integers,
    'add-add-literals',
    ['add', ['add', 'x', '#c'], '#d'],
    withLiteral('add', (t, b) => compute('add', t, c(b), d(b))),
    { describe: 'add(x, c + d)' },
  ),
  // Of one sign only: (x + big) - big is how programs round, and must not become x.
  line(
    'fast',
    floats,
    'add-add-literals-float',
    ['add', ['add', 'x', '#c'], '#d'],
    withLiteral('add', (t, b) => compute('add', t, c(b), d(b))),
    { describe: 'add(x, c + d) for c and d of one sign', dtypes: roomy, when: (b) => sameSign(c(b), d(b)) },
  ),
]

const products: readonly PatternRuleSpec[] = [
  line('exact', numbers, 'mul-one', ['mul', 'x', 1], 'x'),
  line('exact', integers, 'mul-zero', ['mul', 'x', 0], 0),
  line(
    'exact',
    integers,
    'mul-mul-literals',
    ['mul', ['mul', 'x', '#c'], '#d'],
    withLiteral('mul', (t, b) => compute('mul', t, c(b), d(b))),
    { describe: 'mul(x, c * d)' },
  ),
  line(
    'fast',
    floats,
    'mul-mul-literals-float',
    ['mul', ['mul', 'x', '#c'], '#d'],
    withLiteral('mul', (t, b) => compute('mul', t, c(b), d(b))),
    { describe: 'mul(x, c * d)', dtypes: roomy, when: (b) => isModerate(c(b)) && isModerate(d(b)) },
  ),
  line('exact', numbers, 'div-one', ['div', 'x', 1], 'x'),
  line('exact', negatable, 'div-minus-one', ['div', 'x', -1], ['neg', 'x']),
  line('exact', integers, 'rem-one', ['rem', 'x', 1], 0),
  line(
    'exact',
    floats,
    'div-power-of-two',
    ['div', 'x', '#c'],
    withLiteral('mul', (t, b) => compute('div', t, 1, c(b))),
    { describe: 'mul(x, 1/c) for c a power of two', when: (b, t) => isExactReciprocal(t, c(b)) },
  ),
  line(
    'fast',
    floats,
    'div-literal',
    ['div', 'x', '#c'],
    withLiteral('mul', (t, b) => compute('div', t, 1, c(b))),
    {
      describe: 'mul(x, 1/c)',
      dtypes: roomy,
      when: (b) => isModerate(c(b)),
    },
  ),
  line('fast', floats, 'reciprocal-of-sqrt', ['div', 1, ['sqrt', 'x']], ['rsqrt', 'x']),
]

const powers: readonly PatternRuleSpec[] = [
  line('exact', numbers, 'pow-zero', ['pow', 'x', 0], 1),
  line('exact', numbers, 'pow-one', ['pow', 'x', 1], 'x'),
  line('exact', numbers, 'pow-two', ['pow', 'x', 2], ['mul', 'x', 'x']),
  line('exact', integers, 'pow-three', ['pow', 'x', 3], ['mul', ['mul', 'x', 'x'], 'x']),
  line('fast', floats, 'pow-three-float', ['pow', 'x', 3], ['mul', ['mul', 'x', 'x'], 'x'], { dtypes: roomy }),
  // pow(-0, 0.5) is +0 and pow(-inf, 0.5) is +inf; sqrt gives -0 and NaN.
  line('fast', floats, 'pow-half', ['pow', 'x', 0.5], ['sqrt', 'x']),
  line('fast', floats, 'pow-minus-half', ['pow', 'x', -0.5], ['rsqrt', 'x']),
  line('fast', floats, 'pow-minus-one', ['pow', 'x', -1], ['div', 1, 'x']),
]

const logistic: readonly PatternRuleSpec[] = [
  line('fast', floats, 'sigmoid', ['div', 1, ['add', ['exp', ['neg', 'x']], 1]], ['sigmoid', 'x']),
  line(
    'fast',
    floats,
    'times-sigmoid',
    ['div', 'y', ['add', ['exp', ['neg', 'x']], 1]],
    ['mul', 'y', ['sigmoid', 'x']],
  ),
  line(
    'fast',
    floats,
    'times-sigmoid-scaled',
    ['div', 'y', ['add', ['exp', ['mul', 'x', '#c']], 1]],
    (b, node) =>
      buildPattern(
        ['mul', 'y', ['sigmoid', ['mul', 'x', '#n']]],
        new Map([...b, ['#n', fullOf(node.shape, node.dtype, negate(node.dtype, c(b)))]]),
        node,
      ),
    { describe: 'mul(y, sigmoid(mul(x, -c))) for c < 0', when: (b) => Number(c(b)) < 0 },
  ),
]

const extremes: readonly PatternRuleSpec[] = (['max', 'min'] as const).flatMap((op) => [
  line('exact', all, `${op}-self`, [op, 'x', 'x'], 'x'),
  line('exact', all, `${op}-absorbs`, [op, [op, 'x', 'y'], 'y'], [op, 'x', 'y']),
  line('exact', all, `${op}-neutral`, [op, 'x', '#c'], 'x', { when: op === 'max' ? isLeast : isGreatest }),
  line('exact', discrete, `${op}-final`, [op, 'x', '#c'], '#c', { when: op === 'max' ? isGreatest : isLeast }),
  line(
    'exact',
    all,
    `${op}-${op}-literals`,
    [op, [op, 'x', '#c'], '#d'],
    withLiteral(op, (t, b) => compute(op, t, c(b), d(b))),
    { describe: `${op}(x, ${op}(c, d))` },
  ),
])

const bitwise: readonly PatternRuleSpec[] = [
  line('exact', discrete, 'not-not', ['not', ['not', 'x']], 'x'),
  line('exact', discrete, 'and-self', ['and', 'x', 'x'], 'x'),
  line('exact', discrete, 'or-self', ['or', 'x', 'x'], 'x'),
  line('exact', discrete, 'xor-self', ['xor', 'x', 'x'], 0),
  line('exact', discrete, 'and-zero', ['and', 'x', 0], 0),
  line('exact', discrete, 'or-zero', ['or', 'x', 0], 'x'),
  line('exact', discrete, 'xor-zero', ['xor', 'x', 0], 'x'),
  line('exact', discrete, 'and-ones', ['and', 'x', '#c'], 'x', { when: isOnes }),
  line('exact', discrete, 'or-ones', ['or', 'x', '#c'], '#c', { when: isOnes }),
  line('exact', discrete, 'xor-ones', ['xor', 'x', '#c'], ['not', 'x'], { when: isOnes }),
  line('exact', integers, 'shl-zero', ['shl', 'x', 0], 'x'),
  line('exact', integers, 'shr-zero', ['shr', 'x', 0], 'x'),
]

const comparisons: readonly PatternRuleSpec[] = [
  line('exact', bools, 'not-eq', ['not', ['eq', 'x', 'y']], ['ne', 'x', 'y']),
  line('exact', bools, 'not-ne', ['not', ['ne', 'x', 'y']], ['eq', 'x', 'y']),
  // Orders of floats are not complementary: both are false on NaN.
  line('exact', bools, 'not-lt', ['not', ['lt', 'x', 'y']], ['ge', 'x', 'y'], { when: operandIsDiscrete }),
  line('exact', bools, 'not-le', ['not', ['le', 'x', 'y']], ['gt', 'x', 'y'], { when: operandIsDiscrete }),
  line('exact', bools, 'not-gt', ['not', ['gt', 'x', 'y']], ['le', 'x', 'y'], { when: operandIsDiscrete }),
  line('exact', bools, 'not-ge', ['not', ['ge', 'x', 'y']], ['lt', 'x', 'y'], { when: operandIsDiscrete }),
  line('exact', discrete, 'eq-self', ['eq', 'x', 'x'], true),
  line('exact', discrete, 'le-self', ['le', 'x', 'x'], true),
  line('exact', discrete, 'ge-self', ['ge', 'x', 'x'], true),
  line('exact', discrete, 'ne-self', ['ne', 'x', 'x'], false),
  line('exact', all, 'lt-self', ['lt', 'x', 'x'], false),
  line('exact', all, 'gt-self', ['gt', 'x', 'x'], false),
  line('exact', floats, 'ne-self-float', ['ne', 'x', 'x'], ['isnan', 'x']),
  line('exact', bools, 'eq-true', ['eq', 'x', true], 'x'),
  line('exact', bools, 'eq-false', ['eq', 'x', false], ['not', 'x']),
  line('exact', bools, 'ne-false', ['ne', 'x', false], 'x'),
  line('exact', bools, 'ne-true', ['ne', 'x', true], ['not', 'x']),
]

const selections: readonly PatternRuleSpec[] = [
  line('exact', all, 'select-true', ['select', true, 'x', 'y'], 'x'),
  line('exact', all, 'select-false', ['select', false, 'x', 'y'], 'y'),
  line('exact', all, 'select-same', ['select', 'p', 'x', 'x'], 'x'),
  line('exact', all, 'select-not', ['select', ['not', 'p'], 'x', 'y'], ['select', 'p', 'y', 'x']),
  line('exact', bools, 'select-is-condition', ['select', 'p', true, false], 'p'),
  line('exact', bools, 'select-is-negation', ['select', 'p', false, true], ['not', 'p']),
  line('exact', all, 'select-then-select', ['select', 'p', ['select', 'p', 'x', 'y'], 'z'], ['select', 'p', 'x', 'z']),
  line('exact', all, 'select-else-select', ['select', 'p', 'x', ['select', 'p', 'y', 'z']], ['select', 'p', 'x', 'z']),
]

const roundings: readonly PatternRuleSpec[] = (['floor', 'ceil', 'round', 'trunc'] as const).flatMap((op) => [
  line('exact', integers, `${op}-of-integer`, [op, 'x'], 'x'),
  ...(['floor', 'ceil', 'round', 'trunc'] as const).map((inner) =>
    line('exact', floats, `${op}-of-${inner}`, [op, [inner, 'x']], [inner, 'x']),
  ),
])

const repeated: readonly PatternRuleSpec[] = [
  line('exact', negatable, 'abs-abs', ['abs', ['abs', 'x']], ['abs', 'x']),
  line('exact', numbers, 'sign-sign', ['sign', ['sign', 'x']], ['sign', 'x']),
]

/** Every algebraic rule, in the order they are tried. */
export const algebraRules = [
  ...signs,
  ...sums,
  ...products,
  ...powers,
  ...logistic,
  ...extremes,
  ...bitwise,
  ...comparisons,
  ...selections,
  ...roundings,
  ...repeated,
].map(patternRule)
