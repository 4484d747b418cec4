/** Loads and stores of tile values: contiguous, strided, gathered, masked, packed formats; whole steps and partial ones. */
import { asConstant, type Expr, sub } from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import type { KernelParam } from '../../../kernel/ir.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import { bytePosition, readsFreely } from '../../../schedule/loop/nest/position.ts'
import { type DType, dtypeBytes } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Register, Expr as Value } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { wideMask } from '../math/float.ts'
import {
  type Address,
  addressOf,
  depthOf,
  forValidLanes,
  laneAddresses,
  lanePattern,
  predicateElement,
  predicateLanes,
} from './laneIndex.ts'
import {
  allocReg,
  assignReg,
  emitConst,
  emitGatherHalves,
  emitLaneLoad,
  emitLoadConvert,
  emitLoadEverySecondHalf,
  emitLoadSplat,
  emitScalarOp,
  emitSplat,
  isPair,
  makeReg,
  type Reg,
  releaseReg,
} from './lanes.ts'
import { loadPackedElement, loadPackedLanes } from './packed.ts'
import type { Access, LaneReader, Point } from './point.ts'
import { isHalf, part, partType, read } from './reg.ts'

const isMasked = (a: Pick<Access, 'mask' | 'maskValue'>): boolean => a.mask.length > 0 || a.maskValue !== undefined

/** Whether a mask differs between lanes. */
export const maskVaries = (values: Point, a: Pick<Access, 'mask' | 'maskValue'>): boolean =>
  a.mask.some((b) => values.exprVaries(b.expr)) || (a.maskValue !== undefined && values.varies(a.maskValue))

/** A mask that is the same in all lanes, in an i32. */
export function maskElement(values: Point, a: Pick<Access, 'mask' | 'maskValue'>, depth: number): Register {
  const { env, f, scope } = values
  const bounds = a.mask.length === 0 ? undefined : predicateElement(values, a.mask, depthOf(values, a.mask))
  const value = a.maskValue === undefined ? undefined : values.element(a.maskValue)
  if (bounds !== undefined && value !== undefined) {
    const both = scope.keep(depth, `m:${part(bounds, 0).index},${part(value, 0).index}`, () =>
      emitScalarOp(f, env, 'and', 'bool', 'bool', [bounds, value]),
    )
    return part(both, 0)
  }
  return part(bounds ?? value ?? emitConst(f, 'bool', 1, true), 0)
}

/** The lanes a mask allows in copy `j`, as a bit each of an i32. */
export function maskBits(values: Point, a: Pick<Access, 'mask' | 'maskValue'>, j: number, depth: number): Register {
  const { scope } = values
  const bounds = a.mask.length === 0 ? undefined : predicateLanes(values, a.mask, j)
  const value = a.maskValue === undefined ? undefined : values.lanes(a.maskValue, j)
  const limit = values.vector?.mask
  const masks = [bounds, value, limit].filter((r) => r !== undefined)
  return scope.once(depth, `b:${masks.map((m) => part(m, 0).index).join()}`, () => {
    const [first, ...others] = masks.map((m) => read(m))
    invariant(first !== undefined, 'an access without a mask')
    return X.bits(others.reduce<Value>((all, m) => X.and(all, m), first))
  })
}

/** One element where nothing of the access varies along the vector axis. */
export function loadElement(values: Point, a: Access, dtype: DType): Reg {
  const { f, env, scope } = values
  const p = values.paramOf(a.param)
  const read = p.format === 'plain' ? plainElement(values, a, dtype, p) : loadPackedElement(values, a, p)
  if (!isMasked(a)) return scope.keep(a.depth, a.key, read)
  const condition = maskElement(values, a, a.depth)
  return scope.keep(a.depth, a.key, () => {
    const out = emitConst(f, dtype, 1, a.other)
    f.if(condition, () => assignAndRelease(values, out, read()))
    return { ...allocless(out) }
  })

  function plainElement(v: Point, access: Access, d: DType, param: KernelParam): () => Reg {
    const at = addressOf(v, v.baseOf(access.param), bytePosition(param, access.index), 0)
    return () => emitLoadConvert(f, env, d, 1, at.local, at.offset)
  }
}

