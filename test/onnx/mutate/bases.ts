/** The models that are mutated: small ones of many operators, with control flow, functions, initialisers of every form. */
import { tensorType } from '../../../src/onnx/proto.ts'
import {
  type AttributeSpec,
  encodeModel,
  type GraphSpec,
  type ModelSpec,
  type NodeSpec,
  type TensorSpec,
} from '../encode.ts'

const { FLOAT, INT64, INT32, INT8, UINT8, BOOL, INT4, FLOAT8E4M3FN, DOUBLE } = tensorType

const value = (name: string, type: number, ...dims: (number | string)[]) => ({ name, type, dims })
const ramp = (n: number): number[] => Array.from({ length: n }, (_, i) => ((i * 7) % 11) / 4 - 1)
const size = (dims: readonly number[]): number => dims.reduce((a, b) => a * b, 1)
const f32 = (...dims: number[]): Omit<TensorSpec, 'name'> => ({ type: FLOAT, dims, floats: ramp(size(dims)) })
const i64 = (...int64s: number[]): Omit<TensorSpec, 'name'> => ({ type: INT64, dims: [int64s.length], int64s })
const i64Raw = (...v: number[]): Omit<TensorSpec, 'name'> => ({
  type: INT64,
  dims: [v.length],
  raw: new Uint8Array(BigInt64Array.from(v, BigInt).buffer),
})
const scalar = (v: number): Omit<TensorSpec, 'name'> => ({ type: INT64, dims: [], int64s: [v] })
const u8 = (...dims: number[]): Omit<TensorSpec, 'name'> => ({
  type: UINT8,
  dims,
  int32s: ramp(size(dims)).map(() => 3),
})

type Given = Omit<TensorSpec, 'name'> | readonly number[] | ''

/** One node: tensors are initialisers, lists of extents inputs of floats. */
function single(
  op: string,
  given: readonly Given[],
  attrs: Readonly<Record<string, AttributeSpec>> = {},
  outputs = 1,
): ModelSpec {
  const isInput = (g: Given): g is readonly number[] => Array.isArray(g)
  const out = Array.from({ length: outputs }, (_, i) => `y${i}`)
  return {
    nodes: [
      { op, name: 'n', in: given.map((g, i) => (g === '' ? '' : `x${i}`)), out, attrs },
      // Its result goes on.
      { op: 'Neg', name: 'after', in: ['y0'], out: ['z'] },
    ],
    inputs: given.flatMap((g, i) => (isInput(g) ? [value(`x${i}`, FLOAT, ...g)] : [])),
    outputs: [value('z', FLOAT), ...out.slice(1).map((name) => value(name, FLOAT))],
    initializers: given.flatMap((g, i) => (g === '' || isInput(g) ? [] : [{ name: `x${i}`, ...g }])),
  }
}
const int = (v: number): AttributeSpec => ({ int: v })
const ints = (...v: number[]): AttributeSpec => ({ ints: v })

const one = (op: string, from: string, out: string): NodeSpec => ({ op, in: [from], out: [out] })
const graphOf = (
  nodes: readonly NodeSpec[],
  inputs: readonly ReturnType<typeof value>[],
  outputs: readonly ReturnType<typeof value>[],
): AttributeSpec => ({
  graph: { nodes, inputs, outputs } satisfies GraphSpec,
})

