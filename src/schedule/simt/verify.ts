/** The laws of a schedule of threads. Throws an internal error naming the first that is broken. */
import type { SimtMachine } from '../../target/simt.ts'
import { type Layout, type Nest, spanOf } from './layout/layout.ts'
import type { Part } from './part/part.ts'
import { type Check, checkOf, verifySequence } from './sequence/verifySequence.ts'
import type { Scheduled } from './threadSchedule.ts'

export function verifyThreadSchedule({ schedule, parts }: Scheduled): void {
  const check = checkOf(schedule.kernel)
  const { threads, cluster, machine } = schedule
  verifyTeam(threads, cluster, machine, check)
  let first = 0
  schedule.parts.forEach((s, i) => {
    const part = parts[i]
    check(part !== undefined, `part ${i} has no facts`)
    if (part === undefined) return
    check(s.first === first, `part ${i} begins at program ${s.first}, not ${first}`)
    first += s.programs
    verifyLayout(s.layout, nestsOf(part), threads * cluster, check)
    verifySequence(part, s.layout, s.body, check, (own) => verifyLayout(own, [], threads * cluster, check))
  })
  check(first === schedule.programs, `its parts have ${first} programs, not ${schedule.programs}`)
}

function verifyTeam(threads: number, cluster: number, machine: SimtMachine, check: Check): void {
  check(Number.isInteger(Math.log2(threads)), `${threads} threads are no power of two`)
  check(
    threads <= Math.max(32, machine.maxThreads),
    `${threads} threads of a block, where the machine has ${machine.maxThreads}`,
  )
  check(
    cluster === 1 || cluster <= machine.clusters,
    `a cluster of ${cluster} blocks, where the machine has ${machine.clusters}`,
  )
}

/** The nests that run under a part's own layout: of products in a chain their results, since no loop runs over their depth. */
const nestsOf = (part: Part): Nest[] => [
  ...part.mainLets().map((l) => ({
    axes: part.isChain && part.isProduct(l.id) ? part.axesOf(l.id) : part.nestOf(l),
  })),
  ...part.mainStores().map((s) => ({ axes: part.storeAxes(s) })),
]

/** Every index of an axis has one place; axes that stand in one nest share no bit of the thread's number. */
export function verifyLayout(layout: Layout, nests: readonly Nest[], threads: number, check: Check): void {
  check(layout.threads <= threads, `a layout over ${layout.threads} threads, of ${threads}`)
  const bits = Math.log2(threads)
  for (const a of layout.axes.values()) {
    const covered = spanOf(a) * a.chunks
    check(covered >= a.size, `axis ${a.name}: ${covered} places for ${a.size} indices`)
    check((a.chunks - 1) * spanOf(a) < a.size, `axis ${a.name}: a chunk of ${a.chunks} without an index`)
    check(Number.isInteger(Math.log2(a.vec)), `axis ${a.name}: ${a.vec} neighbours`)
    check(a.pairAbove === undefined || a.reps % 2 === 0, `axis ${a.name}: ${a.reps} repeats in pairs`)
    check(new Set(a.bits).size === a.bits.length, `axis ${a.name} has a bit twice`)
    check(
      a.bits.every((b) => b >= 0 && b < bits),
      `axis ${a.name} has bits ${a.bits.join()} of ${bits}`,
    )
  }
  for (const { axes } of nests) {
    const owner = new Map<number, string>()
    for (const a of layout.spread(axes))
      for (const b of a.bits) {
        const other = owner.get(b)
        check(other === undefined, `axes ${other} and ${a.name} meet and share bit ${b}`)
        owner.set(b, a.name)
      }
  }
}
