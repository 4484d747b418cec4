/**
 * Ends of a chain's loop by data: where conditions that every fold's terms need compare what is read by rows with what is read along the loop
 * (documents that tokens belong to, positions that are given), or read the latter alone (keys that are there), the loop goes from the
 * first to the last index that some row of the block may see. A block's rows stand for all of them by their least and greatest.
 */
import * as ix from '../affine/expr.ts'
import { opposite, type Tested } from '../kernel/conditions.ts'
import { isFoldOrScan } from '../kernel/folds.ts'
import type { KernelAxis, LetStmt, TileOp, ValueId } from '../kernel/ir.ts'
import { ancestorsOf, mapExpressions, renameOperands } from '../kernel/walk.ts'
import { type DType, isInteger } from '../types/dtype.ts'

/** Where a loop begins and ends, for each index of axes of the batch. */
export interface Ends {
  readonly from: ValueId
  readonly to: ValueId
  readonly axes: readonly string[]
}

/** The loop, and the statements before it. */
export interface DataLoop {
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  readonly rows: readonly string[]
  /** Axes of which a program has one index: what lies along others besides is gone through with the loop. */
  readonly batch: readonly string[]
  readonly axis: KernelAxis
  /** An axis that goes over all of it before the loop. */
  readonly whole: string
  readonly block: number
  /** Its ends are multiples of its block. */
  readonly isWhole: boolean
  readonly emit: (dtype: DType, axes: readonly string[], op: TileOp) => ValueId
}

/** Fewer steps are gone through. */
const fewestSteps = 4

type Comparison = 'eq' | 'lt' | 'le' | 'gt' | 'ge'

/** The same comparison of operands that change places. */
const turned: Readonly<Record<Comparison, Comparison>> = { eq: 'eq', lt: 'gt', le: 'ge', gt: 'lt', ge: 'le' }

const isComparison = (op: string | undefined): op is Comparison => op !== undefined && op in turned

/** Statements that a loop's ends are found by. */
class Finder {
  private readonly loop: DataLoop
  private readonly copies = new Map<ValueId, ValueId>()

  constructor(loop: DataLoop) {
    this.loop = loop
  }

  /** Conditions of indices of the loop's axis that must hold for some row of the block to see them. */
  find({ id, truth }: Tested): readonly LetStmt[] {
    const { lets, rows, axis } = this.loop
    const l = lets.get(id)
    const before = [...ancestorsOf([id], lets)].flatMap((a) => lets.get(a) ?? [])
    if (l === undefined || !l.axes.includes(axis.name) || before.some(isFoldOrScan)) return []
    if (!before.some((x) => x.op.kind === 'load')) return []
    if (!l.axes.some((a) => rows.includes(a))) {
      const copy = this.along(l)
      return [truth ? copy : this.scalar('bool', copy.axes, 'not', copy)]
    }
    if (l.op.kind !== 'scalar') return []
    const [x, y] = l.op.args.flatMap((a) => lets.get(a) ?? [])
    const op = truth ? l.op.op : opposite[l.op.op]
    if (x === undefined || y === undefined || !isComparison(op) || !isInteger(x.dtype)) return []
    const isOfRows = (v: LetStmt): boolean => !v.axes.includes(axis.name) && v.axes.some((a) => rows.includes(a))
    const isAlong = (v: LetStmt): boolean => v.axes.includes(axis.name) && !v.axes.some((a) => rows.includes(a))
    if (isOfRows(x) && isAlong(y)) return this.compared(x, op, y)
    return isOfRows(y) && isAlong(x) ? this.compared(y, turned[op], x) : []
  }

