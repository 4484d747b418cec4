/** Control flow run: inner programs bound to buffers of the program around them, step by step. Nothing is allocated here. */
import { type CondStep, type LoopStep, type RegionStep, type WhileStep, writtenPlace } from '../../runtime/region.ts'
import { bufferOf, type Preparation, type Prepared, prepareInner } from './prepared.ts'

/** A region ready to run; where its operands stand is read from the program around it at each run. */
export interface Region {
  run(): void
}

export function prepareRegion(around: Prepared, step: RegionStep, preparation: Preparation): Region {
  switch (step.kind) {
    case 'cond':
      return cond(around, step, preparation)
    case 'while':
      return whileLoop(around, step, preparation)
    case 'loop':
      return loop(around, step, preparation)
  }
}

/** A bool scalar in memory. */
const holds = (words: Uint32Array, address: number): boolean =>
  (((words[address >>> 2] ?? 0) >>> (8 * (address & 3))) & 0xff) !== 0

/** Binds inputs from number `first` on to buffers of the program around. */
function bindInputs(
  p: Prepared,
  first: number,
  around: Prepared,
  buffers: readonly number[],
  words: Uint32Array,
): void {
  buffers.forEach((b, i) => {
    p.bind(p.program.inputs[first + i] ?? -1, around.address(b), words)
  })
}

function cond(around: Prepared, step: CondStep, preparation: Preparation): Region {
  const whenTrue = prepareInner(around, step.whenTrue, preparation)
  const whenFalse = prepareInner(around, step.whenFalse, preparation)
  return {
    run: () => {
      const words = preparation.device.words()
      const taken = holds(words, around.address(step.test)) ? whenTrue : whenFalse
      bindInputs(taken, 0, around, step.operands, words)
      step.results.forEach((b, i) => {
        taken.bind(taken.program.outputs[i] ?? -1, around.address(b), words)
      })
      taken.run()
    },
  }
}

function whileLoop(around: Prepared, step: WhileStep, preparation: Preparation): Region {
  const { device } = preparation
  const test = prepareInner(around, step.test, preparation)
  const body = prepareInner(around, step.body, preparation)
  const first = step.consts.length
  const carries = step.carries.map((c, i) => ({
    ...c,
    bytes: bufferOf(around.program, c.result).bytes,
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
      for (const c of carries) device.copy(c.at, around.address(c.result), c.bytes)
    },
  }
}

function loop(around: Prepared, step: LoopStep, preparation: Preparation): Region {
  const { device } = preparation
  const { length, reverse } = step
  const body = prepareInner(around, step.body, preparation)
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
  ].map((x) => ({ ...x, bytes: bufferOf(body.program, x.inner).bytes, base: 0 }))
  return {
    run: () => {
      bindInputs(body, 0, around, step.consts, device.words())
      for (const c of carries) c.at = around.address(c.place.init)
      for (const e of elements) e.base = around.address(e.buffer)
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
    },
  }
}
