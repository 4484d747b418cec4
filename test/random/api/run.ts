/** Running random programs of the public interface on a device, and comparing what they give. */
import { createCompiledDevice } from '../../../src/api/compiled.ts'
import type { Device } from '../../../src/api/device.ts'
import { useDevice } from '../../../src/api/session.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import { compileFor } from '../../../src/compile/prepare.ts'
import * as s from '../../../src/index.ts'
import type { TargetInfo } from '../../../src/plan/target.ts'
import type { Backend } from '../../../src/runtime/backend.ts'
import { type DType, isFloat } from '../../../src/types/dtype.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { makeRng, type Rng } from '../rng.ts'
import type { ApiProgram } from './programs.ts'
import { evaluate, roundoff } from './writer.ts'

/** What a tensor held. */
export interface Held {
  readonly shape: readonly number[]
  readonly dtype: DType
  readonly data: HostArray
}

/** A device that compiles for a target with every form verified, with or without fusion. */
export function checkedDevice(backend: Backend, target: TargetInfo, fuse: boolean): Device {
  const device = createCompiledDevice('wasm', backend, target)
  return {
    ...device,
    compile: (graph, { mode, donated, name, budgets }) => {
      const { compiled, executable } = compileFor(backend, target, (known) =>
        compileGraph(graph, { mode, target: known, donated, name, budgets, fuse, verify: true }),
      )
      return {
        run: (inputs) => executable.run(inputs),
        get hasBegun() {
          return executable.hasBegun
        },
        report: compiled.report,
        program: compiled.program,
        dispose: () => {
          executable.dispose()
        },
      }
    },
  }
}

export interface Way {
  readonly device: Device
  /** Without one, operations run lazily. */
  readonly mode?: 'fast' | 'strict'
  /** Moves the numbers of the inputs by about their roundoff. */
  readonly moved?: boolean
  /** Calls in a row. */
  readonly calls: number
}

function inputsOf(p: ApiProgram, moved: Rng | undefined): Map<string, s.Tensor> {
  return new Map(
    p.inputs.map((input) => {
      const t = evaluate(input.text, []) as s.Tensor
      if (moved === undefined || !input.movable) return [input.name, t]
      const by = roundoff(t.dtype)
      const data = Array.from<number | bigint, number>(
        t.dataSync(),
        (x) => Number(x) * (1 + (moved.chance(0.5) ? by : -by)),
      )
      return [input.name, s.tensor(data, { shape: t.shape, dtype: t.dtype })]
    }),
  )
}

const read = async (t: s.Tensor): Promise<Held> => ({ shape: t.shape, dtype: t.dtype, data: await t.data() })

/** The function of a program on inputs that it closes over. */
export function functionOf(p: ApiProgram, values: ReadonlyMap<string, s.Tensor>): (...args: s.Tensor[]) => s.Tensor[] {
  return evaluate(
    p.text,
    [...values].filter(([name]) => !p.params.includes(name)),
  ) as (...args: s.Tensor[]) => s.Tensor[]
}

/** Two of the parameters that are not donated and have one type, where there are two. */
function twins(p: ApiProgram, values: ReadonlyMap<string, s.Tensor>): readonly [number, number] | undefined {
  const kept = p.params.flatMap((name, i) => {
    const t = values.get(name)
    return t === undefined || p.donate.includes(i) ? [] : [{ i, type: `${t.dtype}[${t.shape}]` }]
  })
  for (const [k, a] of kept.entries()) {
    const b = kept.slice(k + 1).find((c) => c.type === a.type)
    if (b !== undefined) return [a.i, b.i]
  }
  return undefined
}

/** The same value held by two tensors. */
const shared = s.jit((x: s.Tensor) => [x, x] as const)

/**
 * What each call gives. Donated arguments must be gone after it, the others must be what they were, and so must what holds the
 * value of a donated one too. In half of the programs two parameters get one tensor.
 */
