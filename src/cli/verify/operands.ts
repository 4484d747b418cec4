/**
 * Which inputs of an ONNX model may be value-specialised: those from which a value reaches an operand that fixes shapes or
 * control flow. Decided from the operators' definitions alone, so that it checks the importer independently.
 */
import type { FunctionProto, GraphProto, ModelProto, NodeProto } from '../../onnx/proto.ts'

/** Operands that fix shapes, axes or control flow, by operator (onnx.ai/onnx/operators). Reductions are added below. */
const shapeOperands: Readonly<Record<string, readonly number[]>> = {
  Reshape: [1],
  Slice: [1, 2, 3, 4],
  Pad: [1, 3],
  Expand: [1],
  Tile: [1],
  ConstantOfShape: [0],
  Resize: [1, 2, 3],
  Upsample: [1],
  Squeeze: [1],
  Unsqueeze: [1],
  Split: [1],
  SplitToSequence: [1],
  TopK: [1],
  Range: [0, 1, 2],
  OneHot: [1],
  CumSum: [1],
  CumProd: [1],
  Trilu: [1],
  If: [0],
  Loop: [0, 1],
  Compress: [1],
  NonZero: [0],
  Unique: [0],
  AffineGrid: [1],
  CenterCropPad: [1],
  Col2Im: [1, 2],
  MaxUnpool: [2],
  HannWindow: [0],
  HammingWindow: [0],
  BlackmanWindow: [0],
  MelWeightMatrix: [0, 1, 2, 3, 4],
  DFT: [1, 2],
  STFT: [1, 3],
  Dropout: [2],
  NonMaxSuppression: [0, 1, 2, 3, 4],
}

const plainDomain = (n: NodeProto): boolean => n.domain === '' || n.domain === 'ai.onnx'

/** The same of onnxruntime's operators (its ContribOperators.md). */
const contribOperands: Readonly<Record<string, readonly number[]>> = {
  BiasDropout: [3, 4],
  BitmaskBiasDropout: [3, 4],
  BitmaskDropout: [1, 2],
  ConvTransposeWithDynamicPads: [2],
  CropAndResize: [3],
  DecoderAttention: [8, 9, 10, 11],
  ExpandDims: [1],
  GroupQueryAttention: [6],
  MatMulFpQ4: [2],
  Pad: [1],
  Range: [0, 1, 2],
  SparseAttention: [7],
}

const isContrib = (n: NodeProto): boolean => n.domain === 'com.microsoft'

function operandsOf(n: NodeProto): readonly number[] {
  if (isContrib(n)) return contribOperands[n.opType] ?? []
  return plainDomain(n) ? (shapeOperands[n.opType] ?? (n.opType.startsWith('Reduce') ? [1] : [])) : []
}

/** Operators whose result depends on the shape of an input, not its value. */
const readsShapeOnly = new Set(['Shape', 'Size'])

const subgraphsOf = (n: NodeProto): GraphProto[] =>
  n.attribute.flatMap((a) => (a.g === undefined ? a.graphs : [a.g, ...a.graphs]))

class Analysis {
  private readonly functions: ReadonlyMap<string, FunctionProto>
  /** Names within functions whose values fix shapes there: found in rounds, until no more are. */
  private readonly known = new Map<FunctionProto, ReadonlySet<string>>()

  constructor(model: ModelProto) {
    this.functions = new Map(model.functions.map((f) => [`${f.domain}:${f.name}`, f]))
    // Callees mostly stand behind their callers.
    const order = [...model.functions].reverse()
    for (let more = true; more; ) {
      more = false
      for (const fn of order) {
        const found = this.fixing(fn.node)
        more ||= found.size !== (this.known.get(fn)?.size ?? 0)
        this.known.set(fn, found)
      }
    }
  }

  /** Names within a body whose values fix shapes there. */
  fixing(nodes: readonly NodeProto[], names: Set<string> = new Set()): Set<string> {
    for (let size = -1; size !== names.size; ) {
      size = names.size
      for (const n of [...nodes].reverse()) this.visit(n, names)
    }
    return names
  }

  private visit(n: NodeProto, names: Set<string>): void {
    const add = (name: string | undefined): void => {
      if (name !== undefined && name !== '') names.add(name)
    }
    const wanted = n.output.some((o) => names.has(o))
    const fn = this.functions.get(`${n.domain}:${n.opType}`)
    if (fn !== undefined) {
      const inside = this.known.get(fn)
      fn.input.forEach((name, i) => {
        if (wanted || inside?.has(name) === true) add(n.input[i])
      })
      return
    }
    for (const i of operandsOf(n)) add(n.input[i])
    for (const g of subgraphsOf(n)) {
      if (wanted) for (const o of g.output) add(o.name)
      this.fixing(g.node, names)
      if (g.input.some((v) => names.has(v.name))) for (const x of n.input) add(x)
    }
    if (wanted && !(plainDomain(n) && readsShapeOnly.has(n.opType))) for (const x of n.input) add(x)
  }
}

/** Names of the values of a model's main graph that fix shapes or control flow. */
export const shapeFixingValues = (model: ModelProto): ReadonlySet<string> =>
  new Analysis(model).fixing(model.graph.node)
