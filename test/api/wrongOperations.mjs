/**
 * Operations with one mistake each, as users of JavaScript write them: nothing checks their types. The call at fault stands on
 * the line that says so; `places.test.ts` runs them.
 */
import * as s from '../../src/index.ts'

const { tensor, ones, zeros, jit } = s
const v = tensor([1, 2])
const M = ones([2, 3])
const disposed = () => {
  const t = tensor([1])
  t.dispose()
  return t
}

/** Groups of [what is wrong, the error, the program]. */
export const wrongOperations = {
  operations: [
    [
      'shapes that do not broadcast',
      'E_SHAPE add: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0',
      () => v.add(ones([3])) /* here */,
    ],
    ['an axis there is not', 'E_AXIS sum: axis 3 is out of range for rank 1', () => v.sum(3) /* here */],
    ['parts of unlike rank', 'E_SHAPE concat of [2] and [2, 3] along axis 0', () => s.concat([v, M]) /* here */],
    ['a step of 0', 'E_ARGUMENT slice: a slice step of 0', () => v.slice([0, 2, 0]) /* here */],
    [
      'channels that do not fit',
      'E_SHAPE conv2d: convolution of data [1, 3, 4, 4] with weights [2, 2, 3, 3] in 1 groups',
      () => s.conv2d(ones([1, 3, 4, 4]), ones([2, 2, 3, 3])) /* here */,
    ],
    [
      'an operand that is missing',
      'E_ARGUMENT add: an operand is undefined, not a tensor',
      () => v.add(undefined) /* here */,
    ],
    ['an array as an operand', 'E_ARGUMENT add: an operand is an array, not a tensor', () => v.add([1, 2]) /* here */],
    ['null as an operand', 'E_ARGUMENT matmul: an operand is null, not a tensor', () => s.matmul(v, null) /* here */],
    ['a dtype of another library', 'E_DTYPE astype: there is no dtype "float32"', () => v.astype('float32') /* here */],
    ['a number as a shape', 'E_SHAPE zeros: the shape is 3, not a list of extents', () => zeros(3) /* here */],
    [
      'a shape beyond all bounds',
      'E_OVERFLOW zeros: shape [100000000, 100000000] has more than 2^53 elements',
      () => zeros([1e8, 1e8]) /* here */,
    ],
    [
      'ragged lists',
      'E_SHAPE tensor: ragged lists: the first rows give shape [2, 1], others differ',
      () => tensor([[1], [2, 3]]) /* here */,
    ],
    [
      'a literal of no dtype',
      'E_DTYPE tensor: there is no dtype "float"',
      () => tensor([1], { dtype: 'float' }) /* here */,
    ],
    ['a seed that is not whole', 'E_ARGUMENT random.key: the seed is 1.5', () => s.random.key(1.5) /* here */],
    [
      'null as options',
      'E_ARGUMENT layerNorm: the options of layerNorm are null',
      () => s.nn.layerNorm(M, null) /* here */,
    ],
    [
      'weights that do not fit',
      'E_SHAPE linear: matmul of shapes [2, 3] and [2, 2]: inner extents 3 and 2 differ',
      () => s.nn.linear(M, ones([2, 2])) /* here */,
    ],
    [
      'groups that do not divide the channels',
      'E_SHAPE groupNorm of [2, 3] in 2 groups',
      () => s.nn.groupNorm(ones([2, 3]), 2) /* here */,
    ],
    [
      'labels that are floats',
      'E_SHAPE crossEntropy: labels [2, 3] have the class axis, as one-hot labels do',
      () => s.nn.crossEntropy(M, M) /* here */,
    ],
    ['one element of several', 'E_SHAPE item() of shape [2]', () => v.item() /* here */],
    ['a slice of text', 'E_ARGUMENT slice: one axis of the slice: a string, not a list', () => v.slice('a') /* here */],
    [
      'a number as a permutation',
      'E_ARGUMENT transpose: the axes: a number, not a list',
      () => M.transpose(1) /* here */,
    ],
    [
      'padding without pairs',
      'E_ARGUMENT pad: the padding of one axis: a number, not a list',
      () => v.pad([1]) /* here */,
    ],
    [
      'a mode of padding there is not',
      'E_ARGUMENT pad: there is no mode of padding "foo"',
      () => v.pad([[1, 1]], 'foo') /* here */,
    ],
    [
      'parts that are not in a list',
      'E_ARGUMENT concat: its first argument: a Tensor, not a list',
      () => s.concat(v, v) /* here */,
    ],
    ['a number as repetitions', 'E_ARGUMENT tile: the repetitions: a number, not a list', () => v.tile(2) /* here */],
    [
      'a bias that is no tensor',
      'E_ARGUMENT conv2d: an operand is an array, not a tensor',
      () => s.conv2d(ones([1, 3, 4, 4]), ones([2, 3, 3, 3]), { bias: [1, 2] }) /* here */,
    ],
    [
      'null as options of a convolution',
      'E_ARGUMENT conv2d: the options of conv2d are null',
      () => s.conv2d(ones([1, 3, 4, 4]), ones([2, 3, 3, 3]), null) /* here */,
    ],
    [
      'a number as a window',
      'E_ARGUMENT maxPool: the window: a number, not a list',
      () => s.maxPool(ones([1, 1, 4, 4]), 2) /* here */,
    ],
    [
      'an equation that is no text',
      'E_ARGUMENT einsum takes an equation first, and got a number',
      () => s.einsum(3, v) /* here */,
    ],
    [
      'null as options of attention',
      'E_ARGUMENT attention: the options of attention are null',
      () => s.nn.attention(ones([2, 3, 4]), ones([2, 3, 4]), ones([2, 3, 4]), null) /* here */,
    ],
    [
      'an approximation there is not',
      'E_ARGUMENT gelu: there is no approximation "foo"',
      () => s.nn.gelu(v, 'foo') /* here */,
    ],
    ['text as a number', 'E_ARGUMENT linspace from a to 1', () => s.linspace('a', 1) /* here */],
    [
      'a range along an axis there is not',
      'E_AXIS iota: axis 3 is out of range for rank 1',
      () => s.iota([2], 3) /* here */,
    ],
    ['a look at a number', 'E_ARGUMENT inspect: an operand is a number, not a tensor', () => s.inspect(3) /* here */],
    ['text as an axis', 'E_AXIS sum: the axes are "0"', () => v.sum('0') /* here */],
    ['a bound that is text', 'E_ARGUMENT slice: a slice from, to or by a string', () => v.slice([0, 'x']) /* here */],
    [
      'a promise as an operand',
      'E_ARGUMENT add: an operand is a Promise, not a tensor',
      () => v.add(Promise.resolve(v)) /* here */,
    ],
    [
      'data as the state of a tensor',
      'E_ARGUMENT new Tensor: tensors are made by functions',
      () => new s.Tensor([1, 2]) /* here */,
    ],
    ['a product by an operator', 'E_ARGUMENT an operator of JavaScript on a tensor f32[2]', () => v * 2 /* here */],
    [
      'a comparison by an operator',
      'E_ARGUMENT an operator of JavaScript on a tensor f32[]',
      () => v.sum() > 0 /* here */,
    ],
    [
      'a branch on a comparison inside jit',
      'E_ARGUMENT an operator of JavaScript on a tensor f32[]',
      () => jit((x) => (x.sum() > 0 /* here */ ? x : x.neg()))(v),
    ],
    ['no shape', 'E_SHAPE reshape: the shape is undefined, not a list of extents', () => v.reshape() /* here */],
  ],
  'values that are read': [
    ['a disposed tensor', 'E_DISPOSED dataSync() of a disposed tensor f32[1]', () => disposed().dataSync() /* here */],
    ['a Map', 'E_STRUCTURE what evaluate got is a Map', () => s.evaluate(new Map()) /* here */],
    ['an async scope', 'E_ARGUMENT tidy of an async function', () => s.tidy(async () => v) /* here */],
    [
      'a callback that throws',
      'E_CALLBACK the inspect callback "inspect" threw: boo',
      () =>
        s.inspect(v /* here */, () => {
          throw new Error('boo')
        }),
    ],
  ],
}
