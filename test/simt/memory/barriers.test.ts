/** Barriers that are left out, on statements by hand and in kernels. */
import { describe, expect, test } from 'vitest'
import { type Ex, int, type S, v, yes } from '../../../src/codegen/simt/ir/ir.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { withoutIdleBarriers } from '../../../src/codegen/simt/passes/idleBarriers.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'

const at = (array: string): Ex => ({ k: 'shared', type: 'f32', array, index: int(0) })
const x = v('f32', 'x')
const write = (array: string): S => ({ k: 'assign', to: at(array), value: x })
const read = (array: string): S => ({ k: 'assign', to: x, value: at(array) })
const barrier: S = { k: 'barrier' }
const guard: S = { k: 'barrier', reuse: true }
const exchange = (array: string): S[] => [write(array), barrier, read(array), guard]
const loop = (body: S[]): S => ({ k: 'for', name: 'i', from: int(0), to: int(9), step: 1, unroll: false, body })
const branch = (body: S[], otherwise: S[] = []): S => ({ k: 'if', cond: yes, body, otherwise })

const arrays = new Set(['a', 'b'])
const search = (body: S[]): readonly S[] => withoutIdleBarriers(body, arrays)
const guards = (body: readonly S[]): number => JSON.stringify(body).split('"reuse":true').length - 1

describe('statements', () => {
  test.for<[string, S[], number]>([
    ['the last one guards nothing', exchange('a'), 0],
    ['one set of slots needs it', [...exchange('a'), ...exchange('a')], 1],
    ['two sets in turn', [...exchange('a'), ...exchange('b'), ...exchange('a'), ...exchange('b')], 0],
    ['two sets, one twice', [...exchange('a'), ...exchange('b'), ...exchange('b'), ...exchange('a')], 1],
    ['reading again', [...exchange('a'), read('a')], 0],
    ['what is written after another use', [...exchange('a'), read('b'), write('a')], 1],
    ['a loop meets itself', [loop(exchange('a'))], 1],
    ['two sets in a loop', [loop([...exchange('a'), ...exchange('b')])], 0],
    [
      'a loop whose end has the slots of its beginning',
      [loop([...exchange('a'), ...exchange('b'), ...exchange('a')])],
      1,
    ],
    ['a loop that begins with what it read last', [loop([write('a'), ...exchange('b'), read('a'), guard])], 1],
    ['a loop without other barriers', [loop([write('a'), guard, read('a'), guard])], 2],
    ['a loop in a loop', [loop([...exchange('b'), loop(exchange('a'))])], 2],
    ['a loop in a loop with the same slots', [loop([...exchange('a'), loop([...exchange('b'), ...exchange('a')])])], 2],
    ['a loop that writes behind it', [...exchange('a'), loop(exchange('a'))], 2],
    ['what a loop read last', [loop([...exchange('b'), ...exchange('a')]), write('a')], 1],
    ['a loop that writes elsewhere', [...exchange('a'), loop([write('b')])], 0],
    ['the end of a branch', [branch(exchange('a')), ...exchange('b')], 0],
    ['what follows a branch', [branch(exchange('a')), write('a'), barrier], 1],
    ['inside a branch', [branch([...exchange('a'), ...exchange('a')], exchange('b'))], 1],
    ['a branch behind it', [...exchange('a'), branch([write('a'), barrier])], 1],
    [
      'a procedure that is given the place',
      [...exchange('a'), { k: 'call', fn: 'f', args: [{ k: 'address', type: 'f32', of: 'a', index: int(0) }] }],
      1,
    ],
    [
      'background writes',
      [...exchange('a'), { k: 'push', array: 'a', index: int(0), rank: int(0), value: x, meeting: x }],
      1,
    ],
    ['a variable that goes through a slot', [...exchange('a'), { k: 'uniform', name: 'u', value: x, slot: 'a' }], 1],
  ])('%s', ([, body, left]) => {
    expect(guards(search(body))).toBe(left)
  })

  test('other barriers stay', () => {
    const body = [barrier, read('a'), barrier, read('b'), barrier]
    expect(search(body)).toEqual(body)
  })
})

describe('kernels', () => {
  const softmax = (passes: number): string => `kernel softmax {
    param x: f32[512, 1024] read
    param y: f32[512, 1024] write
    axes r: 512, c: 1024
    grid r
    %0 f32{r, c} = load x[r, c]
    ${Array.from({ length: passes }, (_, i) => {
      const n = 3 * i
      return `%${n + 1} f32{r} = reduce ${i % 2 === 0 ? 'max' : 'sum'} %${n} over c
    %${n + 2} f32{r, c} = sub %${n}, %${n + 1}
    %${n + 3} f32{r, c} = mul %${n + 2}, %${n + 2}`
    }).join('\n    ')}
    store y[r, c] = %${3 * passes}
  }`

  test.for([1, 2, 3, 5])('one barrier for each of %i folds in a row', (passes) => {
    const kernel = parseKernel(softmax(passes))
    expect(emitKernel(kernel, cudaSimt).source.split('__syncthreads').length - 1).toBe(passes)
    const wgsl = emitKernel(kernel, { ...webgpuSimt, laneBits: 5 }).source
    expect(wgsl.split('workgroupBarrier').length - 1).toBe(passes)
  })
})
