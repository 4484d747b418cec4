/**
 * Dawn as a browser's `navigator.gpu`. Every library asks for the limits and features it wants; the device it got is kept, so that
 * all are timed the same way.
 */
import { create, globals } from 'webgpu'

/** Devices that libraries opened in this process, the newest last. */
export const devices = []

/**
 * Provides WebGPU as browsers do. Three things of browsers that Dawn's binding for Node lacks are made up for: names of features in
 * lists within lists (tfjs), data in shared memory (onnxruntime-web), and an event loop that stays alive while work is under way.
 */
export function provideWebgpu() {
  Object.assign(globalThis, globals)
  const gpu = create([])
  Object.defineProperty(globalThis, 'navigator', {
    value: { gpu, userAgent: 'Node', hardwareConcurrency: 1, language: 'en' },
    configurable: true,
  })
  const { requestDevice } = GPUAdapter.prototype
  GPUAdapter.prototype.requestDevice = async function (descriptor = {}) {
    const requiredFeatures = [...(descriptor.requiredFeatures ?? [])].flat()
    const device = await requestDevice.call(this, { ...descriptor, requiredFeatures })
    devices.push(device)
    return device
  }
  const { writeBuffer } = GPUQueue.prototype
  GPUQueue.prototype.writeBuffer = function (buffer, offset, data, start, size) {
    if (!(data.buffer instanceof SharedArrayBuffer)) return writeBuffer.call(this, buffer, offset, data, start, size)
    const from = start ?? 0
    return writeBuffer.call(this, buffer, offset, data.slice(from, size === undefined ? undefined : from + size))
  }
  setInterval(() => {}, 1000)
}

/** Waits until the queue of the library's device is done with what was submitted. */
export const queueDone = () => devices[devices.length - 1].queue.onSubmittedWorkDone()
