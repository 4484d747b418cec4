/** The current device: the one place that knows which devices exist. */

import { createWasmBackend } from '../../backends/wasm/backend.ts'
import type { WasmOptions } from '../../backends/wasm/options.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { MemoryUse } from '../../runtime/resources.ts'
import { checkOptions, kinds, optionNames, show } from '../calls/options.ts'
import { placed } from '../calls/place.ts'
import { createCompiledDevice } from './compiled.ts'
import type { Device, DeviceName } from './device.ts'
import { createReferenceDevice } from './reference.ts'

export type { MemoryUse, WasmOptions as DeviceOptions }

/** The devices that the main entry can make; others are opened by entry points of their own. */
const makers: Readonly<Partial<Record<DeviceName, (options: WasmOptions) => Device>>> = {
  wasm: (options) => {
    const backend = createWasmBackend(options)
    return createCompiledDevice('wasm', backend, backend.machine)
  },
  reference: createReferenceDevice,
}

const openers: Readonly<Partial<Record<DeviceName, string>>> = {
  cuda: "import { cuda } from 'sinter/cuda', then setDevice(cuda())",
  webgpu: "import { webgpu } from 'sinter/webgpu', then setDevice(await webgpu())",
}

const open = new Map<DeviceName, Device>()
let current: Device | undefined

function deviceNamed(name: DeviceName, options?: WasmOptions): Device {
  const isNamed = (of: object): boolean => typeof name === 'string' && Object.hasOwn(of, name)
  const make = isNamed(makers) ? makers[name] : undefined
  const have = options === undefined || make === undefined ? open.get(name) : undefined
  if (have !== undefined && options !== undefined)
    throw new UserError('E_ARGUMENT', `options beside "${name}", which is open`, {
      help: `give them where it is opened: ${openers[name] ?? ''}`,
    })
  if (have !== undefined) return have
  if (make === undefined) {
    const opener = isNamed(openers) ? openers[name] : undefined
    throw opener === undefined
      ? new UserError('E_DEVICE', `there is no device ${show(name)}`, {
          help: `use one of ${[...Object.keys(makers), ...Object.keys(openers)].join(', ')}`,
        })
      : new UserError('E_DEVICE', `the device "${name}" has not been opened`, { help: opener })
  }
  if (options !== undefined) checkOptions(options, 'setDevice', deviceOptions)
  const device = make(options ?? {})
  open.set(name, device)
  return device
}

const duration = { what: 'a number of at least 0', holds: (x: unknown) => Number.isFinite(x) && Number(x) >= 0 }

const deviceOptions = optionNames<WasmOptions>('{ threads: 4 }', {
  threads: kinds.count,
  memoryLimit: { ...duration, what: 'a number of bytes' },
  workerPatience: duration,
  shareAbove: duration,
})

/** Makes an opened device known by its name. */
export function registerDevice(device: Device): Device {
  open.set(device.name, device)
  return device
}

/** The device operations run on; WebAssembly unless chosen otherwise. */
export function currentDevice(): Device {
  current ??= deviceNamed('wasm')
  return current
}

/** A device as an entry point gave it. Throws E_ARGUMENT for another object, such as a promise that was not awaited. */
function given(device: object | null): Device {
  if (isDevice(device)) return device
  const what = device instanceof Promise ? 'a promise' : device === null ? 'null' : 'an object that is no device'
  throw new UserError('E_ARGUMENT', `a device is needed, not ${what}`, {
    help: "setDevice(await webgpu()), setDevice(cuda()), setDevice('wasm')",
  })
}

const isDevice = (x: object | null): x is Device => x !== null && 'compile' in x && typeof x.compile === 'function'

/** The device of a name, or the current one. */
export const deviceOr = (device: DeviceName | Device | undefined): Device =>
  device === undefined ? currentDevice() : typeof device === 'object' ? given(device) : deviceNamed(device)

/**
 * Chooses the device that operations run on from now on, by name or as an entry point gave it (`setDevice(cuda())`); tensors
 * elsewhere are copied when they are used (but for those on WebGPU, which cannot wait: E_DEVICE says how to copy them). With
 * options it is a new device.
 * @throws E_DEVICE for a name this build does not have and for one that has to be opened first, E_ARGUMENT for what is no
 * device and options that are none
 * @example
 * setDevice('wasm', { threads: 2 })
 * getDevice() // 'wasm'
 */
export function setDevice(device: DeviceName | Device, options?: WasmOptions): void {
  current = placed(() => {
    if (typeof device !== 'object') return deviceNamed(device, options)
    if (options !== undefined)
      throw new UserError('E_ARGUMENT', 'options beside a device that is open', {
        help: 'give them where it is opened: setDevice(cuda({ memoryLimit })), setDevice(await webgpu({ memoryLimit }))',
      })
    return given(device)
  })
}

/**
 * The name of the device operations run on; `'wasm'` unless chosen otherwise.
 * @example
 * setDevice('reference')
 * getDevice() // 'reference'
 */
export const getDevice = (): DeviceName => currentDevice().name

/**
 * Bytes that tensors and programs hold on the current device, its limit, and how many programs live there.
 * @example
 * const before = memory().used
 * const x = evaluate(ones([1000]))
 * memory().used - before >= 4000 // true
 * x.dispose()
 */
export const memory = (): MemoryUse => currentDevice().memory()

/** Runs on a device of one's own making (tests). */
export function useDevice(device: Device): void {
  current = device
}
