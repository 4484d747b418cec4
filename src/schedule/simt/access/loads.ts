/** Loads that a thread can make before it needs them, in whole groups of words, each thread what it will read itself. */
import { axesOf, valuesOf } from '../../../affine/expr.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import type { Layout } from '../layout/layout.ts'
import type { SharedArrayPlan } from '../storage/sharedMemory.ts'
import { elementBits } from '../storage/words.ts'
import { type Access, groupOf, repeatedGroupOf } from './access.ts'
import type { LoadPlan, LoadStmt } from './loadPlan.ts'
import type { Place } from './place.ts'
import { turnedOf } from './turned.ts'

const isLoad = (l: LetStmt): l is LoadStmt => l.op.kind === 'load'

/** How a load goes in whole groups of words, zeros where it has nothing to load; undefined where it does not. */
export function loadPlanOf(at: Place, l: LetStmt): LoadPlan | undefined {
  const { part, layout } = at
  if (!isLoad(l)) return undefined
  const { op } = l
  const axes = part.axesOf(l.id)
  const group = groupOf(at, op, axes)
  const param = at.param(op.param)
  if (op.maskValue !== undefined || !Object.is(op.other, 0) || param.format !== 'plain' || group?.whole !== true)
    return undefined
  const words = (group.n * elementBits(param)) / 32
  if (!Number.isInteger(words)) return undefined
  const elements = layout.spread(axes).reduce((n, a) => n * a.reps * a.vec, 1)
  return { let: l, axis: group.axis, n: group.n, words, groups: elements / group.n }
}

/** The same for a load in blocks that are turned. */
export function turnedPlanOf(at: Place, l: LetStmt): LoadPlan | undefined {
  if (!isLoad(l) || !Object.is(l.op.other, 0)) return undefined
  const axes = at.part.axesOf(l.id)
  const turned = turnedOf(at, l.op, axes)
  if (turned === undefined) return undefined
  const elements = at.layout.spread(axes).reduce((n, a) => n * a.reps * a.vec, 1)
  return { let: l, axis: turned.columns, n: 2, words: 1, groups: elements / 2, turned }
}

/** The same for a load that is copied word by word: elements may repeat, and be less than a word each. */
export function copyPlanOf(at: Place, l: LetStmt): LoadPlan | undefined {
  const whole = loadPlanOf(at, l)
  if (whole !== undefined || !isLoad(l)) return whole
  const { part, layout } = at
  const axes = part.axesOf(l.id)
  const group = repeatedGroupOf(at, l.op, axes)
  const param = at.param(l.op.param)
  if (group === undefined || l.op.maskValue !== undefined || !Object.is(l.op.other, 0) || param.format !== 'plain')
    return undefined
  const { axis, n, repeats = 1 } = group
  const words = ((n / repeats) * elementBits(param)) / 32
  const isPart = n === repeats && words < 1
  if (!isPart && !Number.isInteger(words)) return undefined
  const groups = layout.spread(axes).reduce((k, a) => k * a.reps * a.vec, 1) / n
  return { let: l, axis, n, words: isPart ? 1 : words, groups, repeats, ...(isPart ? { isPart } : {}) }
}

/** The same for a load that goes element by element: each in a word of its own, or in one that others share. */
export function elementPlanOf(at: Place, l: LetStmt): LoadPlan | undefined {
  if (!isLoad(l) || l.op.maskValue !== undefined || !Object.is(l.op.other, 0)) return undefined
  const own = at.layout.spread(at.part.axesOf(l.id))
  const axis = own.at(-1)?.name
  const p = at.param(l.op.param)
  const bits = elementBits(p)
  if (axis === undefined || p.format !== 'plain' || bits > 32) return undefined
  const groups = own.reduce((k, a) => k * a.reps * a.vec, 1)
  return { let: l, axis, n: 1, words: 1, groups, ...(bits < 32 ? { isPart: true } : {}) }
}

/** Whether what an access reads is written by nobody meanwhile. */
const isReadOnly = (at: Place, { param }: Access): boolean =>
  at.param(param).access === 'read' && !at.setting.mayAlias(param)

/** Whether a load can be made a step of a loop early: its place follows from positions alone, among them the loop's, and nobody writes there. */
export function isEarly(at: Place, axis: string, { op }: LetStmt): boolean {
  if (op.kind !== 'load' || !isReadOnly(at, op)) return false
  const exprs = [...op.index, ...op.mask.map((b) => b.expr)]
  return exprs.every((e) => valuesOf(e).size === 0) && exprs.some((e) => axesOf(e).has(axis))
}

/** Bytes of a thread's words of some loads. */
export const threadBytes = (plans: readonly LoadPlan[]): number => plans.reduce((n, x) => n + x.groups * x.words * 4, 0)

/** Whether where and when an access takes place is known before what varies inside a loop. */
export function isPlaced({ part, held }: Place, { index, mask, maskValue }: Access): boolean {
  const values = [...index, ...mask.map((b) => b.expr)].flatMap((e) => [...valuesOf(e)])
  if (maskValue !== undefined) values.push(maskValue)
  return values.every((id) => part.axesOf(id).length === 0 && held.has(id))
}

/** The shared array of so many copies of a thread's words of a load: by slot, group and thread. */
export const copiesArray = (x: LoadPlan, { threads }: Layout, copies: number): SharedArrayPlan => ({
  type: 'u32',
  length: x.groups * x.words * threads * copies,
})
