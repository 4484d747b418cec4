/** `sinter demo`: the digit reader of examples/digits compiled, checked, run and measured, fused and unfused. */
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { UserError } from '../diagnostics/errors.ts'
import type { HostTensor } from '../onnx/index.ts'
import type { FusionReport } from '../report/data.ts'
import { counted, savedText, showBytes, showMs } from '../report/format.ts'
import { readElement } from '../scalar/host.ts'
import { interleave, kernelTitle, median } from './bench.ts'
import { type Console, exitCodes } from './console.ts'
import type { DeviceName } from './devices.ts'
import { readBytes, typedPath } from './files.ts'
import { fillInputs, type LoadedModel, loadModel } from './load.ts'
import { readNpy } from './npy.ts'
import { compile, Session } from './session.ts'
import { bold, cyan, dim, green, red } from './style.ts'
import { difference, largestDifference } from './values.ts'

export interface DemoOptions {
  readonly device: DeviceName
  /** Seconds of measuring, for each program. */
  readonly seconds?: number
}

const example = (name: string): string => fileURLToPath(new URL(`../../examples/${name}`, import.meta.url))
/** Program modules that are measured too: work between the matrix products, where memory is the limit. */
const programs = ['residual.ts', 'adam.ts'] as const

const next = (modelPath: string) =>
  [
    [`npx sinter explain ${modelPath} --html report.html`, 'the whole report, with a picture'],
    [`npx sinter bench ${modelPath}`, 'kernel by kernel, against this machine'],
    [
      `npx sinter explain ${typedPath(example('attention.ts'))} --kernels`,
      'a program in TypeScript, down to its kernels',
    ],
  ] as const

/** What fused and unfused may differ by: sums in another order, in f32. */
const tolerance = { rtol: 1e-4, atol: 1e-5 }

const shades = ' .:-=+*#%@'

/** Images side by side as characters, with what was read below each. */
function drawImages(images: HostTensor, read: readonly number[], labels: readonly number[], count: number): string[] {
  const [, , height = 0, width = 0] = images.shape
  const shade = (i: number): string => {
    const v = Number(readElement(images.data, images.dtype, i))
    return shades[Math.min(shades.length - 1, Math.floor(v * shades.length))] ?? ' '
  }
  const lines: string[] = []
  for (let y = 0; y < height; y += 2) {
    const line = Array.from({ length: count }, (_, n) =>
      Array.from({ length: width }, (_, x) => shade((n * height + y) * width + x)).join(''),
    )
    lines.push(`  ${dim(line.join('  '))}`)
  }
  const verdicts = Array.from({ length: count }, (_, n) => {
    const right = read[n] === labels[n]
    const text = `      ${read[n] ?? '?'} ${right ? 'right' : 'wrong'}`.padEnd(width)
    return right ? green(text) : red(text)
  })
  return [...lines, `  ${verdicts.join('  ')}`]
}

const numbers = (t: HostTensor): number[] =>
  Array.from({ length: t.data.length }, (_, i) => Number(readElement(t.data, t.dtype, i)))

/** A bar of at most 40 characters. */
const bar = (value: number, most: number): string => '█'.repeat(Math.max(1, Math.round((40 * value) / most)))

function describeFusion(fused: FusionReport, console: Console): void {
  const { totals } = fused
  console.line(bold('What fusion makes of it'))
  console.line(
    `  ${totals.operations} operations become ${totals.kernels} kernels (compiled in ${fused.compileMs.toFixed(0)} ms); the largest:`,
  )
  const largest = [...fused.kernels].sort((a, b) => b.operations.length - a.operations.length).slice(0, 3)
  for (const k of largest)
    console.line(
      `    ${cyan(
        kernelTitle(
          k.operations.map((o) => o.name),
          k.name,
          70,
        ),
      )}`,
    )
  console.line(`  memory traffic  ${showBytes(totals.bytesOpByOp)} operation by operation`)
  console.line(`                  ${showBytes(totals.bytes)} fused: ${savedText(totals)}`)
  console.line()
}

/** Fused, unfused and reference results against each other; whether they agree. */
function compareResults(
  names: readonly string[],
  results: { readonly fused: HostTensor[]; readonly unfused: HostTensor[]; readonly reference: HostTensor[] },
  console: Console,
): boolean {
  console.line(bold('Checked'))
  let agree = true
  for (const [what, others] of [
    ['unfused', results.unfused],
    ['the float64 reference', results.reference],
  ] as const) {
    const wrong = names.flatMap((name, i) => {
      const [got, want] = [results.fused[i], others[i]]
      const d = got === undefined || want === undefined ? 'an output is missing' : difference(got, want, tolerance)
      return d === undefined ? [] : [`${name}: ${d}`]
    })
    const [got, want] = [results.fused[0], others[0]]
    const worst = got === undefined || want === undefined ? Number.NaN : largestDifference(got, want)
    if (wrong.length === 0) console.line(`  ${green('equal')}  fused and ${what}, within ${worst.toExponential(1)}`)
    else console.line(`  ${red('DIFFERENT')}  fused and ${what}: ${wrong.join('; ')}`)
    agree &&= wrong.length === 0
  }
  console.line()
  return agree
}

