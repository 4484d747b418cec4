/**
 * Small models with random weights in the folders that transformers.js reads: an encoder (feature extraction), a classifier, and a decoder
 * with its cache whose weights are of 4 bits. Written operator by operator as exporters of PyTorch write them.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { tensorType } from '../../src/onnx/proto.ts'
import { type AttributeSpec, encodeModel, type ModelSpec, type NodeSpec, type TensorSpec } from '../onnx/encode.ts'

const { FLOAT, INT64, UINT4 } = tensorType

const hidden = 32
const heads = 4
const headSize = hidden / heads
const inner = 64
const layers = 2
const positions = 64
const block = 16

export const words = [
  '[PAD]',
  '[UNK]',
  '[CLS]',
  '[SEP]',
  ...'the a cat dog sat on mat ran far and near tensors are fused here'.split(' '),
]

/** Numbers from a seed, in [-1, 1). */
function randomNumbers(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 31 - 1
  }
}

/** A graph under construction: each operator gives the name of its result. */
class Writer {
  readonly nodes: NodeSpec[] = []
  readonly initializers: TensorSpec[] = []
  readonly #random: () => number

  constructor(seed: number) {
    this.#random = randomNumbers(seed)
  }

  op(op: string, inputs: readonly string[], attrs: Readonly<Record<string, AttributeSpec>> = {}, out?: string): string {
    const name = out ?? `v${this.nodes.length}`
    this.nodes.push({ op, name: `n${this.nodes.length}`, in: inputs, out: [name], attrs })
    return name
  }

