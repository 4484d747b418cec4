/**
 * What is asked of the engine that runs the compiler, in Node; elsewhere nothing. A compilation runs most of its functions a few thousand
 * times: V8 optimises them meanwhile, which takes as long as the compilation itself, and throws half of that away as it sees other types.
 * So its optimising compiler waits while the compiler runs, until the process has compiled for so long that it will pay.
 */

interface NodeProcess {
  readonly getBuiltinModule?: (name: string) => unknown
  readonly release?: { readonly name?: string }
  readonly versions?: { readonly bun?: string; readonly deno?: string }
  readonly execArgv?: readonly string[]
  readonly env?: { readonly NODE_OPTIONS?: string }
  readonly config?: { readonly variables?: { readonly v8_enable_maglev?: number | boolean } }
}

const host: NodeProcess = (globalThis as { readonly process?: NodeProcess }).process ?? {}

/** A module of Node, if this is Node (20.16 or later) and has it: no import, so that browsers can load this file. */
export const builtin = (name: string): unknown => host.getBuiltinModule?.(name)

/** Whether this is Node, with V8 in it, and not one of those that call themselves so. */
const isNode = host.release?.name === 'node' && host.versions?.bun === undefined && host.versions?.deno === undefined

export function setEngineFlag(flag: string): void {
  if (!isNode) return
  const v8 = builtin('node:v8') as { setFlagsFromString?: (flag: string) => void } | undefined
  v8?.setFlagsFromString?.(flag)
}

/** An optimising compiler of the engine: the word of its flag, and milliseconds of compiling after which a process has its compiler optimised by it. */
interface Tier {
  readonly flag: string
  readonly patience: number
}

/** Larger graphs and kernels (in nodes, in statements) run loops long enough for optimised code to pay. */
const mostSize = 8192

/** Whether whoever started the process decided, by a flag of these names. */
const isDecided = (names: string): boolean =>
  [...(host.execArgv ?? []), host.env?.NODE_OPTIONS ?? ''].some((given) =>
    new RegExp(`(^|\\s)--(no[-_]?)?(${names})\\b(?![-_])`).test(given),
  )

/** Those of this engine that wait. Maglev, which Node has from 24 on, optimises in less time than TurboFan: it pays sooner. */
const tiers: readonly Tier[] =
  !isNode || isDecided('opt|turbofan|jitless')
    ? []
    : [
        { flag: 'opt', patience: 2000 },
        ...(host.config?.variables?.v8_enable_maglev && !isDecided('maglev')
          ? [{ flag: 'maglev', patience: 400 }]
          : []),
      ]

const choosesTier = isNode && !isDecided('liftoff|wasm[-_]lazy[-_]compilation')

/**
 * Makes a module whose functions are compiled at once, on all of the engine's threads, by its optimising compiler where they are hot. Left alone it
 * compiles each at its first call, on that call's thread, and starts with code of its baseline compiler, which it replaces between calls, long
 * after a large kernel began.
 */
export function compilingModule<R>(isHot: boolean, body: () => R): R {
  if (!choosesTier) return body()
  setEngineFlag('--no-wasm-lazy-compilation')
  if (isHot) setEngineFlag('--no-liftoff')
  try {
    return body()
  } finally {
    setEngineFlag('--wasm-lazy-compilation')
    if (isHot) setEngineFlag('--liftoff')
  }
}

let spent = 0
/** When the pass began that runs now. */
let begun = 0
/** Those that wait now. */
let waiting: readonly Tier[] = []

function tell(tiers: readonly Tier[], isOn: boolean): void {
  for (const { flag } of tiers) setEngineFlag(isOn ? `--${flag}` : `--no-${flag}`)
}

/** Runs a pass of the compiler over so many nodes or statements: the engine does not optimise its functions, unless there is much to do. */
export function compiling<R>(size: number, body: () => R): R {
  const patient = waiting.length > 0 || size > mostSize ? [] : tiers.filter((t) => spent <= t.patience)
  if (patient.length === 0) return body()
  begun = performance.now()
  waiting = patient
  tell(patient, false)
  try {
    return body()
  } finally {
    tell(waiting, true)
    waiting = []
    spent += performance.now() - begun
  }
}

/** Said now and then inside a pass, which may turn out to be long: what has waited for as long as it should waits no more. */
export function stillCompiling(): void {
  if (waiting.length === 0) return
  const now = spent + performance.now() - begun
  const ended = waiting.filter((t) => t.patience < now)
  if (ended.length === 0) return
  waiting = waiting.filter((t) => t.patience >= now)
  tell(ended, true)
}

/** Runs, inside a pass, a loop over the elements of data: the engine optimises it as ever. */
export function overElements<R>(body: () => R): R {
  const patient = waiting
  if (patient.length === 0) return body()
  waiting = []
  tell(patient, true)
  try {
    return body()
  } finally {
    waiting = patient
    tell(patient, false)
  }
}