const controlFlow: ModelSpec = {
  nodes: [
    { op: 'ReduceSum', in: ['x'], out: ['total'], attrs: { keepdims: int(0) } },
    { op: 'Greater', in: ['total', 'zero'], out: ['c'] },
    {
      op: 'If',
      in: ['c'],
      out: ['a'],
      attrs: {
        then_branch: graphOf([{ op: 'Mul', in: ['x', 'w'], out: ['t'] }], [], [value('t', FLOAT, 4)]),
        else_branch: graphOf([one('Exp', 'x', 'e')], [], [value('e', FLOAT, 4)]),
      },
    },
    {
      op: 'Loop',
      in: ['count', '', 'a'],
      out: ['b', 'all'],
      attrs: {
        body: graphOf(
          [{ op: 'Add', in: ['v', 'w'], out: ['u'] }, one('Identity', 'go', 'again'), one('Neg', 'u', 'seen')],
          [value('i', INT64), value('go', BOOL), value('v', FLOAT, 4)],
          [value('again', BOOL), value('u', FLOAT, 4), value('seen', FLOAT, 4)],
        ),
      },
    },
    {
      op: 'Scan',
      in: ['b', 'all'],
      out: ['last', 'states'],
      attrs: {
        num_scan_inputs: int(1),
        body: graphOf(
          [{ op: 'Add', in: ['s', 'e'], out: ['r'] }, one('Tanh', 'r', 'q')],
          [value('s', FLOAT, 4), value('e', FLOAT, 4)],
          [value('r', FLOAT, 4), value('q', FLOAT, 4)],
        ),
      },
    },
  ],
  inputs: [value('x', FLOAT, 4)],
  outputs: [value('last', FLOAT, 4), value('states', FLOAT, 9, 4)],
  initializers: [
    { name: 'w', ...f32(4) },
    { name: 'zero', type: FLOAT, dims: [], floats: [0] },
    { name: 'count', ...scalar(9) },
  ],
}

const functions: ModelSpec = {
  nodes: [
    { op: 'outer', domain: 'local', in: ['x', 'w'], out: ['y'], attrs: { slope: { float: 0.5 } } },
    { op: 'inner', domain: 'local', in: ['y', ''], out: ['z'], attrs: { slope: { float: 0.25 } } },
  ],
  inputs: [value('x', FLOAT, 'n', 4)],
  outputs: [value('z', FLOAT, 'n', 4)],
  initializers: [{ name: 'w', ...f32(4) }],
  opsets: { local: 1 },
  functions: [
    {
      name: 'outer',
      domain: 'local',
      inputs: ['p', 'q'],
      outputs: ['r'],
      attributes: ['slope'],
      nodes: [
        { op: 'Add', in: ['p', 'q'], out: ['s'] },
        { op: 'inner', domain: 'local', in: ['s', 'q'], out: ['r'], attrs: { slope: { ref: 'slope', refType: 1 } } },
      ],
    },
    {
      name: 'inner',
      domain: 'local',
      inputs: ['p', 'unused'],
      outputs: ['r'],
      attributes: ['slope'],
      nodes: [{ op: 'LeakyRelu', in: ['p'], out: ['r'], attrs: { alpha: { ref: 'slope', refType: 1 } } }],
    },
  ],
}

/** Shapes by arithmetic on shapes, as exporters write them. */
const shapes: ModelSpec = {
  nodes: [
    one('Shape', 'x', 's'),
    { op: 'Gather', in: ['s', 'first'], out: ['n'] },
    { op: 'Concat', in: ['n', 'minus'], out: ['t'], attrs: { axis: int(0) } },
    { op: 'Reshape', in: ['x', 't'], out: ['flat'] },
    { op: 'Slice', in: ['flat', 'first', 'three', 'one'], out: ['cut'] },
    { op: 'Expand', in: ['cut', 'wide'], out: ['e'] },
    { op: 'Split', in: ['e', 'parts'], out: ['l', 'r'], attrs: { axis: int(1) } },
    { op: 'Tile', in: ['l', 'times'], out: ['tiled'] },
    { op: 'Pad', in: ['tiled', 'pads'], out: ['padded'], attrs: { mode: { string: 'reflect' } } },
    { op: 'ConstantOfShape', in: ['t2'], out: ['zeros'] },
    { op: 'Range', in: ['start', 'limit', 'delta'], out: ['range'] },
    { op: 'OneHot', in: ['range', 'depth', 'values'], out: ['hot'] },
    { op: 'TopK', in: ['padded', 'k'], out: ['top', 'at'] },
    { op: 'CumSum', in: ['top', 'start'], out: ['running'] },
  ],
  inputs: [value('x', FLOAT, 'b', 3, 2)],
  outputs: [value('running', FLOAT), value('at', INT64), value('hot', FLOAT), value('zeros', FLOAT), value('r', FLOAT)],
  initializers: [
    { name: 'first', ...i64(0) },
    { name: 'minus', ...i64Raw(-1) },
    { name: 'three', ...i64Raw(3) },
    { name: 'one', ...i64(1) },
    { name: 'wide', ...i64Raw(2, 6) },
    { name: 'parts', ...i64(2, 4) },
    { name: 'times', ...i64Raw(1, 2) },
    { name: 'pads', ...i64Raw(0, 1, 0, 1) },
    { name: 't2', ...i64Raw(2, 3) },
    { name: 'start', ...scalar(0) },
    { name: 'limit', ...scalar(5) },
    { name: 'delta', ...scalar(1) },
    { name: 'depth', ...scalar(6) },
    { name: 'values', type: FLOAT, dims: [2], floats: [0, 1] },
    { name: 'k', ...i64(2) },
  ],
}

