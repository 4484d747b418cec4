/** A rough estimate of a kernel's running time on one thread, to decide what is worth sharing between threads. */
import type { Kernel, KernelPart, Stmt } from '../../kernel/ir.ts'
import { dtypesIn, statementSeconds } from '../../schedule/price.ts'
import { farBandwidth, type Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'

/** Seconds, within a factor of a few: arithmetic by its prices, and every element that is read or written as if from far memory. */
export const estimateSeconds = (kernel: Kernel, machine: Machine): number =>
  kernel.parts.reduce((sum, part) => sum + partSeconds(part, machine), 0)

function partSeconds(part: KernelPart, machine: Machine): number {
  const extent = new Map(part.axes.map((a) => [a.name, a.extent]))
  const points = (axes: Iterable<string>): number => {
    let n = 1
    for (const a of new Set([...axes, ...part.grid.map((g) => g.axis)])) n *= extent.get(a) ?? 1
    return n
  }
  const moved = 1 / farBandwidth(machine)
  const dtypes = dtypesIn(part.body)
  const definitions = new Map<number, readonly string[]>()
  const walk = (body: readonly Stmt[], loops: readonly string[]): number => {
    let seconds = 0
    for (const s of body) {
      if (s.kind === 'loop') {
        seconds += walk(s.body, [...loops, s.axis])
        continue
      }
      if (s.kind === 'store') {
        const dtype = dtypes.get(s.value) ?? 'f32'
        seconds += points([...(definitions.get(s.value) ?? []), ...loops]) * dtypeBytes(dtype) * moved
        continue
      }
      definitions.set(s.id, s.axes)
      const { op } = s
      const folded = op.kind === 'reduce' || op.kind === 'dot' ? op.axes : []
      const each =
        op.kind === 'dot'
          ? 2 / machine.matrixRate
          : statementSeconds(s, (id) => dtypes.get(id) ?? s.dtype, machine.prices) +
            (op.kind === 'load' ? dtypeBytes(s.dtype) * moved : 0)
      seconds += each * points([...s.axes, ...folded, ...loops])
    }
    return seconds
  }
  return walk(part.body, [])
}
