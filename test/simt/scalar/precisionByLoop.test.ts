/** Precision of values that each loop over chunks of a long row computes for itself: what that loop makes of them decides. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { coarseRelativeError } from '../../../src/scalar/bounds.ts'
import { bf16ToNumber, numberToBf16 } from '../../../src/scalar/half.ts'
import { webgpuSimt } from '../../../src/target/simt.ts'
import { inBothDialects } from '../dialects/dialects.ts'

const [rows, columns] = [4, 40_001]

/** The loss and the gradient of softmax cross-entropy of long rows; the gradient as `dtype`. */
const crossEntropy = (
  dtype: 'bf16' | 'f32',
  { columns = 40_960, storesLoss = true, mode = 'fast' as 'fast' | 'strict' } = {},
) => ({
  ...parseKernel(`kernel cross_entropy {
  param at: i32[${rows}] read
  param x: bf16[${rows}, ${columns}] read
  param loss: f32[${rows}] write
  param y: ${dtype}[${rows}, ${columns}] write
  axes i: ${rows}, j: ${columns}
  grid i
  %0 i32{i} = load at[i]
  %1 i32{j} = index j
  %2 bool{i, j} = eq %0, %1
  %3 f32 = const -0.25
  %4 f32 = const 0
  %5 f32{i, j} = select %2, %3, %4
  %6 bf16{i, j} = load x[i, j]
  %7 f32{i, j} = cast %6
  %8 f32{i} = reduce max %7 over j
  %9 f32{i, j} = sub %7, %8
  %10 f32{i, j} = exp %9
  %11 f32{i} = reduce sum %10 over j
  %12 f32 = const 0.25
  %13 f32{i} = div %12, %11
  %14 f32{i, j} = mul %10, %13
  %15 f32{i, j} = add %14, %5
  %16 ${dtype}{i, j} = cast %15
${storesLoss ? '  %17 f32{i} = log %11\n  %18 f32{i} = add %8, %17\n  store loss[i] = %18' : ''}
  store y[i, j] = %16
}`),
  mode,
})

const targets = Int32Array.from([17, 40_000, 3, 39_998])

function buffers() {
  const x = Uint16Array.from({ length: rows * columns }, (_, k) => {
    const [i, j] = [Math.floor(k / columns), k % columns]
    // The second row is sure of its target; the third holds a NaN; the last an infinity and lowest values.
    if (i === 1) return numberToBf16(j === 40_000 ? 18 : Math.sin(j))
    if (i === 2 && j === 31_999) return numberToBf16(Number.NaN)
    if (i === 3) return numberToBf16(j === 5 ? 2 : Number.NEGATIVE_INFINITY)
    return numberToBf16(3 * Math.sin(1.7 * j + i))
  })
  return { at: targets, x, loss: new Float32Array(rows), y: new Uint16Array(rows * columns) }
}

inBothDialects('cross-entropy of long rows', crossEntropy('bf16', { columns }), buffers, (b) => {
  for (let i = 0; i < rows; i++) {
    const x = Array.from(b.x.subarray(i * columns, (i + 1) * columns), bf16ToNumber)
    const y = Array.from(b.y.subarray(i * columns, (i + 1) * columns), bf16ToNumber)
    if (i === 2) {
      expect(b.loss[i]).toBeNaN()
      expect(y.every(Number.isNaN)).toBe(true)
      continue
    }
    const most = x.reduce((a, v) => Math.max(a, v), Number.NEGATIVE_INFINITY)
    const sum = x.reduce((a, v) => a + Math.exp(v - most), 0)
    expect(b.loss[i]).toBeCloseTo(most + Math.log(sum), 4)
    let worst = 0
    x.forEach((v, j) => {
      const p = Math.exp(v - most) / sum / 4
      const constant = j === targets[i] ? 0.25 : 0
      const want = p - constant
      const room = 2 ** -8 * Math.abs(want) + coarseRelativeError * constant + 2 ** -126
      worst = Math.max(worst, Math.abs((y[j] ?? Number.NaN) - want) / room)
    })
    expect(worst, `row ${i}`).toBeLessThanOrEqual(1)
  }
})

const caps = { ...webgpuSimt, laneBits: 5 }
/** The exponentials of each walk over a row (or of the one that is held), in order, but for those that rescale sums. */
const exponentials = (k: ReturnType<typeof crossEntropy>): string[] => {
  const [, body = ''] = emitKernel(k, caps).source.split('@compute')
  const [resident = '', ...walks] = body.split('for (var j_at')
  return (walks.length > 0 ? walks : [resident]).map((body) => {
    const names = new Set([...body.matchAll(/let exp_\w+ = f32_exp(\w*)\(/g)].map(([, form]) => form))
    return [...names].map((form) => (form === '' ? 'exact' : form?.slice(1))).join(' ')
  })
}

test('a loop that leaves half precision alone is coarse, one that leaves f32 is not', () => {
  // NaN of the gradient comes with its sum, and NaN of a term with its anchor, so that no exponential needs a test. The sum
  // streams: the first walk computes its terms, against their greatest.
  expect(exponentials(crossEntropy('bf16'))).toEqual(['unguarded', 'unguarded'])
  expect(exponentials(crossEntropy('f32'))).toEqual(['unguarded', 'exact'])
  expect(exponentials(crossEntropy('bf16', { mode: 'strict' }))).toEqual(['', 'exact', 'exact'])
  expect(exponentials(crossEntropy('bf16', { storesLoss: false }))).toEqual(['unguarded', 'unguarded'])
})

test('a row that stays in registers computes its exponential once, as its loss asks', () => {
  const short = parseKernel(`kernel short {
  param x: bf16[64, 512] read
  param loss: f32[64] write
  param y: bf16[64, 512] write
  axes i: 64, j: 512
  grid i
  %0 bf16{i, j} = load x[i, j]
  %1 f32{i, j} = cast %0
  %2 f32{i, j} = exp %1
  %3 f32{i} = reduce sum %2 over j
  %4 f32{i, j} = div %2, %3
  %5 bf16{i, j} = cast %4
  store loss[i] = %3
  store y[i, j] = %5
}`)
  expect(exponentials({ ...short, mode: 'fast' })).toEqual(['exact'])
})
