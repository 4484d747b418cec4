/** A device that compiles: graphs become launch plans, which a backend prepares and runs. */

import { type Capabilities, checkCapabilities } from '../../compile/capability.ts'
import { type Compiled as CompiledGraph, compileGraph } from '../../compile/index.ts'
import { compileOpen } from '../../compile/open/index.ts'
import { type CompiledFor, compileFor } from '../../compile/prepare.ts'
import type { FusionReport } from '../../report/data.ts'
import type { Backend, DeviceBuffer, Executable } from '../../runtime/backend.ts'
import type { Extents } from '../../runtime/extents.ts'
import { callsHost } from '../../runtime/region.ts'
import { debug } from '../../schedule/debug.ts'
import type { Machine } from '../../target/machine.ts'
import type { Compiled, Device, DeviceName } from './device.ts'
import { findKept, isKeeping, type KeptProgram, keep, keyOf, prepareKept } from './kept.ts'
import { largestOf, withLargest } from './largest.ts'
import { giveWeight, takeWeight } from './reclaim.ts'

/** What a program weighs at least: its modules, and what the engine compiles of them, are not on the engine's accounts either. */
const programBytes = 1 << 20

/** A program made ready, compiled or kept. */
type Ready = CompiledFor<Pick<CompiledGraph, 'program' | 'report'>>

/** A device of a backend, the description of its target, and what it cannot run (nothing unless given). */
export function createCompiledDevice(
  name: DeviceName,
  backend: Backend,
  target: Machine,
  capabilities?: Capabilities,
): Device {
  let known = target
  /** Compiles and prepares, or prepares what was kept; `tell` is told what came of it. */
  const ready = (
    compile: (target: Machine) => CompiledGraph,
    kept?: KeptProgram,
    tell: (executable: Executable, report: FusionReport) => void = () => {},
  ): Compiled => {
    let largest: string | undefined
    const named = <R>(body: () => R): R => {
      try {
        return body()
      } catch (error) {
        throw withLargest(error, largest)
      }
    }
    const made = named(
      (): Ready =>
        kept !== undefined
          ? { compiled: kept, executable: prepareKept(backend, kept), target: known }
          : compileFor(backend, known, (target) => {
              const compiled = compile(target)
              largest = largestOf(compiled)
              return compiled
            }),
    )
    known = made.target
    const { executable, compiled } = made
    const { program, report } = compiled
    tell(executable, report)
    // Functions that nobody refers to any more are collected when the engine sees their memory.
    let weight = takeWeight(Math.max(executable.residentBytes, programBytes))
    const calls = callsHost(program)
    let running = false
    let hasBegun = false
    const run = (inputs: readonly DeviceBuffer[], at: Extents | undefined): DeviceBuffer[] => {
      if (!calls) return executable.run(inputs, at)
      // A program that code of the user calls while it runs is not the one that runs: addresses and intermediates are of one run.
      const now = running ? backend.prepare(program) : executable
      const before = running
      running = true
      try {
        return now.run(inputs, at)
      } finally {
        running = before
        hasBegun = now.hasBegun
        if (now !== executable) now.dispose()
      }
    }
    return {
      run: (inputs, at) => named(() => run(inputs, at)),
      get hasBegun() {
        return calls ? hasBegun : executable.hasBegun
      },
      report,
      program,
      get residentBytes() {
        return executable.residentBytes
      },
      dispose: () => {
        executable.dispose()
        giveWeight(weight)
        weight = undefined
      },
    }
  }
  return {
    name,
    upload: (data) => {
      const buffer = backend.alloc(data.byteLength)
      backend.write(buffer, data)
      return buffer
    },
    readSync: (buffer, dtype, n) => backend.readSync(buffer, dtype, n),
    read: (buffer, dtype, n) => backend.read(buffer, dtype, n),
    free: (buffer) => {
      backend.free(buffer)
    },
    copy: (buffer) => backend.copy(buffer),
    memory: () => backend.memory(),
    compile: (graph, request) => {
      const { mode, donated, name: label, budgets, precision } = request
      if (capabilities !== undefined) checkCapabilities(graph, name, capabilities)
      const asked = isKeeping() ? keyOf(graph, request, backend, known) : undefined
      const kept = asked === undefined ? undefined : findKept(asked.key, graph, asked.literals)
      const compile = (target: Machine): CompiledGraph =>
        compileGraph(graph, {
          mode,
          target,
          donated,
          name: label,
          budgets,
          ...(precision === undefined ? {} : { precision }),
        })
      return ready(compile, kept, (executable, report) => {
        if (asked !== undefined && kept === undefined) keep(asked.key, asked.literals, executable, report)
      })
    },
    compileOpen:
      backend.runsOpen === true
        ? (instances, dimensions, { mode, donated, name: label, budgets, precision }) => {
            const [first] = instances
            if (capabilities !== undefined && first !== undefined) checkCapabilities(first.graph, name, capabilities)
            return ready((target) =>
              compileOpen(instances, dimensions, {
                mode,
                target,
                donated,
                name: label,
                verify: debug.verify,
                memoryBudget: budgets?.memory,
                ...(precision === undefined ? {} : { precision }),
              }),
            )
          }
        : undefined,
  }
}
