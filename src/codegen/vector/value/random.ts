/**
 * Random bits: elements of the calls of the generator (`randomElement` of src/scalar/threefry.ts). Where four neighbouring
 * elements begin at a multiple of what a call makes, calls are shared: between the copies of a step if they are enough for four
 * calls side by side, else one call serves its elements. Copies that read the same elements are one (`LaneValues`).
 */

import { addConst } from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import { drawsAt } from '../../../kernel/draws.ts'
import type { TileOp } from '../../../kernel/ir.ts'
import { elementsPerCall, type RandomDType, type Rounds, randomWidth } from '../../../scalar/threefry.ts'
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr as Value } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { alignmentOf, exprElement, exprLanes, lanePattern } from './laneIndex.ts'
import { emitThreefry, makeReg, type Reg, read, releaseReg } from './lanes.ts'
import type { Point } from './point.ts'

type RandomOp = Extract<TileOp, { kind: 'random' }>

/** The words of a call, by frame: elements that share a call share them. */
type Words = readonly [Reg, Reg]

/** One element. */
export function randomElement(values: Point, op: RandomOp, dtype: RandomDType, depth: number, key: string): Reg {
  const [k0, k1] = [values.element(op.k0), values.element(op.k1)]
  const at = exprElement(values, op.index)
  return values.scope.keep(depth, key, () => anyElement(values.f, dtype, k0, k1, at, op.rounds))
}

/** Four lanes of copy `j`. */
export function randomLanes(
  values: Point,
  op: RandomOp,
  dtype: RandomDType,
  depth: number,
  key: string,
  j: number,
): Reg {
  const shared = sharedCalls(values, op, dtype, depth, j)
  if (shared !== undefined) return values.scope.keep(depth, key, shared)
  const [k0, k1] = [values.lanes(op.k0, j), values.lanes(op.k1, j)]
  const at = exprLanes(values, op.index, j)
  return values.scope.keep(depth, key, () => anyElement(values.f, dtype, k0, k1, at, op.rounds))
}

/** An element (in each lane) by a call of its own. */
function anyElement(f: Builder, dtype: RandomDType, k0: Reg, k1: Reg, at: Reg, rounds: Rounds): Reg {
  const { lanes } = k0
  const each = elementsPerCall(dtype)
  const width = randomWidth(dtype)
  const call = makeReg(f, 'u32', lanes, () => X.shrU(read(at), Math.log2(each)))
  const words = emitThreefry(f, k0, k1, call, rounds)
  let word = chosen(f, at, each / 2, words[1], words[0])
  releaseReg(f, call, ...words)
  for (let shift = 16; shift >= width; shift /= 2) {
    const moved = makeReg(f, 'u32', lanes, () => X.shrU(read(word), shift))
    const next = chosen(f, at, shift / width, moved, word)
    releaseReg(f, moved, word)
    word = next
  }
  const out = makeReg(f, dtype, lanes, () => lowBits(read(word), width))
  releaseReg(f, word)
  return out
}

/** One of two registers, by a bit of an element's number. */
function chosen(f: Builder, at: Reg, bit: number, high: Reg, low: Reg): Reg {
  return makeReg(f, 'u32', at.lanes, () => {
    if (at.lanes === 1) return X.select(X.and(read(at), bit), read(high), read(low))
    const mask = X.constant(T.i32x4, bit)
    return X.select(X.compare('eq', X.and(read(at), mask), mask), read(high), read(low))
  })
}

/** All but the low bits cleared. */
function lowBits(x: Value, bits: number): Value {
  return bits === 32 ? x : X.and(x, X.constant(x.type, 2 ** bits - 1))
}

/** The byte of its word that an element of a call begins at. */
const byteInWord = (dtype: RandomDType, element: number): number => ((element * randomWidth(dtype)) / 8) % 4

