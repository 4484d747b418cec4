/**
 * Cases compiled for both modes, and the devices that tests have to run them: CUDA sources on the host, WGSL on a software GPU. By day a case
 * is compiled for one of the modes, in turn, and of a longer list WGSL has a part.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import type { NumericsMode } from '../../src/kernel/ir.ts'
import type { Program } from '../../src/runtime/program.ts'
import type { Machine } from '../../src/target/machine.ts'
import { cudaSimt, type SimtMachine } from '../../src/target/simt.ts'
import type { HostArray } from '../../src/types/host.ts'
import { Emulated, hasCompiler } from '../simt/dialects/emulator/emulator.ts'
import { type Adapter, openDevice } from '../simt/dialects/wgsl.ts'
import { execute, executeWgsl } from '../simt/programs/programs.ts'
import { nightly, turn } from '../support/nightly.ts'

export const modes = ['fast', 'strict'] as const

export interface Compiled<Of> {
  readonly of: Of
  readonly mode: NumericsMode
  readonly program: Program
}

/** Cases by mode; each is compiled when its program is asked for. */
export const compileAll = <Of>(
  cases: readonly Of[],
  graphOf: (of: Of) => Graph,
  target: Machine,
  inModes: readonly NumericsMode[] = modes,
): Compiled<Of>[] =>
  cases.flatMap((of, i) =>
    turn(inModes, i).map((mode) => {
      let made: Program | undefined
      return {
        of,
        mode,
        get program() {
          made ??= compileGraph(graphOf(of), { target, mode, verify: true }).program
          return made
        },
      }
    }),
  )

/** Two in five of a list longer than three: of cases that come in twos and threes, some of each kind. */
const part = <T>(list: readonly T[]): readonly T[] =>
  nightly || list.length <= 3 ? list : list.filter((_, i) => i % 5 === 0 || i % 5 === 3)

export type Run = (program: Program, x: HostArray) => Promise<readonly HostArray[]>

/** What a case is run on, and what is wrong with its first result. */
export interface Held<Of, Given> {
  readonly given: (of: Of) => Iterable<Given>
  readonly valuesOf: (of: Of, given: Given) => HostArray
  readonly faultOf: (of: Of, mode: NumericsMode, given: Given, x: HostArray, got: HostArray) => string | undefined
}

/** What is wrong with all results. */
export async function faults<Of, Given>(
  all: readonly Compiled<Of>[],
  { given, valuesOf, faultOf }: Held<Of, Given>,
  run: Run,
): Promise<string[]> {
  const out: string[] = []
  for (const { of, mode, program } of all)
    for (const g of given(of)) {
      const x = valuesOf(of, g)
      const [y] = await run(program, x)
      const why = y === undefined ? 'no result' : faultOf(of, mode, g, x, y)
      if (why !== undefined) out.push(why)
    }
  return out
}

/** A test of programs as CUDA sources, on the host. */
export function testOnHost<Of, Given>(
  compiled: () => readonly Compiled<Of>[],
  held: Held<Of, Given>,
  simt: SimtMachine = cudaSimt,
): void {
  test.skipIf(!hasCompiler())('CUDA on the host (skipped where g++ is missing)', { timeout: 120_000 }, async () => {
    const all = compiled()
    const kernels = all.flatMap(({ program }) => program.steps.flatMap((x) => (x.kind === 'kernel' ? [x.kernel] : [])))
    const emulated = new Emulated(kernels, simt)
    const run: Run = (p, x) => execute(p, [x], (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
    expect(await faults(all, held, run)).toEqual([])
    emulated.dispose()
  })
}

/** A test of programs as WGSL, on a software GPU; `limits` of its blocks. */
export function testOnSoftwareGpu<Of, Given>(
  compiled: () => readonly Compiled<Of>[],
  held: Held<Of, Given>,
  limits: Partial<Adapter['limits']> = {},
): void {
  describe('on a software GPU', () => {
    let machine: Adapter | string
    beforeAll(async () => {
      machine = await openDevice()
    })
    test('WGSL', { timeout: 120_000 }, async ({ skip }) => {
      skip(typeof machine === 'string', String(machine))
      if (typeof machine === 'string') return
      const own = { ...machine, limits: { ...machine.limits, ...limits } }
      expect(await faults(part(compiled()), held, (p, x) => executeWgsl(own, p, [x]))).toEqual([])
    })
  })
}