/** A register whose content is no longer the constant it began as. */
const allocless = (r: Reg): Reg => ({ dtype: r.dtype, lanes: r.lanes, parts: r.parts })

function assignAndRelease(values: Point, to: Reg, from: Reg): void {
  assignReg(values.f, to, from)
  releaseReg(values.f, from)
}

/** Four lanes of copy `j`. */
export function loadLanes(values: Point, a: Access, dtype: DType, j: number): Reg {
  const { f, scope } = values
  const p = values.paramOf(a.param)
  const isFree = maskVaries(values, a) && readsFreely(p, a)
  const reader =
    p.format === 'plain'
      ? laneReader(
          values,
          values.baseOf(a.param),
          bytePosition(p, a.index),
          0,
          dtype,
          j,
          a.depth,
          maskVaries(values, a),
          isFree || !isMasked(a),
        )
      : loadPackedLanes(values, a, p, j, isMasked(a), maskVaries(values, a))
  if (!isMasked(a)) return scope.keep(a.depth, a.key, reader.whole)
  if (isFree) {
    const mask = predicateLanes(values, a.mask, j)
    return scope.keep(a.depth, a.key, () => {
      const all = reader.whole()
      const chosen = emitChosen(values, mask, all, a.other)
      releaseReg(f, all)
      return chosen
    })
  }
  if (!maskVaries(values, a)) {
    const condition = maskElement(values, a, a.depth)
    return scope.keep(a.depth, a.key, () => {
      const out = emitConst(f, dtype, 4, a.other)
      f.if(condition, () => assignAndRelease(values, out, reader.whole()))
      return allocless(out)
    })
  }
  const bits = maskBits(values, a, j, a.depth)
  return scope.keep(a.depth, a.key, () => {
    const out = allocless(emitConst(f, dtype, 4, a.other))
    f.if(
      X.compare('eq', bits, 15),
      () => assignAndRelease(values, out, reader.whole()),
      () =>
        f.if(bits, () => {
          for (let lane = 0; lane < 4; lane++) f.if(X.and(bits, 1 << lane), () => reader.lane(out, lane))
        }),
    )
    return out
  })
}

/** What was read where a mask holds, elsewhere a constant. */
function emitChosen(values: Point, mask: Reg, all: Reg, other: Scalar): Reg {
  const { f, env } = values
  const { dtype } = all
  if (Object.is(other, 0) || other === 0n || other === false)
    return makeReg(f, dtype, 4, (i) => X.and(isPair(dtype) ? wideMask(mask, i) : read(mask), read(all, i)))
  return emitScalarOp(f, env, 'select', dtype, dtype, [mask, all, emitConst(f, dtype, 4, other)])
}

/**
 * Four words 8 or 12 bytes apart, as lanes of two vectors. Of neighbours 8 bytes apart the second is odd words of the vectors that the first is
 * even ones of; which of them a read is, its offset says.
 */
function sparseLanes(
  stride: number,
  offset: number,
): { readonly at: number; readonly second: number; readonly lanes: Four } | undefined {
  if (stride === 12) return { at: offset, second: 24, lanes: [0, 3, 4, 7] }
  if (stride !== 8) return undefined
  return offset % 8 === 4
    ? { at: offset - 4, second: 16, lanes: [1, 3, 5, 7] }
    : { at: offset, second: 16, lanes: [0, 2, 4, 6] }
}

type Four = readonly [number, number, number, number]

