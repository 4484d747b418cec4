/**
 * Bodies of one form as one body: extents of axes, factors and offsets of index maps, bounds of predicates and constants that are not the
 * same at every sample are launch scalars, or loads of what a launch hands over.
 */

import { add, axis, div, type Expr, flatten, mod, rangeOf, sub, type Term, value, zero } from '../../affine/expr.ts'
import { type Bound, conjoin, type Predicate } from '../../affine/predicate.ts'
import type { KernelAxis, LetStmt, TileOp, ValueId } from '../../kernel/ir.ts'
import type { Body, BodyStore, BodyTensor } from '../../plan/body/body.ts'
import { constantOf, type Formula } from '../../runtime/extents.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { isInteger } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Fitter } from './fit.ts'
import { NoFormula } from './noFormula.ts'
import { Opening } from './opening.ts'

const termForm = ({ atom }: Term): string => {
  switch (atom.kind) {
    case 'axis':
      return atom.name
    case 'value':
      return `%${atom.id}`
    case 'div':
      return `(${exprForm(atom.of)})/`
    case 'mod':
      return `(${exprForm(atom.of)})%`
    case 'scaled':
      return `(${exprForm(atom.of)})*${atom.by}`
  }
}

const exprForm = (e: Expr): string => e.terms.map(termForm).join('+')

/** Bounds in an order that numbers do not decide. */
const inOrder = (p: Predicate): Predicate =>
  p.length < 2
    ? p
    : p
        .map((b) => ({ b, form: exprForm(b.expr) }))
        .sort((x, y) => (x.form < y.form ? -1 : x.form > y.form ? 1 : 0))
        .map(({ b }) => b)

const predicateForm = (p: Predicate): string =>
  inOrder(p)
    .map((b) => exprForm(b.expr))
    .join('&')

function opForm(op: TileOp): string {
  const { kind } = op
  switch (kind) {
    case 'const':
      return typeof op.value === 'number' || typeof op.value === 'bigint' ? kind : `${kind} ${String(op.value)}`
    case 'index':
      return `${kind} ${exprForm(op.expr)}`
    case 'predicate':
      return `${kind} ${predicateForm(op.predicate)}`
    case 'load':
      return `${kind} ${op.param} ${op.index.map(exprForm).join()} ${predicateForm(op.mask)} ${op.maskValue} ${String(op.other)}`
    case 'scalar':
      return `${op.op} ${op.args.join()}`
    case 'random':
      return `${kind} ${op.k0} ${op.k1} ${exprForm(op.index)} ${op.rounds}`
    case 'reduce':
      return `${op.combiner} ${op.arg} ${op.axes.join()} ${op.position === undefined ? '' : exprForm(op.position)} ${op.last}`
    case 'scan':
      return `${kind} ${op.combiner} ${op.arg} ${op.axis} ${op.reverse} ${op.exclusive} ${op.tree}`
    case 'dot':
      return `${kind} ${op.a} ${op.b} ${op.axes.join()} ${op.acc} ${op.precision}`
    case 'stage':
      return `${kind} ${op.of}`
    case 'at':
      return `${kind} ${op.of} ${Object.entries(op.index)
        .map(([a, e]) => `${a}=${exprForm(e)}`)
        .join()}`
  }
}

/** What of a body is the same for all extents; `numberOf` names the nodes. */
export function bodyForm(body: Body, numberOf: (n: BodyTensor['node']) => number | undefined): string {
  const lets = body.lets.map((l) => `${l.id} ${l.dtype} ${l.axes.join()} = ${opForm(l.op)}`)
  const loads = [...body.loads].map(([p, t]) => `${p}: ${numberOf(t.node)} ${t.shape.length} ${t.format}`)
  const stores = body.stores.map(
    (s) =>
      `${numberOf(s.node)}[${s.index.map(exprForm).join()}] = ${s.value} ${s.pieces?.join()} ${s.shape.length} ${s.format} ${predicateForm(s.mask ?? [])}`,
  )
  return [body.axes.map((a) => a.name).join(), ...lets, ...loads, ...stores].join('\n')
}

/** Opens bodies that have one form at the samples of a fitter. */
export class BodyOpener {
  private readonly fitter: Fitter
  private readonly opening: Opening

  constructor(fitter: Fitter, opening: Opening) {
    this.fitter = fitter
    this.opening = opening
  }

  /** One body of those at each sample. Throws NoFormula. */
  open(bodies: readonly Body[]): Body {
    const [first] = bodies
    if (first === undefined) throw new NoFormula('no body', undefined)
    return new BodyAt(this.fitter, this.opening, first, bodies).body()
  }
}

/** One body being opened. */
class BodyAt {
  private readonly fitter: Fitter
  private readonly opening: Opening
  private readonly first: Body
  private readonly bodies: readonly Body[]
  private readonly axes: readonly KernelAxis[]
  private readonly extents: ReadonlyMap<string, number>
  /** Of each tensor that varies, how many of its first dimensions are one. */
  private readonly flat = new Map<string, number>()
  private readonly handed = new Map<string, BodyTensor>()
  private next: ValueId

