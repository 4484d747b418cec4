/** A causal attention in plain operations on its way to a kernel that never stores scores: what docs/attention.md shows, by name. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const block = (language, text) => `\n\`\`\`${language}\n${text.replace(/\s+$/, '')}\n\`\`\`\n`

/** The blocks of the page, by the names of the comments they stand between; `part` imports a file of the compiled sources. */
export async function attentionForms(root, part) {
  const path = join(root, 'examples', 'attention.ts')
  const { loadModel } = await part('cli/load.js')
  const { compile } = await part('cli/session.js')
  const { launchOf } = await part('cli/launch.js')
  const { traceFunction } = await part('api/tensor/traceFunction.js')
  const { arange, matmul, softmax, spec, where } = await part('index.js')
  const { printGraph } = await part('graph/print.js')
  const { printKernel } = await part('kernel/print.js')
  const { formatReport } = await part('report/format.js')
  const { kernelsOf } = await part('runtime/region.js')
  const { scheduleText } = await part('schedule/text.js')
  const { cudaTarget } = await part('target/cuda.js')
  const { wasmTarget } = await part('target/wasm.js')

  const model = await loadModel(path)
  const on = (graph, machine) => compile(graph, { name: model.name, mode: 'fast' }, machine)
  const only = (compiled) => {
    const [found, ...others] = kernelsOf(compiled.program)
    if (found === undefined || others.length > 0) throw new Error('attention is not one kernel')
    return found
  }
  const { chains: _, ...apart } = wasmTarget
  const stored = on(model.graph, apart)
  const chained = on(model.graph, wasmTarget)

  // The same lines in half precision, at a size of models.
  const [heads, length, width] = [32, 4096, 128]
  const half = spec([heads, length, width], 'bf16')
  const attention = (q, k, v) => {
    const scores = matmul(q, k.swapaxes(-1, -2))
      .astype('f32')
      .mul(1 / Math.sqrt(width))
    const position = arange(length)
    const visible = position.expandDims(1).greaterEqual(position.expandDims(0))
    return matmul(softmax(where(visible, scores, Number.NEGATIVE_INFINITY)).astype('bf16'), v)
  }
  const { graph } = traceFunction(attention, [half, half, half])
  const { kernel, launch } = launchOf(only(on(graph, cudaTarget)), 'cuda')

  const code = readFileSync(path, 'utf8')
  const plan = (report) =>
    formatReport(report)
      .split(/\n(?=\S)/)
      .filter((s) => !/^(refused|kept|not fused)/.test(s))
      .join('\n')
  return {
    'attention-code': block('ts', code.slice(code.indexOf('export default'))),
    'attention-rewritten': block('text', printGraph(chained.graph).replace(/ +#.*$/gm, '')),
    'attention-stored': block('text', plan(stored.report)),
    'attention-plan': block('text', plan(chained.report)),
    'attention-kernel': block('text', printKernel(only(chained).step.kernel)),
    'attention-threads': block('text', scheduleText(kernel, cudaTarget, launch).join('\n')),
  }
}
