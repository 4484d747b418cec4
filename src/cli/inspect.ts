/** `sinter inspect`: what an ONNX file holds, and what stands in the way of importing it; it need not be one that imports. */
import { extname } from 'node:path'
import { UserError } from '../diagnostics/errors.ts'
import {
  arrangeModel,
  decodeModel,
  inspectModel,
  type ModelFacts,
  type Problem,
  UnsupportedParts,
  type ValueFacts,
} from '../onnx/index.ts'
import { counted, showBytes } from '../report/format.ts'
import type { Shape } from '../types/shape.ts'
import { type Console, type ErrorData, errorData, printData } from './console.ts'
import { readBytes } from './files.ts'
import { inferShapes, modelName } from './load.ts'
import { type InputTexts, parseInputs } from './options.ts'
import { compile } from './session.ts'
import { bold, cyan, dim, green, red, yellow } from './style.ts'

export interface InspectOptions extends InputTexts {
  readonly json: boolean
}

/** What one run costs as WebAssembly would run it, at the shapes said or inferred. */
interface Cost {
  readonly inputs: readonly { readonly name: string; readonly shape: Shape }[]
  /** Names of inputs whose shapes nobody said. */
  readonly inferred: readonly string[]
  readonly flops: number
  /** Bytes of memory that kernels move, and that operations alone would. */
  readonly bytes: number
  readonly bytesOpByOp: number
  readonly peakBytes: number
  readonly operations: number
  readonly kernels: number
}

/** A part that is refused, and whether it counts only if it runs. */
type Refused = Problem & { readonly inside: boolean }

interface Inspection {
  readonly facts: ModelFacts
  readonly refused: readonly Refused[]
  readonly cost: Cost | undefined
  /** Why the model does not import, where it does not. */
  readonly error: UserError | undefined
}

const keyOf = (p: Problem): string => JSON.stringify([p.op, p.name, p.reason])

/** Parts of two lists, each once. */
function joined(known: readonly Refused[], found: readonly Problem[]): Refused[] {
  const have = new Set(known.map(keyOf))
  return [...known, ...found.filter((p) => !have.has(keyOf(p))).map((p) => ({ ...p, inside: false }))]
}

/** Reads a model and tries to import it. Throws E_FILE, E_ONNX_MALFORMED for what is no model. */
function inspect(path: string, options: InspectOptions, console: Console): Inspection {
  const given = parseInputs(options)
  const decoded = decodeModel(readBytes(path))
  const facts = inspectModel(decoded)
  /** What every try refused, whatever the shapes. */
  let found: readonly Problem[] | undefined
  const onRefused = (parts: readonly Problem[]): void => {
    const now = new Set(parts.map(keyOf))
    found = found === undefined ? parts : found.filter((p) => now.has(keyOf(p)))
  }
  try {
    console.progress(`importing ${modelName(path)}`)
    const { imported, inferred } = inferShapes(arrangeModel(decoded), path, given, onRefused)
    const { graph, inputNames } = imported
    console.progress(`planning ${modelName(path)}`)
    const { report } = compile(graph, { name: modelName(path), mode: 'fast' })
    const { flops, bytes, bytesOpByOp, operations, kernels } = report.totals
    const inputs = graph.params.map((p, i) => ({ name: inputNames[i] ?? '', shape: p.shape }))
    const cost = {
      inputs,
      inferred: [...inferred.keys()],
      flops,
      bytes,
      bytesOpByOp,
      peakBytes: report.memory.peakBytes,
      operations,
      kernels,
    }
    return { facts, refused: facts.refused, cost, error: undefined }
  } catch (error) {
    if (!(error instanceof UserError)) throw error
    return { facts, refused: joined(facts.refused, found ?? []), cost: undefined, error }
  } finally {
    console.progress(undefined)
  }
}

const showValue = ({ name, type, shape }: ValueFacts): string =>
  `${bold(name)}  ${type}${shape === undefined ? (type === 'not a tensor' ? '' : ' of any rank') : `[${shape.map((d) => d ?? '?').join(', ')}]`}`

const operatorName = ({ domain, name }: { readonly domain: string; readonly name: string }): string =>
  domain === '' ? name : `${domain}.${name}`

/** Counts with a unit of thousands: 1.2 G. */
function showCount(n: number): string {
  const units = ['', ' thousand', ' million', ' billion', ' trillion']
  let [v, u] = [n, 0]
  for (; v >= 999.5 && u < units.length - 1; u++) v /= 1000
  return `${u === 0 ? v : v >= 99.95 ? v.toFixed(0) : v.toFixed(1)}${units[u]}`
}

/** Most names of nodes that a line has. */
const mostNames = 4

