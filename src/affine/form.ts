/**
 * Index expressions as data: their terms, the key that equal expressions share, their ranges, and what else can be read off
 * them. Only expr.ts makes them.
 */

/** Inclusive bounds of an expression. */
export interface Range {
  readonly lo: number
  readonly hi: number
}

export type Atom =
  /** A named axis; `extent` bounds it. */
  | { readonly kind: 'axis'; readonly name: string; readonly extent: number }
  /** An integer tile value of the kernel, already clamped to [0, extent); `open`: to the launch scalar that `extent` is the most of. */
  | { readonly kind: 'value'; readonly id: number; readonly extent: number; readonly open?: string }
  | { readonly kind: 'div'; readonly of: Expr; readonly by: number }
  | { readonly kind: 'mod'; readonly of: Expr; readonly by: number }
  /** 1, or one atom as an expression, times a number that is known at launch only. */
  | ({ readonly kind: 'scaled'; readonly of: Expr } & Scale)

/** A number known at launch only, the same at all points of a launch: its name, which begins with `$`, and what is known of it. */
export interface Scale {
  readonly by: string
  /** Inclusive bounds. */
  readonly least: number
  readonly most: number
  /** What it is a multiple of. */
  readonly multiple: number
}

export interface Term {
  readonly atom: Atom
  readonly coef: number
}

/** offset + sum of coef * atom; terms sorted by key, no zero coefficients, no repeated atoms. */
export interface Expr {
  readonly terms: readonly Term[]
  readonly offset: number
  readonly key: string
  /** False: no tile value stands in it. */
  readonly hasValues?: boolean
}

export const atomKey = (a: Atom): string => {
  switch (a.kind) {
    case 'axis':
      return a.name
    case 'value':
      return `%${a.id}`
    case 'div':
      return `(${a.of.key})/${a.by}`
    case 'mod':
      return `(${a.of.key})%${a.by}`
    case 'scaled':
      return a.of.terms.length === 0 ? a.by : `(${a.of.key})*${a.by}`
  }
}

/** The expression of terms that are in order, none of them zero or repeated. */
export function make(terms: readonly Term[], offset: number): Expr {
  let key = ''
  let hasValues = false
  for (const { atom, coef } of terms) {
    const own = atom.kind === 'axis' ? atom.name : atomKey(atom)
    const text = coef === 1 ? own : `${coef}*${own}`
    key = key === '' ? text : `${key}+${text}`
    if (atom.kind !== 'axis' && (atom.kind === 'value' || atom.of.hasValues !== false)) hasValues = true
  }
  const whole = offset + 0
  if (key === '') key = String(whole)
  else if (whole !== 0) key = `${key}+${whole}`
  return { terms, offset: whole, key, hasValues }
}

function atomRange(a: Atom): Range {
  switch (a.kind) {
    case 'axis':
    case 'value':
      return { lo: 0, hi: Math.max(0, a.extent - 1) }
    case 'div': {
      const r = rangeOf(a.of)
      return { lo: Math.floor(r.lo / a.by), hi: Math.floor(r.hi / a.by) }
    }
    case 'mod':
      return { lo: 0, hi: a.by - 1 }
    case 'scaled':
      return scaledRange(rangeOf(a.of), a)
  }
}

/** The range of what lies in one times a number known at launch. */
export const scaledRange = ({ lo, hi }: Range, { least, most }: Scale): Range => ({
  lo: lo * (lo < 0 ? most : least),
  hi: hi * (hi < 0 ? least : most),
})

/** Inclusive bounds, exact for sums of distinct axes. */
export function rangeOf(e: Expr): Range {
  let lo = e.offset
  let hi = e.offset
  for (const t of e.terms) {
    if (t.atom.kind === 'axis') {
      // Nearly all are: no object for the range of each.
      const reach = t.coef * (t.atom.extent - 1)
      if (t.atom.extent <= 1) continue
      if (reach > 0) hi += reach
      else lo += reach
      continue
    }
    const r = atomRange(t.atom)
    if (t.coef > 0) {
      lo += t.coef * r.lo
      hi += t.coef * r.hi
    } else {
      lo += t.coef * r.hi
      hi += t.coef * r.lo
    }
  }
  return { lo, hi }
}

/** a - b * floor(a / b). */
export const floorMod = (a: number, b: number): number => a - b * Math.floor(a / b)

