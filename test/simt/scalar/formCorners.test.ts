/** Functions in WGSL at the corners of their forms, where random operands do not come. */
import { expect, test } from 'vitest'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernels } from '../../../src/kernel/parse.ts'
import { withinBound } from '../../../src/scalar/bounds.ts'
import { openDevice, runWgsl } from '../dialects/wgsl.ts'

function only(text: string): Kernel {
  const [k] = parseKernels(text)
  if (k === undefined) throw new Error('no kernel')
  return k
}

/** Neighbours of numbers, a few hundred of their last places apart. */
const around = (centres: readonly number[]): number[] =>
  centres.flatMap((c) => Array.from({ length: 64 }, (_, i) => Math.fround(c * (1 + (i - 32) * 2 ** -19))))

const { exp, expm1, sinh, cosh, tanh, log } = Math
const exact = { exp, expm1, sinh, cosh, tanh, log }

const overflow = Math.log(3.4028235e38)

test.for([
  ['exp', [overflow, overflow - Math.log(2), -87.3, -86.6]],
  ['expm1', [overflow, -17.3]],
  ['sinh', [overflow, 10]],
  ['cosh', [overflow, -10]],
  ['tanh', [9, -10]],
  ['log', [1, Math.SQRT1_2, 2 ** -125, 3.4e38]],
] as const)('%s', async ([op, centres], { skip }) => {
  const machine = await openDevice()
  skip(typeof machine === 'string', String(machine))
  if (typeof machine === 'string') return
  const x = Float32Array.from(around(centres))
  const y = new Float32Array(x.length)
  const kernel = only(`kernel corners {
  param x: f32[${x.length}] read
  param y: f32[${x.length}] write
  axes i: ${x.length}
  grid i/256
  %0 f32{i} = load x[i]
  %1 f32{i} = ${op} %0
  store y[i] = %1
}`)
  await runWgsl(machine, [kernel], { x, y })
  const wrong = [...x].flatMap((v, i) => {
    const want = exact[op](v)
    return withinBound(op, 'f32', y[i] ?? 0, want) ? [] : [`${op}(${v}) = ${y[i]}, not ${want}`]
  })
  expect(wrong).toEqual([])
})

test.for([1, 2 ** -118, 2 ** 64, 1.5 * 2 ** 125, 3e38, -3.4e38])(
  'division of a row by %s',
  async (divisor, { skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const n = 256
    const x = Float32Array.from({ length: n }, (_, i) => divisor * (1 - i / 300))
    const y = new Float32Array(n)
    const kernel = only(`kernel divide {
  param x: f32[${n}] read
  param y: f32[${n}] write
  axes i: ${n}
  grid i/256
  %0 f32{i} = load x[i]
  %1 f32 = load x[0]
  %2 f32{i} = div %0, %1
  store y[i] = %2
}`)
    await runWgsl(machine, [kernel], { x, y })
    const wrong = [...x].filter((v, i) => Math.abs((y[i] ?? 0) - v / divisor) > 2 ** -22)
    expect(wrong).toEqual([])
  },
)

test.for(
  (['max', 'min'] as const).flatMap((op) =>
    ['0.0', '-0.0', '1.5', '-2.0', 'inf', '-inf'].map((number) => [op, number] as const),
  ),
)('%s of a value and %s', async ([op, number], { skip }) => {
  const machine = await openDevice()
  skip(typeof machine === 'string', String(machine))
  if (typeof machine === 'string') return
  const special = [0x7fc00000, 0xffc00001, 0x7f800001, 0xffffffff, 0x7f800000, 0xff800000, 0, 0x80000000]
  const values = new Float32Array(Uint32Array.from(special).buffer)
  const x = Float32Array.from([...values, 1.5, -2, 1, -1, 3e38, -3e38, 1e-37, -1e-37])
  const y = new Float32Array(x.length)
  const z = new Float32Array(x.length)
  const kernel = only(`kernel beside {
  param x: f32[${x.length}] read
  param y: f32[${x.length}] write
  param z: f32[${x.length}] write
  axes i: ${x.length}
  grid i/256
  %0 f32{i} = load x[i]
  %1 f32 = const ${number}
  %2 f32{i} = ${op} %0, %1
  %3 f32{i} = ${op} %1, %0
  store y[i] = %2
  store z[i] = %3
}`)
  await runWgsl(machine, [kernel], { x, y, z })
  const other = Number(number.replace('inf', 'Infinity'))
  const want = [...x].map((v) => Math[op](v, other))
  expect([...y]).toEqual(want)
  expect([...z]).toEqual(want)
})