/** A reader of four lanes at `base + offset + e` (bytes). `shares`: it runs unconditionally, so what it reads is there for others. */
export function laneReader(
  values: Point,
  base: Register,
  e: Expr,
  offset: number,
  dtype: DType,
  j: number,
  depth: number,
  guarded: boolean,
  shares = false,
): LaneReader {
  const { f, env } = values
  const bytes = dtypeBytes(dtype)
  const type = partType(dtype, 4)
  const p = lanePattern(values, e, j)
  const affine = p.kind === 'affine' ? p : undefined
  let each: readonly Address[] | undefined
  const addresses = (): readonly Address[] => {
    each ??= laneAddresses(values, base, e, p, j, offset, depth)
    return each
  }
  if (guarded) addresses()
  const lane = (into: Reg, l: number): void => {
    const at = addresses()[l]
    if (at !== undefined) emitLaneLoad(f, env, into, l, at.local, at.offset)
  }
  if (affine !== undefined && affine.stride === bytes) {
    const at = addressOf(values, base, affine.at, affine.extra, offset)
    return { whole: () => emitLoadConvert(f, env, dtype, 4, at.local, at.offset), lane }
  }
  if (affine !== undefined && affine.stride === 0) {
    const at = addressOf(values, base, affine.at, affine.extra, offset)
    return { whole: () => loadSplat(values, dtype, at), lane }
  }
  if (affine !== undefined && affine.stride === -bytes && !isPair(dtype)) {
    const at = addressOf(values, base, affine.at, affine.extra - 3 * bytes, offset)
    const whole = (): Reg => {
      const x = emitLoadConvert(f, env, dtype, 4, at.local, at.offset)
      const r = makeReg(f, dtype, 4, () => X.shuffle(type, read(x), read(x), [3, 2, 1, 0]))
      releaseReg(f, x)
      return r
    }
    return { whole, lane }
  }
  if (affine !== undefined && affine.stride === 2 * bytes && isHalf(dtype)) {
    const at = addressOf(values, base, affine.at, affine.extra, offset)
    return { whole: () => emitLoadEverySecondHalf(f, env, dtype, at), lane }
  }
  const near =
    affine === undefined || bytes !== 4 ? undefined : addressOf(values, base, affine.at, affine.extra, offset)
  const sparse = affine === undefined || near === undefined ? undefined : sparseLanes(affine.stride, near.offset)
  if (near !== undefined && sparse !== undefined) {
    const from = (at: number): Value => {
      const read = (): Value => X.load(type, near.local, at, 4)
      return shares
        ? X.view(type, values.scope.once(depth, `raw:${near.local.index}:${at}:${type.name}`, read))
        : read()
    }
    const whole = (): Reg => {
      const [a, b] = [from(sparse.at), from(sparse.at + sparse.second)]
      return makeReg(f, dtype, 4, () => X.shuffle(type, a, b, sparse.lanes))
    }
    return { whole, lane }
  }
  const [first] = addresses()
  const pair = p.kind === 'lanes' ? p.lanes.map((l) => asConstant(sub(l, p.lanes[0] ?? l))) : []
  if (
    first !== undefined &&
    bytes === 4 &&
    pair[1] === 0 &&
    pair[2] === 4 &&
    pair[3] === 4 &&
    values.vector?.limit === undefined
  ) {
    const whole = (): Reg =>
      makeReg(f, dtype, 4, () => {
        const twice = f.keep(X.load(T.f64x2, first.local, first.offset, 4, 'splat'))
        const lanes = X.shuffle(type, twice, twice, [0, 0, 1, 1])
        f.release(twice)
        return lanes
      })
    return { whole, lane }
  }
  if (isHalf(dtype)) {
    const each = (body: (l: number) => void): void => forValidLanes(values, body)
    return { whole: () => emitGatherHalves(f, env, dtype, addresses(), each), lane }
  }
  const whole = (): Reg => {
    const out = first === undefined ? allocReg(f, dtype, 4) : loadSplat(values, dtype, first)
    forValidLanes(values, (l) => {
      if (l > 0) lane(out, l)
    })
    return out
  }
  return { whole, lane }
}

/** One element in all lanes: a fresh start for lane loads, which would otherwise wait for what stood in the register. */
function loadSplat(values: Point, dtype: DType, at: Address): Reg {
  const { f, env } = values
  if (!isPair(dtype)) return emitLoadSplat(f, env, dtype, at.local, at.offset)
  const one = emitLoadConvert(f, env, dtype, 1, at.local, at.offset)
  const out = emitSplat(f, one)
  releaseReg(f, one)
  return out
}
