/** Before each test file: arrays of the same bytes are equal at once, without a walk over their elements. */
import { expect } from 'vitest'
import { debug } from '../src/schedule/debug.ts'

function sameBytes(a: unknown, b: unknown): true | undefined {
  if (!ArrayBuffer.isView(a) || !ArrayBuffer.isView(b) || a.constructor !== b.constructor) return undefined
  const bytes = (v: ArrayBufferView): Buffer => Buffer.from(v.buffer, v.byteOffset, v.byteLength)
  // Others are compared element by element, as ever.
  return bytes(a).equals(bytes(b)) ? true : undefined
}

expect.addEqualityTesters([sameBytes])

// Whatever was measured here, tests plan by the shipped records.
process.env.SINTER_MACHINE = 'shipped'

// Every schedule that is made is held to its laws.
debug.verify = true
