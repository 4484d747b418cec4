/** Runs the steps of a launch plan through the kernel interpreter, on views of buffers; control flow included. */
import { interpretKernel } from '../../src/kernel/interpret.ts'
import type { InnerProgram, Program } from '../../src/runtime/program.ts'
import { writtenPlace } from '../../src/runtime/region.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray, hostView } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'

type At = (buffer: number) => HostArray

/** Element i of a sequence, of `like`'s length. */
function element(of: HostArray, i: number, n: number): HostArray {
  return (of as Float32Array).subarray(i * n, (i + 1) * n) as HostArray
}

const bytesOf = (x: HostArray): Uint8Array => new Uint8Array(x.buffer, x.byteOffset, x.byteLength)

const need = <T>(x: T | undefined): T => {
  if (x === undefined) throw new Error('something is missing')
  return x
}

/** An inner program on views of its inputs and outputs; its arena is one of the buffers around it. */
function runInner(
  { program, arena }: InnerProgram,
  around: At,
  inputs: readonly HostArray[],
  outputs: readonly HostArray[],
  rounding: 'f64' | 'dtype',
): void {
  const memory = arena === undefined ? new Uint8Array(0) : (around(arena) as Uint8Array)
  const views = program.buffers.map((b): HostArray => {
    if (b.source.kind === 'temp')
      return hostView(b.dtype, memory.buffer as ArrayBuffer, memory.byteOffset + b.source.offset, sizeOf(b.shape))
    if (b.source.kind === 'constant') return b.source.data
    return hostArray(b.dtype, 0)
  })
  program.inputs.forEach((b, i) => {
    views[b] = need(inputs[i])
  })
  program.outputs.forEach((b, i) => {
    views[b] = need(outputs[i])
  })
  runSteps(program, (i) => need(views[i]), rounding)
}

const lengthOf = (program: Program, b: number | undefined): number => sizeOf(need(program.buffers[need(b)]).shape)

export function runSteps(program: Program, at: At, rounding: 'f64' | 'dtype' = 'dtype'): void {
  for (const s of program.steps) {
    switch (s.kind) {
      case 'kernel': {
        // A result over an input of another dtype is told by the parameter.
        const as = (dtype: DType, b: number): HostArray => {
          const data = at(b)
          return program.buffers[b]?.dtype === dtype ? data : hostView(dtype, data.buffer, data.byteOffset, data.length)
        }
        const named = Object.fromEntries(s.kernel.params.map((p, i) => [p.name, as(p.dtype, s.buffers[i] ?? -1)]))
        interpretKernel(s.kernel, named, { rounding })
        break
      }
      case 'copy':
        bytesOf(at(s.to)).set(bytesOf(at(s.from)))
        break
      case 'opaque':
        s.run(s.inputs.map(at), at(s.output))
        break
      case 'inspect': {
        const b = need(program.buffers[s.buffer])
        s.call(at(s.buffer).slice(), b.shape, b.dtype)
        break
      }
      case 'cond': {
        const taken = Number(at(s.test)[0]) !== 0 ? s.whenTrue : s.whenFalse
        runInner(taken, at, s.operands.map(at), s.results.map(at), rounding)
        break
      }
      case 'while': {
        const consts = s.consts.map(at)
        let now = s.carries.map((c) => at(c.init))
        for (let step = 0; ; step++) {
          runInner(s.test, at, [...consts, ...now], [at(s.flag)], rounding)
          if (Number(at(s.flag)[0]) === 0) break
          const next = s.carries.map((c) => at(c.spare === undefined || step % 2 === 1 ? c.result : c.spare))
          runInner(s.body, at, [...consts, ...now], next, rounding)
          now = next
        }
        s.carries.forEach((c, i) => {
          at(c.result).set(need(now[i]) as never)
        })
        break
      }
      case 'loop': {
        const { program: body } = s.body
        const first = s.consts.length + s.carries.length
        let now = s.carries.map((c) => at(c.init))
        for (let t = 0; t < s.length; t++) {
          const i = s.reverse ? s.length - 1 - t : t
          const next = s.carries.map((c) => at(writtenPlace(c, t, s.length)))
          const xs = s.sequences.map((b, k) => element(at(b), i, lengthOf(body, body.inputs[first + k])))
          const ys = s.results.map((b, k) => element(at(b), i, lengthOf(body, body.outputs[s.carries.length + k])))
          runInner(s.body, at, [...s.consts.map(at), ...now, ...xs], [...next, ...ys], rounding)
          now = next
        }
        break
      }
    }
  }
}