const forms: ModelSpec = {
  nodes: [
    { op: 'DequantizeLinear', in: ['q', 'scale', 'zero'], out: ['d'] },
    { op: 'DequantizeLinear', in: ['four', 'scale'], out: ['e'] },
    { op: 'Cast', in: ['eight'], out: ['f'], attrs: { to: int(FLOAT) } },
    { op: 'Cast', in: ['long'], out: ['g'], attrs: { to: int(FLOAT) } },
    { op: 'Sum', in: ['d', 'e', 'f', 'g', 'beside', 'x'], out: ['s'] },
    { op: 'QuantizeLinear', in: ['s', 'scale', 'zero'], out: ['y'] },
  ],
  inputs: [value('x', FLOAT, 4)],
  outputs: [value('y', UINT8, 4)],
  initializers: [
    { name: 'q', ...u8(4) },
    { name: 'scale', type: FLOAT, dims: [], floats: [0.5] },
    { name: 'zero', type: UINT8, dims: [], int32s: [7] },
    { name: 'four', type: INT4, dims: [4], raw: Uint8Array.of(0x21, 0xf7) },
    { name: 'eight', type: FLOAT8E4M3FN, dims: [4], raw: Uint8Array.of(0x38, 0x40, 0x7f, 0x80) },
    { name: 'long', type: DOUBLE, dims: [4], doubles: [1, 2, 3, 4] },
    { name: 'beside', type: FLOAT, dims: [4], external: { location: 'w.bin', offset: '4', length: '16' } },
  ],
}

