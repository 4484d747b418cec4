/** Bandwidth and arithmetic of a GPU through WebGPU by shaders written by hand. */
import type { WebgpuBackend } from '../../../src/backends/webgpu/backend.ts'
import type { Bandwidth } from '../rates.ts'
import { gpuBandwidth } from './gpu.ts'

const threads = 256
const groups = 2048
const accumulators = 8
const head = `
struct Extent { words: u32, repeats: u32 }
@group(0) @binding(0) var<storage, read_write> to: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> y: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> extent: Extent;
@compute @workgroup_size(${threads})
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) g: vec3<u32>) {
  _ = &x; _ = &y; _ = &to;
  let step = g.x * ${threads}u;
  var s = vec4<f32>(0.0);`
const tail = `
  if (s.x + s.y + s.z + s.w == 12345.678) { to[0] = s; }
}`
const walk = (body: string): string =>
  `${head}
  for (var r = 0u; r < extent.repeats; r++) { for (var i = id.x; i < extent.words; i += step) { ${body} } }${tail}`
const rate = (operation: string): string =>
  `${head}
  var a: array<vec4<f32>, ${accumulators / 4}>;
  for (var i = 0u; i < ${accumulators / 4}u; i++) { a[i] = vec4<f32>(f32(id.x + i) + 1.0); }
  for (var r = 0u; r < extent.repeats; r++) { ${Array.from({ length: accumulators / 4 }, (_, i) => `a[${i}] = ${operation.replaceAll('$', `a[${i}]`)};`).join(' ')} }
  s = ${Array.from({ length: accumulators / 4 }, (_, i) => `a[${i}]`).join(' + ')};${tail}`

/** Shaders by name. Each turn differs, so that none is left out. */
const shaders = {
  read: walk('s += x[i];'),
  mixed: walk('to[i] = x[i] + y[i] * f32(r + 1u);'),
  copy: walk('to[i] = x[i];'),
  write: walk('to[i] = vec4<f32>(f32(r));'),
  fma: rate('fma($, vec4<f32>(0.5), vec4<f32>(0.5))'),
  divide: rate('0.5 / $'),
} as const

export async function webgpuPeaks(
  backend: WebgpuBackend,
  time: (body: () => void) => Promise<number>,
): Promise<{ readonly bandwidth: readonly Bandwidth[]; readonly flops: number; readonly divide: number }> {
  const device = backend['device']
  const { gpu } = device
  const most = Math.min(1 << 28, 2 ** Math.floor(Math.log2(gpu.limits.maxStorageBufferBindingSize)))
  // STORAGE and COPY_DST; Node has no names for them.
  const usage = 0x80 | 0x8
  const buffers = [0, 1, 2].map(() => gpu.createBuffer({ size: most, usage }))
  const extent = gpu.createBuffer({ size: 16, usage })
  const dispatch = async (
    name: keyof typeof shaders,
    words: number,
    repeats: number,
    grid: number,
  ): Promise<number> => {
    const module = gpu.createShaderModule({ code: shaders[name] })
    const pipeline = gpu.createComputePipeline({ layout: 'auto', compute: { module, entryPoint: 'main' } })
    const entries = [...buffers, extent].map((buffer, binding) => ({ binding, resource: { buffer } }))
    const group = gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries })
    gpu.queue.writeBuffer(extent, 0, new Uint32Array([words, repeats]))
    await backend.settled()
    return time(() => device.recorder.dispatch(pipeline, group, grid, 1))
  }
  const bandwidth = await gpuBandwidth(most, (kind, words, repeats) =>
    dispatch(kind, words, repeats, Math.max(1, Math.min(groups, Math.ceil(words / threads)))),
  )
  const peak = async (name: 'fma' | 'divide', operations: number): Promise<number> => {
    let [repeats, least] = [256, Number.POSITIVE_INFINITY]
    while ((await dispatch(name, 0, repeats, groups)) < 0.02 && repeats < 1 << 20) repeats *= 2
    for (let i = 0; i < 5; i++) least = Math.min(least, await dispatch(name, 0, repeats, groups))
    return (groups * threads * accumulators * repeats * operations) / least
  }
  const result = { bandwidth, flops: await peak('fma', 2), divide: await peak('divide', 1) }
  for (const b of [...buffers, extent]) b.destroy()
  return result
}