/** Four elements from the bytes that they begin at in two vectors. */
function fields(f: Builder, dtype: RandomDType, places: readonly number[], low: Reg, high: Reg): Reg {
  const width = randomWidth(dtype)
  const bytes = places.flatMap((p) => [0, 1, 2, 3].map((b) => (8 * b < width ? p + b : p)))
  return makeReg(f, dtype, 4, () => lowBits(X.view(T.i32x4, X.shuffle(T.i8x16, read(low), read(high), bytes)), width))
}

/** How to make the lanes of copy `j` of calls that they share with others; undefined where each needs its own. */
function sharedCalls(
  values: Point,
  op: RandomOp,
  dtype: RandomDType,
  depth: number,
  j: number,
): (() => Reg) | undefined {
  const { f, vector } = values
  if (vector === undefined || values.varies(op.k0) || values.varies(op.k1)) return undefined
  const { position, repeat } = drawsAt(op.index)
  const pattern = lanePattern(values, position, j)
  if (pattern.kind !== 'affine' || pattern.stride !== 1) return undefined
  const each = elementsPerCall(dtype) * repeat
  const aligned = alignmentOf(values, pattern.at)
  const log2 = Math.log2(each)
  const byteOf = (e: number): number => byteInWord(dtype, Math.floor(e / repeat))
  if (vector.copies % each === 0 && aligned >= each && pattern.extra === 4 * j) {
    const group = Math.floor(j / each)
    const words = callsAt(values, op, each, depth, group, () => {
      const at = values.scope.index(pattern.at)
      const [k0, k1] = [values.lanes(op.k0, j), values.lanes(op.k1, j)]
      return () => {
        const call = makeReg(f, 'u32', 4, () => {
          const calls = X.constant(T.i32x4, [4 * group, 4 * group + 1, 4 * group + 2, 4 * group + 3])
          return X.add(X.splat(T.i32x4, X.shrU(at, log2)), calls)
        })
        const out = emitThreefry(f, k0, k1, call, op.rounds)
        releaseReg(f, call)
        return out
      }
    })
    return () => {
      const place = (e: number): number => {
        const call = Math.floor(e / each)
        const within = e % each
        return (within < each / 2 ? 0 : 16) + 4 * call + byteOf(within)
      }
      const from = 4 * (j % each)
      return fields(
        f,
        dtype,
        [0, 1, 2, 3].map((l) => place(from + l)),
        words[0],
        words[1],
      )
    }
  }
  if (each < 4 || aligned < 4) return undefined
  const first = addConst(pattern.at, pattern.extra)
  const at = exprElement(values, first)
  const [k0, k1] = [values.element(op.k0), values.element(op.k1)]
  return () => {
    const call = makeReg(f, 'u32', 1, () => X.shrU(read(at), log2))
    const words = emitThreefry(f, k0, k1, call, op.rounds)
    // Both words where the four elements are all of the call, else the word that they are.
    const both = makeReg(f, 'u32', 4, () => {
      const word = each === 4 ? words[0] : chosen(f, at, each / 2, words[1], words[0])
      const all = X.splat(T.i32x4, read(word))
      if (each === 4) return X.replace(all, 1, read(words[1]))
      releaseReg(f, word)
      return all
    })
    const places = [0, 1, 2, 3].map((e) => (e < each / 2 ? 0 : 4) + byteOf(e))
    const out = fields(f, dtype, places, both, both)
    releaseReg(f, call, both, ...words)
    return out
  }
}

/** The words of the four calls of a group of copies, made once. */
function callsAt(
  values: Point,
  op: RandomOp,
  each: number,
  depth: number,
  group: number,
  make: () => () => Words,
): Words {
  const { scope } = values
  const key = `T:${op.k0},${op.k1},${op.index.key},${each}.${op.rounds}.${group}`
  const found = [scope.find(`${key}x`), scope.find(`${key}y`)] as const
  if (found[0] !== undefined && found[1] !== undefined) return [found[0], found[1]]
  const emit = make()
  let second: Reg | undefined
  const first = scope.keep(depth, `${key}x`, () => {
    const [x, y] = emit()
    second = y
    return x
  })
  invariant(second !== undefined, 'a call gives two words')
  const y = second
  return [first, scope.keep(depth, `${key}y`, () => y)]
}