/** What an atom is the quotient, remainder or multiple of, if it is one. */
export const ofAtom = (a: Atom): Expr | undefined => (a.kind === 'axis' || a.kind === 'value' ? undefined : a.of)

/** Visits every atom, outermost first. */
export function visitAtoms(e: Expr, visit: (a: Atom) => void): void {
  for (const { atom } of e.terms) {
    visit(atom)
    if (atom.kind !== 'axis' && atom.kind !== 'value') visitAtoms(atom.of, visit)
  }
}

const noAxes: ReadonlySet<string> = new Set()
const noValues: ReadonlySet<number> = new Set()
const axesMemo = new WeakMap<Expr, ReadonlySet<string>>()

/** Names of the axes an expression depends on directly (data-dependent values, and numbers known at launch, aside). */
export function axesOf(e: Expr): ReadonlySet<string> {
  if (e.terms.length === 0) return noAxes
  const have = axesMemo.get(e)
  if (have !== undefined) return have
  const out = new Set<string>()
  visitAtoms(e, (a) => {
    if (a.kind === 'axis') out.add(a.name)
  })
  axesMemo.set(e, out)
  return out
}

/** Ids of the tile values an expression depends on. */
export function valuesOf(e: Expr): ReadonlySet<number> {
  if (e.hasValues === false) return noValues
  let out: Set<number> | undefined
  visitAtoms(e, (a) => {
    if (a.kind === 'value') out = (out ?? new Set<number>()).add(a.id)
  })
  return out ?? noValues
}

/** Its integer value under bindings of axes (and, by their names, of numbers known at launch) and values. */
export function evaluate(e: Expr, axisAt: (name: string) => number, valueAt: (id: number) => number): number {
  let v = e.offset
  for (const t of e.terms) v += t.coef * evaluateAtom(t.atom, axisAt, valueAt)
  return v
}

function evaluateAtom(a: Atom, axisAt: (name: string) => number, valueAt: (id: number) => number): number {
  switch (a.kind) {
    case 'axis':
      return axisAt(a.name)
    case 'value':
      return valueAt(a.id)
    case 'div':
      return Math.floor(evaluate(a.of, axisAt, valueAt) / a.by)
    case 'mod':
      return floorMod(evaluate(a.of, axisAt, valueAt), a.by)
    case 'scaled':
      return evaluate(a.of, axisAt, valueAt) * axisAt(a.by)
  }
}

/** The constant an expression is, if it is one. */
export const asConstant = (e: Expr): number | undefined => (e.terms.length === 0 ? e.offset : undefined)

/** The axis an expression is (coefficient 1, no offset), if it is one. */
export function asAxis(e: Expr): { name: string; extent: number } | undefined {
  const t = e.terms[0]
  return e.terms.length === 1 && e.offset === 0 && t !== undefined && t.coef === 1 && t.atom.kind === 'axis'
    ? t.atom
    : undefined
}

/**
 * The change of an expression when an axis moves by one, if it is the same everywhere: the axis' coefficient, or undefined
 * when the axis stands inside a quotient or remainder, or is scaled by a number known at launch (data-dependent values count as not depending on the axis: ask valuesOf).
 */
export function strideOf(e: Expr, name: string): number | undefined {
  let stride = 0
  for (const t of e.terms) {
    const { atom } = t
    if (atom.kind === 'axis') {
      if (atom.name === name) stride += t.coef
    } else if (atom.kind !== 'value' && axesOf(atom.of).has(name)) return undefined
  }
  return stride
}

/**
 * The coefficients of an axis by the launch scalars that they are multiplied with, '' for those without; undefined where it stands inside a quotient,
 * a remainder or a sum that is scaled.
 */
export function stridesOf(e: Expr, name: string): ReadonlyMap<string, number> | undefined {
  const strides = new Map<string, number>()
  for (const t of e.terms) {
    let { atom, coef } = t
    const by: string[] = []
    while (atom.kind === 'scaled') {
      const [only] = atom.of.terms
      if (only === undefined || atom.of.terms.length > 1 || atom.of.offset !== 0) break
      by.push(atom.by)
      coef *= only.coef
      atom = only.atom
    }
    const key = by.sort().join()
    if (atom.kind === 'axis' && atom.name === name) strides.set(key, (strides.get(key) ?? 0) + coef)
    else {
      const of = ofAtom(atom)
      if (of !== undefined && axesOf(of).has(name)) return undefined
    }
  }
  return strides
}
