/** The verifier's rules for single statements: operands, dtypes, tile axes, index bounds, collisions of stores. */
import { axis, type Expr, type Scale, sub, visitAtoms } from '../affine/expr.ts'
import { isNever, type Predicate } from '../affine/predicate.ts'
import { isArgCombiner } from '../scalar/ops.ts'
import { isRandomDType, randomDTypes } from '../scalar/threefry.ts'
import { isHalf, isInteger } from '../types/dtype.ts'
import { type AxisRole, startOf } from './axes.ts'
import { dotDTypeFault, foldDTypeFault, isScalarOf, scalarDTypeFault } from './dtypes.ts'
import type { KernelParam, LetStmt, StoreStmt, ValueId } from './ir.ts'
import { showExpr, showScalar, showType } from './print.ts'
import { rangeInProgram } from './range.ts'
import { lookup, type TileInfo, type VerifyScope } from './scope.ts'

type AxisSet = Set<string>

/** Checks a `let` and gives the tile it defines. */
export function verifyLet(s: LetStmt, scope: VerifyScope): TileInfo {
  const { fail } = scope
  for (const a of s.axes) requireAxis(a, scope)
  if (new Set(s.axes).size !== s.axes.length) fail(`an axis is named twice in ${showType(s.dtype, s.axes)}`)
  const needed = verifyOp(s, scope)
  const missing = [...needed].find((a) => !s.axes.includes(a))
  if (missing !== undefined) fail(`the result varies along ${missing}, which is not among its axes`)
  const source = s.op.kind === 'const' || s.op.kind === 'index' || s.op.kind === 'predicate'
  const extra = s.axes.find((a) => !needed.has(a) && !source && scope.declared.get(a) !== 1)
  if (extra !== undefined)
    fail(`the result does not vary along ${extra}`, 'only const, index and holds may repeat their value along an axis')
  return { dtype: s.dtype, axes: s.axes, staged: s.op.kind === 'stage' }
}

/** The axes the result must have. */
function verifyOp(s: LetStmt, scope: VerifyScope): AxisSet {
  const { op } = s
  const { fail } = scope
  const reject = (fault: string | undefined): void => {
    if (fault !== undefined) fail(fault)
  }
  switch (op.kind) {
    case 'const':
      if (!isScalarOf(s.dtype, op.value)) fail(`${showScalar(op.value)} is not a value of ${s.dtype}`)
      return new Set()
    case 'index':
      if (!isInteger(s.dtype)) fail(`an index is an integer, not ${s.dtype}`)
      return axesOfExprs([op.expr], scope)
    case 'predicate':
      if (s.dtype !== 'bool') fail(`a predicate is bool, not ${s.dtype}`)
      return axesOfPredicate(op.predicate, scope)
    case 'load': {
      const param = requireParam(op.param, scope)
      if (param.access === 'write') fail(`parameter ${param.name} is written only: it cannot be loaded`)
      if (s.dtype !== param.dtype) fail(`${param.name} is ${param.dtype}, not ${s.dtype}`)
      if (!isScalarOf(s.dtype, op.other)) fail(`${showScalar(op.other)} is not a value of ${s.dtype}`)
      return union(verifyAccess(param, op, scope))
    }
    case 'scalar': {
      const args = op.args.map((a) => lookup(scope, a))
      reject(
        scalarDTypeFault(
          op.op,
          args.map((a) => a.dtype),
          s.dtype,
        ),
      )
      if (op.loose === true && (op.op !== 'cast' || args[0]?.dtype !== 'f32' || !isHalf(s.dtype)))
        fail(`${op.op} of ${args[0]?.dtype} to ${s.dtype} is not loose: only casts of f32 to a half dtype are`)
      return union(...args.map((a) => a.axes))
    }
    case 'random': {
      const keys = [lookup(scope, op.k0), lookup(scope, op.k1)]
      for (const k of keys) if (k.dtype !== 'u32') fail(`a random key is u32, not ${k.dtype}`)
      if (!isRandomDType(s.dtype)) fail(`random bits are ${randomDTypes.join(', ')}, not ${s.dtype}`)
      const range = rangeInProgram(op.index, scope.implied, scope.roles)
      if (range.lo < 0 && !isEmpty(scope)) fail(`the index ${showExpr(op.index)} may be negative`)
      return union(axesOfExprs([op.index], scope), ...keys.map((k) => k.axes))
    }
    case 'reduce': {
      const arg = lookup(scope, op.arg)
      reject(foldDTypeFault(op.combiner, arg.dtype, s.dtype))
      for (const a of op.axes) requireFolded(a, op.arg, arg, scope)
      if (op.position !== undefined) {
        if (!isArgCombiner(op.combiner)) fail(`${op.combiner} reports no position`)
        const beyond = [...axesOfExprs([op.position], scope)].find((a) => !arg.axes.includes(a))
        if (beyond !== undefined) fail(`the position varies along ${beyond}, which %${op.arg} does not have`)
      } else if (isArgCombiner(op.combiner) && op.axes.length !== 1)
        fail(`${op.combiner} over several axes needs a position`)
      return without(union(arg.axes), op.axes)
    }
    case 'scan': {
      const arg = lookup(scope, op.arg)
      reject(foldDTypeFault(op.combiner, arg.dtype, s.dtype))
      requireFolded(op.axis, op.arg, arg, scope)
      if (op.tree === true && (op.reverse || op.exclusive)) fail('a tree that is reverse or exclusive')
      return union(arg.axes)
    }
    case 'dot': {
      const [a, b] = [lookup(scope, op.a), lookup(scope, op.b)]
      const acc = op.acc === undefined ? undefined : lookup(scope, op.acc)
      reject(dotDTypeFault(a.dtype, b.dtype, acc?.dtype, s.dtype))
      if (op.precision !== undefined && a.dtype !== 'f32') fail(`a dot of ${a.dtype} in ${op.precision}`)
      const all = union(a.axes, b.axes)
      for (const x of op.axes) {
        requireAxis(x, scope)
        if (!all.has(x) && scope.declared.get(x) !== 1) fail(`neither operand of the dot has the axis ${x}`)
        if (acc?.axes.includes(x) === true) fail(`the accumulator has the axis ${x}, which is summed over`)
      }
      return union(without(all, op.axes), acc?.axes ?? [])
    }
    case 'stage': {
      const of = lookup(scope, op.of)
      if (of.dtype !== s.dtype) fail(`%${op.of} is ${of.dtype}, not ${s.dtype}`)
      return union(of.axes)
    }
    case 'at':
      return verifyAt(s, op.of, op.index, scope)
  }
}

