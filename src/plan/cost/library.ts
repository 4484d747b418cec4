/**
 * Which bodies a call of a matrix library computes, and what it costs: one sum of products of two tensors read through strides,
 * scaled by constants, on its own or added to a tensor of the result's layout (times a constant), stored once. Everything else around a
 * product is for kernels.
 */

import * as ix from '../../affine/expr.ts'
import { familyOf } from '../../graph/table.ts'
import type { LetStmt, NumericsMode, ValueId } from '../../kernel/ir.ts'
import { isModerate } from '../../scalar/moderate.ts'
import { type LibraryInfo, type Machine, movingSeconds } from '../../target/machine.ts'
import type { DType } from '../../types/dtype.ts'
import { dtypeBytes, isFloat } from '../../types/dtype.ts'
import {
  isProductDType,
  type ProductCalls,
  type ProductDType,
  type ProductOffsets,
  productKey,
  type StridedMatrix,
  type StridedProduct,
} from '../../types/product.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Body, BodyTensor } from '../body/body.ts'
import type { LibraryCall, LibraryChoice } from '../plan.ts'
import type { Made, Outcome } from './candidateMemo.ts'
import { partsOf, shareOf } from './libraryParts.ts'

/** Most calls a product is cut into where its batches have no common stride. */
const mostCalls = 64

/**
 * A trial with the library's call in the place of the kernel, where it is a product and the call is modelled faster; `body`: the
 * trial's, its axes apart.
 */
export function withLibrary(
  made: { readonly ok: true } & Made,
  body: Body,
  target: Machine,
  mode: NumericsMode,
): Outcome {
  const { library } = target
  // The order of a library's sums is not ours.
  if (library === undefined || mode === 'strict' || made.segments.length > 1) return made
  const call = callOf(body)
  if (call === undefined) return made
  const { batches, m, n, k } = call.product
  const flops = 2 * batches * m * n * k * call.calls.length
  if (flops < library.leastFlops) return made
  const { cost } = made
  const traffic = movingSeconds(cost.bytesRead + cost.bytesWritten, target)
  // What is added to is read at the ends of blocks, which multiply nothing meanwhile: in a kernel as in a call.
  const added = addedSeconds(call, target)
  const whole = callSeconds(call, library)
  const parts = partsOf(call, library)
  const inParts = parts?.reduce(
    (t, p, i) => t + callSeconds(p, library) / (i < parts.length - 1 ? library.restShare : 1) + addedSeconds(p, target),
    0,
  )
  const isCut = inParts !== undefined && inParts < whole
  const compute = isCut ? inParts : whole
  const hidden = Math.max(traffic, compute)
  const late = Math.max(traffic, compute + added) - hidden
  const chosen: LibraryCall = isCut && parts !== undefined ? { ...call, parts } : call
  const calls = (chosen.parts ?? [chosen]).reduce((t, p) => t + p.calls.length, 0)
  const seconds = hidden + late + library.launch * calls
  const refused = (chosen.parts ?? [chosen])
    .map((p) => library.refused?.get(productKey(p.product)))
    .find((r) => r !== undefined)
  const choice: LibraryChoice = {
    library: library.name,
    seconds,
    kernelSeconds: cost.seconds + late,
    ...(refused === undefined ? {} : { refused }),
  }
  if (refused !== undefined || seconds >= cost.seconds + late) return { ...made, choice }
  return { ...made, choice, called: chosen, cost: { ...cost, flops, special: 0, seconds, compute } }
}

/** Seconds that a library multiplies for in calls of one shape. */
function callSeconds(c: ProductCalls, library: LibraryInfo): number {
  const { batches, m, n, k, a, precision = a.dtype } = c.product
  const { leastRows, rate } = library
  const worked = 2 * batches * Math.max(m, leastRows) * Math.max(n, leastRows) * k * c.calls.length
  return worked / (rate[precision] * shareOf(c, library))
}

/** Seconds that what calls add to is read for. */
function addedSeconds({ product: { batches, m, n, addend }, calls }: ProductCalls, target: Machine): number {
  return addend === undefined ? 0 : movingSeconds(batches * m * n * calls.length * dtypeBytes(addend.dtype), target)
}

/** A value as a constant times another one, below casts that lose nothing (or, of a result, what fast mode may skip). */
interface Scaled {
  readonly of: LetStmt
  readonly scale: number
}