const specs: readonly ModelSpec[] = [
  controlFlow,
  functions,
  shapes,
  forms,
  single('Conv', [[1, 3, 8, 8], f32(4, 3, 3, 3), f32(4)], {
    pads: ints(1, 1, 1, 1),
    strides: ints(2, 2),
    dilations: ints(1, 1),
  }),
  single('ConvTranspose', [[1, 3, 4, 4], f32(3, 2, 3, 3)], { strides: ints(2, 2), output_padding: ints(1, 1) }),
  single('MaxPool', [[1, 2, 8, 8]], { kernel_shape: ints(3, 3), ceil_mode: int(1) }),
  single('AveragePool', [[1, 2, 8, 8]], {
    kernel_shape: ints(3, 3),
    pads: ints(1, 1, 1, 1),
    count_include_pad: int(1),
  }),
  single('Gemm', [[3, 4], f32(5, 4), f32(5)], { transB: int(1), alpha: { float: 0.5 } }),
  single('Einsum', [[3, 4], f32(4, 5)], { equation: { string: 'ij,jk->ik' } }),
  single('LSTM', [[4, 2, 3], f32(1, 8, 3), f32(1, 8, 2)], { hidden_size: int(2) }, 3),
  single(
    'GRU',
    [[4, 2, 3], f32(2, 6, 3), f32(2, 6, 2)],
    { hidden_size: int(2), direction: { string: 'bidirectional' } },
    2,
  ),
  single('Resize', [[1, 2, 4, 4], '', f32(4)], { mode: { string: 'linear' } }),
  single('Resize', [[1, 2, 4, 4], '', '', i64(1, 2, 7, 9)], { mode: { string: 'cubic' } }),
  single('Attention', [[1, 2, 4, 8], f32(1, 2, 5, 8), f32(1, 2, 5, 8)], { is_causal: int(1) }),
  single('LayerNormalization', [[2, 4], f32(4), f32(4)], { axis: int(-1) }, 3),
  single('BatchNormalization', [[2, 3, 4], f32(3), f32(3), f32(3), f32(3)]),
  single('DFT', [[1, 8, 1], scalar(8), scalar(1)]),
  single('STFT', [[1, 32, 1], scalar(4), f32(8), scalar(8)]),
  single('GatherElements', [[3, 3], { type: INT64, dims: [1, 3], int64s: [0, 1, 2] }], { axis: int(0) }),
  single('ScatterND', [[4, 2], { type: INT64, dims: [2, 1], int64s: [1, 3] }, f32(2, 2)], {
    reduction: { string: 'add' },
  }),
  single('DepthToSpace', [[1, 8, 2, 2]], { blocksize: int(2), mode: { string: 'CRD' } }),
  single('Col2Im', [[1, 5, 5], i64(5, 5), i64(1, 5)]),
  single('GridSample', [[1, 1, 4, 4], f32(1, 3, 3, 2)], {
    mode: { string: 'cubic' },
    padding_mode: { string: 'border' },
  }),
  single('RoiAlign', [[1, 1, 8, 8], f32(2, 4), i64(0, 0)], { output_height: int(3), output_width: int(3) }),
  single('Trilu', [[4, 4], scalar(1)], { upper: int(0) }),
  single('EyeLike', [[3, 5]], { k: int(1) }),
  single('ReduceLogSumExp', [[2, 3, 4], i64(1)], { keepdims: int(0) }),
  single('QLinearMatMul', [u8(3, 4), f32(), u8(), u8(4, 5), f32(), u8(), f32(), u8()]),
  single('MatMulInteger', [u8(3, 4), { type: INT8, dims: [4, 2], int32s: ramp(8).map(() => -3) }]),
  single('Bernoulli', [[4]], { seed: { float: 3 } }),
  single('RandomNormal', [], { shape: ints(3, 4), seed: { float: 1 } }),
  single('BitShift', [u8(4), u8(4)], { direction: { string: 'LEFT' } }),
  single('Where', [{ type: BOOL, dims: [4], int32s: [1, 0, 1, 0] }, [4], f32(4)]),
  single('NonZero', [f32(3, 3)]),
  single('Compress', [[3, 2], { type: BOOL, dims: [3], int32s: [1, 0, 1] }], { axis: int(0) }),
  single('Unique', [i64(3, 1, 3, 2)], {}, 4),
  single('ArgMax', [{ type: INT32, dims: [2, 3], int32s: [1, 2, 3, 4, 5, 6] }], {
    axis: int(1),
    select_last_index: int(1),
  }),
  single('HannWindow', [scalar(16)], { periodic: int(0) }),
  single('MelWeightMatrix', [scalar(8), scalar(16), scalar(8192), f32(), f32()]),
  single('SoftmaxCrossEntropyLoss', [[3, 5], i64(0, 4, 2)], { reduction: { string: 'mean' } }, 2),
  single('Constant', [], { value: { tensor: { name: 'c', ...f32(2, 2) } } }),
]

/** Encoded models. */
export const bases = (): Uint8Array[] => specs.map(encodeModel)
