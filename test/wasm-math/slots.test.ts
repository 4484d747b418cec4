/**
 * Locals share slots and keep their values: random structured code (loops, branches out of blocks, both arms of conditions) computes what
 * it computes with a variable for each local; functions of many short-lived locals declare few.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type FunctionBuilder, type Local, ModuleBuilder } from '../../src/codegen/wasm/binary/builder.ts'
import { Marks, slotsOf } from '../../src/codegen/wasm/binary/slots.ts'

/** Code on locals 0 to 7: `use` folds a local into a checksum, where every path has set it. */
type Code =
  | { readonly kind: 'set'; readonly local: number; readonly value: number }
  | { readonly kind: 'copy'; readonly local: number; readonly from: number }
  | { readonly kind: 'use'; readonly local: number }
  | { readonly kind: 'loop'; readonly rounds: number; readonly body: readonly Code[] }
  | { readonly kind: 'if'; readonly bit: number; readonly taken: readonly Code[]; readonly otherwise: readonly Code[] }
  | { readonly kind: 'leave'; readonly bit: number; readonly before: readonly Code[]; readonly after: readonly Code[] }

const local = fc.nat(7)
const { code } = fc.letrec<{ code: readonly Code[]; one: Code }>((tie) => ({
  code: fc.array(tie('one'), { maxLength: 6 }),
  one: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    fc.record({ kind: fc.constant('set' as const), local, value: fc.integer({ min: 1, max: 999 }) }),
    fc.record({ kind: fc.constant('copy' as const), local, from: local }),
    fc.record({ kind: fc.constant('use' as const), local }),
    fc.record({ kind: fc.constant('loop' as const), rounds: fc.integer({ min: 1, max: 3 }), body: tie('code') }),
    fc.record({ kind: fc.constant('if' as const), bit: fc.nat(5), taken: tie('code'), otherwise: tie('code') }),
    fc.record({ kind: fc.constant('leave' as const), bit: fc.nat(5), before: tie('code'), after: tie('code') }),
  ),
}))

type Known = ReadonlySet<number>
const both = (a: Known, b: Known): Known => new Set([...a].filter((x) => b.has(x)))

/** Emits code; gives the locals that every path has set behind it. Conditions are bits of the checksum. */
function emit(f: FunctionBuilder, list: readonly Code[], at: (n: number) => Local, sum: Local, given: Known): Known {
  let known = given
  const condition = (bit: number): void => {
    f.get(sum)
    f.i32Const(1 << bit)
    f.op('i32.and')
  }
  for (const c of list)
    switch (c.kind) {
      case 'set':
        f.i32Const(c.value)
        f.set(at(c.local))
        known = new Set([...known, c.local])
        break
      case 'copy':
        if (!known.has(c.from)) break
        f.get(at(c.from))
        f.set(at(c.local))
        known = new Set([...known, c.local])
        break
      case 'use':
        if (!known.has(c.local)) break
        f.get(sum)
        f.i32Const(31)
        f.op('i32.mul')
        f.get(at(c.local))
        f.op('i32.add')
        f.set(sum)
        break
      case 'loop': {
        const counter = f.local('i32')
        f.forLoop(counter, 0, c.rounds, 1, () => {
          known = emit(f, c.body, at, sum, known)
        })
        f.release(counter)
        break
      }
      case 'if': {
        const before = known
        let [a, b] = [before, before]
        condition(c.bit)
        f.if(
          () => {
            a = emit(f, c.taken, at, sum, before)
          },
          () => {
            b = emit(f, c.otherwise, at, sum, before)
          },
        )
        known = both(a, b)
        break
      }
      case 'leave':
        f.block((label) => {
          known = emit(f, c.before, at, sum, known)
          condition(c.bit)
          f.brIf(label)
          emit(f, c.after, at, sum, known)
        })
        break
    }
  return known
}

