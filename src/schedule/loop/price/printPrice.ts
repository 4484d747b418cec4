/** The printer of prices of loop schedules: predicted microseconds, and what they are made of. */
import type { LoopPrice } from './seconds.ts'

/** How many operations are named: the dearest. */
const named = 4

/** A line for a kernel's price. */
export function printLoopPrice({
  seconds,
  operations,
  arithmetic,
  waiting,
  accesses,
  loops,
  nearer,
  memory,
  launch,
}: LoopPrice): string {
  const dearest = [...operations].sort(([, a], [, b]) => b - a).slice(0, named)
  const of = dearest.map(([name, s]) => `${name} ${microseconds(s)}`).join(', ')
  const parts = [
    `arithmetic ${microseconds(arithmetic)}${of === '' ? '' : ` (${of})`}`,
    ...(waiting > 0 ? [`waiting for results ${microseconds(waiting)}`] : []),
    `accesses ${microseconds(accesses)}`,
    `loops ${microseconds(loops)}`,
    `near memory ${microseconds(nearer)}`,
    `far memory ${microseconds(memory)}`,
    `launch ${microseconds(launch)}`,
  ]
  return `predicted ${microseconds(seconds)} us: ${parts.join(', ')}`
}

/** Microseconds in at most three digits. */
const microseconds = (seconds: number): string => {
  const us = seconds * 1e6
  return us >= 100 ? us.toFixed(0) : String(Number(us.toPrecision(3)))
}
