/** One step of the Adam optimiser (Kingma and Ba 2015) on two parameters. `npx sinter bench examples/adam.ts` */
import { program, type Tensor } from 'sinter'

const [rate, beta1, beta2, epsilon] = [1e-3, 0.9, 0.999, 1e-8]

interface Moments {
  readonly first: Tensor
  readonly second: Tensor
}

function update(value: Tensor, gradient: Tensor, before: Moments): { value: Tensor } & Moments {
  const first = before.first.mul(beta1).add(gradient.mul(1 - beta1))
  const second = before.second.mul(beta2).add(gradient.square().mul(1 - beta2))
  return { value: value.sub(first.mul(rate).div(second.sqrt().add(epsilon))), first, second }
}

const weight = { shape: [1024, 1024] }
const bias = { shape: [1024] }

export default program(
  function adam(p) {
    return {
      weight: update(p.weight, p.weightGradient, { first: p.weightFirst, second: p.weightSecond }),
      bias: update(p.bias, p.biasGradient, { first: p.biasFirst, second: p.biasSecond }),
    }
  },
  {
    weight,
    weightGradient: weight,
    weightFirst: weight,
    weightSecond: weight,
    bias,
    biasGradient: bias,
    biasFirst: bias,
    biasSecond: bias,
  },
)