const widens = (from: DType, { dtype }: LetStmt): boolean =>
  from === dtype || ((from === 'bf16' || from === 'f16') && dtype === 'f32')

/**
 * A result is rounded where it is stored. What the user's conversion rounds is rounded before it is scaled, and one that is
 * widened again is better widened by what reads it.
 */
const narrows =
  (body: Body) =>
  (from: DType, cast: LetStmt, scale: number): boolean => {
    const own = body.origin.get(cast.id)
    const free = scale === 1 || (own !== undefined && familyOf(own) === 'contraction')
    // f16 and bf16 are no narrower than each other: rounding to the one is not skipped on the way to the other.
    const narrow = dtypeBytes(cast.dtype) < dtypeBytes(from) || cast.dtype === from
    return isFloat(cast.dtype) && narrow && free
  }

/**
 * What a product is added to stands in the dtype of the store, and the product in that of sums, so exact conversions are none. Its own
 * rounding fast mode may skip, the user's it may not.
 */
const addsInSums =
  (body: Body) =>
  (from: DType, cast: LetStmt): boolean => {
    const own = body.origin.get(cast.id)
    return widens(from, cast) || (isFloat(cast.dtype) && own !== undefined && familyOf(own) === 'contraction')
  }

/** Takes multiplications and divisions by constants, and casts that `mayCast` allows, off a value: down to anything else. */
function scaled(
  id: ValueId,
  lets: ReadonlyMap<ValueId, LetStmt>,
  mayCast: (from: DType, cast: LetStmt, scale: number) => boolean,
): Scaled | undefined {
  let at = lets.get(id)
  let scale = 1
  while (at?.op.kind === 'scalar') {
    const { op, args } = at.op
    const [x, y] = [lets.get(args[0] ?? -1), lets.get(args[1] ?? -1)]
    if (x === undefined) return undefined
    if (op === 'cast') {
      if (!mayCast(x.dtype, at, scale)) return undefined
      at = x
      continue
    }
    const constant = (l: LetStmt | undefined): number | undefined =>
      l?.op.kind === 'const' && typeof l.op.value === 'number' ? l.op.value : undefined
    const [left, right] = [constant(x), constant(y)]
    if (op === 'neg') {
      scale = -scale
      at = x
    } else if (op === 'mul' && right !== undefined) {
      scale *= right
      at = x
    } else if (op === 'mul' && left !== undefined) {
      scale *= left
      at = y
    } else if (op === 'div' && right !== undefined && right !== 0) {
      scale /= right
      at = x
    } else break
  }
  return at === undefined ? undefined : { of: at, scale }
}

/** A tensor's flat position as an offset and a stride for every axis; undefined where it is anything else. */
interface Strides {
  readonly dtype: ProductDType
  readonly offset: number
  readonly by: ReadonlyMap<string, number>
}

function stridesOf(index: readonly ix.Expr[], shape: readonly number[], dtype: DType): Strides | undefined {
  if (!isProductDType(dtype)) return undefined
  const flat = ix.flatten(index, shape)
  const by = new Map<string, number>()
  for (const { atom, coef } of flat.terms) {
    if (atom.kind !== 'axis' || coef < 0) return undefined
    by.set(atom.name, coef)
  }
  return flat.offset < 0 ? undefined : { dtype, offset: flat.offset, by }
}

interface Operand extends Strides {
  readonly param: string
  readonly scale: number
}

function operandOf(id: ValueId, body: Body, lets: ReadonlyMap<ValueId, LetStmt>): Operand | undefined {
  const found = scaled(id, lets, widens)
  if (found?.of.op.kind !== 'load') return undefined
  const { op, dtype } = found.of
  const tensor = body.loads.get(op.param)
  if (op.mask.length > 0 || op.maskValue !== undefined || tensor === undefined || tensor.format === 'bits')
    return undefined
  const strides = stridesOf(op.index, tensor.shape, dtype)
  return strides === undefined ? undefined : { ...strides, param: op.param, scale: found.scale }
}

/** A product and what it is added to, each times a constant. */
interface Added {
  readonly product: Scaled
  /** By the number of its value. */
  readonly addend: { readonly id: ValueId; readonly scale: number } | undefined
}

