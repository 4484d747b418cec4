/**
 * A launch plan as a list of commands over places in memory: inner programs are bound to the memory of the programs around
 * them and loops of known length are written out, so that what remains for a host between launches is what needs one.
 */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import type { HostArray } from '../types/host.ts'
import type { Formula } from './extents.ts'
import type {
  CondStep,
  InnerProgram,
  KernelStep,
  LoopStep,
  ProductStep,
  Program,
  ProgramBuffer,
  ProgramStep,
  WhileStep,
} from './program.ts'
import { writtenPlace } from './region.ts'

/** Memory that places refer to. Constants are filled before the first run; inputs and outputs are bound at each. */
export type Base =
  | { readonly kind: 'arena'; readonly bytes: number }
  | { readonly kind: 'scratch'; readonly bytes: number }
  | { readonly kind: 'constant'; readonly bytes: number; readonly data: HostArray }
  | { readonly kind: 'input'; readonly bytes: number; readonly index: number }
  | { readonly kind: 'output'; readonly bytes: number; readonly buffer: number }

/** `bytes` bytes at an offset of a base (by number). */
export interface Place {
  readonly base: number
  readonly offset: number
  readonly bytes: number
  /** Its bytes in a launch, where they vary: `bytes` at most. */
  readonly varying?: Formula
}

export type OpaqueStep = Extract<ProgramStep, { kind: 'opaque' }>
export type InspectStep = Extract<ProgramStep, { kind: 'inspect' }>

/** `top` is the step of the outermost program it belongs to. */
export type Command =
  /** `program` is the one around the step. */
  | {
      readonly kind: 'launch'
      readonly top: number
      readonly step: KernelStep
      readonly program: Program
      readonly places: readonly Place[]
    }
  | {
      readonly kind: 'product'
      readonly top: number
      readonly step: ProductStep
      readonly a: Place
      readonly b: Place
      readonly out: Place
      readonly addend: Place | undefined
    }
  | { readonly kind: 'copy'; readonly top: number; readonly from: Place; readonly to: Place }
  | {
      readonly kind: 'opaque'
      readonly top: number
      readonly step: OpaqueStep
      readonly inputs: readonly BoundBuffer[]
      readonly output: BoundBuffer
    }
  | { readonly kind: 'inspect'; readonly top: number; readonly step: InspectStep; readonly buffer: BoundBuffer }
  | {
      readonly kind: 'cond'
      readonly top: number
      readonly step: CondStep
      readonly test: Place
      readonly whenTrue: readonly Command[]
      readonly whenFalse: readonly Command[]
    }
  | {
      readonly kind: 'while'
      readonly top: number
      readonly step: WhileStep
      readonly flag: Place
      readonly rounds: readonly Round[]
    }
  /** A loop too long to be written out: the commands of each step in order. */
  | { readonly kind: 'repeat'; readonly top: number; readonly length: number; readonly at: (step: number) => Command[] }

/** A buffer of a program and where it stands. */
export interface BoundBuffer {
  readonly place: Place
  readonly buffer: ProgramBuffer
}

/**
 * A `while` in one of the states its carries go through: the test, then (where it holds) the body, after which it is in the
 * state `next`, or (where it does not) `finish`. It starts in the first.
 */
export interface Round {
  readonly test: readonly Command[]
  readonly body: readonly Command[]
  readonly finish: readonly Command[]
  readonly next: number
}

export interface CommandList {
  readonly bases: readonly Base[]
  readonly commands: readonly Command[]
  /** Place of each buffer of the program; none for outputs that stand in other buffers (taken over memory). */
  readonly places: readonly (Place | undefined)[]
}

export interface CommandOptions {
  /** Bytes that places of kernels must be aligned to (and whole multiples of, where others follow them). */
  readonly alignment: number
  /** Most commands a loop may be written out to. */
  readonly longest?: number
}

export function bufferOf(program: Program, b: number): ProgramBuffer {
  const found = program.buffers[b]
  if (found === undefined) throw new InternalError(`program ${program.name} has no buffer ${b}`)
  return found
}

/** Whether two places have bytes in common. */
export const overlapping = (a: Place, b: Place): boolean =>
  a.base === b.base && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes

/** Elements of a buffer as its host array holds them. */
export const elementsOf = (b: ProgramBuffer): number => b.shape.reduce((n, d) => n * d, 1)

