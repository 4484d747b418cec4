/**
 * Launch plans as plain data beside bytes, to be kept in files: kernels as their text, which is parsed when somebody looks at one; literals of the graph
 * by number, others by their bytes. What comes from a file is checked before it is used.
 */
import { UserError } from '../diagnostics/errors.ts'
import type { Kernel } from '../kernel/ir.ts'
import { parseKernel } from '../kernel/parse.ts'
import { printKernel } from '../kernel/print.ts'
import { verifyKernel } from '../kernel/verify.ts'
import { allDTypes, type DType, dtypeBytes } from '../types/dtype.ts'
import { type HostArray, hostView } from '../types/host.ts'
import type { BufferSource, InnerProgram, Program, ProgramBuffer, ProgramStep, RegionStep } from './program.ts'

/** Bytes beside the data: what is put there comes out at the place that putting gave. */
export interface Blobs {
  put(bytes: Uint8Array): number
}

type Json = Readonly<Record<string, unknown>>

export const malformedKept = (what: string, cause?: unknown): UserError =>
  new UserError('E_FILE', `the kept compilation is malformed: ${what}`, {
    help: 'compile the model again: sinter compile MODEL -o FILE',
    ...(cause === undefined ? {} : { cause }),
  })

const bytesOf = (a: HostArray): Uint8Array => new Uint8Array(a.buffer, a.byteOffset, a.byteLength)

/** A plan as data; undefined for one that cannot be kept: it calls code of the user, or the library of a device, or has open extents. */
export function programData(
  program: Program,
  literals: ReadonlyMap<HostArray, number>,
  texts: Map<string, number>,
  blobs: Blobs,
): Json | undefined {
  if (program.open !== undefined) return undefined
  const sources = program.buffers.map((b): Json => {
    const { source } = b
    if (source.kind !== 'constant') return { ...source }
    const literal = literals.get(source.data)
    if (literal !== undefined) return { kind: 'constant', literal }
    return { kind: 'constant', at: blobs.put(bytesOf(source.data)), length: source.data.length }
  })
  const steps = program.steps.map((s) => stepData(s, literals, texts, blobs))
  if (steps.includes(undefined)) return undefined
  return {
    name: program.name,
    buffers: program.buffers.map(({ dtype, shape, format, bytes }, i) => ({
      dtype,
      shape,
      format,
      bytes,
      source: sources[i],
    })),
    steps,
    inputs: program.inputs,
    donated: program.donated,
    outputs: program.outputs,
    arenaBytes: program.arenaBytes,
  }
}

function stepData(
  step: ProgramStep,
  literals: ReadonlyMap<HostArray, number>,
  texts: Map<string, number>,
  blobs: Blobs,
): Json | undefined {
  const inside = ({ program, arena }: InnerProgram): Json | undefined => {
    const data = programData(program, literals, texts, blobs)
    return data === undefined ? undefined : { program: data, ...(arena === undefined ? {} : { arena }) }
  }
  switch (step.kind) {
    case 'kernel': {
      const { kernel, ...rest } = step
      const text = printKernel(kernel)
      const number = texts.get(text) ?? texts.size
      texts.set(text, number)
      return { ...rest, kernel: number }
    }
    case 'copy':
      return { ...step }
    case 'cond': {
      const [whenTrue, whenFalse] = [inside(step.whenTrue), inside(step.whenFalse)]
      return whenTrue === undefined || whenFalse === undefined ? undefined : { ...step, whenTrue, whenFalse }
    }
    case 'while': {
      const [test, body] = [inside(step.test), inside(step.body)]
      return test === undefined || body === undefined ? undefined : { ...step, test, body }
    }
    case 'loop': {
      const body = inside(step.body)
      return body === undefined ? undefined : { ...step, body }
    }
    default:
      return undefined
  }
}

/** Reads plans from data; everything out of bounds is E_FILE. */
export class ProgramReader {
  private readonly literals: readonly HostArray[]
  private readonly texts: readonly string[]
  private readonly blobs: Uint8Array
  private readonly kernels = new Map<number, Kernel>()

  constructor(literals: readonly HostArray[], texts: readonly string[], blobs: Uint8Array) {
    this.literals = literals
    this.texts = texts
    this.blobs = blobs
  }

  /** A plan. `depth` counts those around it. */
  program(x: unknown, depth = 0): Program {
    if (depth > 64) throw malformedKept('programs nest without end')
    const p = record(x, 'a program')
    const arenaBytes = whole(p.arenaBytes, 'the size of intermediates')
    const buffers = list(p.buffers, 'buffers').map((b) => this.buffer(record(b, 'a buffer'), arenaBytes))
    const place = (n: unknown): number => {
      const i = whole(n, 'a buffer')
      if (i >= buffers.length) throw malformedKept(`buffer ${i} of ${buffers.length}`)
      return i
    }
    const inputs = list(p.inputs, 'inputs').map(place)
    const donated = list(p.donated, 'donated inputs').map((d) => d === true)
    if (donated.length !== inputs.length) throw malformedKept('inputs and donated inputs differ in number')
    for (const b of buffers)
      if (b.source.kind === 'input' && b.source.index >= inputs.length) throw malformedKept('a buffer of no input')
    return {
      name: String(p.name),
      buffers,
      steps: list(p.steps, 'steps').map((s) => this.step(record(s, 'a step'), place, depth)),
      inputs,
      donated,
      outputs: list(p.outputs, 'outputs').map(place),
      arenaBytes,
    }
  }