  /** The first index for which all conditions hold, and the one behind the last. */
  ends(conditions: readonly LetStmt[]): Ends | undefined {
    const { axis, whole, batch, block, isWhole, emit } = this.loop
    const all = conditions.reduce<LetStmt | undefined>(
      (x, y) => (x === undefined ? y : this.scalar('bool', union(x.axes, y.axes), 'and', x, y)),
      undefined,
    )
    if (all === undefined) return undefined
    const place = (offset: number): LetStmt =>
      this.made('i32', [whole], { kind: 'index', expr: ix.addConst(ix.axis(whole, axis.extent), offset) })
    const axes = all.axes.filter((a) => batch.includes(a))
    const folded = all.axes.filter((a) => !batch.includes(a))
    const end = (combiner: 'min' | 'max', offset: number, none: number): ValueId => {
      const otherwise = this.made('i32', [], { kind: 'const', value: none })
      const at = this.scalar('i32', all.axes, 'select', all, place(offset), otherwise)
      const found = emit('i32', axes, { kind: 'reduce', combiner, arg: at.id, axes: folded })
      if (!isWhole) return found
      const up = combiner === 'max' ? block - 1 : 0
      const steps = ix.div(ix.addConst(ix.value(found, axis.extent + 1), up), block)
      return emit('i32', axes, { kind: 'index', expr: ix.mul(steps, block) })
    }
    return { from: end('min', 0, axis.extent), to: end('max', 1, 0), axes }
  }

  /** What a comparison of a value of rows with one along the loop says of the latter, for the rows of a block. */
  private compared(x: LetStmt, op: Comparison, y: LetStmt): readonly LetStmt[] {
    const along = this.along(y)
    const extreme = (combiner: 'min' | 'max'): LetStmt => {
      const folded = x.axes.filter((a) => this.loop.rows.includes(a))
      const axes = x.axes.filter((a) => !folded.includes(a))
      return this.made(x.dtype, axes, { kind: 'reduce', combiner, arg: x.id, axes: folded })
    }
    const holds = (bound: LetStmt, by: Comparison): LetStmt =>
      this.scalar('bool', union(bound.axes, along.axes), by, bound, along)
    return [
      ...(op === 'eq' || op === 'lt' || op === 'le' ? [holds(extreme('min'), op === 'eq' ? 'le' : op)] : []),
      ...(op === 'eq' || op === 'gt' || op === 'ge' ? [holds(extreme('max'), op === 'eq' ? 'ge' : op)] : []),
    ]
  }

  /** A value along the loop's axis, with what it is made of, over all of it before the loop. */
  private along(l: LetStmt): LetStmt {
    const { lets, axis, whole, emit } = this.loop
    const named = (axes: readonly string[]): string[] => axes.map((a) => (a === axis.name ? whole : a))
    const moved = (e: ix.Expr): ix.Expr =>
      ix.substitute(e, (a) => (a.kind === 'axis' && a.name === axis.name ? ix.axis(whole, a.extent) : undefined))
    const needed = ancestorsOf([l.id], lets)
    for (const x of lets.values()) {
      if (!needed.has(x.id) || !x.axes.includes(axis.name) || this.copies.has(x.id)) continue
      const op = renameOperands(mapExpressions(x.op, moved), (id) => this.copies.get(id) ?? id)
      this.copies.set(x.id, emit(x.dtype, named(x.axes), op))
    }
    return { ...l, id: this.copies.get(l.id) ?? l.id, axes: named(l.axes) }
  }

  private made(dtype: DType, axes: readonly string[], op: TileOp): LetStmt {
    return { kind: 'let', id: this.loop.emit(dtype, axes, op), dtype, axes, op }
  }

  private scalar(
    dtype: DType,
    axes: readonly string[],
    op: Comparison | 'and' | 'not' | 'select',
    ...args: LetStmt[]
  ): LetStmt {
    return this.made(dtype, axes, { kind: 'scalar', op, args: args.map((a) => a.id) })
  }
}

const union = (p: readonly string[], q: readonly string[]): string[] => [...new Set([...p, ...q])]

/** The ends of a loop by the conditions that its folds need; undefined: data say nothing of it, or there is little of it. */
export function endsByData(tested: readonly Tested[], loop: DataLoop): Ends | undefined {
  if (loop.axis.extent < fewestSteps * loop.block) return undefined
  const finder = new Finder(loop)
  return finder.ends(tested.flatMap((t) => finder.find(t)))
}
