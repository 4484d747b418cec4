/** The reference device: graphs evaluated node by node in float64, chosen by the user alone. */

import { InternalError } from '../../diagnostics/errors.ts'
import type { Graph } from '../../graph/node.ts'
import { evaluateGraph, toHostArray } from '../../reference/evaluate.ts'
import type { DeviceBuffer } from '../../runtime/backend.ts'
import type { DType } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import type { Compiled, CompileRequest, Device } from './device.ts'

class HostBuffer implements DeviceBuffer {
  data: HostArray | undefined
  readonly bytes: number
  constructor(data: HostArray) {
    this.data = data
    this.bytes = data.byteLength
  }
}

function dataOf(buffer: DeviceBuffer): HostArray {
  if (!(buffer instanceof HostBuffer) || buffer.data === undefined)
    throw new InternalError('a buffer that is not live on the reference device')
  return buffer.data
}

/** Makes the reference device. */
export function createReferenceDevice(): Device {
  let used = 0
  const hold = (data: HostArray): HostBuffer => {
    used += data.byteLength
    return new HostBuffer(data)
  }
  const free = (buffer: DeviceBuffer): void => {
    if (!(buffer instanceof HostBuffer) || buffer.data === undefined) return
    used -= buffer.bytes
    buffer.data = undefined
  }
  const readSync = (buffer: DeviceBuffer, _dtype: DType, _n: number): HostArray => dataOf(buffer).slice()
  return {
    name: 'reference',
    upload: (data) => hold(data.slice()),
    readSync,
    read: async (buffer, dtype, n) => readSync(buffer, dtype, n),
    free,
    copy: (buffer) => hold(dataOf(buffer).slice()),
    memory: () => ({
      used,
      limit: Number.POSITIVE_INFINITY,
      programs: 0,
      modules: 0,
      arenaBytes: 0,
      pooledBytes: 0,
    }),
    compileOpen: undefined,
    compile: (graph: Graph, request: CompileRequest): Compiled => ({
      run: (inputs) => {
        const rounding = request.mode === 'strict' ? 'strict' : 'f64'
        const outputs = evaluateGraph(graph, inputs.map(dataOf), { rounding }).map((t) => hold(toHostArray(t)))
        inputs.forEach((x, i) => {
          if (request.donated[i] === true) free(x)
        })
        return outputs
      },
      hasBegun: false,
      report: undefined,
      program: undefined,
      residentBytes: 0,
      dispose: () => {},
    }),
  }
}