function verifyAt(s: LetStmt, id: ValueId, index: Readonly<Record<string, Expr>>, scope: VerifyScope): AxisSet {
  const { fail } = scope
  const of = lookup(scope, id)
  if (!of.staged)
    fail(`%${id} is not staged: only staged tiles are read at other coordinates`, `read from stage %${id}`)
  if (of.dtype !== s.dtype) fail(`%${id} is ${of.dtype}, not ${s.dtype}`)
  for (const [name, e] of Object.entries(index)) {
    const role = scope.roles.get(name)
    if (role === undefined || !of.axes.includes(name)) return fail(`%${id} has no axis ${name}`)
    const axes = axesOfExprs([e], scope)
    if (isOwnCoordinate(e, name, role) || isEmpty(scope, axes)) continue
    const r = rangeInProgram(e, [], scope.roles)
    if (r.lo < 0 || r.hi >= role.block)
      fail(`the index ${showExpr(e)} along ${name} ranges over [${r.lo}, ${r.hi}], outside [0, ${role.block})`)
  }
  const kept = of.axes.filter((a) => !Object.hasOwn(index, a))
  return union(kept, axesOfExprs(Object.values(index), scope))
}

/** The coordinate a point itself has along an axis: legal in the clipped last block too. */
function isOwnCoordinate(e: Expr, name: string, role: AxisRole): boolean {
  const own = axis(name, role.extent)
  return e.key === (role.role === 'local' ? own : sub(own, axis(`${name}.start`, role.extent))).key
}

/** Checks a `store`. */
export function verifyStore(s: StoreStmt, scope: VerifyScope): void {
  const { fail } = scope
  const param = requireParam(s.param, scope)
  const value = lookup(scope, s.value)
  if (param.access === 'read') fail(`parameter ${param.name} is read only: it cannot be stored to`)
  if (s.combiner !== undefined && param.access !== 'update')
    fail(`a store with a combiner reads what stands there: parameter ${param.name} must be update`)
  if (value.dtype !== param.dtype) fail(`${param.name} is ${param.dtype}, %${s.value} is ${value.dtype}`)
  if (s.combiner !== undefined) {
    const fault = foldDTypeFault(s.combiner, value.dtype, value.dtype)
    if (fault !== undefined) fail(fault)
  }
  const named = verifyAccess(param, s, scope)
  if (s.combiner === undefined) requireDistinct(s, value, named, scope)
}

/** A plain store: every axis along which the program holds several points or the grid several programs picks the element. */
function requireDistinct(s: StoreStmt, value: TileInfo, named: AxisSet, scope: VerifyScope): void {
  const help = 'name the axis in the index or the mask, or store with a combiner'
  for (const a of value.axes) {
    const role = scope.roles.get(a)
    if (named.has(a) || role === undefined || Math.min(role.block, role.extent) <= 1) continue
    scope.fail(`every point along ${a} is stored to the same element of ${s.param}`, help)
  }
  const starts = startAxes([...s.index, ...s.mask.map((b) => b.expr)])
  for (const { axis, block } of scope.grid) {
    if (named.has(axis) || starts.has(axis) || (scope.declared.get(axis) ?? 0) <= block) continue
    if ([...named].some((a) => scope.shares.get(a) === axis)) continue
    scope.fail(`every program along ${axis} stores to the same elements of ${s.param}`, help)
  }
}

