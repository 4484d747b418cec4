/** Schedules of threads as text: who runs a program, how its axes are spread, what happens in which order. */
import { matricesOf } from './access/tiles.ts'
import type { AxisLayout } from './layout/layout.ts'
import type { Part } from './part/part.ts'
import { printSequence } from './sequence/printSequence.ts'
import type { PartSchedule, Scheduled } from './threadSchedule.ts'

const times = (n: number, one: string, many = `${one}s`): string => `${n} ${n === 1 ? one : many}`

const micro = (seconds: number): string => `${Number((1e6 * seconds).toPrecision(2))} us`

/** How an axis is spread, its digits from the highest to the lowest. */
export function printAxis(a: AxisLayout, extent: number): string {
  const { bits, pairAbove } = a
  const digit = (n: number, one: string, many?: string): string[] => (n > 1 ? [times(n, one, many)] : [])
  const threads = (bits: number): string[] => digit(2 ** bits, 'thread')
  const pieces = [
    ...digit(a.chunks, 'chunk'),
    ...(pairAbove === undefined
      ? [...digit(a.reps, 'repeat'), ...threads(bits.length)]
      : [...digit(a.reps / 2, 'repeat'), ...threads(bits.length - pairAbove), '2 repeats', ...threads(pairAbove)]),
    ...digit(a.vec, 'side by side', 'side by side'),
  ]
  return `axis ${a.name}: ${a.size} of ${extent} a program${pieces.length > 0 ? ` = ${pieces.join(' x ')}` : ''}`
}

/** Numbers in a row as ranges. */
function ranges(bits: readonly number[]): string {
  const out: string[] = []
  for (let i = 0; i < bits.length; ) {
    let n = 1
    while (bits[i + n] === (bits[i] ?? 0) + n) n++
    out.push(n === 1 ? `${bits[i]}` : `${bits[i]}-${(bits[i] ?? 0) + n - 1}`)
    i += n
  }
  return out.join(', ')
}

function printPart(part: Part, s: PartSchedule): string[] {
  const out: string[] = []
  for (const a of s.layout.axes.values()) {
    const bits = a.bits.length === 0 ? '' : `, bits ${ranges(a.bits)} of the thread's number`
    out.push(`  ${printAxis(a, part.axis(a.name).extent)}${bits}`)
  }
  for (const p of part.products.values())
    out.push(
      p.groups === undefined
        ? `  product %${p.dot} of ${p.dtype} on matrix units: ${p.rowSize} x ${p.columnSize} x ${p.depthSize} by warps`
        : `  product %${p.dot} of ${p.dtype} on matrix units: ${p.rowSize} x ${p.columnSize} x ${p.depthSize} by ${times(p.groups.count, 'group')} of four warps, ${p.groups.pieces} x 64 rows each`,
    )
  for (const v of part.vectorProducts.values()) {
    const m = v.onMatrices ? matricesOf(v, part, s.layout) : undefined
    out.push(
      m === undefined
        ? `  product %${v.dot} in vectors of four along ${v.a.vector} and ${v.b.vector}, ${v.unroll} indices of the depth in place`
        : `  product %${v.dot} on matrices of subgroups: ${m.rows} x ${m.columns} x ${m.depth} by ${m.down} x ${m.across} subgroups`,
    )
  }
  if (s.next !== undefined)
    out.push(`  asks for the row of the program that comes ${s.next.distance} indices of ${s.next.axis} later`)
  if (s.order !== undefined)
    out.push(
      `  programs from the ${s.order.descends ? 'last' : 'first'} block of ${s.order.axis}, which is the longest${s.order.together > 1 ? `, ${s.order.together} rows of the grid in turn` : ''}`,
    )
  return out
}

/** A schedule as text, a line an item. */
export function printThreadSchedule({ schedule: s, parts }: Scheduled): string[] {
  const team = `${times(s.threads, 'thread')}${s.cluster > 1 ? ` in each of ${s.cluster} blocks of a cluster` : ''}`
  const rows = s.rows > 1 ? ` in ${s.rows} rows of the grid` : ''
  const shared = s.sharedBytes === 0 ? '' : `, ${s.sharedBytes} B of shared memory a block`
  const out = [
    `schedule of ${s.kernel}: ${times(s.programs, 'program')}${rows}, ${team} a program${shared}; arithmetic ${micro(s.seconds)}`,
  ]
  s.parts.forEach((p, i) => {
    const part = parts[i]
    if (part === undefined) return
    if (s.parts.length > 1 || p.count > 1)
      out.push(
        `  part ${i + 1} of ${s.parts.length}: ${times(p.programs, 'program')}${p.count > 1 ? ` of ${p.count} that are the same code` : ''}`,
      )
    out.push(...printPart(part, p))
    out.push(...printSequence(part, p.layout, p.body).map((line) => `  ${line}`))
  })
  return out
}