  constructor(fitter: Fitter, opening: Opening, first: Body, bodies: readonly Body[]) {
    this.fitter = fitter
    this.opening = opening
    this.first = first
    this.bodies = bodies
    this.axes = first.axes.map((a, i) => this.axis(a.name, i))
    this.extents = new Map(this.axes.map((a) => [a.name, a.extent]))
    this.next = first.lets.reduce((n, l) => Math.max(n, l.id), 0) + 1
  }

  body(): Body {
    const { first, bodies } = this
    const loads = new Map(
      [...first.loads].map(([p, t]) => {
        const shapes = bodies.map((b) => b.loads.get(p)?.shape ?? [])
        return [p, this.tensor(p, t, shapes)]
      }),
    )
    const stores = first.stores.map((s, i): BodyStore => {
      const all = bodies.map((b) => b.stores[i] ?? s)
      const opened = this.tensor(
        `store ${i}`,
        s,
        all.map((x) => x.shape),
      )
      return {
        ...opened,
        index: this.index(
          `store ${i}`,
          all.map((x) => x.index),
          all.map((x) => x.shape),
        ),
        ...(s.mask === undefined ? {} : { mask: this.predicate(all.map((x) => x.mask ?? [])) }),
      }
    })
    const lets = first.lets.flatMap((l, i) => this.statement(bodies.map((b) => b.lets[i] ?? l)))
    return {
      axes: this.axes,
      lets,
      stores,
      loads: new Map([...loads, ...this.handed]),
      origin: first.origin,
      scales: this.opening.known,
    }
  }

  private whole(values: readonly number[], what: string): Formula {
    const f = this.fitter.whole(values)
    if (f === undefined) throw new NoFormula(`${what} (${values.slice(0, 4).join(', ')})`, this.nodeAt())
    return f
  }

  private at = 0
  private nodeAt(): BodyTensor['node'] | undefined {
    return this.first.origin.get(this.first.lets[this.at]?.id ?? -1) ?? this.first.stores[0]?.node
  }

  private axis(name: string, i: number): KernelAxis {
    const f = this.whole(
      this.bodies.map((b) => b.axes[i]?.extent ?? 0),
      `the extent of the axis ${name}`,
    )
    const known = constantOf(f)
    if (known !== undefined) return { name, extent: known }
    const { by, most } = this.opening.scale(f)
    return most < 2 ? { name, extent: most } : { name, extent: most, open: by }
  }

  private tensor<T extends BodyTensor & Pick<BodyStore, 'isScattered'>>(
    name: string,
    t: T,
    shapes: readonly (readonly number[])[],
  ): T {
    if (shapes.every((s) => s.join() === t.shape.join())) return t
    const last = t.shape.findLastIndex((n, d) => shapes.some((s) => s[d] !== n))
    const joined = t.isScattered === true ? last + 1 : t.shape.length
    const sizes = shapes.map((s) => sizeOf(s.slice(0, joined)))
    const most = this.opening.most(this.whole(sizes, 'the size of a tensor'))
    this.flat.set(name, joined)
    return { ...t, shape: [most, ...t.shape.slice(joined)] }
  }

  /** The place in a tensor: in one of a shape that varies, its row-major position in the dimensions that are one. */
  private index(
    name: string,
    all: readonly (readonly Expr[])[],
    shapes: readonly (readonly number[])[],
  ): readonly Expr[] {
    const joined = this.flat.get(name) ?? 0
    const position = (index: readonly Expr[], s: number): Expr =>
      flatten(index.slice(0, joined), (shapes[s] ?? []).slice(0, joined))
    const apart = (all[0] ?? []).map((_, d) => d).slice(joined)
    return [
      ...(joined === 0 ? [] : [this.expr(all.map(position))]),
      ...apart.map((d) => this.expr(all.map((index) => index[d] ?? zero))),
    ]
  }

  private expr(exprs: readonly Expr[]): Expr {
    const [first = zero] = exprs
    if (exprs.some((e) => exprForm(e) !== exprForm(first)))
      throw new NoFormula('an index map of another form', this.nodeAt())
    let out = this.opening.expr(
      this.whole(
        exprs.map((e) => e.offset),
        'the offset of an index',
      ),
    )
    first.terms.forEach((_, i) => {
      const terms = exprs.flatMap((e) => e.terms[i] ?? [])
      const coef = this.whole(
        terms.map((t) => t.coef),
        'the factor of an index',
      )
      out = add(out, this.opening.times(this.atom(terms), coef))
    })
    return out
  }

  private atom(terms: readonly Term[]): Expr {
    const [first] = terms
    if (first === undefined) return zero
    const { atom } = first
    switch (atom.kind) {
      case 'axis':
        return axis(atom.name, this.extents.get(atom.name) ?? atom.extent)
      case 'value': {
        const extents = terms.flatMap((t) => (t.atom.kind === 'value' ? t.atom.extent : []))
        const f = this.whole(extents, 'the range of an index')
        const known = constantOf(f)
        if (known !== undefined) return value(atom.id, known)
        const { by, most } = this.opening.scale(f)
        return value(atom.id, most, by)
      }
      case 'div':
      case 'mod': {
        const bys = terms.flatMap((t) => (t.atom.kind === atom.kind ? t.atom.by : []))
        if (bys.some((by) => by !== atom.by))
          throw new NoFormula(`an index divided by an open extent (${bys.slice(0, 4).join(', ')})`, this.nodeAt())
        const of = this.expr(terms.flatMap((t) => (t.atom.kind === atom.kind ? t.atom.of : [])))
        return atom.kind === 'div' ? div(of, atom.by) : mod(of, atom.by)
      }
      case 'scaled':
        throw new NoFormula('an index that is open already', this.nodeAt())
    }
  }

