/** Which cuts keep the bytes of packed bools apart, against counting which programs touch which byte. */
import { describe, expect, test } from 'vitest'
import { evaluate, flatten } from '../../src/affine/expr.ts'
import type { KernelPart, StoreStmt } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'
import { alignGrid, extentsOf, storesTo, wholeByteBlocks, writesWholeBytes } from '../../src/kernel/wholeBytes.ts'

/** Whether two programs write one byte. */
function sharesBytes(s: StoreStmt, shape: readonly number[], part: KernelPart): boolean {
  const flat = flatten(s.index, shape)
  const owner = new Map<number, string>()
  const blocks = new Map(part.grid.map((g) => [g.axis, g.block]))
  const walk = (i: number, at: Map<string, number>): boolean => {
    const a = part.axes[i]
    if (a === undefined) {
      const byte =
        evaluate(
          flat,
          (n) => at.get(n) ?? 0,
          () => 0,
        ) >> 3
      const program = part.axes.map((x) => Math.floor((at.get(x.name) ?? 0) / (blocks.get(x.name) ?? x.extent))).join()
      if (owner.has(byte) && owner.get(byte) !== program) return true
      owner.set(byte, program)
      return false
    }
    for (let x = 0; x < a.extent; x++) if (walk(i + 1, at.set(a.name, x))) return true
    return false
  }
  return walk(0, new Map())
}

const kernel = (axes: string, grid: string, shape: string, index: string): string =>
  `kernel k {\n param o: bool[${shape}] write bits\n axes ${axes}\n grid ${grid}\n %0 bool = const true\n %1 bool{${axes.replaceAll(/:[^,]*/g, '')}} = const true\n store o[${index}] = %1\n}`

function storeOf(text: string): { s: StoreStmt; part: KernelPart; shape: readonly number[] } {
  const k = parseKernel(text)
  const [part] = k.parts
  const [s] = storesTo(part?.body ?? [], new Set(['o']))
  const [param] = k.params
  if (part === undefined || s === undefined || param === undefined) throw new Error('no store')
  return { s, part, shape: param.shape }
}

describe('whole bytes', () => {
  test('two axes, every cut', () => {
    let apart = 0
    let shared = 0
    for (const [rows, columns] of [
      [1, 7],
      [2, 3],
      [3, 8],
      [4, 6],
      [5, 12],
      [6, 4],
      [7, 5],
      [9, 2],
      [10, 1],
      [12, 16],
      [13, 9],
      [16, 3],
      [17, 11],
    ] as const)
      for (const index of ['r, c', 'c, r'])
        for (const r of [1, 2, 3, 4, 8, 16, 20])
          for (const c of [1, 2, 4, 5, 8, 16, 20]) {
            const shape = index === 'r, c' ? `${rows}, ${columns}` : `${columns}, ${rows}`
            const {
              s,
              part,
              shape: sizes,
            } = storeOf(kernel(`r: ${rows}, c: ${columns}`, `r/${r}, c/${c}`, shape, index))
            const param = { name: 'o', dtype: 'bool', shape: sizes, access: 'write', format: 'bits' } as const
            const whole = writesWholeBytes(s, param, part)
            const truth = sharesBytes(s, sizes, part)
            if (whole) apart++
            if (truth) shared++
            expect(whole && truth, `${shape} ${index} r/${r} c/${c}`).toBe(false)
            // The grid that the planner and the lowering make of it.
            const extents = extentsOf(part)
            const blocks = wholeByteBlocks(flatten(s.index, sizes), rows * columns, extents)
            if (blocks === undefined) throw new Error('a dense store has a cut')
            const aligned = { ...part, grid: alignGrid(part.grid, blocks, extents) }
            expect(writesWholeBytes(s, param, aligned)).toBe(true)
            expect(sharesBytes(s, sizes, aligned)).toBe(false)
          }
    expect(apart).toBeGreaterThan(100)
    expect(shared).toBeGreaterThan(100)
  })

  test('ranges of a row begin and end at bytes', () => {
    const range = (offset: number, extent: number, of: number): boolean => {
      const { s, shape } = storeOf(kernel(`i: ${extent}`, 'i/8', String(of), `i + ${offset}`))
      return wholeByteBlocks(flatten(s.index, shape), of, new Map([['i', extent]])) !== undefined
    }
    expect(range(0, 16, 21)).toBe(true)
    expect(range(16, 5, 21)).toBe(true)
    expect(range(0, 13, 21)).toBe(false)
    expect(range(13, 8, 21)).toBe(false)
    expect(range(8, 8, 21)).toBe(true)
  })

  test('what is not an increasing row of whole axes has no cut', () => {
    for (const index of ['(i + 1)/2', '9 - i', '2*i']) {
      const { s, shape } = storeOf(kernel('i: 10', 'i/8', '20', index))
      expect(wholeByteBlocks(flatten(s.index, shape), 20, new Map([['i', 10]])), index).toBeUndefined()
    }
  })

  test('the verifier refuses programs that share bytes', () => {
    expect(() =>
      verifyKernel(parseKernel(kernel('r: 4, c: 6', 'r', '4, 6', 'r, c'))),
    ).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] programs share bytes of o
        at kernel k: store o[r, c] = %1
        help: a block of eight elements, or of whole rows that fill bytes, keeps them apart]
    `)
    expect(() => verifyKernel(parseKernel(kernel('r: 4, c: 6', 'r/4', '4, 6', 'r, c')))).not.toThrow()
    expect(() => verifyKernel(parseKernel(kernel('r: 4, c: 8', 'r', '4, 8', 'r, c')))).not.toThrow()
    expect(() => verifyKernel(parseKernel(kernel('r: 4, c: 6', '1', '4, 6', 'r, c')))).not.toThrow()
  })
})
