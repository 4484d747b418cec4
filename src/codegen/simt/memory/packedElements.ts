/** Elements in the words of memory that hold them, and the bits that they have there. */
import type { Expr } from '../../../affine/expr.ts'
import type { KernelParam } from '../../../kernel/ir.ts'
import { elementBits } from '../../../schedule/simt/storage/words.ts'
import { type Block, bin, call, cast, type Ex, not, regType, uint } from '../ir/ir.ts'
import type { Point } from '../nest/point.ts'
import type { Scope } from '../nest/scope.ts'
import { bitsOf, fromBits } from '../scalar/arith.ts'

/** Element `at` of a parameter. */
export function elementAt(scope: Scope, p: KernelParam, at: Ex): Ex {
  const bits = elementBits(p)
  const t = regType(p.dtype)
  const bytes = scope.unit.dialect.bytes
  if (p.format === 'plain' && (bytes || bits >= 32)) return { k: 'load', type: t, param: p.name, index: at }
  const unit = p.format !== 'plain' && bytes ? 8 : 32
  const each = unit / bits
  const place = bin('>>', at, uint(Math.log2(each)))
  const word: Ex =
    unit === 8
      ? { k: 'load', type: 'u32', param: p.name, index: place }
      : { k: 'word', type: 'u32', param: p.name, index: place }
  return fromField(p, bin('>>', word, shiftOf(at, bits, unit)))
}

/** How far up in a word (or byte: `unit` bits) the element `at` of `bits` bits stands. */
export const shiftOf = (at: Ex, bits: number, unit = 32): Ex =>
  bin('*', bin('&', cast('u32', at), uint(unit / bits - 1)), uint(bits))

/** Replaces bits of a word: `width` of them from the place of element `at` of `bits` bits on. */
export function replaceBits(param: string, at: Ex, bits: number, width: number, value: Ex): Block[number] {
  const shift = shiftOf(at, bits)
  return {
    k: 'storeBits',
    param,
    index: bin('>>', at, uint(Math.log2(32 / bits))),
    mask: bin('<<', uint(2 ** width - 1), shift),
    bits: bin('<<', value, shift),
  }
}

/** The value in the low bits of a word. */
export function fromField(p: KernelParam, word: Ex): Ex {
  if (p.format === 'bits') return not(bin('==', bin('&', word, uint(1)), uint(0)))
  if (p.format === 'int4') return bin('>>', bin('<<', cast('i32', word), uint(28)), uint(28))
  return fromBits(p.dtype, word, false)
}

export const wordType = (p: KernelParam): 'f32' | 'i32' | 'u32' =>
  p.dtype === 'f32' || p.dtype === 'i32' ? p.dtype : 'u32'

/** The elements of a group from the words that hold them. */
export function takeFields(scope: Scope, p: KernelParam, name: string, targets: readonly Ex[], out: Block): void {
  const words = (targets.length * elementBits(p)) / 32
  const type = wordType(p)
  takeFieldsOf(scope, p, (at) => ({ k: 'comp', type, of: name, words, at }), targets, out)
}

/** The elements of a group from its words by number. */
export function takeFieldsOf(
  scope: Scope,
  p: KernelParam,
  wordAt: (at: number) => Ex,
  targets: readonly Ex[],
  out: Block,
): void {
  targets.forEach((to, i) => {
    out.push({ k: 'assign', to, value: fieldAt(scope, p, wordAt, i) })
  })
}

/** Element `i` of a group from its words by number. */
function fieldAt(scope: Scope, p: KernelParam, wordAt: (at: number) => Ex, i: number): Ex {
  const bits = elementBits(p)
  const word = wordAt(Math.floor((i * bits) / 32))
  if (bits < 32) return fieldOf(p, word, (i * bits) % 32, scope.unit.dialect.bytes)
  return p.dtype === word.type ? word : fromBits(p.dtype, word, true)
}

/** Loads a run of elements in words; gives each by its number. */
export function wideFields(point: Point, p: KernelParam, flat: Expr, n: number, out: Block): (i: number) => Ex {
  const bits = elementBits(p)
  const words = (n * bits) / 32
  const type = wordType(p)
  const name = point.scope.unit.name(`${p.name}_w`)
  out.push({ k: 'vload', name, param: p.name, index: point.position(flat), bits, words, type })
  return (i) => fieldAt(point.scope, p, (at) => ({ k: 'comp', type, of: name, words, at }), i)
}

/** The element at a bit of a word. */
function fieldOf(p: KernelParam, word: Ex, shift: number, bytes: boolean): Ex {
  if (bytes && p.format === 'plain' && p.dtype === 'i8') return call('i32', `i8_at_${shift / 8}`, word)
  if (p.dtype === 'bf16' && shift === 16) return { k: 'bitcast', type: 'f32', a: bin('&', word, uint(0xffff0000)) }
  return fromField(p, bin('>>', word, uint(shift)))
}

/** The value's bits in memory. */
export function fieldBits(p: KernelParam, x: Ex): Ex {
  if (p.format === 'bits') return cast('u32', x)
  if (p.format === 'int4') return bin('&', cast('u32', x), uint(15))
  return bitsOf(p.dtype, x)
}
