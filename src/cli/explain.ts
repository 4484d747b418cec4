/** `sinter explain`: the fusion report of a model, with the graph and the kernels behind it on demand. */

import { printGraph } from '../graph/print.ts'
import { printKernel } from '../kernel/print.ts'
import type { FusionReport } from '../report/data.ts'
import { formatReport } from '../report/format.ts'
import { reportPage } from '../report/html.ts'
import { reportPicture } from '../report/svg.ts'
import { kernelsOf } from '../runtime/region.ts'
import type { Console } from './console.ts'
import { writeBytes } from './files.ts'
import { loadModel } from './load.ts'
import { parseInputs } from './options.ts'
import { compile, type Mode } from './session.ts'

export interface ExplainOptions {
  readonly input: readonly string[]
  readonly shape: readonly string[]
  readonly mode: Mode
  readonly unfused: boolean
  readonly kernels: boolean
  readonly graph: boolean
  readonly html?: string
  readonly svg?: string
  readonly json: boolean
}

export async function explainCommand(path: string, options: ExplainOptions, console: Console): Promise<number> {
  const model = await loadModel(path, parseInputs(options.input, options.shape))
  const compiled = compile(model.graph, { name: model.name, mode: options.mode, fuse: !options.unfused })
  const kernels = kernelsOf(compiled.program).map(({ step }) => printKernel(step.kernel))
  const pictures = [
    [options.html, reportPage],
    [options.svg, (r: FusionReport) => reportPicture(r, { alone: true })],
  ] as const
  for (const [file, draw] of pictures) {
    if (file === undefined) continue
    writeBytes(file, draw(compiled.report))
    if (!options.json) console.note(`wrote ${file}`)
  }
  if (options.json) {
    const data = {
      ...compiled.report,
      specialised: model.specialised,
      ...(options.graph ? { graph: { before: printGraph(model.graph), after: printGraph(compiled.graph) } } : {}),
      ...(options.kernels ? { kernelText: kernels } : {}),
    }
    console.line(JSON.stringify(data, undefined, 2))
    return 0
  }
  console.line(formatReport(compiled.report))
  for (const name of model.specialised) console.line(`\ncompiled for the value of input ${name}`)
  if (options.graph) {
    console.line(`\ngraph before the passes\n\n${printGraph(model.graph)}`)
    console.line(`\ngraph after the passes\n\n${printGraph(compiled.graph)}`)
  }
  if (options.kernels) console.line(`\nkernels\n\n${kernels.join('\n\n')}`)
  return 0
}
