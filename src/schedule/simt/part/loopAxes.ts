/**
 * Loops over one axis by different blocks get axes of their own: tiles, layouts and shared memory are sized by axis, and what a
 * sum folds by whole rows need not be as large in the product beside it.
 */
import { type Atom, axis, type Expr, substitute } from '../../../affine/expr.ts'
import { always, conjoin, type Predicate } from '../../../affine/predicate.ts'
import { startOf } from '../../../kernel/axes.ts'
import type { KernelAxis, KernelPart, LoopStmt, Stmt, TileOp } from '../../../kernel/ir.ts'
import { mapExpressions } from '../../../kernel/walk.ts'

/** Writes an axis under another name in statements. */
class Renaming {
  private readonly from: string
  private readonly to: string

  constructor(from: string, to: string) {
    this.from = from
    this.to = to
  }

  private readonly name = (a: string): string => (a === this.from ? this.to : a)
  private readonly names = (list: readonly string[]): string[] => list.map(this.name)

  private readonly atom = (a: Atom): Expr | undefined => {
    if (a.kind !== 'axis') return undefined
    if (a.name === this.from) return axis(this.to, a.extent)
    return startOf(a.name) === this.from ? axis(`${this.to}.start`, a.extent) : undefined
  }

  private readonly expr = (e: Expr): Expr => substitute(e, this.atom)

  private predicate(p: Predicate): Predicate {
    return conjoin(always, ...p.map((b) => ({ ...b, expr: this.expr(b.expr) })))
  }

  private op(op: TileOp): TileOp {
    const moved = mapExpressions(op, this.expr)
    switch (moved.kind) {
      case 'reduce':
      case 'dot':
        return { ...moved, axes: this.names(moved.axes) }
      case 'scan':
        return { ...moved, axis: this.name(moved.axis) }
      case 'at':
        return {
          ...moved,
          index: Object.fromEntries(Object.entries(moved.index).map(([a, e]) => [this.name(a), e])),
        }
      default:
        return moved
    }
  }

  statements(body: readonly Stmt[]): Stmt[] {
    return body.map((s): Stmt => {
      if (s.kind === 'let') return { ...s, axes: this.names(s.axes), op: this.op(s.op) }
      if (s.kind === 'store') return { ...s, index: s.index.map(this.expr), mask: this.predicate(s.mask) }
      return this.loop(s)
    })
  }

  loop(l: LoopStmt): LoopStmt {
    return {
      ...l,
      axis: this.name(l.axis),
      carries: l.carries.map((c) => ({ ...c, axes: this.names(c.axes) })),
      body: this.statements(l.body),
    }
  }
}

/** The part with an axis for every block by which an axis is walked. */
export function separateLoops(part: KernelPart): KernelPart {
  const blocks = new Map<string, Map<number, string>>()
  const taken = new Set(part.axes.map((a) => a.name))
  const added: { readonly of: string; readonly name: string }[] = []
  const nameFor = (l: LoopStmt): string => {
    const known = blocks.get(l.axis) ?? new Map<number, string>()
    blocks.set(l.axis, known)
    const have = known.get(l.block)
    if (have !== undefined) return have
    let name = l.axis
    for (let i = 2; known.size > 0 && taken.has(name); i++) name = `${l.axis}_${i}`
    if (name !== l.axis) {
      taken.add(name)
      added.push({ of: l.axis, name })
    }
    known.set(l.block, name)
    return name
  }
  const walk = (body: readonly Stmt[]): Stmt[] =>
    body.map((s): Stmt => {
      if (s.kind !== 'loop') return s
      const name = nameFor(s)
      const inner = { ...s, body: walk(s.body) }
      return name === s.axis ? inner : new Renaming(s.axis, name).loop(inner)
    })
  const body = walk(part.body)
  if (added.length === 0) return part
  const axes = part.axes.flatMap((a): KernelAxis[] => [
    a,
    ...added.filter((x) => x.of === a.name).map((x) => ({ ...a, name: x.name })),
  ])
  return { ...part, axes, body }
}
