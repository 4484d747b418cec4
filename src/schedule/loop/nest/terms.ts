/** Values of a part at given places along some of its axes: copies of the statements that compute them, with index maps, masks and predicates of their own. */
import * as ix from '../../../affine/expr.ts'
import { type Bound, isNever, type Predicate, predicateKey } from '../../../affine/predicate.ts'
import { type KernelPart, type LetStmt, operandsOf, type TileOp, type ValueId } from '../../../kernel/ir.ts'
import { expressionsOf, mapExpressions, renameOperands } from '../../../kernel/walk.ts'
import type { Fold } from '../ir/steps.ts'
import type { Axes } from '../ir/tile.ts'

/** Where a term stands along some axes. */
export type Place = ReadonlyMap<string, ix.Expr>

/** Makes copies of a part's values; those made since they were taken last are `made`. */
export class Terms {
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  private readonly axes: Axes
  private readonly shared = new Map<string, ValueId>()
  private made: LetStmt[] = []
  private next: ValueId

  constructor(part: KernelPart, axes: Axes) {
    const lets = part.body.filter((s) => s.kind === 'let')
    this.lets = new Map(lets.map((l) => [l.id, l]))
    this.axes = axes
    this.next = Math.max(-1, ...lets.map((l) => l.id)) + 1
  }

  /** Whether a value must stand in memory: it is read at other places than its own. */
  isStaged(id: ValueId): boolean {
    for (const { op } of this.lets.values()) if ((op.kind === 'at' || op.kind === 'stage') && op.of === id) return true
    return false
  }

  /** Whether a value is what a step folds. */
  isFolded(id: ValueId): boolean {
    const op = this.lets.get(id)?.op
    if (op?.kind === 'scan') return true
    return (op?.kind === 'reduce' || op?.kind === 'dot') && this.axes.varying(op.axes).length > 0
  }

  take(): LetStmt[] {
    const { made } = this
    this.made = []
    this.shared.clear()
    return made
  }

  emit(l: LetStmt, op: TileOp): ValueId {
    this.made.push({ ...l, id: this.next, op })
    return this.next++
  }

  /** A name that nothing has. */
  fresh(): ValueId {
    return this.next++
  }

  /** How many points axes have at most. */
  countOf(axes: readonly string[]): number {
    return axes.reduce((n, a) => n * this.axes.view(a).max, 1)
  }

  /** Whether every program holds all of an axis. */
  isWhole(axis: string): boolean {
    const { moves, counts, extent, open } = this.axes.view(axis)
    return !moves && open === undefined && counts?.length === 1 && counts[0] === extent
  }

  /** Indices along the axes, the last one fastest. */
  pointsOf(axes: readonly string[]): Map<string, number>[] {
    return axes.reduce<Map<string, number>[]>(
      (points, a) =>
        points.flatMap((p) => Array.from({ length: this.axes.view(a).extent }, (_, i) => new Map([...p, [a, i]]))),
      [new Map()],
    )
  }

  /**
   * Whether all of a fold's operands are computed at their points, whatever varies along these axes: `own` collects that, and `takes` looks at the
   * statements of each.
   */
  isInline(
    { args }: Fold,
    along: readonly string[],
    own: Set<ValueId>,
    takes: (l: LetStmt, arg: number) => boolean = () => true,
  ): boolean {
    return args.every((root, arg) => {
      const found = new Set([root])
      for (const id of found) {
        const l = this.lets.get(id)
        if (l === undefined) return false
        if (!l.axes.some((a) => along.includes(a))) continue
        if (!inline.has(l.op.kind) || !takes(l, arg)) return false
        own.add(id)
        for (const o of operandsOf(l.op)) found.add(o)
      }
      return true
    })
  }

  /**
   * A value at a place; what is the same at several is one. `here` holds what stands there already. Bounds of masks and predicates that are `assumed` are
   * left out.
   */
  at(id: ValueId, place: Place, here: Map<ValueId, ValueId>, assumed: (b: Bound) => boolean = () => false): ValueId {
    const known = here.get(id)
    if (known !== undefined) return known
    const l = this.lets.get(id)
    if (l === undefined || !l.axes.some((a) => place.has(a))) return id
    for (const o of operandsOf(l.op)) this.at(o, place, here, assumed)
    const moved = mapExpressions(l.op, (e) =>
      ix.substitute(e, (a) => (a.kind === 'axis' ? place.get(a.name) : undefined)),
    )
    const op = decided(
      within(
        renameOperands(moved, (o) => here.get(o) ?? o),
        assumed,
      ),
    )
    const key = `${l.dtype} ${keyOf(op)}`
    const axes = [...new Set(l.axes.flatMap((a) => axesOf(a, place)))]
    const copy = this.shared.get(key) ?? this.emit({ ...l, axes }, op)
    this.shared.set(key, copy)
    here.set(id, copy)
    return copy
  }
}

/** What is computed where it is needed. */
const inline: ReadonlySet<TileOp['kind']> = new Set<TileOp['kind']>(['load', 'scalar', 'index', 'predicate', 'const'])

/** The axes that an axis leaves where it is placed. */
function axesOf(axis: string, place: Place): string[] {
  const at = place.get(axis)
  return at === undefined ? [axis] : [...ix.axesOf(at)]
}

/** An operation without some bounds of its mask or predicate. */
function within(op: TileOp, assumed: (b: Bound) => boolean): TileOp {
  const left = (p: Predicate): Predicate => (isNever(p) ? p : p.filter((b) => !assumed(b)))
  if (op.kind === 'load') return op.mask.length === 0 ? op : { ...op, mask: left(op.mask) }
  return op.kind === 'predicate' ? { ...op, predicate: left(op.predicate) } : op
}

/** An operation whose mask or predicate never holds, or always, is a constant. */
function decided(op: TileOp): TileOp {
  if (op.kind === 'load' && isNever(op.mask)) return { kind: 'const', value: op.other }
  if (op.kind !== 'predicate') return op
  if (isNever(op.predicate)) return { kind: 'const', value: false }
  return op.predicate.length === 0 ? { kind: 'const', value: true } : op
}

/** What tells an operation from others. */
function keyOf(op: TileOp): string {
  const { kind } = op
  switch (kind) {
    case 'load':
      return `${kind} ${op.param}[${op.index.map((e) => e.key).join()}]${predicateKey(op.mask)}|${op.maskValue}|${op.other}`
    case 'predicate':
      return `${kind} ${predicateKey(op.predicate)}`
    case 'scalar':
      return `${kind} ${op.op} ${op.args.join()}`
    case 'const':
      return `${kind} ${typeof op.value} ${Object.is(op.value, -0) ? '-0' : op.value}`
    default:
      return `${kind} ${expressionsOf(op)
        .map((e) => e.key)
        .join()}|${operandsOf(op).join()}`
  }
}
