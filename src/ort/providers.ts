/** Execution providers: the devices that ONNX Runtime's names stand for. */
import { env, type InferenceSession } from 'onnxruntime-common'

import { createCompiledDevice } from '../api/device/compiled.ts'
import type { Device } from '../api/device/device.ts'
import { deviceOr } from '../api/device/session.ts'
import { createWasmBackend } from '../backends/wasm/backend.ts'
import { UserError } from '../diagnostics/errors.ts'
import { kindOf } from '../diagnostics/shown.ts'

type SessionOptions = InferenceSession.SessionOptions

/** Devices of WebAssembly by their number of threads. */
const byThreads = new Map<number, Device>()

function wasm(options: SessionOptions): Device {
  const threads = options.intraOpNumThreads ?? env.wasm.numThreads ?? 0
  if (!Number.isSafeInteger(threads) || threads < 0)
    throw new UserError('E_ARGUMENT', `a session runs on ${threads} threads`, {
      help: 'give a count; 0: all there are',
    })
  if (threads === 0) return deviceOr('wasm')
  const have = byThreads.get(threads)
  if (have !== undefined) return have
  const backend = createWasmBackend({ threads })
  const made = createCompiledDevice('wasm', backend, backend.machine)
  byThreads.set(threads, made)
  return made
}

/** A device that is open, or one that is opened now. */
async function opened(name: 'webgpu' | 'cuda', open: () => Device | Promise<Device>): Promise<Device> {
  try {
    return deviceOr(name)
  } catch (error) {
    if (!(error instanceof UserError) || error.code !== 'E_DEVICE') throw error
    return open()
  }
}

const providers: Readonly<Record<string, (options: SessionOptions) => Device | Promise<Device>>> = {
  cpu: wasm,
  wasm,
  webgpu: () => opened('webgpu', async () => (await import('../webgpu.ts')).webgpu()),
  cuda: () => opened('cuda', async () => (await import('../cuda.ts')).cuda()),
}

/**
 * The device of the first execution provider that opens, WebAssembly unless one is named. Throws E_DEVICE where none does, saying of each
 * why.
 */
export async function deviceFor(options: SessionOptions): Promise<Device> {
  const wanted: unknown = options.executionProviders ?? []
  if (!Array.isArray(wanted))
    throw new UserError('E_ARGUMENT', `executionProviders is ${kindOf(wanted)}`, { help: "give a list: ['wasm']" })
  const failed: string[] = []
  for (const entry of wanted.length === 0 ? ['wasm'] : wanted) {
    const name: unknown = typeof entry === 'object' && entry !== null && 'name' in entry ? entry.name : entry
    const open = typeof name === 'string' && Object.hasOwn(providers, name) ? providers[name] : undefined
    if (open === undefined) {
      failed.push(`${String(name)}: there is no such provider here`)
      continue
    }
    try {
      return await open(options)
    } catch (error) {
      if (!(error instanceof UserError) || error.code !== 'E_DEVICE') throw error
      failed.push(`${String(name)}: ${error.summary}`)
    }
  }
  throw new UserError('E_DEVICE', `no execution provider opens (${failed.join('; ')})`, {
    help: `name one of ${Object.keys(providers).join(', ')}`,
  })
}
