/**
 * Compilations that are kept in files: made while `recording`, found again by what was asked to be compiled. A file has a head of plain data, bytes
 * behind it, and a digest of both: one that is torn or changed is refused. What another version of the library wrote, or another machine or engine
 * is to run, is left aside with a warning. A file is code: it is as trusted as a module is.
 */
import { Digest, type DigestedGraph, digestGraph } from '../../compile/digest.ts'
import type { Graph, Node } from '../../graph/node.ts'
import type { FusionReport } from '../../report/data.ts'
import type { Backend, Executable, KeptCode, KeptFunction, KeptModule } from '../../runtime/backend.ts'
import { list, malformedKept, ProgramReader, programData, record, whole } from '../../runtime/keptProgram.ts'
import type { Program } from '../../runtime/program.ts'
import { kernelsOf } from '../../runtime/region.ts'
import { digestOf } from '../../target/calibration.ts'
import type { Machine } from '../../target/machine.ts'
import { sameShape } from '../../types/shape.ts'
import { version } from '../../version.ts'
import { warn } from '../calls/warnings.ts'
import type { CompileRequest } from './device.ts'

/** The form of files, besides the version of the library. */
const form = 2
const magic = 'SINTERC1'
const head = 8 + 32 + 4

/** What a compilation is for. */
interface Key {
  readonly digest: string
  /** Options of the request, as text. */
  readonly request: string
  readonly machine: string
  readonly engine: string
}

interface Entry extends Key {
  /** The plan, its report and its code; the graph's literals are put in. */
  readonly decode: (literals: DigestedGraph['literals']) => KeptProgram
}

/** A compilation that was kept. */
export interface KeptProgram {
  readonly program: Program
  readonly report: FusionReport
  readonly code: KeptCode
}

/** A compilation while a file is made. */
interface Made extends Key {
  readonly executable: Executable
  readonly report: FusionReport
  readonly literals: DigestedGraph['literals']
}

const entries = new Map<string, Entry[]>()
const nameOf = ({ request, machine, engine }: Key): string => `${request} ${machine} ${engine}`
let records: Made[] | undefined

/** Whether compiling has to ask or tell: a graph is digested only then. */
export const isKeeping = (): boolean => entries.size > 0 || records !== undefined

const requestText = ({ mode, donated, precision, budgets, name }: CompileRequest): string =>
  JSON.stringify([mode, donated, precision ?? null, budgets ?? null, name])

/** What a request compiles, for a backend that keeps code; undefined for what cannot be kept. */
export function keyOf(
  graph: Graph,
  request: CompileRequest,
  backend: Backend,
  machine: Machine,
): { readonly key: Key; readonly literals: DigestedGraph['literals'] } | undefined {
  if (backend.engine === undefined) return undefined
  const digested = digestGraph(graph)
  if (digested === undefined) return undefined
  const { digest, literals } = digested
  return {
    key: { digest, request: requestText(request), machine: digestOf(machine), engine: backend.engine },
    literals,
  }
}

/** Throws E_FILE for a plan that has not the inputs and outputs of its graph. */
function checkInterface(program: Program, graph: Graph): void {
  const fits = (buffers: readonly number[], nodes: readonly Node[]): boolean =>
    buffers.length === nodes.length &&
    nodes.every((n, i) => {
      const b = program.buffers[buffers[i] ?? -1]
      return b !== undefined && b.format === 'plain' && b.dtype === n.dtype && sameShape(b.shape, n.shape)
    })
  if (!fits(program.inputs, graph.params) || !fits(program.outputs, graph.outputs))
    throw malformedKept('its inputs or outputs are not those of the model')
}

/** The compilation that a file has for a key. Throws E_FILE for one that is malformed. */
export function findKept(key: Key, graph: Graph, literals: DigestedGraph['literals']): KeptProgram | undefined {
  const here = (entries.get(key.digest) ?? []).filter((e) => e.request === key.request)
  const found = here.find((e) => e.machine === key.machine && e.engine === key.engine)
  if (found === undefined && here.length > 0)
    warn(
      'W_STALE_COMPILATION',
      'a kept compilation is for another machine, engine or number of threads, so the model is compiled anew',
      'compile it where it is to run: sinter compile MODEL -o FILE',
    )
  const kept = found?.decode(literals)
  if (kept !== undefined) checkInterface(kept.program, graph)
  return kept
}

/** Tells what was compiled, while files are made. */
export function keep(
  key: Key,
  literals: DigestedGraph['literals'],
  executable: Executable,
  report: FusionReport,
): void {
  records?.push({ ...key, literals, executable, report })
}

/** Runs `body`, and gives the file of all that it compiled (and of how many programs), in which what cannot be kept is left out. */
export async function recording(
  body: () => Promise<void>,
): Promise<{ readonly file: Uint8Array; readonly programs: number }> {
  const before = records
  const mine: Made[] = []
  records = mine
  try {
    await body()
    return encode(mine)
  } finally {
    records = before
  }
}

