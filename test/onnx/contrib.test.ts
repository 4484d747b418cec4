/** Operators of onnxruntime against loops written here from their definitions: what its cases do not ask; and how many kernels they take. */
import { describe, expect, test } from 'vitest'
import { launchOf } from '../../src/cli/launch.ts'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { compiled, distance, f32, fixed, i8, i32, i64, type NodeCase, numbers, run, u8, wholes } from './contribNode.ts'
import { errorOf } from './models.ts'

const sum = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0)
const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const sigmoid = (v: number): number => 1 / (1 + Math.exp(-v))

describe('normalisation', () => {
  const [rows, width] = [6, 7]
  const x = numbers(rows * width, 1)
  const skip = numbers(3 * width, 2)
  const gamma = numbers(width, 3)
  const beta = numbers(width, 4)
  const bias = numbers(width, 5)
  const node: NodeCase = {
    op: 'SkipLayerNormalization',
    inputs: [f32([2, 3, 7], x), f32([3, 7], skip), f32([7], gamma), f32([7], beta), f32([7], bias)],
    attrs: { epsilon: { float: 0.01 } },
    outputs: 4,
  }

  test('a residual without batch, beta, bias and all four outputs', () => {
    const wanted: number[][] = [[], [], [], []]
    for (let r = 0; r < rows; r++) {
      const row = range(width).map((j) => (x[r * width + j] ?? 0) + (skip[(r % 3) * width + j] ?? 0) + (bias[j] ?? 0))
      const mean = sum(row) / width
      const inverse = 1 / Math.sqrt(sum(row.map((v) => (v - mean) ** 2)) / width + Math.fround(0.01))
      wanted[0]?.push(...row.map((v, j) => (v - mean) * inverse * (gamma[j] ?? 0) + (beta[j] ?? 0)))
      wanted[1]?.push(mean)
      wanted[2]?.push(inverse)
      wanted[3]?.push(...row)
    }
    run(node).forEach((y, i) => {
      expect(distance(y.data, wanted[i] ?? [])).toBeLessThan(1e-5)
    })
    expect(run(node).map((y) => y.shape)).toEqual([
      [2, 3, 7],
      [2, 3, 1],
      [2, 3, 1],
      [2, 3, 7],
    ])
  })

  test('result and sum are one kernel on every machine', () => {
    for (const target of [wasmTarget, cudaTarget, webgpuTarget()])
      expect(compiled({ ...node, skipped: [1, 2] }, target).report.totals.kernels, target.name).toBe(1)
  })

  test('a gate opened by a sigmoid, of groups', () => {
    const gate = numbers(12, 6)
    const scale = numbers(3, 7)
    const data = numbers(12, 8)
    const [y] = run({
      op: 'GatedRMSNorm',
      inputs: [f32([2, 6], data), f32([3], scale), f32([2, 6], gate)],
      attrs: { activation: { string: 'sigmoid' } },
    })
    const wanted = range(12).map((i) => {
      const group = data.slice(3 * Math.floor(i / 3), 3 * Math.floor(i / 3) + 3)
      const inverse = 1 / Math.sqrt(sum(group.map((v) => v * v)) / 3 + 1e-5)
      return (data[i] ?? 0) * inverse * (scale[i % 3] ?? 0) * sigmoid(gate[i] ?? 0)
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-5)
  })

  test.each([0, 1])('groups of channels with a residual for each image, channels_last %i', (last) => {
    const [batch, channels, pixels, groups] = [2, 6, 4, 3]
    const data = numbers(batch * channels * pixels, 9)
    const residual = numbers(batch * channels, 10)
    const scale = numbers(channels, 11)
    const shift = numbers(channels, 12)
    const at = (b: number, c: number, p: number): number =>
      last === 1 ? (b * pixels + p) * channels + c : (b * channels + c) * pixels + p
    const wanted = new Array<number>(data.length).fill(0)
    for (let b = 0; b < batch; b++)
      for (let g = 0; g < groups; g++) {
        const cells = range(2).flatMap((k) => range(pixels).map((p) => [g * 2 + k, p] as const))
        const value = ([c, p]: readonly [number, number]): number =>
          (data[at(b, c, p)] ?? 0) + (residual[b * channels + c] ?? 0)
        const mean = sum(cells.map(value)) / cells.length
        const inverse = 1 / Math.sqrt(sum(cells.map((x) => (value(x) - mean) ** 2)) / cells.length + 1e-5)
        for (const [c, p] of cells) {
          const v = (value([c, p]) - mean) * inverse * (scale[c] ?? 0) + (shift[c] ?? 0)
          wanted[at(b, c, p)] = v * sigmoid(v)
        }
      }
    const dims = last === 1 ? [batch, 2, 2, channels] : [batch, channels, 2, 2]
    const [y] = run({
      op: 'SkipGroupNorm',
      inputs: [f32(dims, data), f32([channels], scale), f32([channels], shift), f32([batch, channels], residual)],
      attrs: { groups: { int: groups }, activation: { int: 1 }, channels_last: { int: last } },
      outputs: 2,
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-5)
  })
})

describe('fused products', () => {
  test('batch axes before the first one, both operands transposed', () => {
    // A [k, batch, m] by transBatchA is [batch, k, m], transposed [batch, m, k]; B [batch, n, k] transposed.
    const [a, b] = [numbers(3 * 2 * 4, 1), numbers(2 * 5 * 3, 2)]
    const wanted = range(2).flatMap((t) =>
      range(4).flatMap((m) =>
        range(5).map(
          (j) => 0.5 * sum(range(3).map((k) => (a[(k * 2 + t) * 4 + m] ?? 0) * (b[(t * 5 + j) * 3 + k] ?? 0))),
        ),
      ),
    )
    const [y] = run({
      op: 'FusedMatMul',
      inputs: [f32([3, 2, 4], a), f32([2, 5, 3], b)],
      attrs: { transBatchA: { int: 1 }, transA: { int: 1 }, transB: { int: 1 }, alpha: { float: 0.5 } },
    })
    expect(y?.shape).toEqual([2, 4, 5])
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })

  test.each([
    ['Clip', [-0.1, 0.2], (v: number) => Math.min(0.2, Math.max(-0.1, v))],
    ['HardSigmoid', [0.3, 0.4], (v: number) => Math.min(1, Math.max(0, 0.3 * v + 0.4))],
    ['Tanh', [], Math.tanh],
  ] as const)('a convolution activated by %s', (activation, params, f) => {
    const [x, w] = [numbers(9, 3), numbers(4, 4)]
    const wanted = range(4).map((o) => {
      const [i, j] = [Math.floor(o / 2), o % 2]
      return f(sum(range(4).map((k) => (x[(i + Math.floor(k / 2)) * 3 + j + (k % 2)] ?? 0) * (w[k] ?? 0))))
    })
    const [y] = run({
      op: 'FusedConv',
      inputs: [f32([1, 1, 3, 3], x), f32([1, 1, 2, 2], w)],
      attrs: { activation: { string: activation }, activation_params: { floats: params } },
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })

  test('a softmax over axes together, with a bias that inner axes share', () => {
    const [x, bias] = [numbers(12, 5), numbers(2, 6)]
    const wanted = range(2).flatMap((r) => {
      const e = range(6).map((i) => Math.exp((x[r * 6 + i] ?? 0) + (bias[r] ?? 0)))
      return e.map((v) => v / sum(e))
    })
    const [y] = run({
      op: 'BiasSoftmax',
      inputs: [f32([2, 2, 3], x), f32([2, 1, 1], bias)],
      attrs: { axis: { int: 1 }, is_inner_broadcast: { int: 1 } },
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })
})

/** Numbers of few bits, packed by rows of `per` numbers, each row filled up to whole bytes. */
function pack(values: readonly number[], bits: number, per: number): number[] {
  const each = 8 / bits
  return range(values.length / per).flatMap((r) =>
    range(Math.ceil(per / each)).map((b) =>
      sum(range(each).map((i) => (b * each + i < per ? (values[r * per + b * each + i] ?? 0) * 2 ** (bits * i) : 0))),
    ),
  )
}

describe('weights of few bits', () => {
  const product = (rows: number, k: number, n: number, bits: number, block: number, more: Partial<NodeCase> = {}) => {
    const blocks = Math.ceil(k / block)
    const codes = wholes(n * blocks * block, 2 ** bits, 1)
    const scales = numbers(n * blocks, 2)
    const x = numbers(rows * k, 3)
    const node: NodeCase = {
      op: 'MatMulNBits',
      inputs: [
        f32([rows, k], x),
        fixed(u8([n, blocks, (block * bits) / 8], pack(codes, bits, block))),
        fixed(f32([n, blocks], scales)),
      ],
      attrs: { K: { int: k }, N: { int: n }, bits: { int: bits }, block_size: { int: block } },
      ...more,
    }
    return { node, codes, scales, x, blocks }
  }

  test.each([2, 4, 8])('%i bits, packed zero points, odd K, bias', (bits) => {
    const [rows, k, n, block] = [3, 37, 5, 16]
    const { node, codes, scales, x, blocks } = product(rows, k, n, bits, block)
    const zeros = wholes(n * blocks, 2 ** bits, 4)
    const bias = numbers(n, 5)
    const packed = fixed(u8([n * Math.ceil((blocks * bits) / 8)], pack(zeros, bits, blocks)))
    const wanted = range(rows).flatMap((r) =>
      range(n).map((j) => {
        const terms = range(k).map((i) => {
          const b = j * blocks + Math.floor(i / block)
          const w = ((codes[b * block + (i % block)] ?? 0) - (zeros[b] ?? 0)) * (scales[b] ?? 0)
          return (x[r * k + i] ?? 0) * w
        })
        return sum(terms) + (bias[j] ?? 0)
      }),
    )
    const [y] = run({ ...node, inputs: [...node.inputs, packed, undefined, f32([n], bias)] })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })

  test('the block of each element by g_idx', () => {
    const [k, n, block] = [32, 3, 16]
    const { node, codes, scales, x, blocks } = product(1, k, n, 4, block)
    const groups = wholes(k, blocks, 6)
    const wanted = range(n).map((j) =>
      sum(
        range(k).map((i) => (x[i] ?? 0) * ((codes[j * k + i] ?? 0) - 8) * (scales[j * blocks + (groups[i] ?? 0)] ?? 0)),
      ),
    )
    const [y] = run({ ...node, inputs: [...node.inputs, undefined, i32([k], groups)] })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })

  test('are taken out of their bytes within the kernel: nothing dequantised stands in memory', () => {
    for (const target of [wasmTarget, cudaTarget, webgpuTarget()])
      for (const rows of [1, 64]) {
        const [k, n] = [544, 512]
        const { report, program } = compiled(product(rows, k, n, 4, 32).node, target)
        expect(report.totals.kernels, `${target.name}, ${rows} rows`).toBe(1)
        // Sums of a cut depth may stand there, [cuts, rows, n]; weights may not.
        const temporary = program.buffers.filter((b) => b.source.kind === 'temp')
        expect(temporary.map((b) => b.shape.reduce((x, y) => x * y, 1))).not.toContain(n * k)
      }
  })

  test('zero points of an odd number of blocks: GPUs have code for every kernel', () => {
    const [rows, k, n, blocks] = [13, 96, 96, 3]
    const { node } = product(rows, k, n, 4, 32)
    const packed = fixed(u8([n, 2], pack(wholes(n * blocks, 16, 4), 4, blocks)))
    for (const target of [cudaTarget, webgpuTarget()]) {
      const { program } = compiled({ ...node, inputs: [...node.inputs, packed] }, target)
      const { simt } = target
      for (const found of kernelsOf(program)) {
        const { kernel, launch } = launchOf(found, simt.language)
        expect(emitKernel(kernel, simt, launch).source.length).toBeGreaterThan(0)
      }
    }
  })

  test('rows gathered along the quantised axis, two bits', () => {
    const [rows, width, block] = [32, 4, 16]
    const codes = wholes(rows * width, 4, 7)
    const scales = numbers(2 * width, 8)
    const index = [31, 0, -1, 32]
    const [y] = run({
      op: 'GatherBlockQuantized',
      inputs: [fixed(u8([rows, 1], pack(codes, 2, width))), i64([4], index), fixed(f32([2, width], scales))],
      attrs: { bits: { int: 2 }, block_size: { int: block }, gather_axis: { int: 0 }, quantize_axis: { int: 0 } },
    })
    const wanted = index.flatMap((r) =>
      range(width).map((j) => {
        if (r >= rows) return 0
        const i = r < 0 ? r + rows : r
        return ((codes[i * width + j] ?? 0) - 2) * (scales[Math.floor(i / block) * width + j] ?? 0)
      }),
    )
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })

  test('a gated product behind a normalised sum', () => {
    const [k, n] = [16, 3]
    const [x, skip, scale] = [numbers(2 * k, 9), numbers(2 * k, 10), numbers(k, 11)]
    const of = (seed: number) => ({ codes: wholes(n * k, 16, seed), scales: numbers(n, seed + 1) })
    const [gate, up] = [of(12), of(14)]
    const part = ({ codes, scales }: typeof gate) => [
      fixed(u8([n, 1, 8], pack(codes, 4, 16))),
      fixed(f32([n, 1], scales)),
      undefined,
    ]
    const [y, kept] = run({
      op: 'MatMulNBitsMlp',
      inputs: [f32([2, k], x), f32([2, k], skip), f32([k], scale), ...part(gate), ...part(up)],
      attrs: { K: { int: k }, N: { int: n }, block_size: { int: 16 }, activation: { string: 'silu' } },
      outputs: 2,
    })
    const total = x.map((v, i) => v + (skip[i] ?? 0))
    const wanted = range(2).flatMap((r) => {
      const row = total.slice(r * k, r * k + k)
      const inverse = 1 / Math.sqrt(sum(row.map((v) => v * v)) / k + 1e-5)
      const dot = ({ codes, scales }: typeof gate, j: number): number =>
        sum(row.map((v, i) => v * inverse * (scale[i] ?? 0) * ((codes[j * k + i] ?? 0) - 8) * (scales[j] ?? 0)))
      return range(n).map((j) => dot(gate, j) * sigmoid(dot(gate, j)) * dot(up, j))
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-5)
    expect(distance(kept?.data, total)).toBeLessThan(1e-6)
  })
})

describe('quantised data', () => {
  const clamp = (v: number, low: number, high: number): number => Math.min(high, Math.max(low, v))
  /** Half to even. */
  const round = (v: number): number => (v % 1 === 0.5 || v % 1 === -0.5 ? 2 * Math.round(v / 2) : Math.round(v))

  test('a product without zero points, and a mean over axes', () => {
    const [a, b] = [wholes(6, 200, 1), wholes(6, 200, 2)]
    const [y] = run({
      op: 'QLinearMul',
      inputs: [u8([6], a), f32([], [0.02]), undefined, u8([6], b), f32([], [0.5]), undefined, f32([], [0.8])],
    })
    const wanted = a.map((v, i) => clamp(round((v * (b[i] ?? 0) * 0.01) / 0.8), 0, 255))
    y?.data.forEach((v, i) => {
      expect(Math.abs(v - (wanted[i] ?? 0))).toBeLessThanOrEqual(1)
    })
    const x = wholes(12, 100, 3)
    const [m] = run({
      op: 'QLinearReduceMean',
      inputs: [i8([2, 3, 2], x), f32([], [0.1]), i8([], [3]), f32([], [0.05]), i8([], [-7])],
      attrs: { axes: { ints: [-2] }, keepdims: { int: 0 } },
    })
    expect(m?.shape).toEqual([2, 2])
    const means = range(4).map((o) => {
      const [r, k] = [Math.floor(o / 2), o % 2]
      return clamp(round((sum(range(3).map((j) => (x[r * 6 + j * 2 + k] ?? 0) - 3)) * 0.1) / 3 / 0.05) - 7, -128, 127)
    })
    m?.data.forEach((v, i) => {
      expect(Math.abs(v - (means[i] ?? 0))).toBeLessThanOrEqual(1)
    })
  })

  test('QGemm with A transposed, a scale a column, floats as result', () => {
    const [a, b, bias] = [wholes(6, 256, 4), wholes(8, 256, 5), wholes(4, 99, 6)]
    const scales = numbers(4, 7)
    const zeros = wholes(4, 256, 8)
    const [y] = run({
      op: 'QGemm',
      inputs: [
        u8([2, 3], a),
        f32([], [0.1]),
        u8([], [9]),
        u8([2, 4], b),
        f32([4], scales),
        u8([4], zeros),
        i32([4], bias),
      ],
      attrs: { transA: { int: 1 }, alpha: { float: 2 } },
    })
    const wanted = range(3).flatMap((i) =>
      range(4).map((j) => {
        const dot = sum(range(2).map((k) => ((a[k * 3 + i] ?? 0) - 9) * ((b[k * 4 + j] ?? 0) - (zeros[j] ?? 0))))
        return (dot + (bias[j] ?? 0)) * 2 * 0.1 * (scales[j] ?? 0)
      }),
    )
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })

  test('scales of A that differ along the sum', () => {
    const [a, b] = [wholes(6, 256, 9), wholes(6, 256, 10)]
    const [scaleA, scaleB] = [numbers(3, 11), numbers(2, 12)]
    const [y] = run({
      op: 'MatMulIntegerToFloat',
      inputs: [u8([2, 3], a), u8([3, 2], b), f32([3], scaleA), f32([2], scaleB)],
    })
    const wanted = range(4).map((o) => {
      const [i, j] = [Math.floor(o / 2), o % 2]
      return sum(range(3).map((k) => (a[i * 3 + k] ?? 0) * (scaleA[k] ?? 0) * (b[k * 2 + j] ?? 0) * (scaleB[j] ?? 0)))
    })
    expect(distance(y?.data, wanted)).toBeLessThan(1e-6)
  })
})

describe('what is refused says why', () => {
  test.each([
    ['BeamSearch', {}, 'run the decoder alone'],
    ['Tokenizer', {}, 'strings are not imported'],
    ['QOrderedGelu', {}, 'in the orders of cuBLASLt'],
    ['MatMulNBits', { bits: { int: 3 } }, 'weights of 3 bits'],
    ['FusedGemm', { activation: { string: 'Cube' } }, 'the activation "Cube"'],
  ])('%s', (op, attrs, reason) => {
    const error = errorOf(() => run({ op, inputs: [f32([2, 2], [1, 2, 3, 4]), f32([2, 2], [1, 2, 3, 4])], attrs }))
    expect(error.code).toBe('E_ONNX_UNSUPPORTED')
    expect(error.message).toContain(reason)
  })
})
