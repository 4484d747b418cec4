/** Asks a device whether WGSL's functions that convert between f16 and f32 do what IEEE 754 says. */
import { arithmeticHalves } from '../../codegen/simt/dialects/wgsl/halves.ts'
import { mapRead, usage } from './host.ts'

/** Threads of a workgroup: 256 of them have a half each. */
const threads = 256

/**
 * Counts what differs. Every half as f32; of every half h of finite value, and beyond it towards the next one, f32 numbers on both sides of
 * where rounding changes: in steps of f32's last bit (h is normal: 13 bits are lost) or in halves of the unit of subnormals.
 */
const code = `
@group(0) @binding(0) var<storage, read_write> wrong: atomic<u32>;
${arithmeticHalves.f16_value?.code}
${arithmeticHalves.f16_bits?.code}
fn is_half_nan(h: u32) -> bool { return (h & 0x7fffu) > 0x7c00u; }
fn rounds(bits: u32) -> bool {
  let a = bitcast<f32>(bits);
  let both = pack2x16float(vec2<f32>(a, a));
  let right = f16_bits(a);
  let low = both & 0xffffu;
  let high = both >> 16u;
  if (is_half_nan(right)) { return is_half_nan(low) & is_half_nan(high); }
  return (low == right) & (high == right);
}
@compute @workgroup_size(${threads})
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
  let h = at.x;
  let value = bitcast<u32>(f16_value(h));
  let low = bitcast<u32>(unpack2x16float(h).x);
  let high = bitcast<u32>(unpack2x16float(h << 16u).y);
  let nan = (value & 0x7fffffffu) > 0x7f800000u;
  let is_nan = ((low & 0x7fffffffu) > 0x7f800000u) & ((high & 0x7fffffffu) > 0x7f800000u);
  var right = select((low == value) & (high == value), is_nan, nan);
  let subnormal = (h & 0x7c00u) == 0u;
  let sign = (h & 0x8000u) << 16u;
  let between = bitcast<u32>((f32(h & 0x3ffu) + 0.5) * 5.9604644775390625e-8) | sign;
  let tie = select(value + 0x1000u, between, subnormal);
  right = right & rounds(value) & rounds(value + 1u) & rounds(tie - 1u) & rounds(tie) & rounds(tie + 1u);
  if (!right) { atomicAdd(&wrong, 1u); }
}`

/** Whether they do, of all halves and what is rounded to each. Rejects where the device takes no commands. */
export async function convertsHalves(gpu: GPUDevice): Promise<boolean> {
  const module = gpu.createShaderModule({ code })
  const pipeline = await gpu.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: 'main' } })
  const wrong = gpu.createBuffer({ size: 4, usage: usage.storage | usage.copySource })
  const read = gpu.createBuffer({ size: 4, usage: usage.mapRead | usage.copyTarget })
  const encoder = gpu.createCommandEncoder()
  const pass = encoder.beginComputePass()
  pass.setPipeline(pipeline)
  const entries = [{ binding: 0, resource: { buffer: wrong } }]
  pass.setBindGroup(0, gpu.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }))
  pass.dispatchWorkgroups(65536 / threads)
  pass.end()
  encoder.copyBufferToBuffer(wrong, 0, read, 0, 4)
  gpu.queue.submit([encoder.finish()])
  await read.mapAsync(mapRead)
  const [count] = new Uint32Array(read.getMappedRange())
  for (const b of [wrong, read]) b.destroy()
  return count === 0
}