/** The same with a variable for each local. */
function run(list: readonly Code[]): number {
  const values = new Map<number, number>()
  let sum = 0
  const bit = (b: number): boolean => ((sum >> b) & 1) === 1
  const walk = (codes: readonly Code[], given: Known): Known => {
    let known = given
    for (const c of codes)
      switch (c.kind) {
        case 'set':
          values.set(c.local, c.value)
          known = new Set([...known, c.local])
          break
        case 'copy':
          if (!known.has(c.from)) break
          values.set(c.local, values.get(c.from) ?? 0)
          known = new Set([...known, c.local])
          break
        case 'use':
          if (known.has(c.local)) sum = (Math.imul(sum, 31) + (values.get(c.local) ?? 0)) | 0
          break
        case 'loop': {
          let after = known
          for (let i = 0; i < c.rounds; i++) after = walk(c.body, known)
          known = after
          break
        }
        case 'if':
          walk(bit(c.bit) ? c.taken : c.otherwise, known)
          known = settled([c], known)
          break
        case 'leave':
          known = walk(c.before, known)
          if (!bit(c.bit)) walk(c.after, known)
          break
      }
    return known
  }
  walk(list, new Set())
  return sum
}

/** The locals that code sets on every path. */
function settled(list: readonly Code[], given: Known): Known {
  let known = given
  for (const c of list)
    if (c.kind === 'set') known = new Set([...known, c.local])
    else if (c.kind === 'copy' && known.has(c.from)) known = new Set([...known, c.local])
    else if (c.kind === 'loop') known = settled(c.body, known)
    else if (c.kind === 'if') known = both(settled(c.taken, known), settled(c.otherwise, known))
    else if (c.kind === 'leave') known = settled(c.before, known)
  return known
}

test('random code computes the same with shared slots', () => {
  fc.assert(
    fc.property(code, (list) => {
      const m = new ModuleBuilder()
      m.function(
        'run',
        [],
        ['i32'],
        (f) => {
          const sum = f.local('i32')
          f.i32Const(0)
          f.set(sum)
          const locals = Array.from({ length: 8 }, () => f.local('i32'))
          emit(f, list, (n) => locals[n] ?? sum, sum, new Set())
          f.get(sum)
        },
        { export: true },
      )
      const { exports } = new WebAssembly.Instance(new WebAssembly.Module(m.finish() as Uint8Array<ArrayBuffer>))
      expect((exports.run as () => number)()).toBe(run(list))
    }),
    { numRuns: 3000, seed: 7 },
  )
})

const marks = (text: string): Marks => {
  const m = new Marks()
  for (const [i, word] of text.split(' ').entries()) {
    const [kind, n] = word.split(':')
    m.add(i, kind as 'get', n === undefined ? -1 : Number(n))
  }
  return m
}
const slots = (text: string): readonly number[] => {
  const m = marks(text)
  return [...slotsOf(m, 0, new Array<string>(m.locals).fill('i32')).slot]
}

test.each([
  ['one after the other', 'set:0 get:0 set:1 get:1', [0, 0]],
  ['at once', 'set:0 set:1 get:0 get:1', [0, 1]],
  ['used in a loop', 'set:0 loop get:0 set:1 get:1 end', [0, 1]],
  ['written in the loop before each use', 'loop set:0 get:0 set:1 get:1 end', [0, 0]],
  ['read in the next round', 'loop get:0 set:0 set:1 get:1 end', [0, 1]],
  ['set on one path alone', 'loop set:1 get:1 block set:0 end get:0 end', [0, 1]],
  ['set in an arm and used there', 'loop block set:0 get:0 end set:1 get:1 end', [0, 0]],
  ['set in both arms', 'block set:0 else set:0 end get:0 set:1 get:1', [0, 0]],
  ['left behind a loop', 'loop set:1 get:1 set:0 end get:0', [0, 0]],
])('%s', (_, text, want) => {
  expect(slots(text)).toEqual(want)
})

test('a function of many locals one after the other declares one', () => {
  const m = new ModuleBuilder()
  m.function(
    'run',
    [],
    ['i32'],
    (f) => {
      f.i32Const(0)
      for (let i = 0; i < 1000; i++) {
        const l = f.toLocal('i32')
        f.get(l)
        f.i32Const(i)
        f.op('i32.add')
      }
    },
    { export: true },
  )
  const bytes = m.finish()
  expect(bytes.length).toBeLessThan(12_000)
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>))
  expect((exports.run as () => number)()).toBe(499_500)
})
