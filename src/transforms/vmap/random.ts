/**
 * Random bits of a batch of keys: the generator of src/scalar/threefry.ts written out in elementwise operations, so that
 * every element of the batch has the bits its key gives alone.
 */
import { binary, cast, compare, where } from '../../compose/elementwise.ts'
import { full, iota } from '../../compose/source.ts'
import { reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node } from '../../graph/node.ts'
import {
  elementsPerCall,
  maskMultipliers,
  maskRounds,
  type RandomDType,
  type Rounds,
  randomWidth,
  secondFrom,
  sharedByMask,
} from '../../scalar/threefry.ts'
import { type Shape, sizeOf } from '../../types/shape.ts'
import { operand } from '../rule.ts'
import { sliceOne } from '../shift.ts'
import type { BatchRules } from './rule.ts'

const rotations = [13, 15, 26, 6, 17, 29, 16, 24] as const
const parity = 0x1bd11bda

const add = (a: Node, b: Node): Node => makeNode('add', [a, b], {})
const xor = (a: Node, b: Node): Node => makeNode('xor', [a, b], {})
const rotate = (x: Node, by: number): Node => makeNode('or', [binary('shl', x, by), binary('shr', x, 32 - by)], {})

/** Elements for keys u32[size, 2], numbered by the row-major index of `shape` (`randomElement`). */
function batchedBits(keys: Node, size: number, shape: Shape, dtype: RandomDType, rounds: Rounds): Node {
  const n = sizeOf(shape)
  const whole = [size, n]
  const word = (i: number): Node => makeNode('broadcast', [sliceOne(keys, 1, i, i + 1)], { shape: whole, dims: [0, 1] })
  const [k0, k1] = [word(0), word(1)]
  const schedule = [k0, k1, xor(xor(k0, k1), full(whole, parity, 'u32'))]
  const subkey = (i: number): Node => schedule[i % 3] ?? k0
  const index = iota(whole, 1, 'u32')
  const each = elementsPerCall(dtype)
  const width = randomWidth(dtype)
  const has = (bit: number): Node => compare('ne', binary('and', index, bit), 0)
  let x = k0
  let y = add(binary('shr', index, Math.log2(each)), k1)
  for (let round = 0; round < rounds; round++) {
    x = add(x, y)
    y = xor(rotate(y, rotations[round & 7] ?? 0), x)
    if ((round & 3) === 3) {
      const s = (round >> 2) + 1
      x = add(x, subkey(s))
      y = add(add(y, subkey(s + 1)), full(whole, s, 'u32'))
    }
  }
  let bits = where(has(each / 2), y, x)
  for (let shift = 16; shift >= width; shift /= 2) bits = where(has(shift / width), binary('shr', bits, shift), bits)
  return reshape(cast(bits, dtype), [size, ...shape])
}

/** Masks for keys u32[size, 2], numbered likewise (`maskElement`). */
function batchedMasks(keys: Node, size: number, shape: Shape, chance: number): Node {
  const n = sizeOf(shape)
  const words = Math.ceil(n / sharedByMask)
  const whole = [size, words, sharedByMask]
  const number = (t: number): Node => full(whole, t, 'u32')
  const mul = (a: Node, b: Node): Node => makeNode('mul', [a, b], {})
  const word = makeNode('broadcast', [batchedBits(keys, size, [words], 'u32', maskRounds)], {
    shape: whole,
    dims: [0, 1],
  })
  const place = iota(whole, 2, 'u32')
  const factor = (bit: number, multiplier: number): Node =>
    add(mul(binary('and', place, bit), number((multiplier - 1) / bit)), number(1))
  const [m1, m2] = maskMultipliers
  const drawn = mul(mul(word, factor(2, m1)), factor(4, m2))
  const from = mul(binary('and', place, 1), number(secondFrom(chance)))
  const holds = compare('lt', makeNode('sub', [drawn, from], {}), number(chance * 65536))
  return reshape(sliceOne(reshape(holds, [size, words * sharedByMask]), 1, 0, n), [size, ...shape])
}

export const randomBatching: BatchRules<'randomBits' | 'randomMask'> = {
  randomMask: ({ node, inputs, size }) =>
    batchedMasks(operand({ op: 'randomMask', inputs }, 0), size, node.attrs.shape, node.attrs.chance),
  randomBits: ({ node, inputs, size }) =>
    batchedBits(operand({ op: 'randomBits', inputs }, 0), size, node.attrs.shape, node.attrs.dtype, 20),
}
