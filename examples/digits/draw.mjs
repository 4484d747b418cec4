/** Draws handwritten-looking digits: 5 x 7 glyphs under random rotation, scale, shear and shift, blurred, with noise. */

/** Side of an image in pixels. */
export const side = 16

const glyphs = [
  '.###.|#...#|#..##|#.#.#|##..#|#...#|.###.',
  '..#..|.##..|..#..|..#..|..#..|..#..|.###.',
  '.###.|#...#|....#|...#.|..#..|.#...|#####',
  '.###.|#...#|....#|..##.|....#|#...#|.###.',
  '...#.|..##.|.#.#.|#..#.|#####|...#.|...#.',
  '#####|#....|####.|....#|....#|#...#|.###.',
  '..##.|.#...|#....|####.|#...#|#...#|.###.',
  '#####|....#|...#.|..#..|..#..|.#...|.#...',
  '.###.|#...#|#...#|.###.|#...#|#...#|.###.',
  '.###.|#...#|#...#|.####|....#|...#.|.##..',
].map((g) => g.split('|').map((row) => [...row].map((c) => (c === '#' ? 1 : 0))))

/** A seeded generator of numbers in [0, 1) (mulberry32). */
export function makeRandom(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

/** Ink of a glyph at a point of its own 5 x 7 grid, each cell a soft dot. */
function ink(glyph, x, y, softness) {
  let most = 0
  for (let r = Math.max(0, Math.floor(y) - 1); r <= Math.min(6, Math.floor(y) + 2); r++) {
    for (let c = Math.max(0, Math.floor(x) - 1); c <= Math.min(4, Math.floor(x) + 2); c++) {
      if (glyph[r][c] === 0) continue
      const d = Math.hypot(x - c, y - r)
      most = Math.max(most, Math.min(1, Math.max(0, (1.05 - d) / softness)))
    }
  }
  return most
}

/** Draws one digit into `out` at `offset`. */
export function drawDigit(random, digit, out, offset) {
  const between = (lo, hi) => lo + (hi - lo) * random()
  const angle = between(-0.3, 0.3)
  const [sx, sy] = [between(1.7, 2.3), between(1.6, 2.1)]
  const shear = between(-0.25, 0.25)
  const [dx, dy] = [between(-1.6, 1.6), between(-1.2, 1.2)]
  const softness = between(0.35, 0.8)
  const strength = between(0.7, 1)
  const noise = between(0.02, 0.15)
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)]
  const middle = (side - 1) / 2
  for (let py = 0; py < side; py++) {
    for (let px = 0; px < side; px++) {
      const [u, v] = [px - middle - dx, py - middle - dy]
      const [rx, ry] = [cos * u + sin * v, cos * v - sin * u]
      const value = strength * ink(glyphs[digit], (rx + shear * ry) / sx + 2, ry / sy + 3, softness)
      out[offset + py * side + px] = Math.min(1, Math.max(0, value + noise * (random() + random() - 1)))
    }
  }
}

/** `count` images [count, 1, 16, 16] in row-major order, with their labels. */
export function drawDigits(seed, count) {
  const random = makeRandom(seed)
  const images = new Float32Array(count * side * side)
  const labels = new Uint8Array(count)
  for (let i = 0; i < count; i++) {
    labels[i] = Math.floor(random() * 10)
    drawDigit(random, labels[i], images, i * side * side)
  }
  return { images, labels }
}
