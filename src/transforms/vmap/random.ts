/**
 * Random bits of a batch of keys: the generator of src/scalar/threefry.ts written out in elementwise operations, so that
 * every element of the batch has the bits its key gives alone.
 */
import { binary } from '../../compose/elementwise.ts'
import { full, iota } from '../../compose/source.ts'
import { reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import type { Node } from '../../graph/node.ts'
import { type Shape, sizeOf } from '../../types/shape.ts'
import { operand } from '../rule.ts'
import { sliceOne } from '../shift.ts'
import type { BatchRules } from './rule.ts'

const rotations = [13, 15, 26, 6, 17, 29, 16, 24] as const
const parity = 0x1bd11bda

const add = (a: Node, b: Node): Node => makeNode('add', [a, b], {})
const xor = (a: Node, b: Node): Node => makeNode('xor', [a, b], {})
const rotate = (x: Node, by: number): Node => makeNode('or', [binary('shl', x, by), binary('shr', x, 32 - by)], {})

/** Word 0 for keys u32[size, 2] and the row-major index of `shape` as counter (0, index). */
function batchedBits(keys: Node, size: number, shape: Shape): Node {
  const n = sizeOf(shape)
  const whole = [size, n]
  const word = (i: number): Node => makeNode('broadcast', [sliceOne(keys, 1, i, i + 1)], { shape: whole, dims: [0, 1] })
  const [k0, k1] = [word(0), word(1)]
  const schedule = [k0, k1, xor(xor(k0, k1), full(whole, parity, 'u32'))]
  const subkey = (i: number): Node => schedule[i % 3] ?? k0
  let x = k0
  let y = add(iota(whole, 1, 'u32'), k1)
  for (let round = 0; round < 20; round++) {
    x = add(x, y)
    y = xor(rotate(y, rotations[round & 7] ?? 0), x)
    if ((round & 3) === 3) {
      const s = (round >> 2) + 1
      x = add(x, subkey(s))
      y = add(add(y, subkey(s + 1)), full(whole, s, 'u32'))
    }
  }
  return reshape(x, [size, ...shape])
}

export const randomBatching: BatchRules<'randomBits'> = {
  randomBits: ({ node, inputs, size }) => batchedBits(operand({ op: 'randomBits', inputs }, 0), size, node.attrs.shape),
}
