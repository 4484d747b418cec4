/** Whether a kernel may write a result over one of its inputs: no program, and no later point, still needs what it overwrites. */
import { flatten } from '../index/expr.ts'
import { type Kernel, type LetStmt, operandsOf, type Stmt, type StoreStmt, type ValueId } from '../kernel/ir.ts'
import { ancestorsOf } from '../kernel/walk.ts'

function walk(body: readonly Stmt[], visit: (s: LetStmt | StoreStmt, inLoop: boolean) => void, inLoop = false): void {
  for (const s of body) {
    if (s.kind === 'loop') walk(s.body, visit, true)
    else visit(s, inLoop)
  }
}

/**
 * Input parameter `read` may share memory with output parameter `write` of its format when every load of the one is at the
 * position the other is stored at, so a point reads only what it overwrites itself; and either nothing but elementwise work
 * stands in the kernel, or no other store needs what was read: this one comes after every load it needs. (Where a mask lets one
 * of several programs store, the others may read either value: they put it nowhere.)
 */
export function mayShare(kernel: Kernel, read: string, write: string): boolean {
  if (kernel.parts.length !== 1) return false
  const shapes = new Map(kernel.params.map((p) => [p.name, p.shape]))
  const formats = new Map(kernel.params.map((p) => [p.name, p.format]))
  if (formats.get(read) !== formats.get(write)) return false
  const loads: string[] = []
  const stores: string[] = []
  const others: ValueId[] = []
  const lets = new Map<ValueId, LetStmt>()
  let folds = false
  let looped = false
  walk(kernel.parts[0]?.body ?? [], (s, inLoop) => {
    if (s.kind === 'store') {
      if (s.param !== write) others.push(s.value, ...operandsOf({ ...s, kind: 'load', other: 0 }))
      else
        stores.push(
          s.combiner === undefined && s.maskValue === undefined ? flatten(s.index, shapes.get(write) ?? []).key : '?',
        )
      return
    }
    lets.set(s.id, s)
    if (s.op.kind === 'load' && s.op.param === read) {
      loads.push(flatten(s.op.index, shapes.get(read) ?? []).key)
      looped ||= inLoop
    }
    if (s.op.kind === 'reduce' || s.op.kind === 'scan' || s.op.kind === 'dot') folds = true
  })
  const [at] = stores
  if (stores.length !== 1 || at === undefined || !loads.every((k) => k === at)) return false
  if (!folds) return true
  // What a loop reads may leave it under another name.
  if (looped) return others.length === 0
  return [...ancestorsOf(others, lets)].every((id) => {
    const op = lets.get(id)?.op
    return op?.kind !== 'load' || op.param !== read
  })
}
