/** `sinter run`: a model on given or random inputs; prints what comes out. */
import { join } from 'node:path'
import { cutOutputs } from '../onnx/index.ts'
import { counted, countedLaunches, showMs } from '../report/format.ts'
import { type Console, printData } from './console.ts'
import type { DeviceName } from './devices.ts'
import { writeBytes } from './files.ts'
import { fillInputs, loadModel } from './load.ts'
import { writeNpy } from './npy.ts'
import { type InputTexts, parseInputs } from './options.ts'
import { type Mode, Session } from './session.ts'
import { bold, dim, yellow } from './style.ts'
import { showHead, showStatistics, showType, statisticsOf } from './values.ts'

export interface RunOptions extends InputTexts {
  readonly device: DeviceName
  readonly mode: Mode
  readonly seed: number
  readonly out?: string
  readonly threads?: number
  readonly index?: number
  readonly json: boolean
}

/** The longest name of a file, without its number and ending. */
const longest = 200

/** Names as file names, each a file of its own, on file systems that tell no case apart too. */
export function fileNames(names: readonly string[]): string[] {
  const plain = names.map((name) => name.replace(/[^A-Za-z0-9._-]+/g, '_').slice(0, longest))
  const reserved = new Set(plain.map((name) => name.toLowerCase()))
  const taken = new Set<string>()
  return plain.map((name) => {
    let file = name
    // A number that makes no other output's name.
    for (let n = 2; taken.has(file.toLowerCase()) || (file !== name && reserved.has(file.toLowerCase())); n++)
      file = `${name}_${n}`
    taken.add(file.toLowerCase())
    return `${file}.npy`
  })
}

export async function runCommand(path: string, options: RunOptions, console: Console): Promise<number> {
  const model = await loadModel(path, parseInputs(options), console)
  const { tensors, drawn } = fillInputs(model, options.seed)
  if (!options.json)
    for (const name of drawn) {
      const p = model.inputs.find((x) => x.name === name)
      const type = p === undefined ? '' : ` ${showType(p)}`
      console.note(yellow(`input ${name}${type} is drawn at random (seed ${options.seed})`))
    }
  const session = await Session.open(options.device, options)
  try {
    console.progress(`compiling ${model.name}`)
    const prepared = session.prepare(model.graph, { name: model.name, mode: options.mode })
    console.progress(`running ${model.name}`)
    const started = performance.now()
    const outputs = cutOutputs(model.counts, await prepared.run(tensors))
    const ms = performance.now() - started
    console.progress(undefined)
    const totals = prepared.compiled?.report.totals
    const names = outputs.map((_, i) => model.outputNames[i] ?? `output.${i}`)
    const written = fileNames(names)
    const files = outputs.map((t, i) => {
      const name = names[i] ?? ''
      const file = options.out === undefined ? undefined : join(options.out, written[i] ?? '')
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
        inferred: Object.fromEntries(model.inferred),
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
      printData(report, console)
    } else {
      const how =
        totals === undefined ? '' : `${counted(totals.operations, 'operation')} in ${countedLaunches(totals)}, `
      console.line(`${bold(model.name)}: ${how}${showMs(ms)} ms on ${options.device}`)
      for (const name of model.specialised) console.line(`  compiled for the value of input ${name}`)
      for (const { name, file, t } of files) {
        console.line(`  ${bold(name)}  ${showType(t)}  ${showStatistics(t)}`)
        console.line(`    ${dim(showHead(t))}${file === undefined ? '' : `  -> ${file}`}`)
      }
    }
    prepared.dispose()
    return 0
  } finally {
    session.close()
  }
}