  private buffer(b: Json, arenaBytes: number): ProgramBuffer {
    const dtype = dtypeOf(b.dtype)
    const shape = list(b.shape, 'a shape').map((d) => whole(d, 'an extent'))
    const elements = shape.reduce((n, d) => n * d, 1)
    const { format } = b
    if (format !== 'plain' && format !== 'bits' && format !== 'int4') throw malformedKept('a buffer of no format')
    const bytes = whole(b.bytes, 'the size of a buffer')
    const least =
      format === 'bits'
        ? Math.ceil(elements / 8)
        : format === 'int4'
          ? Math.ceil(elements / 2)
          : elements * dtypeBytes(dtype)
    if (!Number.isSafeInteger(elements) || bytes < least) throw malformedKept('a buffer that is too small')
    return { dtype, shape, format, bytes, source: this.source(record(b.source, 'a source'), dtype, bytes, arenaBytes) }
  }

  private source(s: Json, dtype: DType, bytes: number, arenaBytes: number): BufferSource {
    switch (s.kind) {
      case 'input':
        return { kind: 'input', index: whole(s.index, 'an input') }
      case 'output':
        return s.over === undefined ? { kind: 'output' } : { kind: 'output', over: whole(s.over, 'a buffer') }
      case 'temp': {
        const offset = whole(s.offset, 'an offset')
        if (offset % 64 !== 0 || offset + bytes > arenaBytes) throw malformedKept('an intermediate out of its memory')
        return { kind: 'temp', offset }
      }
      case 'constant': {
        const data = s.literal === undefined ? this.blob(s, dtype) : this.literals[whole(s.literal, 'a literal')]
        if (data === undefined || data.byteLength > bytes) throw malformedKept('a constant that is not there')
        return { kind: 'constant', data }
      }
      default:
        throw malformedKept('a buffer of no source')
    }
  }

  private blob(s: Json, dtype: DType): HostArray {
    const [at, length] = [whole(s.at, 'a place'), whole(s.length, 'a length')]
    const bytes = length * dtypeBytes(dtype)
    if (at + bytes > this.blobs.length) throw malformedKept('a constant beyond the end')
    // Aligned as typed arrays need it.
    const copy = this.blobs.slice(at, at + bytes)
    return hostView(dtype, copy.buffer, 0, length)
  }

  private step(s: Json, place: (n: unknown) => number, depth: number): ProgramStep {
    const places = (x: unknown): number[] => list(x, 'buffers').map(place)
    const inside = (x: unknown): InnerProgram => {
      const r = record(x, 'an inner program')
      return { program: this.program(r.program, depth + 1), arena: r.arena === undefined ? undefined : place(r.arena) }
    }
    const carries = (x: unknown): Extract<RegionStep, { kind: 'loop' }>['carries'] =>
      list(x, 'carries').map((c) => {
        const { init, result, spare } = record(c, 'a carry')
        return { init: place(init), result: place(result), spare: spare === undefined ? undefined : place(spare) }
      })
    const name = String(s.name)
    switch (s.kind) {
      case 'kernel': {
        const { stage } = s
        if (stage !== 'packing' && stage !== 'main' && stage !== 'finishing') throw malformedKept('a launch of no kind')
        const number = whole(s.kernel, 'a kernel')
        if (number >= this.texts.length) throw malformedKept('a kernel that is not there')
        const kernel = (): Kernel => this.kernel(number)
        return {
          kind: 'kernel',
          stage,
          launch: whole(s.launch, 'a launch'),
          buffers: places(s.buffers),
          get kernel() {
            return kernel()
          },
        }
      }
      case 'copy':
        return { kind: 'copy', from: place(s.from), to: place(s.to) }
      case 'cond':
        return {
          kind: 'cond',
          name,
          test: place(s.test),
          whenTrue: inside(s.whenTrue),
          whenFalse: inside(s.whenFalse),
          operands: places(s.operands),
          results: places(s.results),
        }
      case 'while':
        return {
          kind: 'while',
          name,
          test: inside(s.test),
          body: inside(s.body),
          flag: place(s.flag),
          consts: places(s.consts),
          carries: carries(s.carries),
        }
      case 'loop':
        return {
          kind: 'loop',
          name,
          body: inside(s.body),
          length: whole(s.length, 'a number of steps'),
          reverse: s.reverse === true,
          consts: places(s.consts),
          carries: carries(s.carries),
          sequences: places(s.sequences),
          results: places(s.results),
        }
      default:
        throw malformedKept('a step of no kind')
    }
  }

  private kernel(number: number): Kernel {
    const have = this.kernels.get(number)
    if (have !== undefined) return have
    const made = parseKernel(this.texts[number] ?? '')
    verifyKernel(made)
    this.kernels.set(number, made)
    return made
  }
}

/** A record of data. Throws E_FILE. */
export function record(x: unknown, what: string): Json {
  if (typeof x === 'object' && x !== null && !Array.isArray(x)) return x as Json
  throw malformedKept(`${what} is missing`)
}

/** A list of data. Throws E_FILE. */
export function list(x: unknown, what: string): readonly unknown[] {
  if (Array.isArray(x)) return x
  throw malformedKept(`${what} are missing`)
}

/** A whole number of at least 0. Throws E_FILE. */
export function whole(x: unknown, what: string): number {
  if (typeof x === 'number' && Number.isSafeInteger(x) && x >= 0) return x
  throw malformedKept(`${what} is no number`)
}

function dtypeOf(x: unknown): DType {
  const found = allDTypes.find((d) => d === x)
  if (found === undefined) throw malformedKept('elements of no type')
  return found
}
