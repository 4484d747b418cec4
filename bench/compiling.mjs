/**
 * What compiling larger programs costs: `node --single-threaded compiling.mjs`. Prints processor time of the
 * first compilation in a process and of two more: training steps of the examples, a chain of reductions, a Jacobian.
 */
import * as s from '../dist/index.js'
import * as digits from '../examples/training/digits.mjs'
import * as text from '../examples/training/text.mjs'

s.setDevice('wasm', { threads: 1 })

/** Positions of a driven, damped oscillator over 40 written out steps. */
function positions({ pull, friction }) {
  let at = s.linspace(0.2, 2.8, 16)
  let speed = s.zerosLike(at)
  const seen = []
  for (let i = 0; i < 40; i++) {
    speed = speed.sub(
      s
        .sin(at)
        .mul(pull)
        .add(speed.mul(s.abs(speed)).mul(friction))
        .mul(0.01),
    )
    at = at.add(speed.mul(0.01))
    seen.push(at)
  }
  return s.stack(seen)
}

/** A training step of an example. */
function step(example, optimizer, params, ...data) {
  const state = optimizer.init(params)
  return () => example.makeStep(optimizer).compile(params, state, ...data)
}

const programs = {
  'transformer step': step(text, text.makeOptimizer(100), text.makeParameters(1, 96), s.spec([16, 65], 'i32')),
  'convolutional step': step(
    digits,
    s.optim.adam({ learningRate: 1e-3 }),
    digits.makeParameters(1),
    s.spec([64, 1, 28, 28]),
    s.spec([64], 'i32'),
  ),
  '300 times x + sum(x)': () => {
    const chain = (x) => Array.from({ length: 300 }).reduce((y) => y.add(y.sum()), x)
    s.jit(chain).compile(s.spec([64]))
  },
  'jacfwd of 40 steps': () =>
    s.jit(s.jacfwd((p) => positions(p))).compile({ pull: s.tensor(9.8), friction: s.tensor(0.1) }),
}
for (const [name, compile] of Object.entries(programs)) {
  const times = [0, 1, 2].map(() => {
    const from = process.cpuUsage()
    compile()
    const { user, system } = process.cpuUsage(from)
    return `${((user + system) / 1e3).toFixed(0)} ms`
  })
  console.log(name.padEnd(24), times.join('  '))
}
