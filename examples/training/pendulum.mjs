/**
 * The laws of a pendulum from noisy readings of its angle, by Gauss-Newton: `node examples/training/pendulum.mjs`. There are
 * three parameters and hundreds of readings, so the Jacobian costs three passes in forward mode, hundreds in reverse.
 */
import { abs, jacfwd, jacrev, jit, linspace, random, scan, sin, stack, tensor, tree, zerosLike } from 'sinter'
import { main } from './run.mjs'

export const truth = { gravity: 9.81, friction: 0.15, drag: 0.08 }
const names = Object.keys(truth)
const noise = 0.05

/**
 * Angles [readings, pendulums] of pendulums of 1 m let go at different angles, by the semi-implicit Euler method: one loop of
 * time steps, of which every few are read.
 */
export function simulate({ gravity, friction, drag }, { pendulums = 16, readings = 40, every = 10, seconds = 4 } = {}) {
  const steps = readings * every
  const dt = seconds / steps
  const start = linspace(0.2, 2.8, pendulums)
  const [, angles] = scan(
    ([angle, velocity]) => {
      const force = sin(angle)
        .mul(gravity)
        .add(velocity.mul(friction))
        .add(velocity.mul(abs(velocity)).mul(drag))
      const faster = velocity.sub(force.mul(dt))
      const further = angle.add(faster.mul(dt))
      return [[further, faster], further]
    },
    [start, zerosLike(start)],
    null,
    { length: steps },
  )
  return angles.slice([every - 1, null, every])
}

/** Residuals in units of the noise, and J^T J and J^T r of their Jacobian in the parameters: one program. */
export const makeNormal = (setup) =>
  jit(function normal(params, readings) {
    const residuals = (p) => simulate(p, setup).sub(readings).div(noise)
    const r = residuals(params).flatten()
    const jacobian = stack(tree.leaves(jacfwd(residuals)(params)).map((column) => column.flatten()))
    return { loss: r.square().mean(), matrix: jacobian.matmul(jacobian.T), gradient: jacobian.matmul(r) }
  })

/** The inverse of a small symmetric positive matrix, by Gauss-Jordan elimination. */
export function inverse(rows) {
  const n = rows.length
  const a = rows.map((row, i) => [...row, ...row.map((_, j) => (i === j ? 1 : 0))])
  for (let i = 0; i < n; i++) {
    const pivot = a[i][i]
    a[i] = a[i].map((v) => v / pivot)
    for (let k = 0; k < n; k++) if (k !== i) a[k] = a[k].map((v, j) => v - a[k][i] * a[i][j])
  }
  return a.map((row) => row.slice(n))
}

const times = (matrix, vector) => matrix.map((row) => row.reduce((sum, v, j) => sum + v * vector[j], 0))
const asTensors = (values) => Object.fromEntries(names.map((name, i) => [name, tensor(values[i])]))

/** Milliseconds of one run, the best of several after the first, which compiles. */
function timed(f) {
  f()
  const runs = Array.from({ length: 5 }, () => {
    const start = performance.now()
    f()
    return performance.now() - start
  })
  return Math.min(...runs)
}

/** Fits; yields the mean squared residual before each update, returns the parameters with their errors and what modes cost. */
export function* train({ steps, seed, setup }) {
  const exact = simulate(asTensors(Object.values(truth)), setup)
  const readings = exact.add(random.normal(random.key(seed), exact.shape).mul(noise)).evaluate()
  const normal = makeNormal(setup)
  let values = [7, 0, 0]
  let errors = values
  for (let i = 0; i < steps; i++) {
    const { loss, matrix, gradient } = normal(asTensors(values), readings)
    const covariance = inverse(matrix.tolist())
    const move = times(covariance, gradient.tolist())
    values = values.map((v, k) => v - move[k])
    errors = covariance.map((row, k) => Math.sqrt(row[k]))
    const shown = names.map((name, k) => `${name} ${values[k].toFixed(3)}`).join(', ')
    yield { loss: loss.item(), note: `mean squared residual ${loss.item().toFixed(3)}; ${shown}` }
  }
  const at = asTensors(values)
  const compiled = [jacfwd, jacrev].map((mode) => jit(mode((p) => simulate(p, setup))))
  const [forward, reverse] = compiled.map((f) => timed(() => f(at).gravity.dataSync()))
  const [a, b] = compiled.map((f) => tree.leaves(f(at)).flatMap((x) => [...x.dataSync()]))
  const difference = a.reduce((most, v, i) => Math.max(most, Math.abs(v - b[i])), 0)
  return [
    ...names.map((name, k) => `${name} ${values[k].toFixed(3)} ± ${errors[k].toFixed(3)}, in truth ${truth[name]}`),
    `the Jacobian [${exact.size}, ${names.length}] takes ${forward.toFixed(2)} ms in forward mode, ${reverse.toFixed(1)} ms in reverse; they differ by at most ${difference.toExponential(1)}`,
  ]
}

await main(import.meta.url, {
  title: 'The laws of a pendulum from its motion',
  steps: 8,
  label: 'mean squared residual',
  train,
})