/** Runs the demonstration; exit code 1 if fused, unfused and reference results differ. */
export async function demoCommand(options: DemoOptions, console: Console): Promise<number> {
  const images = readNpy(readBytes(example('digits/images.npy')), 'images.npy')
  const labels = numbers(readNpy(readBytes(example('digits/labels.npy')), 'labels.npy'))
  const modelPath = typedPath(example('digits/digits.onnx'))
  const model = await loadModel(example('digits/digits.onnx'), {
    values: new Map([['image', images]]),
    shapes: new Map(),
    lengths: new Map(),
    bounds: new Map(),
  })
  const { name, graph, outputNames } = model
  const input = [images]
  const readAt = outputNames.indexOf('digit')

  const oracle = await Session.open('reference')
  const threads = availableParallelism()
  const session = await Session.open(options.device, { threads })
  try {
    console.line(`${bold('Sinter')} reads digits with a transformer: ${modelPath}`)
    console.line()
    const prepared = session.prepare(graph, { name, mode: 'fast' })
    const fused = await prepared.run(input)
    const read = fused[readAt]
    if (read === undefined) throw new UserError('E_FILE', `${modelPath} has no output "digit"`)
    const digits = numbers(read)
    for (const line of drawImages(images, digits, labels, 4)) console.line(line)
    const right = digits.filter((d, i) => d === labels[i]).length
    console.line(`  ${right} of ${labels.length} digits it has never seen are read correctly`)
    console.line()
    prepared.dispose()

    describeFusion(prepared.compiled?.report ?? compile(graph, { name, mode: 'fast' }).report, console)

    const unfusedPrepared = session.prepare(graph, { name, mode: 'fast', fuse: false })
    const unfused = await unfusedPrepared.run(input)
    unfusedPrepared.dispose()
    const reference = await oracle.prepare(graph, { name, mode: 'fast' }).run(input)
    const agree = compareResults(outputNames, { fused, unfused, reference }, console)

    if (options.device !== 'reference') {
      console.line(
        `${bold('Measured')} on ${options.device}${options.device === 'wasm' ? `, ${counted(threads, 'thread')}` : ''}: medians of interleaved runs`,
      )
      for (const m of [model, ...(await Promise.all(programs.map((f) => loadModel(example(f)))))])
        await measure(session, m, options.seconds ?? 1, console)
    }
    console.line(bold('Next'))
    const commands = next(modelPath)
    const width = Math.max(...commands.map(([command]) => command.length))
    for (const [command, what] of commands) console.line(`  ${command.padEnd(width)}  ${dim(what)}`)
    return agree ? 0 : exitCodes.failed
  } finally {
    session.close()
  }
}

/** One program, fused and unfused in turn. */
async function measure(session: Session, model: LoadedModel, seconds: number, console: Console): Promise<void> {
  const { name, graph } = model
  const { tensors } = fillInputs(model, 0)
  const fused = session.bind(graph, { name, mode: 'fast' }, tensors)
  const unfused = session.bind(graph, { name, mode: 'fast', fuse: false }, tensors)
  const [fusedTimes = [], unfusedTimes = []] = await interleave([fused, unfused], seconds, 5, (share) =>
    console.progress(`measuring ${name}, fused and unfused in turn: ${(share * 100).toFixed(0)}%`),
  )
  console.progress(undefined)
  const [ms, unfusedMs] = [median(fusedTimes), median(unfusedTimes)]
  const most = Math.max(ms, unfusedMs)
  const line = (label: string, time: number, { totals }: FusionReport): string => {
    const kernels = `${counted(totals.kernels, 'kernel')}`.padStart(11)
    return `    ${label.padEnd(8)}  ${bar(time, most).padEnd(40)}  ${showMs(time).padStart(5)} ms ${kernels}  ${showBytes(totals.bytes)}`
  }
  console.line(`  ${name}: fusion is ${bold(`${(unfusedMs / ms).toFixed(2)}x`)} as fast`)
  console.line(dim(line('unfused', unfusedMs, unfused.compiled.report)))
  console.line(line('fused', ms, fused.compiled.report))
  console.line()
  fused.dispose()
  unfused.dispose()
}
