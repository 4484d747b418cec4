/**
 * The printer of the kernel's text form. `parse.ts` reads it back to an equal kernel; the grammar is described there.
 */
import type { Atom, Expr, Term } from '../affine/expr.ts'
import type { Predicate } from '../affine/predicate.ts'
import type { Scalar } from '../scalar/ops.ts'
import type { DType } from '../types/dtype.ts'
import type {
  Kernel,
  KernelAxis,
  KernelParam,
  KernelPart,
  LaunchScalar,
  LetStmt,
  LoopStmt,
  Stmt,
  StoreStmt,
  TileOp,
  ValueId,
} from './ir.ts'

/** Names that need no quotes in the text form. */
export const isIdentifier = (name: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)

const id = (v: ValueId): string => `%${v}`

function showAtom(a: Atom): string {
  switch (a.kind) {
    case 'axis':
      return a.name
    case 'value':
      return `${id(a.id)}:${a.open ?? a.extent}`
    case 'div':
      return `${showOperand(a.of)}/${a.by}`
    case 'mod':
      return `${showOperand(a.of)} % ${a.by}`
    case 'scaled':
      return a.of.terms.length === 0 ? a.by : `${a.by}*${showOperand(a.of)}`
  }
}

/** A dividend: bare where it is a lone axis or value. */
function showOperand(e: Expr): string {
  const t = e.terms[0]
  const bare = e.terms.length === 1 && e.offset === 0 && t?.coef === 1 && isLeaf(t.atom)
  return bare ? showExpr(e) : `(${showExpr(e)})`
}

const isLeaf = (a: Atom): boolean => a.kind === 'axis' || a.kind === 'value'

const isFactor = (a: Atom): boolean => isLeaf(a) || a.kind === 'scaled'

function showTerm(t: Term): string {
  const size = Math.abs(t.coef)
  if (size === 1) return showAtom(t.atom)
  return isFactor(t.atom) ? `${size}*${showAtom(t.atom)}` : `${size}*(${showAtom(t.atom)})`
}

/** An index expression, positive terms first. */
export function showExpr(e: Expr): string {
  const parts = e.terms.map((t) => ({ negative: t.coef < 0, text: showTerm(t) }))
  if (e.offset !== 0 || parts.length === 0) parts.push({ negative: e.offset < 0, text: String(Math.abs(e.offset)) })
  parts.sort((a, b) => Number(a.negative) - Number(b.negative))
  return parts.map((p, i) => (i === 0 ? (p.negative ? '-' : '') : p.negative ? ' - ' : ' + ') + p.text).join('')
}

const showIndex = (index: readonly Expr[]): string => `[${index.map(showExpr).join(', ')}]`

export function showPredicate(p: Predicate): string {
  return p.length === 0 ? 'true' : p.map((b) => `${b.lo} <= ${showExpr(b.expr)} < ${b.hi}`).join(' and ')
}

/** A constant; the dtype it belongs to stands in the statement. */
export function showScalar(v: Scalar): string {
  if (typeof v !== 'number') return String(v)
  if (Number.isNaN(v)) return 'nan'
  if (!Number.isFinite(v)) return v < 0 ? '-inf' : 'inf'
  return Object.is(v, -0) ? '-0' : String(v)
}

const isMasked = (mask: Predicate, maskValue: ValueId | undefined): boolean =>
  mask.length > 0 || maskValue !== undefined

function showMask(mask: Predicate, maskValue: ValueId | undefined): string {
  if (!isMasked(mask, maskValue)) return ''
  const parts = mask.length === 0 ? [] : [showPredicate(mask)]
  if (maskValue !== undefined) parts.push(id(maskValue))
  return ` where ${parts.join(' and ')}`
}

/** The value a load without a mask is taken to have as `other`. */
export const defaultOther = (dtype: DType): Scalar =>
  dtype === 'bool' ? false : dtype === 'i64' || dtype === 'u64' ? 0n : 0

function showLoad(op: Extract<TileOp, { kind: 'load' }>, dtype: DType): string {
  const other = isMasked(op.mask, op.maskValue) || !Object.is(op.other, defaultOther(dtype))
  const end = other ? ` else ${showScalar(op.other)}` : ''
  return `load ${op.param}${showIndex(op.index)}${showMask(op.mask, op.maskValue)}${end}`
}

