/** A rough estimate of a kernel's running time on one thread, to decide what is worth sharing between threads. */
import type { Kernel, KernelPart, Stmt } from '../../kernel/ir.ts'
import { scalarInfo } from '../../scalar/ops.ts'

/** Nanoseconds, within a factor of a few. */
export function estimateNanoseconds(kernel: Kernel): number {
  return kernel.parts.reduce((sum, part) => sum + estimatePart(part), 0)
}

function estimatePart(part: KernelPart): number {
  const extent = new Map(part.axes.map((a) => [a.name, a.extent]))
  const points = (axes: Iterable<string>): number => {
    let n = 1
    for (const a of new Set([...axes, ...part.grid.map((g) => g.axis)])) n *= extent.get(a) ?? 1
    return n
  }
  const walk = (body: readonly Stmt[], loops: readonly string[]): number => {
    let ns = 0
    for (const s of body) {
      if (s.kind === 'loop') {
        ns += walk(s.body, [...loops, s.axis])
        continue
      }
      if (s.kind === 'store') {
        ns += 0.3
        continue
      }
      const { op } = s
      if (op.kind === 'dot') ns += 0.06 * points([...s.axes, ...op.axes, ...loops])
      else if (op.kind === 'reduce') ns += 0.15 * points([...s.axes, ...op.axes, ...loops])
      else {
        const each =
          op.kind === 'scalar'
            ? { free: 0, simple: 0.08, divide: 0.4, special: 2 }[scalarInfo(op.op).cost]
            : op.kind === 'load'
              ? 0.3
              : op.kind === 'random'
                ? 6
                : op.kind === 'const'
                  ? 0
                  : 0.2
        ns += each * points([...s.axes, ...loops])
      }
    }
    return ns
  }
  return walk(part.body, [])
}