/** What a result is: a product, or the sum or the difference of one and something that is none. */
function addedOf(result: Scaled, body: Body, lets: ReadonlyMap<ValueId, LetStmt>): Added | undefined {
  const { op } = result.of
  if (op.kind === 'dot') return { product: result, addend: undefined }
  if (op.kind !== 'scalar' || (op.op !== 'add' && op.op !== 'sub')) return undefined
  const [left, right] = op.args
  if (left === undefined || right === undefined) return undefined
  const signs = [result.scale, op.op === 'sub' ? -result.scale : result.scale] as const
  const [first, second] = [scaled(left, lets, addsInSums(body)), scaled(right, lets, addsInSums(body))]
  if (first?.of.op.kind === 'dot' && second?.of.op.kind !== 'dot')
    return { product: { ...first, scale: first.scale * signs[0] }, addend: { id: right, scale: signs[1] } }
  if (second?.of.op.kind === 'dot' && first?.of.op.kind !== 'dot')
    return { product: { ...second, scale: second.scale * signs[1] }, addend: { id: left, scale: signs[0] } }
  return undefined
}

/** The calls that compute a body; undefined where it is more than a product, or its operands have no strides. */
export function callOf(body: Body): LibraryCall | undefined {
  const [store, second] = body.stores
  if (store === undefined || second !== undefined || store.format === 'bits' || store.mask !== undefined)
    return undefined
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const result = scaled(store.value, lets, narrows(body))
  const { product, addend } = (result === undefined ? undefined : addedOf(result, body, lets)) ?? {}
  if (product?.of.op.kind !== 'dot' || product.of.op.acc !== undefined) return undefined
  const { dtype, op } = product.of
  const a = operandOf(op.a, body, lets)
  const b = operandOf(op.b, body, lets)
  const c = addend === undefined ? undefined : operandOf(addend.id, body, lets)
  const out = stridesOf(store.index, store.shape, store.node.dtype)
  if (a === undefined || b === undefined || out === undefined || a.dtype !== b.dtype) return undefined
  const sums = a.dtype === 'f64' ? 'f64' : 'f32'
  if (dtype !== sums || (out.dtype !== a.dtype && out.dtype !== sums)) return undefined
  if (addend !== undefined && c?.dtype !== out.dtype) return undefined
  const axes: Axes = { a, b, out, addend: c, depth: new Set(op.axes), extents: extentsOf(body) }
  const call = arrange(axes)
  if (call === undefined) return undefined
  const alpha = product.scale * a.scale * b.scale
  const beta = (addend?.scale ?? 1) * (c?.scale ?? 1)
  // The library multiplies in f32 what a matrix unit would in three products.
  const precision = op.precision === 'tf32' ? { precision: op.precision } : {}
  // Sums of what is not scaled yet stay in range; and nothing scaled by zero is read, not even a NaN.
  if (![product.scale, a.scale, b.scale, alpha, beta].every(isModerate)) return undefined
  const added = call.product.addend === undefined ? {} : { addend: { ...call.product.addend, beta } }
  const whole = overRoom(call.product, body.loads.get(a.param), body.loads.get(b.param), store)
  return {
    ...call,
    product: { ...whole, alpha, ...precision, ...added },
    a: a.param,
    b: b.param,
    ...(c === undefined ? {} : { addend: c.param }),
  }
}

/**
 * The product over the rows of its result as they stand in memory, with the room after them, where those of an operand along the same axis have as much:
 * what is computed of the operand's room stays in the result's, and nobody reads either.
 */
function overRoom(
  product: StridedProduct,
  a: BodyTensor | undefined,
  b: BodyTensor | undefined,
  out: BodyTensor,
): StridedProduct {
  const { m, n, addend } = product
  const length = out.node.shape.at(-1) ?? 1
  const row = storedRow(out)
  if (addend !== undefined || row === length) return product
  const isAlike = (x: BodyTensor | undefined): boolean =>
    x !== undefined && x.node.shape.at(-1) === length && storedRow(x) === row
  if (product.out.order === 'rows' && product.b.order === 'rows' && n === length && isAlike(b))
    return { ...product, n: row }
  if (product.out.order === 'columns' && product.a.order === 'columns' && m === length && isAlike(a))
    return { ...product, m: row }
  return product
}

/** Elements from one row of a tensor to the next, along its last dimension. */
const storedRow = ({ node, shape }: BodyTensor): number =>
  (sizeOf(shape) / Math.max(1, sizeOf(node.shape))) * (node.shape.at(-1) ?? 1)

