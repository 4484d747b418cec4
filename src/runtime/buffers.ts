/** The buffers of tensors on one device: pieces of a backend's memory, named by `M`, that are freed once. */
import { InternalError, UserError } from '../diagnostics/errors.ts'
import type { DeviceBuffer } from './backend.ts'

/** Memory of a tensor. */
export class TensorBuffer<M> implements DeviceBuffer {
  readonly owner: TensorBuffers<M>
  readonly memory: M
  readonly bytes: number
  alive = true

  constructor(owner: TensorBuffers<M>, memory: M, bytes: number) {
    this.owner = owner
    this.memory = memory
    this.bytes = bytes
  }
}

export class TensorBuffers<M> {
  private readonly release: (memory: M) => void

  /** `release` gives memory back to the device. */
  constructor(release: (memory: M) => void) {
    this.release = release
  }

  adopt(memory: M, bytes: number): TensorBuffer<M> {
    return new TensorBuffer(this, memory, bytes)
  }

  /** A live buffer of this device. Throws E_DISPOSED. */
  own(b: DeviceBuffer): TensorBuffer<M> {
    if (!this.owns(b)) throw new InternalError('a buffer of another device')
    if (!b.alive) throw new UserError('E_DISPOSED', 'the memory of this tensor has been freed')
    return b
  }

  private owns(b: DeviceBuffer): b is TensorBuffer<M> {
    return b instanceof TensorBuffer && b.owner === this
  }

  /** Frees the memory of a tensor; twice is harmless. */
  end(b: TensorBuffer<M>): void {
    if (!b.alive) return
    b.alive = false
    this.release(b.memory)
  }
}
