import { jit, optim, random, tanh, valueAndGrad, zeros } from 'sinter'

const [a, b] = random.split(random.key(0))
const x = random.normal(a, [256, 8])
const y = tanh(x.matmul(random.normal(b, [8, 1]))) // the weights are to be found again

const loss = (params) => tanh(x.matmul(params.w).add(params.b)).sub(y).square().mean()
const optimizer = optim.adamw({ learningRate: optim.cosineDecay({ from: 0.1, steps: 200 }), weightDecay: 1e-4 })

const step = jit(
  (params, state) => {
    const [value, gradients] = valueAndGrad(loss)(params)
    return { value, ...optimizer.update(optim.clipByGlobalNorm(gradients, 1), state, params) }
  },
  { donate: [0, 1] }, // the program takes over the memory of what it replaces
)

let [value, params] = [undefined, { w: zeros([8, 1]), b: zeros([1]) }]
let state = optimizer.init(params)
for (let i = 0; i < 200; i++) ({ value, params, state } = step(params, state))
console.log(`loss ${value.item()}`)
