/**
 * A plugin of TypeDoc: puts each export of the reference under the heading of the source file that declares it, so that doc comments need
 * no tags for that, and links each method of a tensor to the function of its name, which says more. `npm run reference` writes the pages.
 */
import { Comment, CommentTag, Converter, ReflectionKind } from 'typedoc'

/** Headings by the file or the folder that declares what stands below them; the first that fits counts. Their order is in typedoc.json. */
const headings = [
  ['api/creation', 'Making tensors'],
  ['api/literal', 'Making tensors'],
  ['api/tensor', 'Tensors'],
  ['api/print', 'Tensors'],
  ['types/', 'Tensors'],
  ['scalar/ops', 'Tensors'],
  ['api/math', 'Functions of one operand'],
  ['api/arithmetic', 'Arithmetic, comparisons, choices'],
  ['api/reduc', 'Reductions and running folds'],
  ['compose/reduce', 'Reductions and running folds'],
  ['api/shapes', 'Shapes'],
  ['api/slicing', 'Shapes'],
  ['compose/views', 'Shapes'],
  ['api/indexing', 'Indexing'],
  ['compose/indexing', 'Indexing'],
  ['api/linalg', 'Products'],
  ['api/windows', 'Convolution and pooling'],
  ['compose/window', 'Convolution and pooling'],
  ['compose/padding', 'Convolution and pooling'],
  ['api/activations', 'Activations'],
  ['api/nn', 'Layers'],
  ['api/random', 'Random numbers'],
  ['scalar/threefry', 'Random numbers'],
  ['api/derivatives', 'Derivatives'],
  ['api/jacobians', 'Derivatives'],
  ['api/tangents', 'Derivatives'],
  ['api/custom', 'Derivatives'],
  ['api/checkpoint', 'Derivatives'],
  ['api/batching', 'Batching'],
  ['api/control', 'Control flow'],
  ['api/associativeScan', 'Control flow'],
  ['api/jit', 'Compiling'],
  ['api/bytes', 'Compiling'],
  ['api/program', 'Compiling'],
  ['api/tree', 'Trees'],
  ['api/memory', 'Memory and devices'],
  ['api/session', 'Memory and devices'],
  ['api/device', 'Memory and devices'],
  ['backends/', 'Memory and devices'],
  ['runtime/', 'Memory and devices'],
  ['api/effects', 'Effects and kernels of your own'],
  ['graph/node', 'Effects and kernels of your own'],
  ['diagnostics/', 'Errors and warnings'],
  ['api/warnings', 'Errors and warnings'],
  ['report/', 'Fusion reports'],
  ['api/optim/sgd', 'Optimisers'],
  ['api/optim/adam', 'Optimisers'],
  ['api/optim/optimizer', 'Optimisers'],
  ['api/optim/schedules', 'Schedules'],
  ['api/optim/clip', 'Clipping'],
  ['models/', 'Models'],
  ['onnx/', 'Models'],
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
