/**
 * A grid of products in f32: rows, depth and columns drawn by seed, the orientation of both operands (n: as it is, t: transposed), and what stands
 * before or behind. A row's name says all of it: `plain_nt:64x4096x77`.
 */
import { gelu } from '../shared/oracle.mjs'

const sides = [64, 77, 1000, 4096, 14336]
const counts = [1, 2, 7, 16, 64, 200, 1024]
const orders = ['nn', 'nt', 'tn']
const forms = ['plain', 'silu', 'gelu']
/** Numbers of the largest operand: each system makes its own on the host. */
const most = 2 ** 26

/** Every point's kind: form and orientation. */
export const kinds = forms.flatMap((form) => orders.map((order) => ({ name: `${form}_${order}`, form, order })))

const silu = (x) => x / (1 + Math.exp(-x))

/** The row of a point by name; undefined of other names. At another size than `large` it is a small product of the same kind. */
export function gridRow(name, size) {
  const [kind, dims] = name.split(':')
  const known = kinds.find((k) => k.name === kind)
  if (known === undefined || dims === undefined) return undefined
  const [m, k, n] = size === 'large' ? dims.split('x').map(Number) : [7, 32, 20]
  const { form, order } = known
  const [ta, tb] = [...order].map((o) => o === 't')
  const left = { shape: ta ? [k, m] : [m, k], low: -1, high: 1 }
  const right = { shape: tb ? [n, k] : [k, n], low: -1, high: 1 }
  const more = form === 'silu' ? [left] : form === 'gelu' ? [{ shape: [n], low: -1, high: 1 }] : []
  const expected = ([a, b, c], _, i) => {
    const [row, column] = [Math.floor(i / n), i % n]
    let sum = 0
    for (let p = 0; p < k; p++) {
      const at = ta ? p * m + row : row * k + p
      const x = form === 'silu' ? silu(a[at]) * c[at] : a[at]
      sum += x * b[tb ? column * k + p : p * n + column]
    }
    return form === 'gelu' ? gelu(sum + c[column]) : sum
  }
  return {
    name,
    kind,
    title: `${kind} ${m} x ${k} x ${n}`,
    inputs: [left, right, ...more],
    outputs: [[m, n]],
    weights: [],
    flops: 2 * m * k * n,
    tolerance: 2e-4 * Math.sqrt(k),
    expected,
  }
}

/** Names of so many points, as many of each number of rows as of another. */
export function drawGrid(seed, count) {
  let state = seed >>> 0
  const draw = (list) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return list[Math.floor((state / 2 ** 32) * list.length)]
  }
  const names = new Set()
  while (names.size < count) {
    const [k, n] = [draw(sides), draw(sides)]
    if (k * n > most) continue
    names.add(`${draw(kinds).name}:${counts[names.size % counts.length]}x${k}x${n}`)
  }
  return [...names]
}
