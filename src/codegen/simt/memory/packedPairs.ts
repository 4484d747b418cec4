/** Values of 16 bits that are computed two at a time, as words (`PackedForm`). */
import { invariant } from '../../../diagnostics/errors.ts'
import { numberToBf16, numberToF16 } from '../../../scalar/half.ts'
import { type HalfDType, type PackedForm, smallIntegers } from '../../../schedule/simt/part/packed.ts'
import { bin, call, cast, type Ex, select, uint } from '../ir/ir.ts'
import type { Point } from '../nest/point.ts'

/** Two values of a form as a word; each is zero where it is not there. */
export function packedWord(
  form: PackedForm,
  dtype: HalfDType,
  [low, high]: readonly [Point, Point],
  there: readonly [Ex, Ex],
): Ex {
  const word = packedPair(form, dtype, low, high)
  const kept = there.map((holds, half) => select(holds, uint(half === 0 ? 0xffff : 0xffff0000), uint(0)))
  const [first, second] = kept.map((e) => (e.k === 'lit' ? Number(e.value) : undefined))
  if (first !== undefined && second !== undefined && (first | second) === -1) return word
  return bin(
    '&',
    word,
    kept.reduce((x, y) => bin('|', x, y)),
  )
}

/** Two values of a form as a word. */
function packedPair(form: PackedForm, dtype: HalfDType, low: Point, high: Point): Ex {
  const bitsOf = dtype === 'bf16' ? numberToBf16 : numberToF16
  const both = (value: number): Ex => uint(bitsOf(value) * 0x10001)
  const { power } = smallIntegers[dtype]
  switch (form.kind) {
    case 'read':
      return call('u32', `${dtype}_pair`, low.read(form.id), high.read(form.id))
    case 'small': {
      const [a, b] = [low, high].map((at) => cast('u32', at.read(form.id)))
      invariant(a !== undefined && b !== undefined, 'a pair of two')
      const word = bin('|', bin('|', a, bin('<<', b, uint(16))), both(power))
      return call('u32', `${dtype}_pairs_sub`, word, both(power - form.plus))
    }
    case 'scalar': {
      const [a, b] = form.args.map((x) => packedPair(x, dtype, low, high))
      invariant(a !== undefined && b !== undefined, 'an operation of two')
      return call('u32', `${dtype}_pairs_${form.op}`, a, b)
    }
  }
}
