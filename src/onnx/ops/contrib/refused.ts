/** Operators of onnxruntime's domain that are known and refused, with the reason. */
import type { HandlerTable } from '../../context.ts'

const dynamicShape = 'the shape of its result depends on the values of its input'
const generation =
  'it runs its decoder in a loop of its own: run the decoder alone, and choose tokens outside of the model'
const orders = 'matrices in the orders of cuBLASLt are not imported'
const compiled = 'what it holds was compiled for one device'
const packed = 'it works on sequences of different lengths behind each other, which are not imported'
const blocks = 'floats that share exponents are not imported'
const hashes = 'hashes of n-grams are not imported'

export const contribReasons: Readonly<Record<string, string>> = {
  AttnLSTM: 'recurrence with attention inside is not imported',
  BeamSearch: generation,
  BifurcationDetector: dynamicShape,
  DecoderMaskedSelfAttention: 'its keys stand in an order of one GPU',
  DequantizeBFP: blocks,
  DequantizeWithOrder: orders,
  DynamicTimeWarping: dynamicShape,
  EPContext: compiled,
  GatedDeltaNet: packed,
  GatedRelativePositionBias: 'gated biases by relative positions are not imported',
  GreedySearch: generation,
  LongformerAttention: 'attention of local windows and global tokens is not imported',
  MatMulBlockQuantizedFp4Weight: 'weights of 4-bit floats in blocks are not imported',
  MatMulBlockQuantizedFp8Weight: 'weights of 8-bit floats in blocks are not imported',
  MatMulFpQ4: 'its weights are arranged by one library',
  MaxpoolWithMask: 'pooling under a mask is not imported',
  NGramHashMapping: hashes,
  PagedAttention: packed,
  QOrderedAttention: orders,
  QOrderedGelu: orders,
  QOrderedLayerNormalization: orders,
  QOrderedLongformerAttention: orders,
  QOrderedMatMul: orders,
  QuantizeBFP: blocks,
  QuantizeWithOrder: orders,
  RelativePositionBias: 'biases by relative positions are not imported',
  RemovePadding: dynamicShape,
  Sampling: generation,
  Snpe: compiled,
  SparseToDenseMatMul: 'sparse tensors are not imported',
  Tokenizer: 'strings are not imported',
  VarlenCausalConvWithState: packed,
  VarlenNGramHashMapping: packed,
  WhisperBeamSearch: generation,
  WordConvEmbedding: 'embeddings of words by their characters are not imported',
}

export const contribRefusedHandlers: HandlerTable = Object.fromEntries(
  Object.entries(contribReasons).map(([op, reason]) => [op, (c) => c.fail(reason)]),
)