  #keep(tensor: Omit<TensorSpec, 'name'>): string {
    const name = `w${this.initializers.length}`
    this.initializers.push({ name, ...tensor })
    return name
  }

  longs(...values: number[]): string {
    return this.#keep({ type: INT64, dims: [values.length], int64s: values })
  }

  long(value: number): string {
    return this.#keep({ type: INT64, dims: [], int64s: [value] })
  }

  number(value: number): string {
    return this.#keep({ type: FLOAT, dims: [], floats: [value] })
  }

  weights(dims: readonly number[], scale: number, around = 0): string {
    const floats = Array.from({ length: dims.reduce((n, d) => n * d, 1) }, () => around + scale * this.#random())
    return this.#keep({ type: FLOAT, dims, floats })
  }

  /** A matrix of 4-bit weights with a scale and a zero point for each block of rows. */
  packed(rows: number, columns: number): string {
    const raw = Uint8Array.from({ length: (rows * columns) / 2 }, () => Math.floor((this.#random() + 1) * 128))
    const blocks = [rows / block, columns] as const
    const codes = this.#keep({ type: UINT4, dims: [rows, columns], raw })
    const scales = this.weights(blocks, 0.01, 0.03)
    const zeros = this.#keep({ type: UINT4, dims: blocks, raw: new Uint8Array((blocks[0] * blocks[1]) / 2).fill(0x88) })
    return this.op('DequantizeLinear', [codes, scales, zeros], { axis: { int: 0 }, block_size: { int: block } })
  }

  linear(x: string, from: number, to: number): string {
    return this.op('Add', [this.op('MatMul', [x, this.weights([from, to], 0.2)]), this.weights([to], 0.1)])
  }

  norm(x: string): string {
    return this.op('LayerNormalization', [x, this.weights([hidden], 0.1, 1), this.weights([hidden], 0.1)], {
      axis: { int: -1 },
      epsilon: { float: 1e-5 },
    })
  }

  gelu(x: string): string {
    const erf = this.op('Erf', [this.op('Div', [x, this.number(Math.SQRT2)])])
    return this.op('Mul', [this.op('Mul', [x, this.op('Add', [erf, this.number(1)])]), this.number(0.5)])
  }

  /** Rows of heads: [batch, length, hidden] as [batch, heads, length, size]. */
  split(x: string): string {
    return this.op('Transpose', [this.op('Reshape', [x, this.longs(0, 0, heads, headSize)])], {
      perm: { ints: [0, 2, 1, 3] },
    })
  }

  joined(x: string): string {
    return this.op('Reshape', [this.op('Transpose', [x], { perm: { ints: [0, 2, 1, 3] } }), this.longs(0, 0, hidden)])
  }

  /** Attention of queries to keys and values by heads, with what is added to its scores. */
  attention(q: string, k: string, v: string, added: string): string {
    const scores = this.op('MatMul', [q, this.op('Transpose', [k], { perm: { ints: [0, 1, 3, 2] } })])
    const scaled = this.op('Add', [this.op('Mul', [scores, this.number(1 / Math.sqrt(headSize))]), added])
    return this.joined(this.op('MatMul', [this.op('Softmax', [scaled], { axis: { int: -1 } }), v]))
  }

  /** 0 where a mask of i64 is 1, a large negative number where it is 0. */
  penalty(mask: string): string {
    const float = this.op('Cast', [mask], { to: { int: FLOAT } })
    return this.op('Mul', [this.op('Sub', [this.number(1), float]), this.number(-1e9)])
  }

  embed(ids: string, count: number): string {
    return this.op('Gather', [this.weights([count, hidden], 0.5), ids], { axis: { int: 0 } })
  }
}

const ids = (name: string, ...dims: string[]) => ({ name, type: INT64, dims })

/** The states of an encoder as BERT's. */
function encoder(w: Writer): string {
  const length = w.op('Gather', [w.op('Shape', ['input_ids']), w.long(1)])
  const range = w.op('Range', [w.long(0), length, w.long(1)])
  const words_ = w.op('Add', [w.embed('input_ids', words.length), w.embed('token_type_ids', 2)])
  let x = w.norm(w.op('Add', [words_, w.embed(w.op('Unsqueeze', [range, w.longs(0)]), positions)]))
  const added = w.penalty(w.op('Unsqueeze', ['attention_mask', w.longs(1, 2)]))
  for (let i = 0; i < layers; i++) {
    const [q, k, v] = [0, 1, 2].map(() => w.split(w.linear(x, hidden, hidden)))
    x = w.norm(w.op('Add', [x, w.linear(w.attention(q ?? '', k ?? '', v ?? '', added), hidden, hidden)]))
    x = w.norm(w.op('Add', [x, w.linear(w.gelu(w.linear(x, hidden, inner)), inner, hidden)]))
  }
  return x
}

const encoderInputs = ['input_ids', 'attention_mask', 'token_type_ids'].map((name) =>
  ids(name, 'batch_size', 'sequence_length'),
)

function featureModel(): ModelSpec {
  const w = new Writer(1)
  w.op('Identity', [encoder(w)], {}, 'last_hidden_state')
  return {
    nodes: w.nodes,
    initializers: w.initializers,
    inputs: encoderInputs,
    outputs: [{ name: 'last_hidden_state', type: FLOAT, dims: ['batch_size', 'sequence_length', hidden] }],
    opset: 21,
  }
}

function classifierModel(): ModelSpec {
  const w = new Writer(2)
  const first = w.op('Gather', [encoder(w), w.long(0)], { axis: { int: 1 } })
  w.op('Identity', [w.linear(w.op('Tanh', [w.linear(first, hidden, hidden)]), hidden, 3)], {}, 'logits')
  return {
    nodes: w.nodes,
    initializers: w.initializers,
    inputs: encoderInputs,
    outputs: [{ name: 'logits', type: FLOAT, dims: ['batch_size', 3] }],
    opset: 21,
  }
}

/** A decoder as GPT-2's, its matrices of 4 bits, its keys and values handed on from call to call. */
function decoderModel(): ModelSpec {
  const w = new Writer(3)
  let x = w.op('Add', [w.embed('input_ids', words.length), w.embed('position_ids', positions)])
  // Queries at `position_ids` see keys up to themselves: of all that the mask counts.
  const total = w.op('Gather', [w.op('Shape', ['attention_mask']), w.long(1)])
  const keys = w.op('Unsqueeze', [w.op('Range', [w.long(0), total, w.long(1)]), w.longs(0, 1, 2)])
  const queries = w.op('Unsqueeze', ['position_ids', w.longs(1, 3)])
  const isSeen = w.op('Cast', [w.op('LessOrEqual', [keys, queries])], { to: { int: INT64 } })
  const added = w.penalty(w.op('Mul', [isSeen, w.op('Unsqueeze', ['attention_mask', w.longs(1, 2)])]))
  for (let i = 0; i < layers; i++) {
    const h = w.norm(x)
    const [q, k, v] = [0, 1, 2].map(() => w.split(w.op('MatMul', [h, w.packed(hidden, hidden)])))
    const joined = (part: 'key' | 'value', now: string): string =>
      w.op('Concat', [`past_key_values.${i}.${part}`, now], { axis: { int: 2 } }, `present.${i}.${part}`)
    const seen = w.attention(q ?? '', joined('key', k ?? ''), joined('value', v ?? ''), added)
    x = w.op('Add', [x, w.op('MatMul', [seen, w.packed(hidden, hidden)])])
    x = w.op('Add', [
      x,
      w.op('MatMul', [w.gelu(w.op('MatMul', [w.norm(x), w.packed(hidden, inner)])), w.packed(inner, hidden)]),
    ])
  }
  w.op('MatMul', [w.norm(x), w.weights([hidden, words.length], 0.5)], {}, 'logits')
  const cache = (prefix: string, length: string) =>
    Array.from({ length: layers }, (_, i) => ['key', 'value'].map((part) => `${prefix}.${i}.${part}`))
      .flat()
      .map((name) => ({ name, type: FLOAT, dims: ['batch_size', heads, length, headSize] }))
  return {
    nodes: w.nodes,
    initializers: w.initializers,
    inputs: [
      ids('input_ids', 'batch_size', 'sequence_length'),
      ids('attention_mask', 'batch_size', 'total_sequence_length'),
      ids('position_ids', 'batch_size', 'sequence_length'),
      ...cache('past_key_values', 'past_sequence_length'),
    ],
    outputs: [
      { name: 'logits', type: FLOAT, dims: ['batch_size', 'sequence_length', words.length] },
      ...cache('present', 'total_sequence_length'),
    ],
    opset: 21,
  }
}

const tokenizer = {
  version: '1.0',
  added_tokens: words.slice(0, 4).map((content, id) => ({
    id,
    content,
    single_word: false,
    lstrip: false,
    rstrip: false,
    normalized: false,
    special: true,
  })),
  normalizer: { type: 'Lowercase' },
  pre_tokenizer: { type: 'Whitespace' },
  post_processor: null,
  decoder: null,
  model: { type: 'WordLevel', vocab: Object.fromEntries(words.map((word, i) => [word, i])), unk_token: '[UNK]' },
}

const tokenizerConfig = {
  tokenizer_class: 'PreTrainedTokenizer',
  pad_token: '[PAD]',
  unk_token: '[UNK]',
  cls_token: '[CLS]',
  sep_token: '[SEP]',
  model_max_length: positions,
}

const encoderConfig = { model_type: 'bert', hidden_size: hidden, vocab_size: words.length }

const folders: Readonly<Record<string, { readonly config: object; readonly model: () => ModelSpec }>> = {
  features: { config: { ...encoderConfig, architectures: ['BertModel'] }, model: featureModel },
  classes: {
    config: {
      ...encoderConfig,
      architectures: ['BertForSequenceClassification'],
      id2label: { 0: 'near', 1: 'far', 2: 'elsewhere' },
    },
    model: classifierModel,
  },
  decoder: {
    config: {
      model_type: 'gpt2',
      architectures: ['GPT2LMHeadModel'],
      n_head: heads,
      n_layer: layers,
      n_embd: hidden,
      vocab_size: words.length,
      bos_token_id: 2,
      eos_token_id: 3,
      pad_token_id: 0,
    },
    model: decoderModel,
  },
}

/** Writes the models into a folder, each in one of its own, as transformers.js reads them. */
export function writeModels(root: string): void {
  for (const [name, { config, model }] of Object.entries(folders)) {
    const folder = join(root, name)
    mkdirSync(join(folder, 'onnx'), { recursive: true })
    const json = (file: string, data: object): void => writeFileSync(join(folder, file), JSON.stringify(data))
    json('config.json', config)
    json('generation_config.json', { bos_token_id: 2, eos_token_id: 3, pad_token_id: 0 })
    json('tokenizer.json', tokenizer)
    json('tokenizer_config.json', tokenizerConfig)
    writeFileSync(join(folder, 'onnx', 'model.onnx'), encodeModel(model()))
  }
}
