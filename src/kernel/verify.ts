/**
 * The verifier of the kernel IR: single definitions that dominate their uses, dtypes, tile axes, parameters and their
 * access, loops and carries, and every index provably inside its buffer.
 */

import { asConstant, sub } from '../affine/expr.ts'
import { UserError } from '../diagnostics/errors.ts'
import type { DType } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { type AxisRole, rolesOf } from './axes.ts'
import {
  gridSize,
  type Kernel,
  type KernelParam,
  type KernelPart,
  type LaunchScalar,
  type LoopStmt,
  type Stmt,
  type ValueId,
} from './ir.ts'
import { isIdentifier, showParam, showStmt } from './print.ts'
import { lookup, type TileInfo, type VerifyScope } from './scope.ts'
import { belowEnds, openFault, verifyScalars } from './verifyLaunch.ts'
import { verifyLet, verifyStore } from './verifyStmt.ts'
import { storesTo, writesWholeBytes } from './wholeBytes.ts'

/** Throws E_KERNEL_INVALID naming the statement and what is wrong with it. */
export function verifyKernel(kernel: Kernel): void {
  const params = new Map<string, KernelParam>()
  for (const p of kernel.params) {
    const fail = failAt(kernel, showParam(p))
    if (!isIdentifier(p.name)) fail(`${JSON.stringify(p.name)} is not a name`, 'use letters, digits and underscores')
    if (params.has(p.name)) fail(`parameter ${p.name} is declared twice`)
    if (p.format === 'bits' && p.dtype !== 'bool') fail(`the format bits holds bool, not ${p.dtype}`)
    if (p.format === 'int4' && p.dtype !== 'i8') fail(`the format int4 holds i8, not ${p.dtype}`)
    sizeOf(p.shape)
    params.set(p.name, p)
  }
  const bits = new Set(kernel.params.flatMap((p) => (p.format === 'bits' ? [p.name] : [])))
  const scalars = verifyScalars(kernel, params)
  kernel.parts.forEach((part, i) => {
    verifyPart(kernel, part, kernel.parts.length === 1 ? undefined : i, { params, scalars, bits })
  })
}

const failAt =
  (kernel: Kernel, place: string) =>
  (message: string, help?: string): never => {
    const where = `kernel ${kernel.name}: ${place}`
    throw new UserError('E_KERNEL_INVALID', message, help === undefined ? { where } : { where, help })
  }

interface Declared {
  readonly params: ReadonlyMap<string, KernelParam>
  readonly scalars: ReadonlyMap<string, LaunchScalar>
  /** Parameters of packed bits. */
  readonly bits: ReadonlySet<string>
}

function verifyPart(
  kernel: Kernel,
  part: KernelPart,
  number: number | undefined,
  { params, scalars, bits }: Declared,
): void {
  const prefix = number === undefined ? '' : `part ${number}, `
  const fail = failAt(kernel, `${prefix}axes and grid`)
  const declared = new Map<string, number>()
  for (const axis of part.axes) {
    const { name, extent } = axis
    if (!isIdentifier(name)) fail(`${JSON.stringify(name)} is not a name`, 'use letters, digits and underscores')
    if (declared.has(name)) fail(`axis ${name} is declared twice`)
    if (!Number.isInteger(extent) || extent < 0) fail(`the extent ${extent} of axis ${name} is not a whole number`)
    const fault = openFault(axis, scalars)
    if (fault !== undefined) fail(fault)
    declared.set(name, extent)
  }
  const onGrid = new Set<string>()
  for (const { axis, block } of part.grid) {
    if (!declared.has(axis)) fail(`grid axis ${axis} is not declared`)
    if (onGrid.has(axis)) fail(`axis ${axis} is twice on the grid`)
    if (!Number.isInteger(block) || block < 1)
      fail(`the block ${block} of grid axis ${axis} is not a positive whole number`)
    onGrid.add(axis)
  }
  const values = new Map<ValueId, TileInfo>()
  const implied = belowEnds(part.axes, scalars)
  const shared = {
    params,
    scalars,
    implied,
    declared,
    values,
    defined: new Set<ValueId>(),
    grid: part.grid,
    shares: new Map(),
  }
  verifyBody(part.body, rolesOf(part), shared, (s) => failAt(kernel, prefix + showStmt(s)))
  if (bits.size === 0 || (kernel.parts.length === 1 && gridSize(part) === 1)) return
  for (const s of storesTo(part.body, bits)) {
    const param = params.get(s.param)
    if (param !== undefined && !writesWholeBytes(s, param, part))
      failAt(kernel, prefix + showStmt(s))(
        `programs share bytes of ${param.name}`,
        'a block of eight elements, or of whole rows that fill bytes, keeps them apart',
      )
  }
}