export async function results(p: ApiProgram, way: Way): Promise<Held[]> {
  useDevice(way.device)
  const data = (): Map<string, s.Tensor> => inputsOf(p, way.moved === true ? makeRng(p.seed) : undefined)
  const values = data()
  const donated = new Set(way.mode === undefined ? [] : p.donate)
  const kept = new Map(values)
  for (const i of donated) {
    const name = p.params[i] ?? ''
    const t = values.get(name)
    if (t === undefined) continue
    kept.delete(name)
    if (i % 2 === 0) continue
    const [given, other] = shared(t)
    values.set(name, given)
    kept.set(name, other)
  }
  const before = new Map<string, Held>()
  for (const [name, t] of kept) before.set(name, await read(t))
  const f = functionOf(p, values)
  const call = way.mode === undefined ? f : s.jit(f, { mode: way.mode, donate: [...donated] })
  const held: Held[] = []
  let args = p.params.map((name) => values.get(name) ?? s.zeros([]))
  const [same, twin] = (p.seed % 2 === 0 ? twins(p, values) : undefined) ?? [0, 0]
  for (let i = 0; i < way.calls; i++) {
    // Donated arguments are gone: the next call gets new ones, unless it gets results of this one.
    const fresh = i > 0 ? data() : values
    args = args.map((t, k) => (t.disposed ? (fresh.get(p.params[k] ?? '') ?? t) : t))
    args[twin] = args[same] ?? s.zeros([])
    const out = call(...args)
    for (const t of out) held.push(await read(t))
    for (const [k, t] of args.entries())
      if (t.disposed !== donated.has(k)) throw new Error(`argument ${k} is ${t.disposed ? '' : 'not '}disposed`)
    const taken = new Set<s.Tensor>()
    args = args.map((t, k) => {
      const result = out[p.next.get(k) ?? -1]
      if (result === undefined || taken.has(result)) return t
      taken.add(result)
      return result
    })
  }
  for (const [name, was] of before) {
    const t = kept.get(name)
    if (t !== undefined && !sameBytes(await read(t), was)) throw new Error(`the input ${name} is written over`)
  }
  return held
}

/** Equal bit for bit; any NaN for any NaN. */
export function sameBytes(a: Held, b: Held): boolean {
  return a.data.length === b.data.length && a.data.every((x, i) => Object.is(x, b.data[i]))
}

function extremeOf({ data }: Held): number {
  let most = 0
  for (const x of data) most = Math.max(most, Math.abs(Number(x)) || 0)
  return most
}

/** How far two values are apart at most; infinite where one of them alone is no number. */
function distance(a: Held, b: Held): number {
  let most = 0
  for (let i = 0; i < a.data.length; i++) {
    const [x, y] = [a.data[i], b.data[i]]
    if (Object.is(x, y)) continue
    const d = Math.abs(Number(x) - Number(y))
    most = Math.max(most, Number.isNaN(d) ? Number.POSITIVE_INFINITY : d)
  }
  return most
}

/**
 * How far results may be from those in float64: several times what rounding after every operation and moving the inputs a little
 * do to them, and what one rounding of a value on the way may do; undefined where that is so much that nothing can be said.
 */
export function bounds(
  p: ApiProgram,
  exact: readonly Held[],
  others: readonly (readonly Held[])[],
): (number | undefined)[] {
  return exact.map((e, i) => {
    if (!isFloat(e.dtype)) return 0
    const scale = extremeOf(e)
    const seen = Math.max(...others.map((o) => distance(e, o[i] ?? e)))
    const least = Math.max(p.noise[i % p.noise.length] ?? 0, roundoff(e.dtype) * scale)
    const bound = 8 * Math.max(seen, least)
    return bound <= 0.25 * scale + 1e-3 ? bound : undefined
  })
}

/** What is wrong with results; undefined if nothing. */
export function wrong(
  got: readonly Held[],
  want: readonly Held[],
  bound: readonly (number | undefined)[],
): string | undefined {
  if (got.length !== want.length) return `${got.length} results, not ${want.length}`
  for (const [k, w] of want.entries()) {
    const g = got[k]
    if (g === undefined || g.dtype !== w.dtype || g.shape.join() !== w.shape.join())
      return `result ${k} is ${g?.dtype}[${g?.shape}], not ${w.dtype}[${w.shape}]`
    const most = bound[k]
    if (most === undefined) continue
    for (let i = 0; i < w.data.length; i++) {
      const [x, y] = [g.data[i], w.data[i]]
      if (Object.is(x, y) || Math.abs(Number(x) - Number(y)) <= most) continue
      return `result ${k}, element ${i} of ${w.dtype}[${w.shape}]: ${x}, not ${y} (bound ${most})`
    }
  }
  return undefined
}
