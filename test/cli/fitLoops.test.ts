/** Fitting the seconds of a record of loops: a made-up machine's times give its numbers back. */
import { describe, expect, test } from 'vitest'
import { fitLoops, type Probe } from '../../src/cli/calibrate/fitLoops.ts'
import { loopPrograms } from '../../src/cli/calibrate/loops.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { scheduledSteps, stepSeconds } from '../../src/compile/predicted.ts'
import { type LoopMachine, loopUnits } from '../../src/target/loops.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { atNight, some } from '../support/nightly.ts'

function shippedLoops(): LoopMachine {
  const { loops } = wasmTarget
  if (loops === undefined) throw new Error('WebAssembly has loops')
  return loops
}

/** What a machine with such loops would take for the programs that calibration runs. */
function probesOn(made: LoopMachine): Probe[] {
  return loopPrograms().map(({ graph }) => {
    const steps = scheduledSteps(compileGraph(graph, { mode: 'fast', target: wasmTarget }).program, wasmTarget)
    const predict = (loops: LoopMachine): number =>
      steps.reduce((n, s) => n + stepSeconds(s, { ...wasmTarget, loops }), 0)
    return { seconds: predict(made), predict }
  })
}

const start = shippedLoops()
const measured = [
  'whole',
  'shuffled',
  'strided',
  'gathered',
  'divided',
  'round',
  'entry',
  'leave',
  'merge',

  'late',
] as const

describe('fitting', () => {
  test('a machine that is as the record says leaves the record as it is', () =>
    expect(fitLoops(start, probesOn(start))).toEqual(start))

  test.each(some(measured, 5))('twice the %s is found', (name) => {
    const made = { ...start, [name]: 2 * start[name] }
    const found = fitLoops(start, probesOn(made))
    expect(found[name] / made[name]).toBeGreaterThan(0.75)
    expect(found[name] / made[name]).toBeLessThan(1.33)
    for (const n of measured) if (n !== name) expect(found[n] / start[n], n).toBeLessThan(1.7)
    for (const n of measured) if (n !== name) expect(found[n] / start[n], n).toBeGreaterThan(0.6)
  })

  test('counts, shares and what no probe asks for stay the record’s', () => {
    const made = Object.fromEntries(
      Object.entries(start).map(([n, x]) => [n, loopUnits[n as keyof LoopMachine] === 'seconds' ? 3 * x : x]),
    ) as unknown as LoopMachine
    const found = fitLoops(start, probesOn(made))
    for (const [n, unit] of Object.entries(loopUnits) as [keyof LoopMachine, string][])
      if (unit !== 'seconds' || n === 'program' || n === 'window') expect(found[n], n).toBe(start[n])
    for (const n of measured) expect(found[n], n).toBeGreaterThan(start[n])
  })

  atNight('times that nothing explains take no number further than eight times', () => {
    const found = fitLoops(
      start,
      probesOn(start).map((p) => ({ ...p, seconds: 1000 * p.seconds })),
    )
    for (const n of Object.keys(start) as (keyof LoopMachine)[]) {
      expect(found[n] / start[n]).toBeLessThanOrEqual(8)
      expect(found[n] / start[n]).toBeGreaterThanOrEqual(1 / 8)
    }
  })
})
