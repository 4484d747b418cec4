/** The devices of this build: how each is opened, and why the others are missing. */
import { availableParallelism } from 'node:os'
import pc from 'picocolors'
import { createWasmBackend } from '../backends/wasm/backend.ts'
import { hasRelaxedSimd } from '../backends/wasm/host.ts'
import type { Backend } from '../runtime/backend.ts'
import type { Console } from './console.ts'

export const deviceNames = ['wasm', 'reference'] as const

export type DeviceName = (typeof deviceNames)[number]

/** Opens the backend of a device; undefined for the reference device, which evaluates graphs without a backend. */
export function createBackend(device: DeviceName, options: { readonly threads?: number }): Backend | undefined {
  switch (device) {
    case 'wasm':
      return createWasmBackend(options)
    case 'reference':
      return undefined
  }
}

/** Whether the engine accepts a module. */
const accepts = (...code: readonly number[]): boolean =>
  WebAssembly.validate(new Uint8Array([0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, ...code]))

/** A function () -> v128 with a body, as type, function and code sections. */
const vectorFunction = (...body: readonly number[]): number[] => {
  const code = [0x00, ...body, 0x0b]
  return [1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0, 10, code.length + 2, 1, code.length, ...code]
}
const splatZero = [0x41, 0x00, 0xfd, 0x11] as const

/** What the engine offers kernels. */
export function wasmFeatures(): { simd: boolean; relaxedSimd: boolean; threads: boolean } {
  return {
    simd: accepts(...vectorFunction(...splatZero)),
    relaxedSimd: hasRelaxedSimd(),
    // One shared memory of one page.
    threads: typeof SharedArrayBuffer !== 'undefined' && accepts(5, 4, 1, 3, 1, 1),
  }
}

export interface DeviceStatus {
  readonly name: string
  readonly works: boolean
  /** What it offers, or why it does not work. */
  readonly detail: string
  /** What to do about it. */
  readonly help?: string
}

/** Every device, those of later versions included. */
export function deviceStatus(): DeviceStatus[] {
  const { simd, relaxedSimd, threads } = wasmFeatures()
  const cores = availableParallelism()
  return [
    simd
      ? {
          name: 'wasm',
          works: true,
          detail: [
            'SIMD',
            relaxedSimd ? 'relaxed SIMD (fused multiply-add)' : 'no relaxed SIMD',
            threads ? `threads over ${cores} ${cores === 1 ? 'core' : 'cores'}` : 'no threads',
          ].join(', '),
          ...(relaxedSimd ? {} : { help: 'a newer Node has relaxed SIMD: matrix products run faster' }),
        }
      : {
          name: 'wasm',
          works: false,
          detail: 'this engine has no WebAssembly SIMD',
          help: 'run on Node 20 or later, without --no-experimental-wasm-simd',
        },
    {
      name: 'reference',
      works: true,
      detail: 'evaluates graphs node by node in float64: slow, the oracle of the others',
    },
    {
      name: 'webgpu',
      works: false,
      detail: 'not in this version',
      help: 'use wasm; WebGPU comes with a later version',
    },
    { name: 'cuda', works: false, detail: 'not in this version', help: 'use wasm; CUDA comes with a later version' },
  ]
}

/** `sinter devices`. */
export function devicesCommand(options: { readonly json: boolean }, console: Console): number {
  const list = deviceStatus()
  if (options.json) {
    console.line(JSON.stringify({ devices: list }, undefined, 2))
    return 0
  }
  for (const d of list) {
    console.line(`${d.works ? pc.green('works  ') : pc.yellow('missing')}  ${pc.bold(d.name.padEnd(9))}  ${d.detail}`)
    if (d.help !== undefined) console.line(`                    ${d.help}`)
  }
  return 0
}