function startAxes(exprs: readonly Expr[]): AxisSet {
  const out = new Set<string>()
  for (const e of exprs)
    visitAtoms(e, (a) => {
      const of = a.kind === 'axis' ? startOf(a.name) : undefined
      if (of !== undefined) out.add(of)
    })
  return out
}

interface Access {
  readonly index: readonly Expr[]
  readonly mask: Predicate
  readonly maskValue?: ValueId
}

/** Rank, bounds and mask of a load or store; gives the axes that pick the element. */
function verifyAccess(param: KernelParam, access: Access, scope: VerifyScope): AxisSet {
  const { fail } = scope
  const { index, mask } = access
  if (index.length !== param.shape.length)
    fail(`${index.length} indices into ${param.name}, which has ${param.shape.length} axes`)
  const maskTile = access.maskValue === undefined ? undefined : lookup(scope, access.maskValue)
  if (maskTile !== undefined && maskTile.dtype !== 'bool')
    fail(`the mask %${access.maskValue} is ${maskTile.dtype}, not bool`)
  const axes = union(axesOfExprs(index, scope), axesOfPredicate(mask, scope), maskTile?.axes ?? [])
  if (isEmpty(scope, axes) || isNever(mask)) return axes
  index.forEach((e, i) => {
    const extent = param.shape[i] ?? 0
    const r = rangeInProgram(e, [...mask, ...scope.implied], scope.roles)
    if (r.lo < 0 || r.hi >= extent)
      fail(
        `index ${i} of ${param.name}, ${showExpr(e)}, ranges over [${r.lo}, ${r.hi}], outside [0, ${extent})`,
        `mask it: where 0 <= ${showExpr(e)} < ${extent}`,
      )
  })
  return axes
}

/** No program, or no point of the given axes, exists. */
function isEmpty(scope: VerifyScope, axes: Iterable<string> = []): boolean {
  return [...scope.grid.map((g) => g.axis), ...axes].some((a) => scope.declared.get(a) === 0)
}

function requireParam(name: string, scope: VerifyScope): KernelParam {
  return scope.params.get(name) ?? scope.fail(`there is no parameter ${name}`)
}

function requireAxis(name: string, scope: VerifyScope): void {
  if (scope.roles.has(name)) return
  scope.fail(scope.declared.has(name) ? `axis ${name} is used outside its loop` : `axis ${name} is not declared`)
}

function requireFolded(axis: string, id: ValueId, arg: TileInfo, scope: VerifyScope): void {
  requireAxis(axis, scope)
  if (!arg.axes.includes(axis) && scope.declared.get(axis) !== 1) scope.fail(`%${id} has no axis ${axis}`)
}

const union = (...sets: readonly Iterable<string>[]): AxisSet => new Set(sets.flatMap((s) => [...s]))
const without = (s: AxisSet, gone: readonly string[]): AxisSet => new Set([...s].filter((a) => !gone.includes(a)))

const axesOfPredicate = (p: Predicate, scope: VerifyScope): AxisSet =>
  axesOfExprs(
    p.map((b) => b.expr),
    scope,
  )

/** Axes along which the expressions vary, those of data-dependent values included. Checks what they name. */
function axesOfExprs(exprs: readonly Expr[], scope: VerifyScope): AxisSet {
  const out = new Set<string>()
  for (const e of exprs)
    visitAtoms(e, (a) => {
      if (a.kind === 'axis') {
        checkAxisAtom(a.name, a.extent, scope)
        if (startOf(a.name) === undefined) out.add(a.name)
      } else if (a.kind === 'scaled') checkScale(a, scope)
      else if (a.kind === 'value') {
        const t = lookup(scope, a.id)
        if (a.open !== undefined && scope.scalars.get(a.open)?.most !== a.extent)
          scope.fail(`%${a.id} is below ${a.open}, which is not ${a.extent} at most`)
        if (!isInteger(t.dtype)) scope.fail(`the index %${a.id} is ${t.dtype}, not an integer`)
        for (const x of t.axes) out.add(x)
      }
    })
  return out
}

function checkScale(s: Scale, { scalars, fail }: VerifyScope): void {
  const declared = scalars.get(s.by) ?? fail(`there is no launch scalar ${s.by}`)
  const same = declared.least === s.least && declared.most === s.most && declared.multiple === s.multiple
  if (!same) fail(`${s.by} is taken to be other than it is declared`)
}

function checkAxisAtom(name: string, extent: number, scope: VerifyScope): void {
  const of = startOf(name)
  requireAxis(of ?? name, scope)
  const role = scope.roles.get(of ?? name)
  if (of !== undefined && role?.role === 'local') scope.fail(`${name}: only grid and loop axes have a start`)
  if (role?.extent !== extent) scope.fail(`axis ${name} is taken to have extent ${extent}, not ${role?.extent}`)
}
