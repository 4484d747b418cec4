/** Whether a kernel may write a result over one of its inputs: no program, and no later point, still needs what it overwrites. */
import { flatten } from '../index/expr.ts'
import type { Kernel, LetStmt, Stmt, StoreStmt } from '../kernel/ir.ts'

function walk(body: readonly Stmt[], visit: (s: LetStmt | StoreStmt) => void): void {
  for (const s of body) {
    if (s.kind === 'loop') walk(s.body, visit)
    else visit(s)
  }
}

/**
 * Input parameter `read` may share memory with output parameter `write` of its format when every load of the one is at the
 * position the other is stored at, so a point reads only what it overwrites itself; and either nothing but elementwise work
 * stands in the kernel, or it has one store, which then comes after every load it needs.
 */
export function mayShare(kernel: Kernel, read: string, write: string): boolean {
  if (kernel.parts.length !== 1) return false
  const shapes = new Map(kernel.params.map((p) => [p.name, p.shape]))
  const formats = new Map(kernel.params.map((p) => [p.name, p.format]))
  if (formats.get(read) !== formats.get(write)) return false
  const loads: string[] = []
  const stores: string[] = []
  let storeCount = 0
  let folds = false
  walk(kernel.parts[0]?.body ?? [], (s) => {
    if (s.kind === 'store') {
      storeCount++
      if (s.param === write)
        stores.push(
          s.combiner === undefined && s.maskValue === undefined ? flatten(s.index, shapes.get(write) ?? []).key : '?',
        )
      return
    }
    if (s.op.kind === 'load' && s.op.param === read) loads.push(flatten(s.op.index, shapes.get(read) ?? []).key)
    if (s.op.kind === 'reduce' || s.op.kind === 'scan' || s.op.kind === 'dot') folds = true
  })
  const [at] = stores
  return stores.length === 1 && at !== undefined && loads.every((k) => k === at) && (!folds || storeCount === 1)
}
