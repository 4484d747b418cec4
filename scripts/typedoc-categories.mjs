/**
 * A plugin of TypeDoc: puts each export of the reference under the heading of the source file that declares it, so that doc comments need
 * no tags for that, and links each method of a tensor to the function of its name, which says more. `npm run reference` writes the pages.
 */
import { Comment, CommentTag, Converter, ReflectionKind } from 'typedoc'

/** Headings by the file or the folder that declares what stands below them; the first that fits counts. Their order is in typedoc.json. */
const headings = [
  ['api/ops/creation', 'Making tensors'],
  ['api/tensor/literal', 'Making tensors'],
  ['api/tensor/tensor', 'Tensors'],
  ['api/tensor/print', 'Tensors'],
  ['types/', 'Tensors'],
  ['scalar/ops', 'Tensors'],
  ['api/ops/math', 'Functions of one operand'],
  ['api/ops/arithmetic', 'Arithmetic, comparisons, choices'],
  ['api/ops/reduce', 'Reductions and running folds'],
  ['api/calls/reductions', 'Reductions and running folds'],
  ['api/transforms/trees', 'Trees'],
  ['compose/elementwise', 'Arithmetic, comparisons, choices'],
  ['compose/products', 'Products'],
  ['compose/reduce', 'Reductions and running folds'],
  ['api/ops/shapes', 'Shapes'],
  ['api/calls/slicing', 'Shapes'],
  ['compose/views', 'Shapes'],
  ['api/ops/indexing', 'Indexing'],
  ['api/ops/sorting', 'Sorting and counting'],
  ['compose/sorting', 'Sorting and counting'],
  ['compose/statistics', 'Sorting and counting'],
  ['api/ops/binning', 'Sorting and counting'],
  ['api/ops/sized', 'Sorting and counting'],
  ['compose/binning', 'Sorting and counting'],
  ['compose/indexing', 'Indexing'],
  ['api/tensor/parts', 'Indexing'],
  ['api/ops/linalg', 'Products'],
  ['api/ops/windows', 'Convolution and pooling'],
  ['compose/window', 'Convolution and pooling'],
  ['compose/padding', 'Convolution and pooling'],
  ['api/ops/activations', 'Activations'],
  ['api/ops/nn', 'Layers'],
  ['api/ops/random', 'Random numbers'],
  ['api/ops/distributions', 'Random numbers'],
  ['scalar/threefry', 'Random numbers'],
  ['api/transforms/derivatives', 'Derivatives'],
  ['api/transforms/jacobians', 'Derivatives'],
  ['api/transforms/tangents', 'Derivatives'],
  ['api/transforms/custom', 'Derivatives'],
  ['api/transforms/checkpoint', 'Derivatives'],
  ['api/transforms/batching', 'Batching'],
  ['api/transforms/control', 'Control flow'],
  ['api/transforms/associativeScan', 'Control flow'],
  ['api/jit/jit', 'Compiling'],
  ['api/device/bytes', 'Compiling'],
  ['api/jit/program', 'Compiling'],
  ['api/tensor/tree', 'Trees'],
  ['api/tensor/openSpec', 'Trees'],
  ['api/tensor/memory', 'Memory and devices'],
  ['api/device/session', 'Memory and devices'],
  ['api/device/device', 'Memory and devices'],
  ['backends/', 'Memory and devices'],
  ['runtime/', 'Memory and devices'],
  ['api/ops/effects', 'Effects and kernels of your own'],
  ['graph/node', 'Effects and kernels of your own'],
  ['diagnostics/', 'Errors and warnings'],
  ['api/calls/warnings', 'Errors and warnings'],
  ['report/', 'Fusion reports'],
  ['api/optim/sgd', 'Optimisers'],
  ['api/optim/adam', 'Optimisers'],
  ['api/optim/optimizer', 'Optimisers'],
  ['api/optim/schedules', 'Schedules'],
  ['api/optim/clip', 'Clipping'],
  ['onnx', 'Models'],
  ['ort', 'Models'],
  ['cuda', 'Devices'],
  ['webgpu', 'Devices'],
]

const kinds = ReflectionKind.Function | ReflectionKind.Class | ReflectionKind.Interface | ReflectionKind.TypeAlias

/** @param {import('typedoc').Application} app */
export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, (context) => {
    putUnderHeadings(app, context)
    linkMethods(context)
  })
}

/** @param {import('typedoc').Application} app @param {import('typedoc').Context} context */
function putUnderHeadings(app, context) {
  for (const reflection of context.project.getReflectionsByKind(kinds)) {
    if (!reflection.parent?.kindOf(ReflectionKind.SomeModule)) continue
    const path = context.getSymbolFromReflection(reflection)?.declarations?.[0]?.getSourceFile().fileName
    const [, file = ''] = /\/src\/(.*)$/.exec(path ?? '') ?? []
    const heading = headings.find(([start]) => file.startsWith(start))?.[1]
    if (heading === undefined) {
      app.logger.error(`${reflection.getFullName()} of src/${file} has no heading in scripts/typedoc-categories.mjs`)
      continue
    }
    const tag = new CommentTag('@category', [{ kind: 'text', text: heading }])
    for (const at of reflection.signatures ?? [reflection]) {
      at.comment ??= new Comment()
      at.comment.blockTags.push(tag)
    }
  }
}

/** @param {import('typedoc').Context} context */
function linkMethods(context) {
  for (const method of context.project.getReflectionsByKind(ReflectionKind.Method)) {
    const { parent } = method
    if (parent?.name !== 'Tensor') continue
    const target = parent.parent?.getChildByName(method.name === 'var' ? 'variance' : method.name)
    if (!target?.kindOf(ReflectionKind.Function)) continue
    for (const { comment } of method.signatures ?? [])
      comment?.summary.push(
        { kind: 'text', text: ' The function ' },
        { kind: 'inline-tag', tag: '@link', text: target.name, target },
        { kind: 'text', text: ' says more.' },
      )
  }
}
