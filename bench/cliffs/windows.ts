/** Recipes with sliding windows: convolutions of all kinds, pooling, window statistics written out. */
import { pointwise, tame } from './pointwise.ts'
import { extentNear, logUniform } from './shapes.ts'
import { shown, type Var, type Writer } from './writer.ts'

/** An image [batch, channels, height, width] or a signal [batch, channels, length]. */
function image(w: Writer, mostChannels: number): Var {
  const { most } = w.options
  const flat = w.rng.chance(0.2)
  const side = extentNear(w.rng, logUniform(w.rng, 5, flat ? 4096 : 160))
  const place = flat ? [side] : [side, w.rng.chance(0.7) ? side : extentNear(w.rng, logUniform(w.rng, 5, 160))]
  const room = Math.max(1, most / place.reduce((a, b) => a * b, 1))
  const channels = extentNear(w.rng, logUniform(w.rng, 1, Math.min(mostChannels, room)))
  const batch = w.rng.pick([1, 1, 2, 8].filter((n) => n * channels <= room).concat(1))
  return w.input([batch, channels, ...place], w.float())
}

function convolution(w: Writer): Var {
  const x = image(w, 128)
  const [batch = 1, channels = 1, ...place] = x.t.shape
  const kind = w.rng.pick(['plain', 'plain', 'plain', 'pointwise', 'depthwise', 'groups'] as const)
  const taps = kind === 'pointwise' ? 1 : w.rng.pick([2, 3, 3, 3, 5, 7])
  const kernel = place.map((d) => Math.min(taps, d))
  const groups = kind === 'depthwise' ? channels : kind === 'groups' && channels % 2 === 0 ? 2 : 1
  const points = batch * place.reduce((a, b) => a * b, 1)
  const each = points * (channels / groups) * kernel.reduce((a, b) => a * b, 1) * 2
  const room = Math.min(128, 3e9 / each, w.options.most / points)
  const about = kind === 'depthwise' ? channels : Math.max(1, logUniform(w.rng, 1, Math.max(1, room)))
  const out = Math.max(1, Math.round(about / groups)) * groups
  const weights = w.parameter([out, channels / groups, ...kernel], x.t.dtype, -0.5, 1)
  const options = [
    ...(w.rng.chance(0.6) ? [`padding: 'same'`] : []),
    ...(w.rng.chance(0.25) ? ['stride: 2'] : []),
    ...(w.rng.chance(0.1) && place.every((d) => d > 2 * taps) ? ['dilation: 2'] : []),
    ...(groups > 1 ? [`groups: ${groups}`] : []),
  ]
  const sum = (channels / groups) * kernel.reduce((a, b) => a * b, 1)
  const y = w.emit(
    `s.conv(${x.name}, ${weights.name}${options.length > 0 ? `, { ${options.join(', ')} }` : ''})`,
    -sum,
    sum,
  )
  const scaled = w.emit(`${y.name}.mul(${(1 / sum).toPrecision(3)})`, -1.5, 1.5)
  if (!w.rng.chance(0.5)) return scaled
  const bias = w.parameter([out, ...place.map(() => 1)], y.t.dtype, -0.5, 1)
  return w.emit(`${scaled.name}.add(${bias.name})`, -2, 2.5)
}

function pooling(w: Writer, x: Var): Var {
  const place = x.t.shape.slice(2)
  const taps = w.rng.pick([2, 2, 3, 5])
  const kernel = place.map((d) => Math.min(taps, d))
  const options = w.rng.pick(['', '', ', { stride: 1 }', ', { stride: 2 }'])
  return w.emit(`s.${w.rng.pick(['maxPool', 'averagePool'])}(${x.name}, ${shown(kernel)}${options})`, x.lo, x.hi)
}

export function window(w: Writer): Var[] {
  const kind = w.rng.unit()
  if (kind < 0.6) {
    const y = pointwise(w, tame(w, convolution(w)), w.rng.int(0, 2))
    return [w.rng.chance(0.2) && y.t.shape.slice(2).every((d) => d >= 2) ? pooling(w, y) : y]
  }
  if (kind < 0.85) return [pointwise(w, pooling(w, pointwise(w, image(w, 256), w.rng.int(0, 2))), w.rng.int(0, 2))]
  // A statistic of the last elements of a signal.
  const x = w.input([extentNear(w.rng, logUniform(w.rng, 64, w.options.most / 2))], w.float())
  const size = Math.min(x.t.shape[0] ?? 1, w.rng.pick([3, 8, 31]))
  const views = `s.slidingWindow(${x.name}, 0, ${size})`
  return [w.emit(`${views}.${w.rng.pick(['mean', 'max', 'min'])}(-1)`, x.lo, x.hi)]
}
