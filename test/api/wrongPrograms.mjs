/**
 * Programs with one mistake each, as users of JavaScript write them: nothing checks their types. The call at fault stands on
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
const adam = s.optim.adam({ learningRate: 0.1 })

/** Groups of [what is wrong, the error, the program]. */
export const wrongPrograms = {
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
      'E_SHAPE convolution of data [1, 3, 4, 4] with weights [2, 2, 3, 3] in 1 groups',
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
      'E_OVERFLOW zeros: shape [1000000, 1000000] has more than 4294967296 elements',
      () => zeros([1e6, 1e6]) /* here */,
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
    ['labels that are floats', 'E_DTYPE crossEntropy: an index is f32', () => s.nn.crossEntropy(M, M) /* here */],
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
      'E_ARGUMENT concat: its first argument: an object, not a list',
      () => s.concat(v, v) /* here */,
    ],
    ['a number as repetitions', 'E_ARGUMENT tile: the repetitions: a number, not a list', () => v.tile(2) /* here */],
    [
      'a bias that is no tensor',
      'E_ARGUMENT conv: an operand is an array, not a tensor',
      () => s.conv2d(ones([1, 3, 4, 4]), ones([2, 3, 3, 3]), { bias: [1, 2] }) /* here */,
    ],
    [
      'null as options of a convolution',
      'E_ARGUMENT conv: the options of conv are null',
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
  jit: [
    [
      'an operation inside',
      'E_SHAPE add: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0',
      () => jit((x) => x.add(ones([3])) /* here */)(v),
    ],
    ['no function', 'E_ARGUMENT jit takes a function, and got a number', () => jit(3) /* here */],
    ['no options', 'E_ARGUMENT the options of jit are a number', () => jit((x) => x, 3) /* here */],
    [
      'a budget that is none',
      'E_ARGUMENT memoryBudget is "lots", which is no amount of memory',
      () => jit((x) => x, { memoryBudget: 'lots' }) /* here */,
    ],
    [
      'a budget that cannot be met',
      'E_OUT_OF_MEMORY intermediate values at once take 16448 bytes, more than the budget of 10',
      () => jit((x) => x.matmul(x).add(1).matmul(x), { memoryBudget: 10 })(ones([64, 64])) /* here */,
    ],
    [
      'an argument there is not',
      'E_ARGUMENT donate names argument 3 of 1',
      () => jit((x) => x, { donate: [3] })(v) /* here */,
    ],
    [
      'a donated tensor passed twice',
      'E_ARGUMENT a donated tensor is passed twice',
      () => {
        const f = jit((x, y) => x.add(y), { donate: [0] })
        return f(v, v) /* here */
      },
    ],
    ['an argument that is no tree', 'E_STRUCTURE arguments[0] is a Map', () => jit((x) => x)(new Map()) /* here */],
    ['a result that is no tree', 'E_STRUCTURE result is a Map', () => jit((_x) => new Map())(v) /* here */],
    ['an async function', 'E_ARGUMENT the jitted function is async', () => jit(async (x) => x)(v) /* here */],
    [
      'a disposed argument of a known signature',
      'E_DISPOSED a jitted call of a disposed tensor f32[1]',
      () => {
        const f = jit((x) => x.add(1))
        f(tensor([1]))
        return f(disposed()) /* here */
      },
    ],
    [
      'a disposed tensor it closes over',
      'E_DISPOSED a jitted call that closes over it: use of a disposed tensor f32[1]',
      () => {
        const c = tensor([1])
        const f = jit((x) => x.add(c))
        f(v)
        c.dispose()
        return f(v) /* here */
      },
    ],
    [
      'a device there is not',
      'E_DEVICE there is no device "gpu"',
      () => jit((x) => x, { device: 'gpu' })(v) /* here */,
    ],
    [
      'a spec in a call',
      'E_ARGUMENT a jitted function called with a tensor spec',
      () => jit((x) => x)(s.spec([2])) /* here */,
    ],
    [
      'an explanation of what is not compiled',
      'E_DEVICE the device reference compiles nothing, so there is nothing to explain',
      () => jit((x) => x, { device: 'reference' }).explain(v) /* here */,
    ],
    ['the choice of a device there is not', 'E_DEVICE there is no device "gpu"', () => s.setDevice('gpu') /* here */],
    [
      'the choice of a device that is not open',
      'E_DEVICE the device "cuda" has not been opened',
      () => s.setDevice('cuda') /* here */,
    ],
    ['a number as a list', 'E_ARGUMENT donate: a number, not a list', () => jit((x) => x, { donate: 0 })(v) /* here */],
    ['a mode there is not', 'E_ARGUMENT there is no mode "slow"', () => jit((x) => x, { mode: 'slow' })(v) /* here */],
    [
      'an operation inside, explained',
      'E_SHAPE add: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0',
      () => jit((x) => x.add(ones([3])) /* here */).explain(v),
    ],
    ['less than no threads', 'E_ARGUMENT threads is -1', () => s.setDevice('wasm', { threads: -1 }) /* here */],
    [
      'memory in words',
      'E_ARGUMENT memoryLimit is "lots"',
      () => s.setDevice('wasm', { memoryLimit: 'lots' }) /* here */,
    ],
  ],
  'functions given to transforms': [
    [
      'in grad',
      'E_SHAPE add: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0',
      () =>
        s.grad((x) =>
          x
            .add(ones([3])) /* here */
            .sum(),
        )(v),
    ],
    [
      'null as options of grad',
      'E_ARGUMENT the options of grad are null',
      () => s.grad((x) => x.sum(), null)(v) /* here */,
    ],
    [
      'in vmap',
      'E_SHAPE reshape: cannot reshape [3] to [7]: sizes differ',
      () => s.vmap((a) => a.reshape([7]) /* here */)(M),
    ],
    [
      'in a scan',
      'E_SHAPE add: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0',
      () => s.scan((c) => [c.add(ones([3])) /* here */, null], v, null, { length: 3 }),
    ],
    [
      'no function to scan',
      'E_ARGUMENT scan takes a function, and got a number',
      () => s.scan(3, v, null, { length: 2 }) /* here */,
    ],
    [
      'in a branch',
      'E_SHAPE add: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0',
      () =>
        s.cond(
          v.sum().less(1),
          (x) => x.add(ones([3])) /* here */,
          (x) => x,
          v,
        ),
    ],
    [
      'no branch, chosen while tracing',
      'E_ARGUMENT cond takes a function, and got an object',
      () => s.cond(true, v, v) /* here */,
    ],
    [
      'a tangent of another shape',
      'E_SHAPE linearize: a tangent: argument 0 is f32[3], the value f32[2]',
      () => s.linearize((x) => x.mul(2), v)[1](ones([3])) /* here */,
    ],
    [
      'no function to checkpoint',
      'E_ARGUMENT checkpoint takes a function, and got a number',
      () => s.checkpoint(3) /* here */,
    ],
    ['no rule', 'E_ARGUMENT customVjp takes a function, and got a number', () => s.customVjp(3) /* here */],
    [
      'in an associative scan',
      'E_SHAPE associativeScan: the function gives f32[7] for its result, where it takes f32[1]',
      () => s.associativeScan((a, _b) => a.add(ones([7])) /* here */, v),
    ],
    [
      'in a map over a tree',
      'E_SHAPE add: shapes [2] and [1, 3] do not broadcast: 2 against 3 on axis 1',
      () => s.tree.map((a) => a.add(M.slice([0, 1])).matmul(ones([7, 7])) /* here */, { a: v }),
    ],
    [
      'no function to map',
      'E_ARGUMENT tree.map takes a function, and got a number',
      () => s.tree.map(3, { a: v }) /* here */,
    ],
    [
      'no function to fold',
      'E_ARGUMENT associativeScan takes a function, and got a number',
      () => s.associativeScan(3, v) /* here */,
    ],
    [
      'no body of a loop',
      'E_ARGUMENT foriLoop takes a function, and got a number',
      () => s.foriLoop(0, 3, 3, v) /* here */,
    ],
    [
      'in a gradient of a gradient',
      'E_SHAPE mul: shapes [2] and [3] do not broadcast: 2 against 3 on axis 0',
      () =>
        s.grad((x) =>
          s
            .grad((y) =>
              y
                .mul(ones([3])) /* here */
                .sum(),
            )(x)
            .sum(),
        )(v),
    ],
    [
      'arguments that are not in a list',
      'E_ARGUMENT jvp: the arguments: an object, not a list',
      () => s.jvp((x) => x, v, v) /* here */,
    ],
    ['null as options of vmap', 'E_ARGUMENT the options of vmap are null', () => s.vmap((x) => x, null) /* here */],
  ],
  optimisers: [
    [
      'a negative rate',
      'E_ARGUMENT optim.adam: learningRate is -1',
      () => s.optim.adam({ learningRate: -1 }) /* here */,
    ],
    ['no parameters', 'E_STRUCTURE adam.init: params holds no tensor', () => adam.init(3) /* here */],
    [
      'gradients of other parameters',
      'E_STRUCTURE adam.update: gradients.a is a tensor, where params has nothing',
      () => adam.update({ a: v }, adam.init({ b: v }), { b: v }) /* here */,
    ],
    [
      'a schedule of no steps',
      'E_ARGUMENT optim.linear: steps is -1',
      () => s.optim.linear({ from: 0, to: 1, steps: -1 }) /* here */,
    ],
    [
      'a schedule that gives a number',
      'E_ARGUMENT adam: the schedule gives a number',
      () => {
        const o = s.optim.adam({ learningRate: () => 3 })
        return o.update({ b: v }, o.init({ b: v }), { b: v }) /* here */
      },
    ],
    ['no options', 'E_ARGUMENT optim.sgd: the options of sgd are undefined', () => s.optim.sgd() /* here */],
    [
      'a schedule without options',
      'E_ARGUMENT optim.linear: the options of linear are undefined',
      () => s.optim.linear() /* here */,
    ],
    ['an update of nothing', 'E_STRUCTURE adam.update: params holds no tensor', () => adam.update() /* here */],
  ],
  programs: [
    ['no function', 'E_ARGUMENT program takes a function, and got a number', () => s.program(3, {}) /* here */],
    [
      'an input that cannot be',
      'E_SHAPE extent -1 in shape [-1] is not a whole number',
      () =>
        s
          .program((x) => x, { x: { shape: [-1] } }) /* here */
          .trace(),
    ],
    ['no inputs', 'E_ARGUMENT the options of program are null', () => s.program((x) => x, null) /* here */],
    [
      'an operation inside',
      'E_SHAPE reshape: cannot reshape [2] to [9]: sizes differ',
      () => s.program(({ x }) => x.reshape([9]) /* here */, { x: { shape: [2] } }).trace(),
    ],
    [
      'a result that is no tree',
      'E_STRUCTURE result is a Map',
      () =>
        s
          .program(() => new Map(), { x: { shape: [2] } }) /* here */
          .trace(),
    ],
  ],
}
