/**
 * Whether statements may store a result over what they read: no program, and no later point, still needs what is overwritten.
 * The planner asks it of bodies and the memory plan of kernels.
 */
import { flatten } from '../affine/expr.ts'
import { type LetStmt, operandsOf, type Stmt, type StoreStmt, type ValueId } from './ir.ts'
import { ancestorsOf } from './walk.ts'

/** Loads of a parameter in one part: positions as keys. */
interface Loads {
  readonly at: Set<string>
  inLoop: boolean
}

/** Stores to a parameter in one part: positions as keys (`undefined` where one combines or is masked by data), what they use. */
interface Stores {
  readonly at: (string | undefined)[]
  readonly uses: ValueId[]
}

/** What one part of a kernel does to memory. */
export interface PartAccess {
  readonly loads: ReadonlyMap<string, Loads>
  readonly stores: ReadonlyMap<string, Stores>
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  readonly folds: boolean
}

function walk(body: readonly Stmt[], visit: (s: LetStmt | StoreStmt, inLoop: boolean) => void, inLoop = false): void {
  for (const s of body) {
    if (s.kind === 'loop') walk(s.body, visit, true)
    else visit(s, inLoop)
  }
}

export function accessOf(body: readonly Stmt[], shapeOf: (param: string) => readonly number[]): PartAccess {
  const loads = new Map<string, Loads>()
  const stores = new Map<string, Stores>()
  const lets = new Map<ValueId, LetStmt>()
  let folds = false
  walk(body, (s, inLoop) => {
    if (s.kind === 'store') {
      const of = stores.get(s.param) ?? { at: [], uses: [] }
      const plain = s.combiner === undefined && s.maskValue === undefined
      of.at.push(plain ? flatten(s.index, shapeOf(s.param)).key : undefined)
      of.uses.push(s.value, ...operandsOf({ ...s, kind: 'load', other: 0 }))
      stores.set(s.param, of)
      return
    }
    lets.set(s.id, s)
    const { op } = s
    if (op.kind === 'load') {
      const of = loads.get(op.param) ?? { at: new Set(), inLoop: false }
      of.at.add(flatten(op.index, shapeOf(op.param)).key)
      of.inLoop ||= inLoop
      loads.set(op.param, of)
    }
    folds ||= op.kind === 'reduce' || op.kind === 'scan' || op.kind === 'dot'
  })
  return { loads, stores, lets, folds }
}

/**
 * Input parameter `read` may share memory with output parameter `write` of its format when every load of the one is in a part
 * that stores the other (parts store apart), at the position it is stored at, so a point reads only what it overwrites itself;
 * and either nothing but elementwise work stands in that part, or no other store of it needs what was read: this one comes
 * after every load it needs. (Where a mask lets one of several programs store, the others may read either value: they put it
 * nowhere.) `loading` are the parts that load the one, `storing` those that store the other.
 */
export function mayOverwrite(
  loading: readonly PartAccess[],
  storing: readonly PartAccess[],
  read: string,
  write: string,
): boolean {
  const positions = storing.map((p) => p.stores.get(write)?.at ?? [])
  if (positions.length === 0 || positions.some((at) => at.length !== 1 || at[0] === undefined)) return false
  return loading.every((p) => mayOverwriteIn(p, read, write))
}

function mayOverwriteIn(p: PartAccess, read: string, write: string): boolean {
  const loads = p.loads.get(read)
  const [at] = p.stores.get(write)?.at ?? []
  if (loads === undefined || at === undefined || [...loads.at].some((k) => k !== at)) return false
  if (!p.folds) return true
  const others = [...p.stores].flatMap(([name, s]) => (name === write ? [] : s.uses))
  // What a loop reads may leave it under another name.
  if (loads.inLoop) return others.length === 0
  return [...ancestorsOf(others, p.lets)].every((id) => {
    const op = p.lets.get(id)?.op
    return op?.kind !== 'load' || op.param !== read
  })
}