  private predicate(all: readonly Predicate[]): Predicate {
    const sorted = all.map(inOrder)
    return conjoin([], ...(sorted[0] ?? []).flatMap((_, i) => this.bound(sorted.flatMap((p) => p[i] ?? []))))
  }

  private bound(bounds: readonly Bound[]): readonly Bound[] {
    const expr = this.expr(bounds.map((b) => b.expr))
    const [lo, hi] = (['lo', 'hi'] as const).map((end) =>
      this.whole(
        bounds.map((b) => b[end]),
        'the bound of a mask',
      ),
    )
    if (lo === undefined || hi === undefined) return []
    const [low, high] = [constantOf(lo), constantOf(hi)]
    if (low !== undefined && high !== undefined) return [{ expr, lo: low, hi: high }]
    const above = sub(expr, this.opening.expr(lo))
    const below = sub(expr, this.opening.expr(hi))
    return [
      { expr: above, lo: 0, hi: Math.max(1, rangeOf(above).hi + 1) },
      { expr: below, lo: Math.min(-1, rangeOf(below).lo), hi: 0 },
    ]
  }

  private statement(all: readonly LetStmt[]): readonly LetStmt[] {
    const [l] = all
    if (l === undefined) return []
    this.at = this.first.lets.indexOf(l)
    if (l.op.kind === 'const') return this.constant(l, all)
    return [{ ...l, op: this.op(all.map((x) => x.op)) }]
  }

  private op(ops: readonly TileOp[]): TileOp {
    const [op] = ops
    if (op === undefined) throw new NoFormula('no operation', this.nodeAt())
    const of = <K extends TileOp['kind']>(kind: K): Extract<TileOp, { kind: K }>[] =>
      ops.flatMap((o) => (o.kind === kind ? [o as Extract<TileOp, { kind: K }>] : []))
    switch (op.kind) {
      case 'index':
        return { ...op, expr: this.expr(of('index').map((o) => o.expr)) }
      case 'predicate':
        return { ...op, predicate: this.predicate(of('predicate').map((o) => o.predicate)) }
      case 'load': {
        const loads = of('load')
        const shapes = this.bodies.map((b) => b.loads.get(op.param)?.shape ?? [])
        const index = this.index(
          op.param,
          loads.map((o) => o.index),
          shapes,
        )
        return { ...op, index, mask: this.predicate(loads.map((o) => o.mask)) }
      }
      case 'random':
        return { ...op, index: this.expr(of('random').map((o) => o.index)) }
      case 'reduce': {
        const positions = of('reduce').flatMap((o) => o.position ?? [])
        return op.position === undefined ? op : { ...op, position: this.expr(positions) }
      }
      case 'at':
        return {
          ...op,
          index: Object.fromEntries(
            Object.keys(op.index).map((a) => [a, this.expr(of('at').map((o) => o.index[a] ?? zero))]),
          ),
        }
      default:
        return op
    }
  }

  /** A constant; one that varies is handed over by the launch. */
  private constant(l: LetStmt, all: readonly LetStmt[]): readonly LetStmt[] {
    const values = all.map(({ op }): Scalar => (op.kind === 'const' ? op.value : 0))
    const [first] = values
    if (values.every((v) => Object.is(v, first))) return [l]
    const numbers = values.map(Number)
    if (isInteger(l.dtype))
      return [{ ...l, op: { kind: 'index', expr: this.opening.expr(this.whole(numbers, 'a number')) } }]
    const { dtype } = l
    const f = dtype === 'i32' ? undefined : this.fitter.real(numbers, dtype)
    if (f === undefined || dtype === 'i32')
      throw new NoFormula(`a number (${numbers.slice(0, 4).join(', ')})`, this.nodeAt())
    const { node, at } = this.opening.real(f, dtype)
    const name = `handed_${dtype}`
    this.handed.set(name, { node, shape: [Opening.length] })
    const op: TileOp = { kind: 'load', param: name, index: [add(zero, constantExpr(at))], mask: [], other: 0 }
    if (l.axes.length === 0) return [{ ...l, op }]
    const [loaded, everywhere] = [this.next++, this.next++]
    const made = { kind: 'let' } as const
    return [
      { ...made, id: loaded, dtype, axes: [], op },
      { ...made, id: everywhere, dtype: 'bool', axes: l.axes, op: { kind: 'const', value: true } },
      { ...l, op: { kind: 'scalar', op: 'select', args: [everywhere, loaded, loaded] } },
    ]
  }
}

const constantExpr = (v: number): Expr => ({ terms: [], offset: v, key: String(v) })
