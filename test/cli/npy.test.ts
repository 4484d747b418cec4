/** `.npy` files: every dtype there and back, the layout NumPy writes, and what is refused. */
import { describe, expect, it } from 'vitest'
import { readNpy, writeNpy } from '../../src/cli/npy.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { toHost } from '../../src/scalar/host.ts'
import { allDTypes, isWide } from '../../src/types/dtype.ts'

/** A file as NumPy writes it. */
function file(dict: string, data: Uint8Array, version = 1): Uint8Array {
  const header = new TextEncoder().encode(`${dict}\n`)
  const prefix =
    version === 1 ? [header.length & 255, header.length >> 8] : [header.length & 255, header.length >> 8, 0, 0]
  return Uint8Array.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, version, 0, ...prefix, ...header, ...data])
}

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values)

describe('npy', () => {
  it.each(allDTypes)('%s there and back', (dtype) => {
    const values = [0, 1, 2, 3, 4, 5].map((v) => (dtype === 'bool' ? v % 2 === 1 : isWide(dtype) ? BigInt(v) : v))
    const tensor = { data: toHost(values, dtype), shape: [2, 3], dtype }
    expect(readNpy(writeNpy(tensor), 'x.npy')).toEqual(tensor)
  })

  it('shapes without axes, with one, and empty', () => {
    for (const shape of [[], [3], [0, 4], [1, 1, 2]]) {
      const n = shape.reduce((a, b) => a * b, 1)
      const tensor = { data: new Float32Array(n).fill(1.5), shape, dtype: 'f32' as const }
      const back = readNpy(writeNpy(tensor), 'x.npy')
      expect(back.shape).toEqual(shape)
      expect(back.data).toEqual(tensor.data)
    }
  })

  it('data starts at a multiple of 64 bytes', () => {
    const written = writeNpy({ data: new Int32Array([7]), shape: [1], dtype: 'i32' })
    expect(written.length % 64).toBe(4)
    expect(new TextDecoder().decode(written.subarray(10, 70))).toContain(
      "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }",
    )
  })

  it('column-major files and big-endian elements', () => {
    const columns = file("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", bytes(1, 4, 2, 5, 3, 6))
    expect([...readNpy(columns, 'x').data]).toEqual([1, 2, 3, 4, 5, 6])
    const big = file("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", bytes(1, 0, 0xff, 0xfe))
    expect([...readNpy(big, 'x').data]).toEqual([256, -2])
  })

  it('versions 2 and 3', () => {
    for (const version of [2, 3]) {
      const f = file("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", bytes(1, 0), version)
      expect(readNpy(f, 'x')).toEqual({ data: bytes(1, 0), shape: [2], dtype: 'bool' })
    }
  })

  it.each([
    ['no such file at all', bytes(1, 2, 3), 'does not start as one'],
    ['an unknown version', file('{}', bytes(), 9), 'its version is 9'],
    ['a dtype', file("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", bytes(0)), "dtype '<c8'"],
    ['records', file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", bytes(0)), 'records'],
    ['missing data', file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", bytes(0)), '1 bytes of data'],
    ['a cut header', file('{}', bytes()).subarray(0, 11), 'truncated'],
  ])('refuses %s', (_, data, message) => {
    const read = (): unknown => readNpy(data, 'x.npy')
    expect(read).toThrow(UserError)
    expect(read).toThrow(message)
    expect(read).toThrow('E_FILE')
  })
})