type Shared = Omit<VerifyScope, 'roles' | 'fail'>

function verifyBody(
  body: readonly Stmt[],
  roles: ReadonlyMap<string, AxisRole>,
  shared: Shared,
  failOf: (s: Stmt) => VerifyScope['fail'],
): void {
  for (const s of body) {
    const scope: VerifyScope = { ...shared, roles, fail: failOf(s) }
    switch (s.kind) {
      case 'let':
        define(scope, s.id, { ...verifyLet(s, scope), ...(s.op.kind === 'index' ? { expr: s.op.expr } : {}) })
        break
      case 'store':
        verifyStore(s, scope)
        break
      case 'loop':
        verifyLoop(s, scope, shared, failOf)
        break
    }
  }
}

function define(scope: VerifyScope, id: ValueId, tile: TileInfo): void {
  if (!Number.isInteger(id) || id < 0) scope.fail(`the value number ${id} is not a whole number`)
  if (scope.defined.has(id)) scope.fail(`%${id} is defined twice`)
  scope.defined.add(id)
  scope.values.set(id, tile)
}

function verifyLoop(s: LoopStmt, scope: VerifyScope, shared: Shared, failOf: (s: Stmt) => VerifyScope['fail']): void {
  const { fail, values } = scope
  const extent = scope.declared.get(s.axis) ?? fail(`loop axis ${s.axis} is not declared`)
  const role = scope.roles.get(s.axis)?.role
  if (role === 'grid') fail(`loop axis ${s.axis} is on the grid`)
  if (role === 'loop') fail(`axis ${s.axis} is looped over inside its own loop`)
  if (!Number.isInteger(s.block) || s.block < 1) fail(`the block ${s.block} of the loop is not a positive whole number`)
  for (const [word, id] of [['from', s.from] as const, ['to', s.to] as const]) {
    if (id === undefined) continue
    const t = lookup(scope, id)
    if (t.dtype !== 'i32' && t.dtype !== 'i64') fail(`the bound ${word} %${id} is ${t.dtype}, not i32 or i64`)
    const wide = t.axes.find((a) => (scope.roles.get(a)?.block ?? 1) !== 1)
    if (wide !== undefined) fail(`the bound ${word} %${id} is not scalar: it varies along ${wide}`)
  }
  for (const c of s.carries) {
    checkCarried(scope, c.init, c, 'starts from')
    for (const a of c.axes)
      if (!scope.roles.has(a)) fail(`the carry %${c.param} has the axis ${a}, which is not in scope`)
  }
  const outside = new Set(values.keys())
  for (const c of s.carries) define(scope, c.param, { dtype: c.dtype, axes: c.axes, staged: false })
  const inside: AxisRole = { role: 'loop', extent, block: s.block, aligned: s.from === undefined }
  const roles = new Map([...scope.roles, [s.axis, inside]])
  const owner = programOf(s, scope)
  const shares = owner === undefined ? shared.shares : new Map([...shared.shares, [s.axis, owner]])
  verifyBody(s.body, roles, { ...shared, shares }, failOf)
  for (const c of s.carries) checkCarried(scope, c.next, c, 'passes on')
  for (const id of [...values.keys()]) if (!outside.has(id)) values.delete(id)
  for (const c of s.carries) define(scope, c.result, { dtype: c.dtype, axes: c.axes, staged: false })
}

/** The grid axis whose programs share a loop's range out among them: program p takes [c p, c p + c) or less. */
function programOf(s: LoopStmt, { values, grid }: VerifyScope): string | undefined {
  const from = s.from === undefined ? undefined : values.get(s.from)?.expr
  const to = s.to === undefined ? undefined : values.get(s.to)?.expr
  const [term, second] = from?.terms ?? []
  if (from === undefined || to === undefined || term?.atom.kind !== 'axis' || second !== undefined) return undefined
  const width = asConstant(sub(to, from))
  const { name } = term.atom
  const owner = grid.find((g) => g.block === 1 && (name === g.axis || name === `${g.axis}.start`))
  return width !== undefined && width <= term.coef ? owner?.axis : undefined
}

function checkCarried(
  scope: VerifyScope,
  id: ValueId,
  carry: { readonly param: ValueId; readonly dtype: DType; readonly axes: readonly string[] },
  verb: string,
): void {
  const t = lookup(scope, id)
  const want = `${carry.dtype}{${carry.axes.join(', ')}}`
  const have = `${t.dtype}{${t.axes.join(', ')}}`
  if (want !== have) scope.fail(`the carry %${carry.param} is ${want} but ${verb} %${id}, which is ${have}`)
}
