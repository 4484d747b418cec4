/** Coded element types: every code survives decoding and encoding, and encoding picks the nearest value, ties to even. */
import { describe, expect, it } from 'vitest'
import { decodeCodes, encodeCodes } from '../../src/onnx/codec.ts'
import {
  type CodedType,
  codeDType,
  decodeTable,
  type FloatFormat,
  formatOf,
  unpackCodes,
} from '../../src/onnx/codes.ts'
import { floats, literal } from '../../src/onnx/nodes.ts'
import { evaluateConstant } from '../../src/reference/evaluate.ts'

const floatTypes = ['FLOAT8E4M3FN', 'FLOAT8E4M3FNUZ', 'FLOAT8E5M2', 'FLOAT8E5M2FNUZ', 'FLOAT4E2M1'] as const
const integerTypes = ['UINT4', 'INT4', 'UINT2', 'INT2'] as const

function floatFormat(t: CodedType): FloatFormat {
  const f = formatOf(t)
  if (f.kind !== 'float') throw new Error(`${t} is no float`)
  return f
}

const encode = (t: CodedType, values: ArrayLike<number>, saturate = true): number[] =>
  Array.from(evaluateConstant(encodeCodes(floats(values, [values.length]), t, { saturate, round: 'up' }).node), Number)

describe.each(floatTypes)('%s', (t) => {
  const f = floatFormat(t)
  const table = decodeTable(f)
  const finite = Array.from(table, (v, code) => ({ v, code })).filter(({ v }) => Number.isFinite(v))

  it('gives every finite code back', () => {
    expect(
      encode(
        t,
        finite.map(({ v }) => v),
      ),
    ).toEqual(finite.map(({ code }) => code))
  })

  it('decodes in the graph as by the table', () => {
    const codes = literal({ data: Uint8Array.from(table, (_, i) => i), shape: [table.length], dtype: 'u8' })
    expect(Array.from(evaluateConstant(decodeCodes({ coded: t, node: codes }, 'f32')), Number)).toEqual(
      Array.from(table),
    )
  })

  it('rounds to the nearest value, ties to the even code', () => {
    const magnitudes = finite.filter(({ code }) => code < table.length / 2).sort((a, b) => a.v - b.v)
    const samples: number[] = []
    const want: number[] = []
    magnitudes.slice(1).forEach((upper, i) => {
      const lower = magnitudes[i]
      if (lower === undefined) return
      const middle = (lower.v + upper.v) / 2
      const step = (upper.v - lower.v) / 8
      samples.push(middle - step, middle, middle + step)
      want.push(lower.code, lower.code % 2 === 0 ? lower.code : upper.code, upper.code)
    })
    expect(encode(t, samples)).toEqual(want)
  })

  it('saturates, or gives infinity or NaN', () => {
    const half = table.length / 2
    expect(encode(t, [1e9, -1e9, Number.POSITIVE_INFINITY])).toEqual([f.largest, f.largest + half, f.largest])
    if (f.bits === 4) return
    const beyond = f.infinity ?? f.nan
    expect(encode(t, [1e9, Number.POSITIVE_INFINITY], false)).toEqual([beyond, beyond])
    const [nan = 0] = encode(t, [Number.NaN])
    expect(table[nan]).toBeNaN()
  })
})

it('FLOAT8E8M0 rounds to powers of two as told', () => {
  const values = floats([1, 1.25, 3, 2 ** 127, Number.NaN], [5])
  const codes = (round: 'up' | 'down' | 'nearest'): number[] =>
    Array.from(evaluateConstant(encodeCodes(values, 'FLOAT8E8M0', { saturate: true, round }).node), Number)
  expect(codes('up')).toEqual([127, 128, 129, 254, 255])
  expect(codes('down')).toEqual([127, 127, 128, 254, 255])
  expect(codes('nearest')).toEqual([127, 127, 129, 254, 255])
})

describe.each(integerTypes)('%s', (t) => {
  it('unpacks low bits first and extends signs', () => {
    const bits = formatOf(t).bits
    const count = 2 ** bits
    const bytes = new Uint8Array(Math.ceil((count * bits) / 8))
    for (let i = 0; i < count; i++) {
      const at = Math.floor((i * bits) / 8)
      bytes[at] = (bytes[at] ?? 0) | (i << ((i * bits) % 8))
    }
    const signed = codeDType(t) === 'i8'
    const want = Array.from({ length: count }, (_, i) => (signed && i >= count / 2 ? i - count : i))
    expect(Array.from(unpackCodes(bytes, t, count))).toEqual(want)
    expect(encode(t, want)).toEqual(want)
  })
})
