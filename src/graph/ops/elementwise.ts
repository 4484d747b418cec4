/** Elementwise ops: one table entry for each scalar operation, its rule derived from the scalar table. */
import { UserError } from '../../diagnostics/errors.ts'
import { type BinaryName, type ScalarOp, scalarInfo, scalarOps, type UnaryName } from '../../scalar/ops.ts'
import { type DType, dtypeBits, dtypeClass } from '../../types/dtype.ts'
import { type Shape, sameShape, showShape } from '../../types/shape.ts'
import type { AttrsByOp, Node } from '../node.ts'
import type { OpDef } from '../op.ts'

/** Operands of one shape and dtype (broadcasting and promotion happen before the graph, in `compose`). */
function inferScalar(op: ScalarOp, inputs: readonly Node[]): { shape: Shape; dtype: DType } {
  const info = scalarInfo(op)
  const data = op === 'select' ? inputs.slice(1) : inputs
  const [first] = data
  const [head] = inputs
  if (first === undefined || head === undefined) throw new UserError('E_ARGUMENT', `${op} takes ${info.arity} operands`)
  if (op === 'select' && head.dtype !== 'bool')
    throw new UserError('E_DTYPE', `the condition of where is ${head.dtype}, not bool`, {
      help: 'compare, or cast to bool',
    })
  for (const x of data) {
    if (!info.on.includes(dtypeClass(x.dtype)))
      throw new UserError('E_DTYPE', `${op} is not defined on ${x.dtype}`, {
        help: `cast to a ${info.on.join(' or ')} dtype first`,
      })
    if (x.dtype !== first.dtype)
      throw new UserError('E_DTYPE', `${op} of ${first.dtype} and ${x.dtype}`, { help: 'cast one of them' })
  }
  for (const x of inputs)
    if (!sameShape(x.shape, first.shape))
      throw new UserError('E_SHAPE', `${op} of shapes ${showShape(first.shape)} and ${showShape(x.shape)}`)
  return { shape: first.shape, dtype: info.result === 'bool' ? 'bool' : first.dtype }
}

const plain = <O extends UnaryName | BinaryName | 'select'>(op: O): OpDef<O> => ({
  family: 'elementwise',
  arity: scalarInfo(op).arity,
  scalar: op,
  infer: (inputs) => inferScalar(op, inputs),
  key: () => '',
})

type PlainName = UnaryName | BinaryName | 'select'
type PlainOps = { readonly [O in PlainName]: OpDef<O> }

const plainNames = Object.keys(scalarOps).filter((n): n is PlainName => n !== 'cast' && n !== 'bitcast')
const plainOps = Object.fromEntries(plainNames.map((n) => [n, plain(n)])) as unknown as PlainOps

const convert = (op: 'cast' | 'bitcast'): OpDef<'cast'> & OpDef<'bitcast'> => ({
  family: 'elementwise',
  arity: 1,
  scalar: op,
  infer: ([x], attrs: AttrsByOp['cast']) => {
    if (x === undefined) throw new UserError('E_ARGUMENT', `${op} takes one operand`)
    if (op === 'bitcast' && dtypeBits(x.dtype) !== dtypeBits(attrs.dtype))
      throw new UserError('E_DTYPE', `bitcast of ${x.dtype} to ${attrs.dtype}: widths differ`, {
        help: 'cast with astype, or take a dtype of the same width',
      })
    return { shape: x.shape, dtype: attrs.dtype }
  },
  key: (a: AttrsByOp['cast']) => (a.loose === true ? `${a.dtype}, loose` : a.dtype),
})

export const elementwiseOps = { ...plainOps, cast: convert('cast'), bitcast: convert('bitcast') }