function showOp(op: TileOp, dtype: DType): string {
  switch (op.kind) {
    case 'const':
      return `const ${showScalar(op.value)}`
    case 'index':
      return `index ${showExpr(op.expr)}`
    case 'predicate':
      return `holds ${showPredicate(op.predicate)}`
    case 'load':
      return showLoad(op, dtype)
    case 'scalar':
      return `${op.op} ${op.args.map(id).join(', ')}${op.loose === true ? ' loose' : ''}`
    case 'random':
      return `random ${id(op.k0)}, ${id(op.k1)} at ${showExpr(op.index)}${op.rounds === 20 ? '' : ` rounds ${op.rounds}`}`
    case 'reduce': {
      const position = op.position === undefined ? '' : ` position ${showExpr(op.position)}`
      const last = op.last === undefined ? '' : op.last ? ' last' : ' first'
      return `reduce ${op.combiner} ${id(op.arg)} over ${op.axes.join(', ')}${position}${last}`
    }
    case 'scan':
      return `scan ${op.combiner} ${id(op.arg)} along ${op.axis}${op.reverse ? ' reverse' : ''}${op.exclusive ? ' exclusive' : ''}${op.tree === true ? ' tree' : ''}`
    case 'dot':
      return `dot ${id(op.a)}, ${id(op.b)} over ${op.axes.join(', ')}${op.acc === undefined ? '' : ` acc ${id(op.acc)}`}${op.precision === undefined ? '' : ` in ${op.precision}`}`
    case 'stage':
      return `stage ${id(op.of)}`
    case 'at':
      return `at ${id(op.of)}[${Object.entries(op.index)
        .map(([name, e]) => `${name}: ${showExpr(e)}`)
        .join(', ')}]`
  }
}

export const showType = (dtype: DType, axes: readonly string[]): string =>
  axes.length === 0 ? dtype : `${dtype}{${axes.join(', ')}}`

const showLet = (s: LetStmt): string => `${id(s.id)} ${showType(s.dtype, s.axes)} = ${showOp(s.op, s.dtype)}`

const storeSigns = { sum: '+=', prod: '*=', max: 'max=', min: 'min=' } as const

function showStore(s: StoreStmt): string {
  const sign = s.combiner === undefined ? '=' : storeSigns[s.combiner]
  return `store ${s.param}${showIndex(s.index)} ${sign} ${id(s.value)}${showMask(s.mask, s.maskValue)}${s.distinct === true ? ' distinct' : ''}`
}

function showLoopHead(s: LoopStmt): string {
  const results = s.carries.length === 0 ? '' : `${s.carries.map((c) => id(c.result)).join(', ')} = `
  const from = s.from === undefined ? '' : ` from ${id(s.from)}`
  const to = s.to === undefined ? '' : ` to ${id(s.to)}`
  return `${results}loop ${blocked(s.axis, s.block)}${from}${to}`
}

const blocked = (axis: string, block: number): string => (block === 1 ? axis : `${axis}/${block}`)

/** A statement on one line (of a loop, its head): what errors quote. */
export function showStmt(s: Stmt): string {
  switch (s.kind) {
    case 'let':
      return showLet(s)
    case 'store':
      return showStore(s)
    case 'loop':
      return showLoopHead(s)
  }
}

function printStmt(s: Stmt, indent: string, out: string[]): void {
  if (s.kind !== 'loop') {
    out.push(indent + showStmt(s))
    return
  }
  out.push(`${indent}${showLoopHead(s)} {`)
  const inner = `${indent}  `
  for (const c of s.carries) out.push(`${inner}carry ${id(c.param)} ${showType(c.dtype, c.axes)} = ${id(c.init)}`)
  for (const b of s.body) printStmt(b, inner, out)
  if (s.carries.length > 0) out.push(`${inner}next ${s.carries.map((c) => id(c.next)).join(', ')}`)
  out.push(`${indent}}`)
}

const showAxis = ({ name, extent, open }: KernelAxis): string => `${name}: ${open ?? extent}`

function printPart(part: KernelPart, indent: string, out: string[]): void {
  if (part.axes.length > 0) out.push(`${indent}axes ${part.axes.map(showAxis).join(', ')}`)
  out.push(`${indent}grid ${part.grid.length === 0 ? '1' : part.grid.map((g) => blocked(g.axis, g.block)).join(', ')}`)
  for (const s of part.body) printStmt(s, indent, out)
}

export function showParam(p: KernelParam): string {
  const format = p.format === 'plain' ? '' : ` ${p.format}`
  return `param ${p.name}: ${p.dtype}[${p.shape.join(', ')}] ${p.access}${format}`
}

export const showLaunchScalar = ({ by, least, most, multiple, param, at }: LaunchScalar): string =>
  `launch ${by}: ${least} to ${most}${multiple === 1 ? '' : ` multiple ${multiple}`} = ${param}[${at}]`

/** The kernel's text form, ending in a newline. */
export function printKernel(kernel: Kernel): string {
  const name = isIdentifier(kernel.name) ? kernel.name : JSON.stringify(kernel.name)
  return `kernel ${name}${printUnnamed(kernel)}`
}

/** The text form without the kernel's name: what its code follows from. */
export function printUnnamed(kernel: Kernel): string {
  const out = [`${kernel.mode === 'strict' ? ' strict' : ''} {`]
  for (const p of kernel.params) out.push(`  ${showParam(p)}`)
  for (const s of kernel.scalars ?? []) out.push(`  ${showLaunchScalar(s)}`)
  const [only] = kernel.parts
  if (only !== undefined && kernel.parts.length === 1) printPart(only, '  ', out)
  else
    for (const part of kernel.parts) {
      out.push('  part {')
      printPart(part, '    ', out)
      out.push('  }')
    }
  out.push('}')
  return `${out.join('\n')}\n`
}