const extentsOf = (body: Body): ReadonlyMap<string, number> => new Map(body.axes.map((x) => [x.name, x.extent]))

interface Axes {
  readonly a: Strides
  readonly b: Strides
  readonly out: Strides
  readonly addend: Strides | undefined
  readonly depth: ReadonlySet<string>
  readonly extents: ReadonlyMap<string, number>
}

/**
 * Axes in their roles: one of each side and of the depth stand inside a matrix; of the others one is the batches of a call, and
 * calls are made for every index of the rest. Undefined where no axes make matrices.
 */
function arrange({ a, b, out, addend, depth, extents }: Axes): ProductCalls | undefined {
  const extent = (x: string): number => extents.get(x) ?? 1
  const at = (s: Strides, x: string): number => s.by.get(x) ?? 0
  const [k, more] = depth
  if (k === undefined || more !== undefined || at(a, k) === 0 || at(b, k) === 0) return undefined
  const kept = [...out.by.keys()].filter((x) => extent(x) > 1).sort((x, y) => extent(y) - extent(x))
  const known = new Set([...kept, k])
  for (const s of [a, b]) for (const x of s.by.keys()) if (!known.has(x)) return undefined
  // A result that neither operand varies along would be one product stored many times.
  if (kept.includes(k) || kept.some((x) => at(a, x) === 0 && at(b, x) === 0)) return undefined
  // What is added stands in a matrix of its own: nothing of it is added twice.
  if (
    addend !== undefined &&
    (kept.some((x) => at(addend, x) === 0) || [...addend.by.keys()].some((x) => !kept.includes(x)))
  )
    return undefined
  const rows = kept.filter((x) => at(b, x) === 0)
  const columns = kept.filter((x) => at(a, x) === 0)
  const matrix = (s: Strides, row: string, column: string): Omit<StridedMatrix, 'batch'> | undefined => {
    const [r, c] = [at(s, row), at(s, column)]
    if (c === 1 && r >= extent(column)) return { dtype: s.dtype, order: 'rows', leading: r }
    if (r === 1 && c >= extent(row)) return { dtype: s.dtype, order: 'columns', leading: c }
    return undefined
  }
  for (const m of rows)
    for (const n of columns) {
      const [ma, mb, mo] = [matrix(a, m, k), matrix(b, k, n), matrix(out, m, n)]
      if (ma === undefined || mb === undefined || mo === undefined) continue
      const mc = addend === undefined ? undefined : matrix(addend, m, n)
      if (addend !== undefined && mc?.order !== mo.order) continue
      const [batch, ...rest] = kept.filter((x) => x !== m && x !== n)
      const places = (of: (s: Strides) => number): ProductOffsets => ({
        ...{ a: of(a), b: of(b), out: of(out) },
        ...(addend === undefined ? {} : { addend: of(addend) }),
      })
      const calls = offsetsOver(
        rest,
        extent,
        (x) => places((s) => at(s, x)),
        places((s) => s.offset),
      )
      if (calls === undefined) continue
      const strided = (x: Omit<StridedMatrix, 'batch'>, s: Strides): StridedMatrix => ({
        ...x,
        batch: batch === undefined ? 0 : at(s, batch),
      })
      const product = {
        batches: batch === undefined ? 1 : extent(batch),
        m: extent(m),
        n: extent(n),
        k: extent(k),
        alpha: 1,
        a: strided(ma, a),
        b: strided(mb, b),
        out: strided(mo, out),
        ...(addend === undefined || mc === undefined ? {} : { addend: { ...strided(mc, addend), beta: 1 } }),
      }
      return { product, calls }
    }
  return undefined
}

/** Where matrices begin for every index of some axes. */
function offsetsOver(
  axes: readonly string[],
  extent: (x: string) => number,
  strides: (x: string) => ProductOffsets,
  from: ProductOffsets,
): ProductOffsets[] | undefined {
  let calls = [from]
  for (const x of axes) {
    if (calls.length * extent(x) > mostCalls) return undefined
    const by = strides(x)
    calls = calls.flatMap((c) =>
      Array.from({ length: extent(x) }, (_, i) => ({
        ...{ a: c.a + i * by.a, b: c.b + i * by.b, out: c.out + i * by.out },
        ...(c.addend === undefined ? {} : { addend: c.addend + i * (by.addend ?? 0) }),
      })),
    )
  }
  return calls
}
