/** `sinter run`: a model on given or random inputs; prints what comes out. */
import { join } from 'node:path'
import pc from 'picocolors'
import { counted, countedLaunches } from '../report/format.ts'
import type { Console } from './console.ts'
import type { DeviceName } from './devices.ts'
import { writeBytes } from './files.ts'
import { fillInputs, loadModel } from './load.ts'
import { writeNpy } from './npy.ts'
import { parseInputs } from './options.ts'
import { type Mode, Session } from './session.ts'
import { showHead, showStatistics, showType, statisticsOf } from './values.ts'

export interface RunOptions {
  readonly input: readonly string[]
  readonly shape: readonly string[]
  readonly device: DeviceName
  readonly mode: Mode
  readonly seed: number
  readonly out?: string
  readonly threads?: number
  readonly index?: number
  readonly json: boolean
}

/** A name as a file name. */
export const fileName = (name: string): string => `${name.replace(/[^A-Za-z0-9._-]+/g, '_')}.npy`

export async function runCommand(path: string, options: RunOptions, console: Console): Promise<number> {
  const model = await loadModel(path, parseInputs(options.input, options.shape))
  const { tensors, drawn } = fillInputs(model, options.seed)
  if (!options.json)
    for (const name of drawn) {
      const p = model.inputs.find((x) => x.name === name)
      const type = p === undefined ? '' : ` ${showType(p)}`
      console.note(pc.yellow(`input ${name}${type} is drawn at random (seed ${options.seed})`))
    }
  const session = await Session.open(options.device, options)
  try {
    const prepared = session.prepare(model.graph, { name: model.name, mode: options.mode })
    const started = performance.now()
    const outputs = await prepared.run(tensors)
    const ms = performance.now() - started
    const totals = prepared.compiled?.report.totals
    const files = outputs.map((t, i) => {
      const name = model.outputNames[i] ?? `output.${i}`
      const file = options.out === undefined ? undefined : join(options.out, fileName(name))
      if (file !== undefined) writeBytes(file, writeNpy(t))
      return { name, file, t }
    })
    if (options.json) {
      const report = {
        model: model.name,
        device: options.device,
        mode: options.mode,
        drawn,
        specialised: model.specialised,
        ...(totals === undefined ? {} : { kernels: totals.kernels, operations: totals.operations }),
        ms,
        outputs: files.map(({ name, file, t }) => ({
          name,
          shape: t.shape,
          dtype: t.dtype,
          statistics: statisticsOf(t),
          ...(file === undefined ? {} : { file }),
        })),
      }
      console.line(JSON.stringify(report, undefined, 2))
    } else {
      const how =
        totals === undefined ? '' : `${counted(totals.operations, 'operation')} in ${countedLaunches(totals)}, `
      console.line(`${pc.bold(model.name)}: ${how}${ms.toFixed(1)} ms on ${options.device}`)
      for (const name of model.specialised) console.line(`  compiled for the value of input ${name}`)
      for (const { name, file, t } of files) {
        console.line(`  ${pc.bold(name)}  ${showType(t)}  ${showStatistics(t)}`)
        console.line(`    ${pc.dim(showHead(t))}${file === undefined ? '' : `  -> ${file}`}`)
      }
    }
    prepared.dispose()
    return 0
  } finally {
    session.close()
  }
}
