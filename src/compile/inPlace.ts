/** Whether a kernel may write a result over one of its inputs: no program, and no later point, still needs what it overwrites. */
import { flatten } from '../index/expr.ts'
import {
  type Kernel,
  type KernelParam,
  type LetStmt,
  operandsOf,
  type Stmt,
  type StoreStmt,
  type ValueId,
} from '../kernel/ir.ts'
import { ancestorsOf } from '../kernel/walk.ts'

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

interface PartAccess {
  readonly loads: ReadonlyMap<string, Loads>
  readonly stores: ReadonlyMap<string, Stores>
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  readonly folds: boolean
}

interface Accesses {
  readonly formats: ReadonlyMap<string, KernelParam['format']>
  /** The parts that load, and those that store to, a parameter. */
  readonly loading: ReadonlyMap<string, readonly PartAccess[]>
  readonly storing: ReadonlyMap<string, readonly PartAccess[]>
}

function walk(body: readonly Stmt[], visit: (s: LetStmt | StoreStmt, inLoop: boolean) => void, inLoop = false): void {
  for (const s of body) {
    if (s.kind === 'loop') walk(s.body, visit, true)
    else visit(s, inLoop)
  }
}

const known = new WeakMap<Kernel, Accesses>()

/** Walks a kernel once: a union has hundreds of results, and as many inputs that each might take over. */
function accessesOf(kernel: Kernel): Accesses {
  const have = known.get(kernel)
  if (have !== undefined) return have
  const shapes = new Map(kernel.params.map((p) => [p.name, p.shape]))
  const parts = kernel.parts.map(({ body }) => accessOf(body, (p) => shapes.get(p) ?? []))
  const by = (of: (p: PartAccess) => Iterable<string>): Map<string, PartAccess[]> => {
    const out = new Map<string, PartAccess[]>()
    for (const p of parts)
      for (const name of of(p)) {
        const list = out.get(name)
        if (list === undefined) out.set(name, [p])
        else list.push(p)
      }
    return out
  }
  const made: Accesses = {
    formats: new Map(kernel.params.map((p) => [p.name, p.format])),
    loading: by((p) => p.loads.keys()),
    storing: by((p) => p.stores.keys()),
  }
  known.set(kernel, made)
  return made
}

function accessOf(body: readonly Stmt[], shapeOf: (param: string) => readonly number[]): PartAccess {
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
 * nowhere.)
 */
export function mayShare(kernel: Kernel, read: string, write: string): boolean {
  const { formats, loading, storing } = accessesOf(kernel)
  if (formats.get(read) !== formats.get(write)) return false
  const positions = (storing.get(write) ?? []).map((p) => p.stores.get(write)?.at ?? [])
  if (positions.length === 0 || positions.some((at) => at.length !== 1 || at[0] === undefined)) return false
  return (loading.get(read) ?? []).every((p) => mayShareIn(p, read, write))
}

function mayShareIn(p: PartAccess, read: string, write: string): boolean {
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

/** Parameters that are loaded in a part that stores to `write`: what it may be placed on, if anything. */
export function loadedBeside(kernel: Kernel, write: string): Set<string> {
  return new Set((accessesOf(kernel).storing.get(write) ?? []).flatMap((p) => [...p.loads.keys()]))
}
