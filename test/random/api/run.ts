/** Running random programs of the public interface on a device, and comparing what they give. */
import { createCompiledDevice } from '../../../src/api/device/compiled.ts'
import type { Device } from '../../../src/api/device/device.ts'
import { useDevice } from '../../../src/api/device/session.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import { compileFor } from '../../../src/compile/prepare.ts'
import * as s from '../../../src/index.ts'
import type { Backend } from '../../../src/runtime/backend.ts'
import type { Machine } from '../../../src/target/machine.ts'
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
export function checkedDevice(backend: Backend, target: Machine, fuse: boolean): Device {
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
        residentBytes: executable.residentBytes,
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
  /** With less memory than it takes otherwise. */
  readonly tight?: boolean
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

/** A value that must not change, and what it is. */
interface Watched {
  readonly name: string
  readonly tensor: s.Tensor
  readonly was: Held
}

/**
 * A tensor to be donated that is not alone: another one holds its value too, or it is a view of another that is not evaluated
 * yet, and something else waits for it as well.
 */
async function entangled(name: string, t: s.Tensor, how: number): Promise<readonly [s.Tensor, readonly Watched[]]> {
  const was = await read(t)
  if (how === 0) return [t, []]
  if (how === 1) {
    const [given, other] = shared(t)
    return [given, [{ name: `what shares ${name}`, tensor: other, was }]]
  }
  const given = t.flatten().reshape(t.shape)
  const flipped = { ...was, data: was.data.slice().reverse(), shape: [t.size] }
  return [
    given,
    [
      { name: `the base of ${name}`, tensor: t, was },
      { name: `what waits for ${name}`, tensor: given.flatten().flip(0), was: flipped },
    ],
  ]
}

/** The function jitted, with less memory than it takes otherwise where `tight`. */
function jitted(p: ApiProgram, f: (...args: s.Tensor[]) => s.Tensor[], way: Way, args: readonly s.Tensor[]): typeof f {
  const options = { mode: way.mode ?? 'fast', donate: p.donate }
  const plain = s.jit(f, options)
  if (way.tight !== true) return plain
  const report = plain.explain(...args)
  if (String(report) === '') throw new Error('an empty report')
  const budgets = {
    memoryBudget: Math.floor(report.memory.arenaBytes * 0.7),
    savedBudget: Math.floor((report.passes?.savedBytes ?? 0) / 2),
  }
  for (let tries = 0; ; tries++) {
    const less = s.jit(f, { ...options, ...budgets })
    try {
      less.compile(...args)
      return less
    } catch (error) {
      const least =
        error instanceof s.UserError && error.code === 'E_OUT_OF_MEMORY' && /(.*) take (\d+) bytes/.exec(error.summary)
      if (!least) throw error
      // The least of each budget may be out of reach beside the least of the other.
      const bytes = Math.ceil(Number(least[2]) * (1 + tries / 8))
      if (least[1]?.startsWith('values kept')) budgets.savedBudget = bytes
      else budgets.memoryBudget = bytes
    }
  }
}

/**
 * What each call gives. Donated arguments must be gone after it, the others must be what they were, and so must what is
 * entangled with a donated one. In half of the programs two parameters get one tensor.
 */
export async function results(p: ApiProgram, way: Way): Promise<Held[]> {
  useDevice(way.device)
  const data = (): Map<string, s.Tensor> => inputsOf(p, way.moved === true ? makeRng(p.seed) : undefined)
  const values = data()
  const donated = new Set(way.mode === undefined ? [] : p.donate)
  const watched: Watched[] = []
  for (const [name, t] of values) {
    const i = p.params.indexOf(name)
    if (!donated.has(i)) {
      watched.push({ name, tensor: t, was: await read(t) })
      continue
    }
    const [given, others] = await entangled(name, t, i % 3)
    values.set(name, given)
    watched.push(...others)
  }
  const f = functionOf(p, values)
  const held: Held[] = []
  let call = f
  let args = p.params.map((name) => values.get(name) ?? s.zeros([]))
  const [same, twin] = (p.seed % 2 === 0 ? twins(p, values) : undefined) ?? [0, 0]
  for (let i = 0; i < way.calls; i++) {
    // Donated arguments are gone: the next call gets new ones, unless it gets results of this one.
    const fresh = i > 0 ? data() : values
    args = args.map((t, k) => (t.disposed ? (fresh.get(p.params[k] ?? '') ?? t) : t))
    args[twin] = args[same] ?? s.zeros([])
    if (i === 0 && way.mode !== undefined) call = jitted(p, f, way, args)
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
  for (const { name, tensor, was } of watched)
    if (!sameBytes(await read(tensor), was)) throw new Error(`${name} is written over`)
  return held
}

/** Equal bit for bit; any NaN for any NaN. */
export function sameBytes(a: Held, b: Held): boolean {
  return a.data.length === b.data.length && a.data.every((x, i) => Object.is(x, b.data[i]))
}

/** The largest finite magnitude. */
function extremeOf({ data }: Held): number {
  let most = 0
  for (const x of data) if (Number.isFinite(Number(x))) most = Math.max(most, Math.abs(Number(x)))
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
