/**
 * Commands on their way to the queue: dispatches and copies of many calls share an encoder and, where no copy stands between them, a
 * compute pass. They are submitted when there are enough of them, when something must come after them, and at the end of the task.
 */

/** Dispatches and copies of a task after which the device should start. */
const enough = 24
/** Then it has work, and a submission costs the host as much as several dispatches: each is twice the one before, up to this. */
const most = 96

export class Recorder {
  private readonly gpu: GPUDevice
  private readonly failed: (cause: unknown) => void
  private encoder: GPUCommandEncoder | undefined
  private pass: GPUComputePassEncoder | undefined
  private pipeline: GPUComputePipeline | undefined
  private group: GPUBindGroup | undefined
  private pending = 0
  private batch = enough
  /** Buffers to end once what uses them is submitted. */
  private doomed: GPUBuffer[] = []
  private isTimed = false
  private isScheduled = false

  /** `failed` hears what goes wrong when nobody waits for it. */
  constructor(gpu: GPUDevice, failed: (cause: unknown) => void) {
    this.gpu = gpu
    this.failed = failed
  }

  dispatch(pipeline: GPUComputePipeline, group: GPUBindGroup, x: number, y: number): void {
    this.pass ??= this.open().beginComputePass()
    const { pass } = this
    if (this.pipeline !== pipeline) {
      this.pipeline = pipeline
      pass.setPipeline(pipeline)
    }
    if (this.group !== group) {
      this.group = group
      pass.setBindGroup(0, group)
    }
    pass.dispatchWorkgroups(x, y)
    this.count()
  }

  copy(from: GPUBuffer, fromOffset: number, to: GPUBuffer, toOffset: number, bytes: number): void {
    this.endPass()
    this.open().copyBufferToBuffer(from, fromOffset, to, toOffset, bytes)
    this.count()
  }

  /** Begins a pass of its own that writes timestamps. */
  beginTimed(timestampWrites: GPUComputePassTimestampWrites): void {
    this.endPass()
    this.pass = this.open().beginComputePass({ timestampWrites })
  }

  endPass(): void {
    this.pass?.end()
    this.pass = undefined
    this.pipeline = undefined
    this.group = undefined
  }

  /** Records without submitting on its own meanwhile, so that timed passes stay whole. */
  timed(body: () => void): void {
    this.flush()
    this.isTimed = true
    try {
      body()
    } finally {
      this.isTimed = false
      this.flush()
    }
  }

  /** Ends a buffer: at once, or after what is recorded. */
  destroy(buffer: GPUBuffer): void {
    if (this.encoder === undefined) buffer.destroy()
    else this.doomed.push(buffer)
  }

  /** Submits what is recorded. */
  flush(): void {
    const { encoder } = this
    if (encoder === undefined) return
    this.endPass()
    this.encoder = undefined
    this.pending = 0
    this.gpu.queue.submit([encoder.finish()])
    for (const b of this.doomed) b.destroy()
    this.doomed = []
  }

  private open(): GPUCommandEncoder {
    if (this.encoder === undefined) {
      this.encoder = this.gpu.createCommandEncoder()
      if (!this.isScheduled) {
        this.isScheduled = true
        queueMicrotask(this.atTaskEnd)
      }
    }
    return this.encoder
  }

  private readonly atTaskEnd = (): void => {
    this.isScheduled = false
    this.batch = enough
    try {
      this.flush()
    } catch (cause) {
      this.failed(cause)
    }
  }

  private count(): void {
    if (++this.pending < this.batch || this.isTimed) return
    this.flush()
    this.batch = Math.min(most, 2 * this.batch)
  }
}