export function commandsOf(program: Program, options: CommandOptions): CommandList {
  const writer = new Writer(options)
  const arena = program.arenaBytes > 0 ? writer.base({ kind: 'arena', bytes: program.arenaBytes }) : undefined
  const handedOut = new Set(program.outputs)
  const places = program.buffers.map((b, i) =>
    b.source.kind === 'output' && !handedOut.has(i) ? undefined : writer.placeOf(b, i, arena),
  )
  const commands = program.steps.flatMap((step, top) => writer.step(new Bound(program, places), step, top))
  return { bases: writer.bases, commands, places }
}

/** A program whose buffers have places. */
class Bound {
  readonly program: Program
  readonly places: readonly (Place | undefined)[]

  constructor(program: Program, places: readonly (Place | undefined)[]) {
    this.program = program
    this.places = places
  }

  at(buffer: number): Place {
    const place = this.places[buffer]
    if (place === undefined) throw new InternalError(`buffer ${buffer} of program ${this.program.name} has no place`)
    return place
  }

  bound(buffer: number): BoundBuffer {
    return { place: this.at(buffer), buffer: bufferOf(this.program, buffer) }
  }
}

class Writer {
  readonly bases: Base[] = []
  private readonly options: CommandOptions
  private readonly constants = new Map<HostArray, number>()
  private readonly scratch = new Map<LoopStep, Map<number, Place>>()

  constructor(options: CommandOptions) {
    this.options = options
  }

  base(b: Base): number {
    return this.bases.push(b) - 1
  }

  constant(data: HostArray, bytes: number): number {
    const have = this.constants.get(data)
    if (have !== undefined) return have
    const made = this.base({ kind: 'constant', bytes, data })
    this.constants.set(data, made)
    return made
  }

  /** Where a buffer of the outermost program stands. */
  placeOf({ source, bytes, varying }: ProgramBuffer, buffer: number, arena: number | undefined): Place {
    const own = varying === undefined ? { bytes } : { bytes, varying }
    const whole = (base: number): Place => ({ base, offset: 0, ...own })
    switch (source.kind) {
      case 'temp':
        return { base: arena ?? -1, offset: source.offset, ...own }
      case 'constant':
        return whole(this.constant(source.data, bytes))
      case 'input':
        return whole(this.base({ kind: 'input', bytes, index: source.index }))
      case 'output':
        return whole(this.base({ kind: 'output', bytes, buffer }))
    }
  }

  step(around: Bound, step: ProgramStep, top: number): Command[] {
    switch (step.kind) {
      case 'kernel': {
        const places = step.buffers.map((b) => around.at(b))
        return [{ kind: 'launch', top, step, program: around.program, places }]
      }
      case 'product':
        return [
          {
            kind: 'product',
            top,
            step,
            a: around.at(step.a),
            b: around.at(step.b),
            out: around.at(step.out),
            addend: step.addend === undefined ? undefined : around.at(step.addend),
          },
        ]
      case 'copy': {
        const [from, to] = [around.at(step.from), around.at(step.to)]
        return copied(from, to, top)
      }
      case 'opaque':
        return [
          {
            kind: 'opaque',
            top,
            step,
            inputs: step.inputs.map((b) => around.bound(b)),
            output: around.bound(step.output),
          },
        ]
      case 'inspect':
        return [{ kind: 'inspect', top, step, buffer: around.bound(step.buffer) }]
      case 'cond':
        return [this.cond(around, step, top)]
      case 'while':
        return [this.whileLoop(around, step, top)]
      case 'loop':
        return this.loop(around, step, top)
    }
  }

  /** The commands of an inner program with its inputs and outputs at places. */
  private inside(
    around: Bound,
    { program, arena }: InnerProgram,
    inputs: readonly Place[],
    outputs: readonly Place[],
    top: number,
  ): Command[] {
    const given = new Map<number, Place>()
    program.inputs.forEach((b, i) => {
      const p = inputs[i]
      if (p !== undefined) given.set(b, p)
    })
    program.outputs.forEach((b, i) => {
      const p = outputs[i]
      if (p !== undefined && bufferOf(program, b).source.kind === 'output') given.set(b, p)
    })
    const block = arena === undefined ? undefined : around.at(arena)
    const places = program.buffers.map((b, i): Place | undefined => {
      const own = b.varying === undefined ? { bytes: b.bytes } : { bytes: b.bytes, varying: b.varying }
      if (b.source.kind === 'constant')
        return { base: this.constant(b.source.data, b.bytes), offset: 0, bytes: b.bytes }
      if (b.source.kind === 'temp') {
        invariant(block !== undefined, `program ${program.name} has no arena`)
        return { base: block.base, offset: block.offset + b.source.offset, ...own }
      }
      const place = given.get(i)
      return place === undefined ? undefined : { base: place.base, offset: place.offset, ...own }
    })
    const bound = new Bound(program, places)
    return program.steps.flatMap((s) => this.step(bound, s, top))
  }

