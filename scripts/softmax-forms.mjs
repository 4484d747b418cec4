/**
 * examples/softmax.ts in every form that it takes on its way to a machine: what docs/architecture.md shows, by name. An excerpt that
 * no longer finds where it begins or ends is an error, not an empty block.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const block = (language, text) => `\n\`\`\`${language}\n${text.replace(/\s+$/, '')}\n\`\`\`\n`

/** Lines from the first that `begins` matches to the next that `ends` does, both included, with what both sides are indented by left out. */
function excerpt(what, text, begins, ends) {
  const lines = text.split('\n')
  const from = lines.findIndex((line) => begins.test(line))
  const to = from < 0 ? -1 : lines.findIndex((line, i) => i > from && ends.test(line))
  if (to < 0)
    throw new Error(`${what}: no line ${from < 0 ? begins : ends}; mend the excerpt in scripts/softmax-forms.mjs`)
  const chosen = lines.slice(from, to + 1)
  const indent = Math.min(...chosen.filter((l) => l.trim() !== '').map((l) => l.length - l.trimStart().length))
  return chosen.map((line) => line.slice(indent)).join('\n')
}

/** The last loop of a WebAssembly module's text, which is the kernel's last nest. */
function lastLoop(text) {
  const lines = text.split('\n')
  const from = lines.findLastIndex((line) => /^\s*\(loop /.test(line))
  if (from < 0) throw new Error('the WebAssembly code of softmax has no loop')
  const indent = lines[from].length - lines[from].trimStart().length
  const to = lines.findIndex((line, i) => i > from && line.length - line.trimStart().length <= indent)
  return lines
    .slice(from, to < 0 ? undefined : to)
    .map((line) => line.slice(indent))
    .join('\n')
}

/** The blocks of the walk, by the names of the comments they stand between; `part` imports a file of the compiled sources. */
export async function softmaxForms(root, part) {
  const path = join(root, 'examples', 'softmax.ts')
  const { loadModel } = await part('cli/load.js')
  const { compile } = await part('cli/session.js')
  const { launchOf } = await part('cli/launch.js')
  const { printGraph } = await part('graph/print.js')
  const { printKernel } = await part('kernel/print.js')
  const { formatReport } = await part('report/format.js')
  const { kernelsOf } = await part('runtime/region.js')
  const { scheduleText } = await part('schedule/text.js')
  const { emitKernel } = await part('codegen/simt/kernel.js')
  const { compileModule } = await part('codegen/wasm/kernel.js')
  const { cudaTarget } = await part('target/cuda.js')
  const { wasmTarget } = await part('target/wasm.js')
  const { webgpuTarget } = await part('target/webgpu.js')
  const { cudaSimt, webgpuSimt } = await part('target/simt.js')

  const model = await loadModel(path)
  /** The one kernel of the program on a machine, and what compiling said of it. */
  const on = (machine) => {
    const compiled = compile(model.graph, { name: model.name, mode: 'fast' }, machine)
    const [found, ...others] = kernelsOf(compiled.program)
    if (found === undefined || others.length > 0) throw new Error('softmax is not one kernel')
    return { compiled, found }
  }
  const cpu = on(wasmTarget)
  const kernel = cpu.found.step.kernel

  const threads = (machine, simt, language) => {
    const { kernel, launch } = launchOf(on(machine).found, language)
    return {
      schedule: scheduleText(kernel, machine, launch).join('\n'),
      source: emitKernel(kernel, simt, launch).source,
    }
  }
  const cuda = threads(cudaTarget, cudaSimt, 'cuda')
  const webgpu = threads({ ...webgpuTarget(), valueBuffers: 0 }, webgpuSimt, 'wgsl')

  const { bytes } = compileModule([{ kernel, name: kernel.name, mayAlias: () => true }], {
    machine: wasmTarget,
    relaxed: false,
    memory: { min: 1, max: 65536, shared: false },
  })
  const { default: wabt } = await import('wabt') // a development dependency: `npm ci`
  const module = (await wabt()).readWasm(new Uint8Array(bytes), { simd: true, threads: true })
  module.generateNames()
  module.applyNames()
  const wat = module.toText({ foldExprs: true, inlineExport: false })
  module.destroy()

  const code = readFileSync(path, 'utf8')
  return {
    'softmax-code': block('ts', code.slice(code.indexOf('export default'))),
    'softmax-traced': block('text', printGraph(model.graph).replaceAll(`${root}/`, '')),
    'softmax-rewritten': block('text', printGraph(cpu.compiled.graph).replace(/ +#.*$/gm, '')),
    'softmax-plan': block('text', formatReport(cpu.compiled.report)),
    'softmax-kernel': block('text', printKernel(kernel)),
    'softmax-loops': block('text', scheduleText(kernel, wasmTarget, { mayShare: () => false }).join('\n')),
    'softmax-threads': block('text', cuda.schedule),
    'softmax-wasm': block('wasm', lastLoop(wat)),
    'softmax-cuda': block('cuda', excerpt('CUDA', cuda.source, /^ {2}float exp_\d/, /^ {2}}/)),
    'softmax-wgsl': block('wgsl', excerpt('WGSL', webgpu.source, /^ {2}var exp_\d/, /^ {2}}/)),
  }
}
