/** Optimiser steps of the ai.onnx.preview.training domain. */
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

/** Inputs after the rate and the count come in `kinds` runs of one tensor a variable; results are regrouped the same way. */
function eachVariable(
  c: OpContext,
  kinds: number,
  step: (parts: readonly n.Node[]) => readonly n.Node[],
): readonly n.Node[] {
  const count = (c.inputs.length - 2) / kinds
  const results = Array.from({ length: count }, (_, i) =>
    step(Array.from({ length: kinds }, (_, k) => c.need(2 + k * count + i))),
  )
  const width = results[0]?.length ?? 0
  return Array.from({ length: width }, (_, k) => results.flatMap((r) => r[k] ?? [])).flat()
}

/** The gradient with the gradient of the L2 penalty. */
const regularised = (c: OpContext, x: n.Node, g: n.Node): n.Node => n.add(n.mul(x, c.float('norm_coefficient', 0)), g)

const adagrad: Handler = (c) => {
  const count = n.cast(n.asScalar(c.need(1)), c.need(0).dtype)
  const rate = n.div(n.asScalar(c.need(0)), n.add(n.mul(count, c.float('decay_factor', 0)), 1))
  return eachVariable(c, 3, ([x = rate, g = rate, h = rate]) => {
    const gradient = regularised(c, x, g)
    const squares = n.add(h, n.mul(gradient, gradient))
    const step = n.div(n.mul(rate, gradient), n.add(n.sqrt(squares), c.float('epsilon', 0)))
    return [n.sub(x, step), squares]
  })
}

const adam: Handler = (c) => {
  const base = n.asScalar(c.need(0))
  const count = n.cast(n.asScalar(c.need(1)), base.dtype)
  const alpha = c.float('alpha', 0.9)
  const beta = c.float('beta', 0.999)
  const power = (v: number): n.Node => n.pow(n.scalarAs(base, v), count)
  const corrected = n.div(n.mul(base, n.sqrt(n.sub(1, power(beta)))), n.sub(1, power(alpha)))
  const rate = n.where(n.compare('gt', count, 0), corrected, base)
  return eachVariable(c, 4, ([x = rate, g = rate, v = rate, h = rate]) => {
    const gradient = regularised(c, x, g)
    const first = n.add(n.mul(v, alpha), n.mul(gradient, 1 - alpha))
    const second = n.add(n.mul(h, beta), n.mul(n.mul(gradient, gradient), 1 - beta))
    const step = n.div(n.mul(rate, first), n.add(n.sqrt(second), c.float('epsilon', 0)))
    return [n.mul(n.sub(x, step), 1 - c.float('norm_coefficient_post', 0)), first, second]
  })
}

const momentum: Handler = (c) => {
  const rate = n.asScalar(c.need(0))
  const count = n.asScalar(c.need(1))
  const alpha = c.float('alpha', 0)
  const beta = n.where(n.compare('gt', count, 0), n.scalarAs(rate, c.float('beta', 1)), n.scalarAs(rate, 1))
  const nesterov = c.string('mode', 'standard') === 'nesterov'
  return eachVariable(c, 3, ([x = rate, g = rate, v = rate]) => {
    const gradient = regularised(c, x, g)
    const velocity = n.add(n.mul(v, alpha), n.mul(gradient, beta))
    const direction = nesterov ? n.add(gradient, n.mul(velocity, alpha)) : velocity
    return [n.sub(x, n.mul(rate, direction)), velocity]
  })
}

export const trainingHandlers: HandlerTable = { Adagrad: adagrad, Adam: adam, Momentum: momentum }
