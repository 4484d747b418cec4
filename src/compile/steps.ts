/** Which buffers a step touches, steps on other buffers, and which buffer a step may write over. */
import type { Kernel } from '../kernel/ir.ts'
import type { MemoryStep } from '../plan/memory/assignment.ts'
import type { CarryPlace, InnerProgram, ProgramStep } from '../runtime/program.ts'
import { writesOver } from '../runtime/region.ts'
import { dtypeBytes } from '../types/dtype.ts'
import { standsOnAddend } from '../types/product.ts'
import { loadedBeside, mayShare } from './inPlace.ts'

/** The step with every buffer replaced. */
export function renameStep(s: ProgramStep, to: (b: number) => number): ProgramStep {
  const inner = (p: InnerProgram): InnerProgram => ({
    program: p.program,
    arena: p.arena === undefined ? undefined : to(p.arena),
  })
  const carry = (c: CarryPlace): CarryPlace => ({
    init: to(c.init),
    result: to(c.result),
    spare: c.spare === undefined ? undefined : to(c.spare),
  })
  switch (s.kind) {
    case 'kernel':
      return { ...s, buffers: s.buffers.map(to) }
    case 'product':
      return {
        ...s,
        a: to(s.a),
        b: to(s.b),
        out: to(s.out),
        ...(s.addend === undefined ? {} : { addend: to(s.addend) }),
      }
    case 'copy':
      return { ...s, from: to(s.from), to: to(s.to) }
    case 'opaque':
      return { ...s, inputs: s.inputs.map(to), output: to(s.output) }
    case 'inspect':
      return { ...s, buffer: to(s.buffer) }
    case 'cond':
      return {
        ...s,
        test: to(s.test),
        whenTrue: inner(s.whenTrue),
        whenFalse: inner(s.whenFalse),
        operands: s.operands.map(to),
        results: s.results.map(to),
      }
    case 'while':
      return {
        ...s,
        test: inner(s.test),
        body: inner(s.body),
        flag: to(s.flag),
        consts: s.consts.map(to),
        carries: s.carries.map(carry),
      }
    case 'loop':
      return {
        ...s,
        body: inner(s.body),
        consts: s.consts.map(to),
        carries: s.carries.map(carry),
        sequences: s.sequences.map(to),
        results: s.results.map(to),
      }
  }
}

/** The buffers a step touches; one it uses twice is there twice. */
export function touched(s: ProgramStep): readonly number[] {
  const all: number[] = []
  renameStep(s, (b) => {
    all.push(b)
    return b
  })
  return all
}

const counts = new WeakMap<ProgramStep, ReadonlyMap<number, number>>()

/** How often a step uses each buffer. */
function usesOf(s: ProgramStep): ReadonlyMap<number, number> {
  const have = counts.get(s)
  if (have !== undefined) return have
  const made = new Map<number, number>()
  for (const b of touched(s)) made.set(b, (made.get(b) ?? 0) + 1)
  counts.set(s, made)
  return made
}

/** The buffer that a step may write `write` over, of those that `isFree`: of as many bytes, and nothing reads them after the step. */
function donorFor(s: ProgramStep, write: number, isFree: (buffer: number) => boolean): number | undefined {
  const free = (b: number): boolean => b !== write && isFree(b) && usesOf(s).get(b) === 1
  switch (s.kind) {
    case 'kernel':
      return kernelDonor(s.kernel, s.buffers, s.buffers.indexOf(write), free)
    case 'copy':
      return s.to === write && free(s.from) ? s.from : undefined
    case 'while':
    case 'loop': {
      const i = s.carries.findIndex((c) => c.result === write)
      const carry = s.carries[i]
      if (carry === undefined || !free(carry.init)) return undefined
      // What the first step of a loop reads is not what it writes (the result, if their number is odd), unless steps write over what they read.
      const apart = s.kind === 'while' || (s.varying === undefined && s.length % 2 === 0)
      return apart || writesOver(s.body.program, i, s.consts.length + i) ? carry.init : undefined
    }
    // A library reads its operands while it writes, but for what it adds to.
    case 'product':
      return s.addend !== undefined && s.out === write && standsOnAddend(s) && free(s.addend) ? s.addend : undefined
    case 'opaque':
    case 'inspect':
    case 'cond':
      return undefined
  }
}

/** Buffers that a step fills of which the plan does not say what they are written over: what a loop carries, and copies. */
export function openIn(s: ProgramStep): readonly number[] {
  if (s.kind === 'copy') return [s.to]
  return s.kind === 'while' || s.kind === 'loop' ? s.carries.map((c) => c.result) : []
}

/** A step as the buffer assignment sees it. */
export const memoryStep = (s: ProgramStep): MemoryStep => ({
  touches: touched(s),
  donorFor: (write, isFree) => donorFor(s, write, isFree),
})

function kernelDonor(
  kernel: Kernel,
  buffers: readonly number[],
  write: number,
  free: (buffer: number) => boolean,
): number | undefined {
  const out = kernel.params[write]
  if (out === undefined || out.access !== 'write') return undefined
  for (const i of loadedBeside(kernel, out.name)) {
    const [p, b] = [kernel.params[i], buffers[i]]
    if (
      p === undefined ||
      b === undefined ||
      p.access !== 'read' ||
      dtypeBytes(p.dtype) !== dtypeBytes(out.dtype) ||
      !free(b)
    )
      continue
    if (mayShare(kernel, p.name, out.name)) return b
  }
  return undefined
}