  private cond(around: Bound, step: CondStep, top: number): Command {
    const operands = step.operands.map((b) => around.at(b))
    const results = step.results.map((b) => around.at(b))
    const branch = (inner: InnerProgram): Command[] => this.inside(around, inner, operands, results, top)
    return {
      kind: 'cond',
      top,
      step,
      test: around.at(step.test),
      whenTrue: branch(step.whenTrue),
      whenFalse: branch(step.whenFalse),
    }
  }

  private whileLoop(around: Bound, step: WhileStep, top: number): Command {
    const flag = around.at(step.flag)
    const consts = step.consts.map((b) => around.at(b))
    const init = step.carries.map((c) => around.at(c.init))
    const result = step.carries.map((c) => around.at(c.result))
    const spare = step.carries.map((c) => around.at(c.spare ?? c.result))
    const turns = step.carries.some((c) => c.spare !== undefined)
    const round = (at: readonly Place[], to: readonly Place[], next: number): Round => ({
      test: this.inside(around, step.test, [...consts, ...at], [flag], top),
      body: this.inside(around, step.body, [...consts, ...at], to, top),
      finish: at.flatMap((p, i) => copied(p, result[i] ?? p, top)),
      next,
    })
    // Carries go from their initial places to the spare ones (the results may stand over the initial ones), then in turns.
    const rounds = turns
      ? [round(init, spare, 1), round(spare, result, 2), round(result, spare, 1)]
      : [round(init, result, 1), round(result, result, 1)]
    return { kind: 'while', top, step, flag, rounds }
  }

  /** Where an element stands while a step works on it: itself, or scratch where its own place is not aligned. */
  private elementPlace(step: LoopStep, number: number, at: Place): Place {
    if (at.bytes % this.options.alignment === 0) return at
    const mine = this.scratch.get(step) ?? new Map<number, Place>()
    this.scratch.set(step, mine)
    const have = mine.get(number)
    if (have !== undefined) return have
    const made: Place = { base: this.base({ kind: 'scratch', bytes: at.bytes }), offset: 0, bytes: at.bytes }
    mine.set(number, made)
    return made
  }

  private loop(around: Bound, step: LoopStep, top: number): Command[] {
    const { length, reverse, varying } = step
    invariant(varying === undefined, 'a loop whose steps are written out has as many at each launch')
    const { inputs, outputs } = step.body.program
    const consts = step.consts.map((b) => around.at(b))
    const firstElement = step.consts.length + step.carries.length
    const bytesOf = (b: number | undefined): number => bufferOf(step.body.program, b ?? -1).bytes
    const element = (buffer: number, bytes: number, i: number): Place => {
      const whole = around.at(buffer)
      return { base: whole.base, offset: whole.offset + i * bytes, bytes }
    }
    const at = (t: number): Command[] => {
      const i = reverse ? length - 1 - t : t
      const read = step.carries.map((c) => around.at(t === 0 ? c.init : writtenPlace(c, t - 1, length)))
      const written = step.carries.map((c) => around.at(writtenPlace(c, t, length)))
      const taken = step.sequences.map((b, k) => element(b, bytesOf(inputs[firstElement + k]), i))
      const given = step.results.map((b, k) => element(b, bytesOf(outputs[step.carries.length + k]), i))
      const takenAt = taken.map((p, k) => this.elementPlace(step, k, p))
      const givenAt = given.map((p, k) => this.elementPlace(step, taken.length + k, p))
      return [
        ...taken.flatMap((p, k) => copied(p, takenAt[k] ?? p, top)),
        ...this.inside(around, step.body, [...consts, ...read, ...takenAt], [...written, ...givenAt], top),
        ...given.flatMap((p, k) => copied(givenAt[k] ?? p, p, top)),
      ]
    }
    const first = at(0)
    if (length * first.length > (this.options.longest ?? 4096)) return [{ kind: 'repeat', top, length, at }]
    return [first, ...Array.from({ length: length - 1 }, (_, t) => at(t + 1))].flat()
  }
}

/** A copy between places that differ. */
function copied(from: Place, to: Place, top: number): Command[] {
  if (to.bytes === 0 || (from.base === to.base && from.offset === to.offset)) return []
  return [{ kind: 'copy', top, from: { ...from, bytes: to.bytes }, to }]
}
