/** What the axes of a kernel part are to its programs: scalar or blocked (grid, loop), or local. */
import type { KernelPart, Stmt } from './ir.ts'

export interface AxisRole {
  readonly role: 'grid' | 'loop' | 'local'
  readonly extent: number
  /** Indices a program holds at a time; the whole extent of a local axis. */
  readonly block: number
  /** Blocks start at multiples of `block`: false for loops that start at a computed index. */
  readonly aligned: boolean
}

/** The axis a name stands for when it is the pseudo-axis `NAME.start`. */
export const startOf = (name: string): string | undefined => (name.endsWith('.start') ? name.slice(0, -6) : undefined)

/** Names of the axes that some loop of the statements steps over. */
export function loopAxes(body: readonly Stmt[]): Set<string> {
  const out = new Set<string>()
  const walk = (stmts: readonly Stmt[]): void => {
    for (const s of stmts) {
      if (s.kind !== 'loop') continue
      out.add(s.axis)
      walk(s.body)
    }
  }
  walk(body)
  return out
}

/** Roles of the axes outside every loop: loop axes are absent. */
export function rolesOf(part: KernelPart): Map<string, AxisRole> {
  const loops = loopAxes(part.body)
  const blocks = new Map(part.grid.map((g) => [g.axis, g.block]))
  const out = new Map<string, AxisRole>()
  for (const { name, extent } of part.axes) {
    const block = blocks.get(name)
    if (block !== undefined) out.set(name, { role: 'grid', extent, block, aligned: true })
    else if (!loops.has(name)) out.set(name, { role: 'local', extent, block: extent, aligned: true })
  }
  return out
}
