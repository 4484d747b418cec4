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

/** Milliseconds of compiling after which a process has its compiler optimised. */
const patience = 2000
/** Larger graphs and kernels (in nodes, in statements) run loops long enough for optimised code to pay. */
const mostSize = 8192

/** Whether whoever started the process decided on the optimising compiler. */
const isDecided = (): boolean =>
  [...(host.execArgv ?? []), host.env?.NODE_OPTIONS ?? ''].some((given) =>
    /(^|\s)--(no[-_]?)?(opt|turbofan|jitless)\b(?![-_])/.test(given),
  )

const mayWait = isNode && !isDecided()

let spent = 0
let isWaiting = false

function wait(waits: boolean): void {
  isWaiting = waits
  setEngineFlag(waits ? '--no-opt' : '--opt')
}

/** Runs a pass of the compiler over so many nodes or statements: the engine does not optimise its functions, unless there is much to do. */
export function compiling<R>(size: number, body: () => R): R {
  if (isWaiting || !mayWait || size > mostSize || spent > patience) return body()
  const from = performance.now()
  wait(true)
  try {
    return body()
  } finally {
    wait(false)
    spent += performance.now() - from
  }
}

/** Runs, inside a pass, a loop over the elements of data: the engine optimises it as ever. */
export function overElements<R>(body: () => R): R {
  if (!isWaiting) return body()
  wait(false)
  try {
    return body()
  } finally {
    wait(true)
  }
}
