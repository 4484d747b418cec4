/** Analysis of a body's axes: by the kind of kernel that it can be, its roles, or why no kernel of the target computes it. */
import * as ix from '../../affine/expr.ts'
import { isFoldOrScan } from '../../kernel/folds.ts'
import { type NumericsMode, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import type { Body, BodyStore } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import { type Analysis, analysisOf, isAligned } from './analysis.ts'
import { buffersOf } from './bindings.ts'
import { chainRoles } from './chainRoles.ts'
import { productRoles, productsIn } from './productRoles.ts'
import { reductionRoles } from './reductionRoles.ts'
import { elementwiseRoles, type Roles } from './roles.ts'
import { oneStage } from './stages.ts'
import { dividedBy } from './undivided.ts'

type Analysed = { readonly ok: true; readonly roles: Roles } | Refused

/** Roles of a body on a target, or why no kernel of it can compute the body. */
export function analyse(body: Body, target: Machine, mode: NumericsMode): Analysed {
  const refused = tooLarge(body, target)
  if (refused !== undefined) return refused
  const chunked = chunksOf(body)
  if (chunked !== undefined) return chunked.ok ? inChunks(body, chunked.chunks) : chunked
  const a = analysisOf(body, target, mode)
  const products = productsIn(a)
  const [product, second] = products
  const isEmpty = body.axes.some((x) => x.extent === 0)
  const long = tooMuchOfOperand(a, products)
  if (long !== undefined) return long
  if (second !== undefined) return isEmpty ? refuse('two-contractions', 'products of nothing') : chainRoles(a, products)
  if (product !== undefined && !isEmpty) {
    const alone = productRoles(a, product)
    const folded = alone.ok ? alone : chainRoles(a, products)
    return folded.ok ? folded : alone
  }
  const apart = a.folds.size === 0 && body.stores.some((s) => s.pieces !== undefined)
  if (!apart && !body.stores.every((s) => isAligned(a, s, a.parallel)))
    return refuse('unaligned-output', 'a result would be stored by several programs')
  return a.reduced.size === 0 ? { ok: true, roles: withoutFolds(a) } : reductionRoles(a)
}

/** The roles of a body whose reductions are cut along an axis with all of them whole, if a kernel of the target computes it so. */
export function uncutRoles(body: Body, target: Machine, mode: NumericsMode): Roles | undefined {
  const whole = reductionRoles(analysisOf(body, target, mode), false)
  return whole.ok && whole.roles.splitBy === undefined ? whole.roles : undefined
}

/** Why a body is more than a kernel of the target takes; undefined: it is not. */
function tooLarge(body: Body, target: Machine): Refused | undefined {
  const buffers = buffersOf(body)
  if (buffers > target.maxBuffers)
    return refuse('too-many-buffers', `${buffers} buffers, the target binds ${target.maxBuffers}`)
  if (body.lets.length > target.maxStatements)
    return refuse('too-many-live-values', `${body.lets.length} statements, the target takes ${target.maxStatements}`)
  const by = target.undivided === undefined ? undefined : dividedBy(body, target.undivided)
  if (by !== undefined) return refuse('divided-by-open', `a position would be divided by ${by}, which varies`)
  return undefined
}

/** Most statements for an element of an operand: threads write out those of all their elements, and compilers take tens of seconds over more. */
const mostOfOperand = 40

/** Why a product's operand is too much to compute on its way into a tile, on machines of threads; undefined: none is. */
function tooMuchOfOperand(
  { body, lets, target }: Analysis,
  products: readonly { readonly id: ValueId }[],
): Refused | undefined {
  if (target.simt === undefined || body.lets.length <= mostOfOperand) return undefined
  const statementsOf = (id: ValueId): number => {
    const axes = lets.get(id)?.axes ?? []
    const isWhole = (x: ValueId): boolean => axes.every((a) => lets.get(x)?.axes.includes(a) === true)
    return [...ancestorsOf([id], lets)].filter(isWhole).length
  }
  const operands = products.flatMap(({ id }) => operandsOf(lets.get(id)?.op ?? { kind: 'const', value: 0 }))
  const most = Math.max(...operands.map(statementsOf))
  return most <= mostOfOperand
    ? undefined
    : refuse(
        'too-much-code',
        `an element of a product's operand takes ${most} statements, at most ${mostOfOperand} are written out`,
      )
}

const withoutFolds = ({ extents, row, reduced, parallel }: Analysis): Roles => ({
  kind: 'elementwise',
  extents,
  row,
  reduced,
  parallel,
  stages: oneStage,
  splitBy: undefined,
})

/** The axes of scans in chunks and how long those are, if there are any: beside them nothing is folded, since programs hold chunks. */
function chunksOf(
  body: Body,
): { readonly ok: true; readonly chunks: ReadonlyMap<string, number> } | Refused | undefined {
  const chunks = new Map<string, number>()
  let others = false
  for (const l of body.lets) {
    if (!isFoldOrScan(l)) continue
    const node = body.origin.get(l.id)
    const chunk = node?.op === 'scan' && l.op.kind === 'scan' ? node.attrs.chunk : undefined
    if (chunk === undefined || l.op.kind !== 'scan') others = true
    else if ((chunks.get(l.op.axis) ?? chunk) !== chunk) others = true
    else chunks.set(l.op.axis, chunk)
  }
  if (chunks.size === 0) return undefined
  return others || chunks.size > 1
    ? refuse('row-too-long', 'a long scan goes over many programs, and nothing else is folded there')
    : { ok: true, chunks }
}

/** Roles of a body whose scans begin anew in every program. */
function inChunks(body: Body, chunks: ReadonlyMap<string, number>): Analysed {
  const named = (s: BodyStore): Set<string> => new Set(s.index.flatMap((e) => [...ix.axesOf(e)]))
  if (
    !body.stores.every((s) => s.pieces === undefined && body.axes.every((a) => a.extent <= 1 || named(s).has(a.name)))
  )
    return refuse('unaligned-output', 'a result would be stored by several programs')
  return { ok: true, roles: { ...elementwiseRoles(body), kind: 'reduction', chunks } }
}
