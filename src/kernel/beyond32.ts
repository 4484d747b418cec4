/** What of a kernel is counted beyond 32 bits: targets whose positions have no more refuse it. */
import { type Expr, flatten, visitAtoms } from '../affine/expr.ts'
import { axisType, typeOfExpr, typeUpTo } from './indexType.ts'
import { gridSize, type KernelPart, type Stmt } from './ir.ts'
import { ofUnnamed } from './unnamed.ts'
import { expressionsOf } from './walk.ts'

export interface Wide {
  /** The operation, axis or parameter. */
  readonly what: string
  /** What of it. */
  readonly why: string
}

/** Whether an expression, or one that it is a quotient or remainder of, is beyond 32 bits. */
function isWide(e: Expr): boolean {
  let wide = typeOfExpr(e) !== 'i32'
  visitAtoms(e, (a) => {
    if (a.kind === 'div' || a.kind === 'mod') wide ||= typeOfExpr(a.of) !== 'i32'
  })
  return wide
}

function* stmtsOf(body: readonly Stmt[]): Generator<Stmt> {
  for (const s of body) {
    yield s
    if (s.kind === 'loop') yield* stmtsOf(s.body)
  }
}

function wideAxis({ axes, grid }: KernelPart): Wide | undefined {
  for (const { name, extent } of axes) {
    const block = grid.find((g) => g.axis === name)?.block ?? extent
    if (axisType(extent, block) !== 'i32') return { what: `the axis ${name}`, why: `its extent ${extent}` }
  }
  return undefined
}

/** The first thing of a kernel that 32 bits do not hold. */
export const beyond32 = ofUnnamed((kernel): Wide | undefined => {
  const shapes = new Map(kernel.params.map((p) => [p.name, p.shape]))
  const programs = kernel.parts.reduce((n, p) => n + gridSize(p), 0)
  if (typeUpTo(programs) !== 'i32') return { what: 'the grid', why: `its number of programs ${programs}` }
  for (const part of kernel.parts) {
    const axis = wideAxis(part)
    if (axis !== undefined) return axis
    for (const s of stmtsOf(part.body)) {
      if (s.kind === 'loop') continue
      const what =
        s.kind === 'store'
          ? `the store into ${s.param}`
          : `the operation ${s.op.kind === 'scalar' ? s.op.op : s.op.kind}`
      const access = s.kind === 'store' ? s : s.op.kind === 'load' ? s.op : undefined
      const flat = access === undefined ? [] : [flatten(access.index, shapes.get(access.param) ?? [])]
      const all = s.kind === 'store' ? [...s.index, ...s.mask.map((b) => b.expr)] : expressionsOf(s.op)
      if ([...all, ...flat].some(isWide)) return { what, why: 'its index' }
    }
  }
  return undefined
})