/** Refused parts of one operator and reason: a line of reason, a line of nodes. */
function printRefused(refused: readonly Refused[], console: Console): void {
  const groups = new Map<string, Refused[]>()
  for (const p of refused) {
    const key = JSON.stringify([p.op, p.reason, p.inside])
    groups.set(key, [...(groups.get(key) ?? []), p])
  }
  for (const parts of groups.values()) {
    const [first] = parts
    if (first === undefined) continue
    const inside = first.inside ? ' (inside a branch, a loop or a function: it counts only if that runs)' : ''
    console.line(`  ${bold(first.op)} x${parts.length}: ${first.reason}${inside}`)
    const names = parts.slice(0, mostNames).map((p) => p.name)
    console.line(dim(`    ${names.join(', ')}${parts.length > names.length ? ', ...' : ''}`))
  }
}

function printFacts(path: string, f: ModelFacts, console: Console): void {
  const producer = [f.producer, f.producerVersion].filter((x) => x !== '').join(' ')
  const version = f.modelVersion === 0n ? '' : `, model version ${f.modelVersion}`
  console.line(`${bold(modelName(path))}: IR ${f.irVersion}${producer === '' ? '' : `, by ${producer}`}${version}`)
  const opsets = f.opsets.map((o) => `${o.domain === '' ? 'ai.onnx' : o.domain} ${o.version}`)
  console.line(`  operator sets ${opsets.join(', ')}`)
  if (f.description !== '') console.line(`  ${f.description.split('\n')[0] ?? ''}`)
  for (const [key, value] of f.metadata) console.line(dim(`  ${key}: ${value}`))
  for (const [title, values] of [
    ['inputs', f.inputs],
    ['outputs', f.outputs],
  ] as const) {
    console.line(title)
    for (const v of values) console.line(`  ${showValue(v)}`)
  }
  if (f.symbols.length > 0) console.line(dim(`  open extents: ${f.symbols.map((s) => `--length ${s}=...`).join(' ')}`))
  console.line(`operators: ${counted(f.nodes, 'node')} of ${counted(f.operators.length, 'kind')}`)
  const refused = new Set(f.refused.map((p) => p.op))
  for (const o of f.operators) {
    const name = operatorName(o)
    const mark = o.local ? dim(' (a function of the model)') : refused.has(name) ? red(' (unsupported)') : ''
    console.line(`  ${String(o.count).padStart(5)}  ${name}${mark}`)
  }
  const tensors = f.parameters.reduce((sum, p) => sum + p.tensors, 0)
  const elements = f.parameters.reduce((sum, p) => sum + p.elements, 0)
  const bytes = f.parameters.reduce((sum, p) => sum + p.bytes, 0)
  console.line(`parameters: ${showCount(elements)} in ${counted(tensors, 'tensor')}, ${showBytes(bytes)}`)
  for (const p of f.parameters)
    console.line(
      `  ${p.type.padEnd(6)} ${showCount(p.elements)} in ${counted(p.tensors, 'tensor')}, ${showBytes(p.bytes)}`,
    )
  if (f.externalFiles.length > 0) console.line(`  in ${f.externalFiles.join(', ')}`)
}

function printCost(c: Cost, console: Console): void {
  const at = c.inputs.map((x) => `${x.name} [${x.shape.join(', ')}]`).join(', ')
  console.line(`cost of a run${at === '' ? '' : ` at ${at}`}`)
  if (c.inferred.length > 0)
    console.line(yellow(`  the model leaves ${c.inferred.join(', ')} open: a shape with which it imports was taken`))
  console.line(
    `  ${showCount(c.flops)} flops; ${showBytes(c.bytes)} of memory traffic in ${counted(c.kernels, 'kernel')}, ${showBytes(c.bytesOpByOp)} operation by operation (${c.operations}); peak memory ${showBytes(c.peakBytes)}`,
  )
}

/** Prints what `sinter inspect` finds. */
export async function inspectCommand(path: string, options: InspectOptions, console: Console): Promise<number> {
  if (extname(path) !== '.onnx')
    throw new UserError('E_FILE', `${path} is no .onnx file`, { help: 'sinter explain takes program modules' })
  const { facts, refused, cost, error } = inspect(path, options, console)
  if (options.json) {
    const because: { readonly error?: ErrorData } = error === undefined ? {} : { error: errorData(error) }
    const { modelVersion, metadata, ...rest } = facts
    const data = {
      model: modelName(path),
      ...rest,
      modelVersion: String(modelVersion),
      metadata: Object.fromEntries(metadata),
      refused,
      imports: error === undefined,
      ...because,
      ...(cost === undefined ? {} : { cost }),
    }
    printData(data, console)
    return 0
  }
  printFacts(path, facts, console)
  console.line(
    refused.length === 0 ? green('unsupported: nothing found') : red(`unsupported: ${counted(refused.length, 'part')}`),
  )
  printRefused(refused, console)
  if (cost !== undefined) printCost(cost, console)
  if (error !== undefined && !(error instanceof UnsupportedParts)) {
    const { code, message, where, help } = errorData(error)
    console.line(red(`does not import: [${code}] ${message}`))
    if (where !== undefined) console.line(`  at ${where}`)
    if (help !== undefined) console.line(`  ${cyan('help')}: ${help}`)
  }
  return 0
}
