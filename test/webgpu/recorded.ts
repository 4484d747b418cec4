/** A WebGPU device that keeps the programs it prepared. */
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { createWebgpuBackend, type WebgpuOptions, webgpuCapabilities } from '../../src/backends/webgpu/backend.ts'
import type { Executable } from '../../src/runtime/backend.ts'
import type { Program } from '../../src/runtime/program.ts'

export async function openRecorded(limits: NonNullable<WebgpuOptions['limits']>) {
  const backend = await createWebgpuBackend({ limits })
  const programs: Program[] = []
  const prepare = backend.prepare.bind(backend)
  backend.prepare = (program: Program): Executable => {
    programs.push(program)
    return prepare(program)
  }
  const target = backend.machine
  return { device: createCompiledDevice('webgpu', backend, target, webgpuCapabilities), programs, target }
}
