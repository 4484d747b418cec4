/**
 * The device that tests of compiled programs run on: WebAssembly, or with SINTER_TEST_DEVICE=cuda the GPU of this machine. Tests
 * that are about WebAssembly itself (its threads, its memory) choose it directly.
 */
import { createCudaBackend } from '../../src/backends/cuda/backend.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { cuda } from '../../src/cuda.ts'
import { setDevice } from '../../src/index.ts'
import type { Backend } from '../../src/runtime/backend.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

interface Options {
  readonly threads: number
  readonly shareAbove?: number
}

const wanted = process.env.SINTER_TEST_DEVICE ?? 'wasm'
if (wanted !== 'wasm' && wanted !== 'cuda') throw new Error(`SINTER_TEST_DEVICE is cuda or wasm, not ${wanted}`)

/** Whether programs of this run are compiled for a GPU. */
export const onGpu = wanted === 'cuda'

/** Chooses the reference device, or where `wasm` is asked for the device of this run. */
export function chooseDevice(name: 'wasm' | 'reference', options: Options): void {
  if (name === 'wasm' && onGpu) setDevice(cuda())
  else setDevice(name, options)
}

/** The target that programs of this run are planned for. */
export const compiledTarget: Machine = onGpu ? cudaTarget : wasmTarget

/** A backend that programs of this run are executed on; one for WebAssembly has these options. */
export const compiledBackend = (options: Options): Backend => (onGpu ? createCudaBackend() : createWasmBackend(options))
