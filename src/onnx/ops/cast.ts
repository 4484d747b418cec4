/** Conversions of element type, those without a dtype of the graph included; and rearrangements of tensors of codes. */

import { decodeCodes, type EncodeOptions, encodeCodes } from '../codec.ts'
import { type Coded, type CodedType, isCoded, type Value } from '../codes.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'
import { codedOfElement } from '../tensors.ts'

/** The attributes that say how values are encoded. */
export function encodeOptions(c: OpContext): EncodeOptions {
  const round = c.string('round_mode', 'up')
  return { saturate: c.flag('saturate', true), round: round === 'down' || round === 'nearest' ? round : 'up' }
}

/** A value as numbers: codes of floats decode to f32, small integers to their storage dtype. */
const numbersOf = (v: Value): n.Node => {
  if (!isCoded(v)) return v
  return v.coded.includes('FLOAT') ? decodeCodes(v, 'f32') : v.node
}

function castTo(c: OpContext, to: CodedType | n.Node['dtype'], x: Value): Value {
  if (isCoded(x) && x.coded === to) return x
  const values = numbersOf(x)
  return isCodedName(to) ? encodeCodes(values, to, encodeOptions(c)) : n.cast(values, to)
}

const isCodedName = (t: CodedType | n.Node['dtype']): t is CodedType => t === t.toUpperCase()

const cast: Handler = (c) => castTo(c, codedOfElement(c.int('to', 0)) ?? c.dtype('to'), c.value(0))

const castLike: Handler = (c) => {
  const target = c.value(1)
  return castTo(c, isCoded(target) ? target.coded : target.dtype, c.value(0))
}

/** A handler that only moves elements, on codes: they keep their type. All coded inputs must be of one type. */
export function onCodes(handler: Handler): Handler {
  return (c) => {
    const coded = c.inputs.filter((x): x is Coded => x !== undefined && isCoded(x))
    const [first] = coded
    if (first === undefined) return handler(c)
    if (coded.some((x) => x.coded !== first.coded)) c.fail('its inputs have different element types')
    const result = handler(c.withInputs(c.inputs.map((x) => (x !== undefined && isCoded(x) ? x.node : x))))
    const list: readonly (Value | undefined)[] = Array.isArray(result) ? result : [result as Value]
    return list.map((x) => (x === undefined || isCoded(x) ? x : { coded: first.coded, node: x }))
  }
}

export const castHandlers: HandlerTable = { Cast: cast, CastLike: castLike }
