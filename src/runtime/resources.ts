/**
 * What prepared programs hold of a device: memory, modules, graphs. They go back when the program is disposed of, or when it is collected.
 * What is held knows nothing of the program: a user's kernel in a program may refer to the function that the program was compiled for,
 * and would keep both alive.
 */

/** A device's memory and what programs hold of it. */
export interface MemoryUse {
  /** Bytes of tensors and of what programs hold. */
  readonly used: number
  /** Most bytes that may be in use. */
  readonly limit: number
  /** Programs that are compiled and not disposed of or collected. */
  readonly programs: number
  /** Modules (WebAssembly, CUDA) or pipelines (WebGPU) of those programs. */
  readonly modules: number
  /** Bytes of intermediate values and constants that those programs hold, a part of `used`. */
  readonly arenaBytes: number
  /** Bytes that the device keeps for what comes next: not in use, and not given back to the system. */
  readonly pooledBytes: number
}

/** The programs of a device that live. */
export class Residents {
  programs = 0
  bytes = 0
}

/** One thing held, and how it goes back. */
class Held<T> {
  private readonly release: (x: T) => void
  private readonly x: T

  constructor(release: (x: T) => void, x: T) {
    this.release = release
    this.x = x
  }

  end(): void {
    this.release(this.x)
  }
}

/** Executables that nothing refers to any more give back what they hold. */
const collected = new FinalizationRegistry<Resources>((resources) => {
  try {
    resources.dispose()
  } catch {
    // A device that is lost has nothing to take back; the next call on it says so.
  }
})

export class Resources {
  private readonly residents: Residents
  private readonly held: { end(): void }[] = []
  private alive = true
  /** Bytes of memory that are this program's alone. */
  private own = 0
  private shared = 0

  constructor(residents: Residents) {
    this.residents = residents
    residents.programs++
  }

  /**
   * Holds `x` until the program ends, when `release` gives it back; `bytes` of memory are counted. Neither may refer to the program: `release`
   * is a function of the device.
   */
  hold<T>(release: (x: T) => void, x: T, bytes = 0): T {
    this.held.push(new Held(release, x))
    this.own += bytes
    this.residents.bytes += bytes
    return x
  }

  /** As `hold` for memory of which other programs may have the same; the device counts it among `Residents.bytes` itself. */
  share<T>(release: (x: T) => void, x: T, bytes: number): void {
    this.held.push(new Held(release, x))
    this.shared += bytes
  }

  /** Bytes of memory held. */
  get bytes(): number {
    return this.own + this.shared
  }

  /** Gives everything back when `owner` is collected. */
  endWith(owner: object): void {
    collected.register(owner, this)
  }

  /** Gives everything back, last held first; twice is harmless. */
  dispose(): void {
    if (!this.alive) return
    this.alive = false
    this.residents.programs--
    this.residents.bytes -= this.own
    for (let h = this.held.pop(); h !== undefined; h = this.held.pop()) h.end()
  }
}
