/** The command line: parses arguments, calls one command, reports errors. */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { againstCommand } from './against.ts'
import { benchCommand } from './bench.ts'
import { calibrateCommand } from './calibrate/index.ts'
import { compileCommand } from './compile.ts'
import { type Console, exitCodes, noteLines, printLines, processConsole, reportError, UsageError } from './console.ts'
import { demoCommand } from './demo.ts'
import { deviceNames, devicesCommand } from './devices.ts'
import { emitCommand, emitTargets } from './emit.ts'
import { explainCommand } from './explain.ts'
import { inspectCommand } from './inspect.ts'
import { parseAmount, parseDevice, parseIndex, parseLengths, parseMode, parseThreads, parseWhole } from './options.ts'
import { runCommand } from './run.ts'
import { defaultTolerance } from './values.ts'
import { verifyCommand } from './verify.ts'

interface Raw {
  readonly [name: string]: unknown
}

const text = (o: Raw, name: string): string | undefined => {
  const v = o[name]
  return typeof v === 'string' ? v : undefined
}
const flag = (o: Raw, name: string): boolean => o[name] === true
const list = (o: Raw, name: string): string[] => {
  const v = o[name]
  return Array.isArray(v) ? v.filter((x): x is string => typeof x === 'string') : []
}
const collect = (value: string, before: readonly string[]): string[] => [...before, value]

/** An option's value parsed, where it was given. */
function parsed<K extends string, T>(o: Raw, name: K, parse: (s: string, option: string) => T): { [P in K]?: T } {
  const v = text(o, name)
  return (v === undefined ? {} : { [name]: parse(v, `--${name}`) }) as { [P in K]?: T }
}

const readModelInputs = (o: Raw) => ({
  input: list(o, 'input'),
  shape: list(o, 'shape'),
  length: list(o, 'length'),
  bound: list(o, 'bound'),
})
const device = (o: Raw) => parseDevice(text(o, 'device') ?? 'wasm')
const mode = (o: Raw) => parseMode(text(o, 'mode') ?? 'fast')
const seed = (o: Raw) => parseWhole(text(o, 'seed') ?? '0', '--seed', 0)
const threads = (o: Raw) => parsed(o, 'threads', (s) => parseThreads(s, device(o)))

const index = (o: Raw) => parsed(o, 'index', (s) => parseIndex(s, device(o)))

const version = (): string => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  return version
}

