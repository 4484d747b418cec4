/** Steps of random programs: views, joins, windows and gathers. */

import { scalarOf } from '../../src/scalar/host.ts'
import { isFloat } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import type { Builder, Step } from './builder.ts'
import { moving, type Tracked } from './tracked.ts'

const anyNode = (b: Builder, rank = 0): Tracked | undefined => b.find((t) => t.node.shape.length >= rank)
const axisOf = (b: Builder, x: Tracked): number => b.rng.int(0, x.node.shape.length - 1)

/** Another shape of as many elements: axes merged, split, or axes of extent 1 put in or left out. */
function regrouped(b: Builder, shape: readonly number[]): number[] {
  const out: number[] = []
  for (const d of shape) {
    const roll = b.rng.unit()
    const last = out.at(-1)
    if (roll < 0.3 && last !== undefined) out[out.length - 1] = last * d
    else if (roll < 0.5 && d % 2 === 0 && d > 2) out.push(2, d / 2)
    else if (roll < 0.65) out.push(1, d)
    else if (d !== 1 || b.rng.chance(0.5)) out.push(d)
  }
  return out.length > 5 ? [sizeOf(shape)] : out
}

function padded(b: Builder): Tracked | undefined {
  const x = anyNode(b, 1)
  if (x === undefined || x.node.dtype === 'bool') return undefined
  const { shape, dtype } = x.node
  const width = (): number => (b.rng.chance(0.5) ? 0 : b.rng.int(1, 3))
  const low = shape.map(width)
  const high = shape.map(width)
  const interior = shape.map(() => (b.rng.chance(0.1) ? b.rng.int(1, 2) : 0))
  const to = shape.map((n, i) => n + (low[i] ?? 0) + (high[i] ?? 0) + Math.max(0, n - 1) * (interior[i] ?? 0))
  if (!b.fits(to)) return undefined
  const value = isFloat(dtype) ? b.rng.pick([0, 0, -1.5, 0.25]) : b.rng.int(0, 3)
  return moving('pad', [x], { low, high, interior, value: scalarOf(dtype, value) }, [x], value)
}

function joined(b: Builder): Tracked | undefined {
  const x = anyNode(b, 1)
  if (x === undefined) return undefined
  const axis = axisOf(b, x)
  const { shape, dtype } = x.node
  const parts = [x]
  for (let i = b.rng.int(1, 3); i > 0; i--) {
    const known = b.find(
      (t) =>
        t.node.dtype === dtype &&
        t.node.shape.length === shape.length &&
        t.node.shape.every((d, j) => j === axis || d === shape[j]),
    )
    const own = shape.map((d, j) => (j === axis ? b.rng.int(b.options.empties ? 0 : 1, 4) : d))
    parts.push(known !== undefined && b.rng.chance(0.6) ? known : b.source(own, dtype))
  }
  const extent = parts.reduce((n, p) => n + (p.node.shape[axis] ?? 0), 0)
  if (!b.fits(shape.map((d, j) => (j === axis ? extent : d)))) return undefined
  return moving('concat', b.rng.shuffle(parts), { axis }, parts)
}

/** Rows of one axis by an index tensor, as take and embedding do. */
function taken(b: Builder): Tracked | undefined {
  const x = b.find((t) => t.node.shape.length >= 1 && sizeOf(t.node.shape) > 0)
  if (x === undefined) return undefined
  const axis = axisOf(b, x)
  const source = x.node.shape
  const shape = [...source.slice(0, axis), b.rng.pick([1, 2, 3, 5, 8]), ...source.slice(axis + 1)]
  if (!b.fits(shape)) return undefined
  const known = b.find(
    (t) => (t.node.dtype === 'i32' || t.node.dtype === 'i64') && t.node.shape.join() === shape.join(),
  )
  const repeated = (): Tracked | undefined => {
    const rows = b.indices([shape[axis] ?? 1], source[axis] ?? 1)
    return moving('broadcast', [rows], { shape, dims: [axis] }, [rows])
  }
  const index =
    known !== undefined && b.rng.chance(0.4)
      ? known
      : b.rng.chance(0.5)
        ? repeated()
        : b.indices(shape, source[axis] ?? 1)
  if (index === undefined) return undefined
  const sources = source.map((_, i) => (i === axis ? { input: 0 } : { axis: i }))
  return moving('gather', [x, index], { shape, sources }, [x])
}

export const structureSteps: readonly Step[] = [
  {
    name: 'reshape',
    weight: 3,
    apply: (b) => {
      const x = anyNode(b)
      return x === undefined ? undefined : moving('reshape', [x], { shape: regrouped(b, x.node.shape) }, [x])
    },
  },
  {
    name: 'permute',
    weight: 3,
    apply: (b) => {
      const x = anyNode(b, 2)
      return x === undefined
        ? undefined
        : moving('permute', [x], { perm: b.rng.shuffle(x.node.shape.map((_, i) => i)) }, [x])
    },
  },
  {
    name: 'broadcast',
    weight: 2,
    apply: (b) => {
      const x = anyNode(b)
      if (x === undefined || x.node.shape.length > 3) return undefined
      const own = x.node.shape
      const at = b.rng.int(0, own.length)
      const wide = own.map((d) => (d === 1 && b.rng.chance(0.6) ? b.rng.int(2, 5) : d))
      const shape = [...wide.slice(0, at), b.rng.int(1, 4), ...wide.slice(at)]
      const places = own.map((_, i) => (i < at ? i : i + 1))
      return b.fits(shape) ? moving('broadcast', [x], { shape, dims: places }, [x]) : undefined
    },
  },
  {
    name: 'slice',
    weight: 3,
    apply: (b) => {
      const x = anyNode(b, 1)
      if (x === undefined) return undefined
      const bounds = x.node.shape.map((n) => {
        const start = b.rng.chance(0.5) ? 0 : b.rng.int(0, Math.max(0, n - 1))
        const least = b.options.empties && b.rng.chance(0.03) ? start : Math.min(n, start + 1)
        return {
          start: Math.min(start, n),
          limit: b.rng.chance(0.4) ? n : b.rng.int(least, n),
          step: b.rng.chance(0.7) ? 1 : b.rng.int(2, 3),
        }
      })
      return moving(
        'slice',
        [x],
        { start: bounds.map((s) => s.start), limit: bounds.map((s) => s.limit), step: bounds.map((s) => s.step) },
        [x],
      )
    },
  },
  {
    name: 'flip',
    weight: 1,
    apply: (b) => {
      const x = anyNode(b, 1)
      return x === undefined
        ? undefined
        : moving('flip', [x], { axes: x.node.shape.flatMap((_, i) => (b.rng.chance(0.5) ? [i] : [])) }, [x])
    },
  },
  { name: 'pad', weight: 2, apply: padded },
  { name: 'concat', weight: 2, apply: joined },
  {
    name: 'window',
    weight: 1,
    apply: (b) => {
      const x = anyNode(b, 1)
      if (x === undefined || x.node.shape.length > 4) return undefined
      const axis = axisOf(b, x)
      const n = x.node.shape[axis] ?? 0
      const size = b.rng.int(1, Math.min(3, n))
      const dilation = b.rng.chance(0.3) ? 2 : 1
      const stride = b.rng.int(1, 3)
      const span = (size - 1) * dilation + 1
      if (n < 1 || span > n) return undefined
      const count = Math.floor((n - span) / stride) + 1
      if (!b.fits([...x.node.shape.filter((_, i) => i !== axis), count, size])) return undefined
      return moving('window', [x], { axis, size, stride, dilation }, [x])
    },
  },
  { name: 'gather', weight: 3, apply: taken },
]
