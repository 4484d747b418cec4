/** Handwriting-like digits: strokes under random rotation, scale, shear, shift and thickness, with noise. */
import { makeRandom } from './random.mjs'

/** Side of an image in pixels. */
export const side = 28

/** Points on an arc of an ellipse, angles in turns from the right, clockwise as y points down. */
const arc = (cx, cy, rx, ry, from, to) =>
  Array.from({ length: 10 }, (_, i) => {
    const angle = 2 * Math.PI * (from + ((to - from) * i) / 9)
    return [cx + rx * Math.cos(angle), cy + ry * Math.sin(angle)]
  })

/** The strokes of each digit in a box of [-1, 1] across and [-1.4, 1.4] down. */
const strokes = [
  [arc(0, 0, 0.85, 1.35, 0, 1)],
  [
    [
      [-0.5, -0.9],
      [0.1, -1.4],
      [0.1, 1.4],
    ],
  ],
  [[...arc(0, -0.6, 0.8, 0.8, 0.5, 1.1), [-0.85, 1.35], [0.9, 1.35]]],
  [[...arc(-0.1, -0.7, 0.75, 0.68, 0.58, 1.25), ...arc(-0.1, 0.65, 0.85, 0.7, 0.75, 1.42)]],
  [
    [
      [0.45, 1.4],
      [0.45, -1.4],
      [-0.9, 0.55],
      [0.95, 0.55],
    ],
  ],
  [[[0.75, -1.35], [-0.65, -1.35], [-0.75, -0.2], ...arc(-0.05, 0.5, 0.85, 0.85, 0.65, 1.4)]],
  [[[0.5, -1.4], ...arc(0, 0.55, 0.8, 0.8, 0.55, 1.55)]],
  [
    [
      [-0.85, -1.35],
      [0.85, -1.35],
      [-0.2, 1.4],
    ],
  ],
  [arc(0, -0.7, 0.65, 0.65, 0, 1), arc(0, 0.65, 0.8, 0.75, 0, 1)],
  [[...arc(0, -0.55, 0.75, 0.8, 0.05, 1.0), [0.55, 1.4]]],
]

/** The strokes as segments [x0, y0, x1, y1]. */
const segments = strokes.map((paths) =>
  paths.flatMap((points) => points.slice(1).map(([x, y], i) => [points[i][0], points[i][1], x, y])),
)

/** Squared distance from a point to a segment. */
function distance2([x0, y0, x1, y1], x, y) {
  const [dx, dy] = [x1 - x0, y1 - y0]
  const t = Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy)))
  return (x0 + t * dx - x) ** 2 + (y0 + t * dy - y) ** 2
}

function drawDigit(random, digit, out, offset) {
  const between = (low, high) => low + (high - low) * random()
  const angle = between(-0.35, 0.35)
  const [across, down] = [between(5.5, 9), between(5, 8)]
  const shear = between(-0.3, 0.3)
  const [right, below] = [between(-3, 3), between(-2.5, 2.5)]
  const thickness = between(0.7, 1.8)
  const noise = between(0.02, 0.2)
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)]
  const middle = (side - 1) / 2
  const drawn = segments[digit].map(([x0, y0, x1, y1]) => {
    const place = (x, y) => {
      const [u, v] = [across * (x + shear * y), down * y]
      return [middle + right + cos * u - sin * v, middle + below + sin * u + cos * v]
    }
    return [...place(x0, y0), ...place(x1, y1)]
  })
  for (let y = 0; y < side; y++)
    for (let x = 0; x < side; x++) {
      let nearest = Number.POSITIVE_INFINITY
      for (const segment of drawn) nearest = Math.min(nearest, distance2(segment, x, y))
      const ink = Math.min(1, Math.max(0, thickness + 0.5 - Math.sqrt(nearest)))
      out[offset + y * side + x] = Math.min(1, Math.max(0, ink + noise * (random() + random() - 1)))
    }
}

/** `count` images [count, 1, 28, 28] in row-major order with values in [0, 1], and their labels. Another seed, other images. */
export function drawDigits(seed, count) {
  const random = makeRandom(seed)
  const images = new Float32Array(count * side * side)
  const labels = new Int32Array(count)
  for (let i = 0; i < count; i++) {
    labels[i] = Math.floor(random() * 10)
    drawDigit(random, labels[i], images, i * side * side)
  }
  return { images, labels }
}
