/** Control flow run: inner programs bound to buffers of the program around them, step by step. Nothing is allocated here. */
import { invariant } from '../../diagnostics/errors.ts'
import { bytesAt, type Extents, type Formula, formulaAt } from '../../runtime/extents.ts'
import type { CondStep, InnerProgram, LoopStep, Program, RegionStep, WhileStep } from '../../runtime/program.ts'
import { writtenPlace } from '../../runtime/region.ts'
import type { Device } from './device.ts'

/** A program whose buffers have addresses. */
export interface Placed {
  readonly program: Program
  /** The extents of the run, where the program has open ones. */
  at: Extents | undefined
  address(buffer: number): number
  /** Says where an input or output stands in the next run; `words` is memory. */
  bind(buffer: number, address: number, words: Uint32Array): void
  run(): void
}

/** A region ready to run; where its operands stand is read from the program around it at each run. */
export interface Region {
  run(): void
}

type Place = (inner: InnerProgram) => Placed

/** `place` prepares the programs inside. */
export function prepareRegion(around: Placed, step: RegionStep, device: Device, place: Place): Region {
  switch (step.kind) {
    case 'cond':
      return cond(around, step, device, place)
    case 'while':
      return whileLoop(around, step, device, place)
    case 'loop':
      return loop(around, step, device, place)
  }
}

/** Bytes of a buffer of a program in the run. */
function bytesOf({ program, at }: Placed, buffer: number): number {
  const b = program.buffers[buffer]
  return b === undefined ? 0 : bytesAt(b, at)
}

/** A bool scalar in memory. */
const holds = (words: Uint32Array, address: number): boolean =>
  (((words[address >>> 2] ?? 0) >>> (8 * (address & 3))) & 0xff) !== 0

/** Binds inputs from number `first` on to buffers of the program around. */
function bindInputs(p: Placed, first: number, around: Placed, buffers: readonly number[], words: Uint32Array): void {
  buffers.forEach((b, i) => {
    p.bind(p.program.inputs[first + i] ?? -1, around.address(b), words)
  })
}

function cond(around: Placed, step: CondStep, device: Device, place: Place): Region {
  const whenTrue = place(step.whenTrue)
  const whenFalse = place(step.whenFalse)
  return {
    run: () => {
      const words = device.words()
      const taken = holds(words, around.address(step.test)) ? whenTrue : whenFalse
      taken.at = around.at
      bindInputs(taken, 0, around, step.operands, words)
      step.results.forEach((b, i) => {
        taken.bind(taken.program.outputs[i] ?? -1, around.address(b), words)
      })
      taken.run()
    },
  }
}

function whileLoop(around: Placed, step: WhileStep, device: Device, place: Place): Region {
  const test = place(step.test)
  const body = place(step.body)
  const first = step.consts.length
  const carries = step.carries.map((c, i) => ({
    ...c,
    tested: test.program.inputs[first + i] ?? -1,
    read: body.program.inputs[first + i] ?? -1,
    written: body.program.outputs[i] ?? -1,
    /** Where the carry stands. */
    at: 0,
  }))
  return {
    run: () => {
      let words = device.words()
      const flag = around.address(step.flag)
      test.at = around.at
      body.at = around.at
      bindInputs(test, 0, around, step.consts, words)
      bindInputs(body, 0, around, step.consts, words)
      test.bind(test.program.outputs[0] ?? -1, flag, words)
      for (const c of carries) c.at = around.address(c.init)
      for (;;) {
        words = device.words()
        for (const c of carries) test.bind(c.tested, c.at, words)
        test.run()
        if (!holds(device.words(), flag)) break
        words = device.words()
        for (const c of carries) {
          const result = around.address(c.result)
          // The spare first: the result may stand over what the first step reads.
          const next = c.spare === undefined || c.at === around.address(c.spare) ? result : around.address(c.spare)
          body.bind(c.read, c.at, words)
          body.bind(c.written, next, words)
          c.at = next
        }
        body.run()
      }
      for (const c of carries) device.copy(c.at, around.address(c.result), bytesOf(around, c.result))
    },
  }
}

function loop(around: Placed, step: LoopStep, device: Device, place: Place): Region {
  const { reverse, varying } = step
  const body = place(step.body)
  const { inputs, outputs } = body.program
  const firstCarry = step.consts.length
  const firstSequence = firstCarry + step.carries.length
  const carries = step.carries.map((place, i) => ({
    place,
    read: inputs[firstCarry + i] ?? -1,
    written: outputs[i] ?? -1,
    at: 0,
  }))
  const elements = [
    ...step.sequences.map((buffer, i) => ({ buffer, inner: inputs[firstSequence + i] ?? -1 })),
    ...step.results.map((buffer, i) => ({ buffer, inner: outputs[step.carries.length + i] ?? -1 })),
  ].map((x) => ({ ...x, bytes: 0, base: 0 }))
  return {
    run: () => {
      body.at = around.at
      const length = varying === undefined ? step.length : lengthAt(varying, around.at)
      bindInputs(body, 0, around, step.consts, device.words())
      for (const c of carries) c.at = around.address(c.place.init)
      for (const e of elements) {
        e.base = around.address(e.buffer)
        e.bytes = bytesOf(body, e.inner)
      }
      for (let t = 0; t < length; t++) {
        const words = device.words()
        for (const c of carries) {
          body.bind(c.read, c.at, words)
          c.at = around.address(writtenPlace(c.place, t, length))
          body.bind(c.written, c.at, words)
        }
        const i = reverse ? length - 1 - t : t
        for (const e of elements) body.bind(e.inner, e.base + i * e.bytes, words)
        body.run()
      }
      if (length > 0) return
      for (const { place } of carries)
        device.copy(around.address(place.init), around.address(place.result), bytesOf(around, place.result))
    },
  }
}

function lengthAt(f: Formula, at: Extents | undefined): number {
  invariant(at !== undefined, 'a program with open extents runs without them')
  return formulaAt(f, at)
}
