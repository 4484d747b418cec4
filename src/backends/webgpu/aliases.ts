/**
 * Parameters that share memory. WebGPU binds no range twice where one of the two is declared writable, so a result written over an
 * operand becomes one parameter that is read and written, and so do operands that are one range of a buffer written elsewhere.
 */
import type { Kernel, KernelParam, Stmt } from '../../kernel/ir.ts'
import { overlapping, type Place } from '../../runtime/commands.ts'

export interface SharedParams {
  /** The kernel with parameters on one place joined, and the places of what is left. */
  readonly kernel: Kernel
  readonly places: readonly Place[]
  /** Parameters in one buffer with something written (elsewhere in it): all of them are declared writable. */
  readonly writable: ReadonlySet<string>
  /** Parameters that must be read from a copy. */
  readonly copied: ReadonlySet<string>
}

interface Bound {
  readonly param: KernelParam
  readonly place: Place
}

export function shareParams(kernel: Kernel, places: readonly Place[]): SharedParams {
  const bound = kernel.params.flatMap((param, i): Bound[] => {
    const place = places[i]
    return place === undefined ? [] : [{ param, place }]
  })
  const joined = new Map<string, string>()
  const copied = new Set<string>()
  const written = bound.filter((b) => b.param.access !== 'read')
  for (const b of bound) {
    if (b.param.access !== 'read') continue
    const over = written.find((w) => overlapping(w.place, b.place))
    if (over === undefined) continue
    if (sameMemory(b, over)) joined.set(b.param.name, over.param.name)
    else copied.add(b.param.name)
  }
  const targets = new Set(joined.values())
  const writtenBases = new Set(written.map((w) => w.place.base))
  // All of such a buffer is declared writable: a range of it that is only read is bound once too.
  const once: Bound[] = []
  for (const b of bound) {
    const { name, access } = b.param
    if (access !== 'read' || !writtenBases.has(b.place.base) || joined.has(name) || copied.has(name)) continue
    const other = once.find((o) => overlapping(o.place, b.place))
    if (other === undefined) once.push(b)
    else if (sameMemory(b, other)) joined.set(name, other.param.name)
    else copied.add(name)
  }
  const left = bound.filter((b) => !joined.has(b.param.name))
  return {
    kernel:
      joined.size === 0
        ? kernel
        : {
            ...kernel,
            params: left.map(({ param }) => (targets.has(param.name) ? { ...param, access: 'update' } : param)),
            parts: kernel.parts.map((p) => ({ ...p, body: renamed(p.body, joined) })),
          },
    places: left.map((b) => b.place),
    writable: new Set(
      left.flatMap((b) => (writtenBases.has(b.place.base) && !copied.has(b.param.name) ? [b.param.name] : [])),
    ),
    copied,
  }
}

const sameMemory = (a: Bound, b: Bound): boolean =>
  a.place.base === b.place.base &&
  a.place.offset === b.place.offset &&
  a.param.dtype === b.param.dtype &&
  a.param.format === b.param.format &&
  a.param.shape.join() === b.param.shape.join()

/** Statements that load from other parameters. */
function renamed(body: readonly Stmt[], names: ReadonlyMap<string, string>): Stmt[] {
  return body.map((s): Stmt => {
    if (s.kind === 'loop') return { ...s, body: renamed(s.body, names) }
    if (s.kind !== 'let' || s.op.kind !== 'load') return s
    const name = names.get(s.op.param)
    return name === undefined ? s : { ...s, op: { ...s.op, param: name } }
  })
}
