/**
 * Functions given to the library with one mistake each, as users of JavaScript write them: nothing checks their types. The call at fault stands on
 * the line that says so; `places.test.ts` runs them.
 */
import * as s from '../../src/index.ts'

const { tensor, ones, jit } = s
const v = tensor([1, 2])
const M = ones([2, 3])
const disposed = () => {
  const t = tensor([1])
  t.dispose()
  return t
}
const adam = s.optim.adam({ learningRate: 0.1 })

/** Groups of [what is wrong, the error, the program]. */
export const wrongFunctions = {
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
      () => jit((x) => x.matmul(x).add(1).matmul(x).add(1).matmul(x), { memoryBudget: 10 })(ones([64, 64])) /* here */,
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
    [
      'a donated tensor that the function closes over',
      'E_ARGUMENT a donated tensor is one that the function closes over',
      () => {
        const own = ones([3])
        const f = jit((x) => x.add(own.flip(0)), { donate: [0] })
        return f(own) /* here */
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
      'E_ARGUMENT cond takes a function, and got a Tensor',
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
      'E_ARGUMENT jvp: the arguments: a Tensor, not a list',
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
    [
      'a schedule that fails in a schedule',
      'E_SHAPE reshape: cannot reshape [] to [5]: sizes differ',
      () => {
        const rate = s.optim.linearWarmup(3, (step) => step.reshape([5]) /* here */)
        const sgd = s.optim.sgd({ learningRate: rate })
        return sgd.update({ b: v }, sgd.init({ b: v }), { b: v })
      },
    ],
    [
      'a mask that fails',
      'E_SHAPE reshape: cannot reshape [2] to [5]: sizes differ',
      () => {
        const masked = s.optim.adamw({ learningRate: 1, decays: (t) => t.reshape([5]) /* here */ })
        return masked.update({ b: v }, masked.init({ b: v }), { b: v })
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
    ['no inputs', 'E_ARGUMENT the inputs of program are null', () => s.program((x) => x, null) /* here */],
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
