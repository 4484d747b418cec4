/** The current device: the one place that knows which devices exist. */

import { createWasmBackend, type WasmOptions } from '../backends/wasm/backend.ts'
import { UserError } from '../diagnostics/errors.ts'
import { wasmTarget } from '../plan/target.ts'
import { createCompiledDevice } from './compiled.ts'
import type { Device, DeviceName } from './device.ts'
import { createReferenceDevice } from './reference.ts'

/** Options of a device: threads and a memory limit in bytes, where the device has them. */
export type DeviceOptions = WasmOptions

const makers: Record<DeviceName, (options: DeviceOptions) => Device> = {
  wasm: (options) => createCompiledDevice('wasm', createWasmBackend(options), wasmTarget),
  reference: createReferenceDevice,
}

const open = new Map<DeviceName, Device>()
let current: Device | undefined

function deviceNamed(name: DeviceName, options?: DeviceOptions): Device {
  const make = Object.hasOwn(makers, name) ? makers[name] : undefined
  if (make === undefined)
    throw new UserError('E_DEVICE', `there is no device "${String(name)}"`, {
      help: `use one of ${Object.keys(makers).join(', ')}`,
    })
  const device = (options === undefined ? open.get(name) : undefined) ?? make(options ?? {})
  open.set(name, device)
  return device
}

/** The device operations run on; WebAssembly unless chosen otherwise. */
export function currentDevice(): Device {
  current ??= deviceNamed('wasm')
  return current
}

/** The device of a name, or the current one. */
export const deviceOr = (name: DeviceName | undefined): Device =>
  name === undefined ? currentDevice() : deviceNamed(name)

/**
 * Chooses the device that operations run on from now on; tensors elsewhere are copied when they are used. With options it
 * is a new device. Throws E_DEVICE for a name this build does not have.
 */
export function setDevice(name: DeviceName, options?: DeviceOptions): void {
  current = deviceNamed(name, options)
}

/** The name of the device operations run on. */
export const getDevice = (): DeviceName => currentDevice().name

/** Bytes that tensors and programs hold on the current device, and its limit. */
export const memory = (): { readonly used: number; readonly limit: number } => currentDevice().memory()

/** Runs on a device of one's own making (tests). */
export function useDevice(device: Device): void {
  current = device
}