/** The program of commands; each action leaves its exit code through `done`. With `json`, complaints are left to the caller. */
function commands(console: Console, json: boolean, done: (code: number) => void): Command {
  const program = new Command('sinter')
    .description(
      'A kernel-fusion compiler for tensor programs.\nMODEL is an .onnx file or a program module (.ts, .js, .mjs).',
    )
    .version(version())
    .option('--no-color', 'no colours (as NO_COLOR says; FORCE_COLOR asks for them, and terminals have them)')
    .showHelpAfterError('(sinter --help lists the commands)')
    .exitOverride()
    .configureOutput({
      writeOut: (s) => printLines(s.trimEnd(), console),
      writeErr: (s) => {
        if (!json) noteLines(s.trimEnd(), console)
      },
    })
  const lengths = ['--length <NAME=128>', 'an open extent by its name in the model (repeatable)'] as const
  const bounds = [
    '--bound <NAME=100>',
    'most results of a node whose number of them depends on data (repeatable)',
  ] as const
  const described = (name: string, description: string): Command =>
    program
      .command(`${name} MODEL`)
      .description(description)
      .option('--input <NAME=FILE.npy>', 'value of an input (repeatable)', collect, [])
      .option('--shape <NAME=1,3,224,224>', 'shape of an input with open extents (repeatable)', collect, [])
      .option(...lengths, collect, [])
      .option(...bounds, collect, [])
  const model = (name: string, description: string): Command =>
    described(name, description)
      .option('--mode <mode>', 'fast or strict (bits of running each operation alone)', 'fast')
      .option('--json', 'print plain data')
  const devices = `one of ${deviceNames.join(', ')}`

  model('run', 'run a model and describe its outputs; missing inputs are drawn at random')
    .option('--device <device>', devices, 'wasm')
    .option('--index <number>', 'which of several GPUs (cuda)')
    .option('--threads <count>', 'threads of the device (wasm)')
    .option('--out <folder>', 'write the outputs as .npy files')
    .option('--seed <number>', 'seed of random inputs', '0')
    .action(async (path: string, o: Raw) => {
      const options = { ...readModelInputs(o), device: device(o), mode: mode(o), seed: seed(o), json: flag(o, 'json') }
      done(await runCommand(path, { ...options, ...threads(o), ...index(o), ...parsed(o, 'out', (s) => s) }, console))
    })

  model('explain', 'what is fused, what is not, why, and how many bytes that saves')
    .option(
      '--device <device>',
      "what to compile for: this machine's GPU where it opens (webgpu, cuda; with what kernels take of it on cuda)",
      'wasm',
    )
    .option('--index <number>', 'which of several GPUs (cuda)')
    .option('--unfused', 'every operation a kernel of its own')
    .option('--kernels', 'print the kernel IR')
    .option('--schedule', 'print how each kernel runs: loops or threads, registers, memory')
    .option('--graph', 'print the graph before and after the passes')
    .option('--html <file>', 'write the report as a page with a picture')
    .option('--svg <file>', 'write the picture alone')
    .action(async (path: string, o: Raw) => {
      const flags = {
        unfused: flag(o, 'unfused'),
        kernels: flag(o, 'kernels'),
        schedule: flag(o, 'schedule'),
        graph: flag(o, 'graph'),
      }
      const options = { ...readModelInputs(o), device: device(o), mode: mode(o), ...flags, json: flag(o, 'json') }
      done(
        await explainCommand(
          path,
          { ...options, ...index(o), ...parsed(o, 'html', (s) => s), ...parsed(o, 'svg', (s) => s) },
          console,
        ),
      )
    })

  described(
    'compile',
    'compile an .onnx file, and keep plans and code in a file that sinter/ort and importOnnx take (wasm)',
  )
    .requiredOption('-o, --out <file>', 'the file')
    .option('--threads <count>', 'threads of the device')
    .option('--json', 'print plain data')
    .action(async (path: string, o: Raw) => {
      const options = { ...readModelInputs(o), out: text(o, 'out') ?? '', json: flag(o, 'json') }
      done(await compileCommand(path, { ...options, ...parsed(o, 'threads', (s) => parseThreads(s, 'wasm')) }, console))
    })

  described('inspect', 'what an .onnx file holds: inputs, operators, what is unsupported, parameters, cost')
    .option('--json', 'print plain data')
    .action(async (path: string, o: Raw) => {
      done(await inspectCommand(path, { ...readModelInputs(o), json: flag(o, 'json') }, console))
    })

  model('emit', 'write every kernel as a source file, with how it is launched')
    .requiredOption('-t, --target <target>', `one of ${emitTargets.join(', ')}`)
    .requiredOption('-o, --out <folder>', 'where the files go')
    .action(async (path: string, o: Raw) => {
      const target = emitTargets.find((t) => t === text(o, 'target'))
      if (target === undefined)
        throw new UsageError(`there is no target "${text(o, 'target')}"`, `use one of ${emitTargets.join(', ')}`)
      const options = {
        ...readModelInputs(o),
        mode: mode(o),
        target,
        out: text(o, 'out') ?? '.',
        json: flag(o, 'json'),
      }
      done(await emitCommand(path, options, console))
    })

  model('bench', 'measure a model, fused against unfused, kernel by kernel')
    .option('--device <device>', devices, 'wasm')
    .option('--index <number>', 'which of several GPUs (cuda)')
    .option('--threads <count>', 'threads of the device (wasm)')
    .option('--seconds <number>', 'how long to measure', '4')
    .option('--seed <number>', 'seed of random inputs', '0')
    .option(
      '--against <runtime>',
      'measure beside another runtime instead: ort (onnxruntime-node or -web, installed here)',
    )
    .action(async (path: string, o: Raw) => {
      const seconds = parseAmount(text(o, 'seconds') ?? '4', '--seconds')
      const against = text(o, 'against')
      if (against !== undefined && against !== 'ort')
        throw new UsageError(`there is no runtime "${against}" to measure against`, 'use --against ort')
      const given = { ...readModelInputs(o), device: device(o), mode: mode(o), seed: seed(o), seconds }
      const options = { ...given, ...threads(o), ...index(o), json: flag(o, 'json') }
      done(await (against === undefined ? benchCommand : againstCommand)(path, options, console))
    })

  program
    .command('verify CASE_DIR...')
    .description("run cases in the layout of ONNX's backend tests, or folders of them")
    .option('--device <device>', devices, 'wasm')
    .option('--index <number>', 'which of several GPUs (cuda)')
    .option('--jobs <count>', 'processes to run cases in')
    .option('--timeout <seconds>', 'how long a case may take, with processes', '120')
    .option('--rtol <number>', 'relative tolerance, where no tolerance.json gives one', String(defaultTolerance.rtol))
    .option('--atol <number>', 'absolute tolerance, likewise', String(defaultTolerance.atol))
    .option('--mode <mode>', 'fast or strict', 'fast')
    .option(
      '--skip-unsupported',
      'count models with operators or dtypes that are not supported (here, or by the device) as skipped, not failed',
    )
    .option(...lengths, collect, [])
    .option('--json', 'print plain data')
    .action(async (dirs: string[], o: Raw) => {
      const tolerance = {
        rtol: parseAmount(text(o, 'rtol') ?? '', '--rtol'),
        atol: parseAmount(text(o, 'atol') ?? '', '--atol'),
      }
      const options = {
        device: device(o),
        mode: mode(o),
        ...index(o),
        ...parsed(o, 'jobs', (s, n) => parseWhole(s, n, 1)),
        timeout: parseAmount(text(o, 'timeout') ?? '', '--timeout'),
        tolerance,
        skipUnsupported: flag(o, 'skipUnsupported'),
        lengths: parseLengths(list(o, 'length')),
        json: flag(o, 'json'),
      }
      done(await verifyCommand(dirs, options, console))
    })

  program
    .command('devices')
    .description('which devices work here, and why others do not')
    .option('--calibrate', 'measure the rates of WebAssembly here, and plan by them from now on (20 seconds)')
    .option('--json', 'print plain data')
    .action(async (o: Raw) => {
      const run = flag(o, 'calibrate') ? calibrateCommand : devicesCommand
      done(await run({ json: flag(o, 'json') }, console))
    })

  program
    .command('demo')
    .description('compile, explain, run and measure the model that ships with Sinter')
    .option('--device <device>', devices, 'wasm')
    .option('--seconds <number>', 'how long to measure each program', '1')
    .action(async (o: Raw) => {
      const seconds = parseAmount(text(o, 'seconds') ?? '1', '--seconds')
      done(await demoCommand({ device: device(o), seconds }, console))
    })
  return program
}

/** Runs the command line; gives the exit code. */
export async function main(args: readonly string[], console: Console = processConsole(args)): Promise<number> {
  let code = 0
  const json = args.includes('--json')
  try {
    await commands(console, json, (c) => {
      code = c
    }).parseAsync([...args], { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) return reportError(error, json, console)
    // Help and version end this way too; complaints are printed already, unless they are wanted as data.
    if (error.exitCode === 0) return 0
    return json ? reportError(new UsageError(error.message.replace(/^error: /, '')), json, console) : exitCodes.usage
  }
}