function encode(made: readonly Made[]): { readonly file: Uint8Array; readonly programs: number } {
  const parts: Uint8Array[] = []
  let size = 0
  const blobs = {
    put: (bytes: Uint8Array): number => {
      const at = size
      parts.push(bytes)
      size += bytes.length
      return at
    },
  }
  const texts = new Map<string, number>()
  const programs = made.flatMap(({ digest, request, machine, engine, literals, executable, report }) => {
    const { code, program } = executable
    const numbers = new Map(literals.map((data, i) => [data, i]))
    const data = code === undefined ? undefined : programData(program, numbers, texts, blobs)
    if (code === undefined || data === undefined) return []
    const modules = code.modules.map(({ bytes, isHot }) => ({ at: blobs.put(bytes), length: bytes.length, isHot }))
    return [{ digest, request, machine, engine, program: data, report, code: { modules, functions: code.functions } }]
  })
  const json = new TextEncoder().encode(JSON.stringify({ form, version, programs, texts: [...texts.keys()] }))
  const file = new Uint8Array(head + json.length + size)
  const view = new DataView(file.buffer)
  file.set(new TextEncoder().encode(magic))
  view.setUint32(40, json.length, true)
  file.set(json, head)
  let at = head + json.length
  for (const p of parts) {
    file.set(p, at)
    at += p.length
  }
  file.set(new TextEncoder().encode(digestOfFile(file)), 8)
  return { file, programs: programs.length }
}

/** Of all but the head of a file. */
function digestOfFile(file: Uint8Array): string {
  const sum = new Digest()
  sum.bytes(file.subarray(40))
  return sum.value
}

/**
 * Takes the compilations of a file from now on. Throws E_FILE for bytes that are no such file, or not as they were written; warns of what another version
 * wrote.
 */
export function takeKept(given: Uint8Array): void {
  // A buffer of Node's shares its memory with its slices.
  const file = new Uint8Array(given.buffer, given.byteOffset, given.byteLength)
  const text = new TextDecoder()
  if (file.length < head || text.decode(file.subarray(0, 8)) !== magic) throw malformedKept('it is no such file')
  if (text.decode(file.subarray(8, 40)) !== digestOfFile(file)) throw malformedKept('it is torn, or was changed')
  const length = new DataView(file.buffer, file.byteOffset).getUint32(40, true)
  if (head + length > file.length) throw malformedKept('its head is longer than it is')
  let parsed: unknown
  try {
    parsed = JSON.parse(text.decode(file.subarray(head, head + length)))
  } catch (cause) {
    throw malformedKept('its head is no data', cause)
  }
  const data = record(parsed, 'its head')
  if (data.form !== form || data.version !== version) {
    warn(
      'W_STALE_COMPILATION',
      `a kept compilation is of version ${String(data.version)} of the library, this is ${version}: the model is compiled anew`,
      'compile it with this version: sinter compile MODEL -o FILE',
    )
    return
  }
  const blobs = file.subarray(head + length)
  const texts = list(data.texts, 'kernels').map(String)
  for (const x of list(data.programs, 'programs')) {
    const e = record(x, 'a program')
    const entry: Entry = {
      digest: String(e.digest),
      request: String(e.request),
      machine: String(e.machine),
      engine: String(e.engine),
      decode: (literals) => ({
        program: new ProgramReader(literals, texts, blobs).program(e.program),
        report: record(e.report, 'a report') as unknown as FusionReport,
        code: codeOf(record(e.code, 'code'), String(e.engine), blobs),
      }),
    }
    const others = (entries.get(entry.digest) ?? []).filter((o) => nameOf(o) !== nameOf(entry))
    entries.set(entry.digest, [...others, entry])
  }
}

/** Leaves aside all that was taken (tests). */
export const forgetKept = (): void => entries.clear()

function codeOf(code: Readonly<Record<string, unknown>>, engine: string, blobs: Uint8Array): KeptCode {
  const modules = list(code.modules, 'modules').map((m): KeptModule => {
    const { at, length, isHot } = record(m, 'a module')
    const [from, bytes] = [whole(at, 'a place'), whole(length, 'a length')]
    if (from + bytes > blobs.length) throw malformedKept('a module beyond the end')
    return { bytes: blobs.slice(from, from + bytes), isHot: isHot === true }
  })
  const functions = list(code.functions, 'functions').map((f): KeptFunction => {
    const { module, scratch, imports, programs, seconds, scatters } = record(f, 'a function')
    const place = whole(module, 'a module')
    if (place >= modules.length) throw malformedKept('a function of no module')
    if (typeof seconds !== 'number' || !(seconds >= 0)) throw malformedKept('a function without a time')
    const names = (of: unknown): string[] => list(of, 'names').map(String)
    return {
      module: place,
      scratch: whole(scratch, 'scratch'),
      imports: names(imports),
      programs: whole(programs, 'programs'),
      seconds,
      scatters: scatters === true,
    }
  })
  return { engine, modules, functions }
}

/** Prepares a kept program. Throws E_FILE for one whose code does not fit it. */
export function prepareKept(backend: Backend, { program, code }: KeptProgram): Executable {
  if (kernelsOf(program).length !== code.functions.length) throw malformedKept('kernels and functions differ in number')
  try {
    return backend.prepare(program, code)
  } catch (cause) {
    // The engine refuses a module that is none, or that asks for what is not there.
    if (cause instanceof WebAssembly.CompileError || cause instanceof WebAssembly.LinkError)
      throw malformedKept('its code is not of this engine', cause)
    throw cause
  }
}
