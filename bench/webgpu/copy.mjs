/** A copy by hand, of two 16-byte words a thread: the rate that rows bound by memory are shares of. */

const shader = `
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) b: vec3<u32>) {
  let i = b.x * 512u + t;
  let first = x[i];
  let second = x[i + 256u];
  y[i] = first;
  y[i + 256u] = second;
}`

export async function open() {
  const adapter = await navigator.gpu.requestAdapter({ powerPreference: 'high-performance' })
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits
  const device = await adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } })
  const pipeline = device.createComputePipeline({
    layout: 'auto',
    compute: { module: device.createShaderModule({ code: shader }), entryPoint: 'main' },
  })
  const { vendor, architecture, description } = adapter.info

  function prepare(_row, [data]) {
    const size = data.byteLength
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC
    const [from, to] = [0, 1].map(() => device.createBuffer({ size, usage }))
    device.queue.writeBuffer(from, 0, data)
    const entries = [from, to].map((buffer, binding) => ({ binding, resource: { buffer } }))
    const group = device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries })
    const call = () => {
      const encoder = device.createCommandEncoder()
      const pass = encoder.beginComputePass()
      pass.setPipeline(pipeline)
      pass.setBindGroup(0, group)
      pass.dispatchWorkgroups(size / 8192)
      pass.end()
      device.queue.submit([encoder.finish()])
    }
    return {
      call,
      flush: () => {},
      read: async () => {
        call()
        const read = device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST })
        const encoder = device.createCommandEncoder()
        encoder.copyBufferToBuffer(to, 0, read, 0, size)
        device.queue.submit([encoder.finish()])
        await read.mapAsync(GPUMapMode.READ)
        const result = new Float32Array(read.getMappedRange().slice(0))
        read.destroy()
        return [result]
      },
      end: () => {
        from.destroy()
        to.destroy()
      },
    }
  }
  return { prepare, adapter: [vendor, architecture, description].filter((s) => s !== '').join(' ') }
}
