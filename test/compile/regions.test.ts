/** Control flow compiled: the plan of its programs and their memory, and its values in the interpreter and in WebAssembly. */
import { afterAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import type { Compiled } from '../../src/compile/index.ts'
import { condNodes, loopNodes, whileNodes } from '../../src/compose/control.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { reportPage } from '../../src/report/html.ts'
import type { Program, RegionStep } from '../../src/runtime/program.ts'
import { at, check, type Input, trace } from './support.ts'

const backend = createWasmBackend({ threads: 1 })
afterAll(() => backend.dispose())

const kinds = (p: Program): string[] => p.steps.map((s) => s.kind)

/** The only region of a program. */
function region<K extends RegionStep['kind']>(p: Program, kind: K): Extract<RegionStep, { kind: K }> {
  const [found, ...more] = p.steps.flatMap((s) => (s.kind === kind ? [s] : []))
  if (found === undefined || more.length > 0) throw new Error(`not one ${kind} but ${kinds(p).join()}`)
  return found as unknown as Extract<RegionStep, { kind: K }>
}

const run = (inputs: readonly Input[], build: (p: readonly Node[]) => Node | Node[]): Compiled => {
  const graph = trace(inputs, build)
  check(graph, { mode: 'strict' }, backend)
  check(graph, { fuse: false }, backend)
  return check(graph, {}, backend)
}

const row: Input = { shape: [7] }
const matrix: Input = { shape: [5, 7] }

describe('loop', () => {
  const recurrence = trace([row, row, row], ([w, h, x]) => {
    if (w === undefined || h === undefined || x === undefined) return []
    const next = c.tanh(c.add(c.mul(h, w), x))
    return [next, c.mul(next, 2)]
  })
  test.each([
    [1, false],
    [2, false],
    [5, false],
    [5, true],
    [6, true],
  ])('a recurrence of %i steps, reverse %s', (length, reverse) => {
    const { program } = run([row, row, { shape: [length, 7] }], (p) => {
      const { carries, sequences } = loopNodes(recurrence, { length, reverse }, [at(p, 0)], [at(p, 1)], [at(p, 2)])
      return [...carries, ...sequences]
    })
    // One step is no loop.
    expect(kinds(program)).toEqual([length === 1 ? 'kernel' : 'loop'])
    if (length === 1) return
    const step = region(program, 'loop')
    expect(kinds(step.body.program)).toEqual(['kernel'])
    // One kernel reads the carry where it writes the next: no second buffer, no intermediates.
    expect(step.carries.map((x) => x.spare)).toEqual([undefined])
    expect(program.arenaBytes).toBe(0)
    expect(step.results).toEqual([program.outputs[1]])
  })

  test('a carry read across its rows changes places', () => {
    const square: Input = { shape: [6, 6] }
    const body = trace([square], (p) => c.mul(c.matmul(at(p, 0), at(p, 0)), 0.1))
    for (const length of [2, 3, 4]) {
      const { program } = run([square], (p) => loopNodes(body, { length }, [], [at(p, 0)], []).carries)
      const [carry] = region(program, 'loop').carries
      expect(carry?.spare).toBeDefined()
      expect(kinds(program)).toEqual(['loop'])
    }
  })

  test('values before and after, views of operands and results', () => {
    const body = trace([row, row], (p) => [c.add(at(p, 0), at(p, 1)), c.sub(at(p, 0), at(p, 1))])
    const { program } = run([{ shape: [7, 4] }, row], (p) => {
      const xs = c.exp(c.permute(at(p, 0), [1, 0]))
      const { carries, sequences } = loopNodes(body, { length: 4 }, [], [c.neg(at(p, 1))], [xs])
      return [c.mul(at(carries, 0), 2), c.sum(c.permute(at(sequences, 0), [1, 0]), [0])]
    })
    expect(kinds(program).filter((k) => k === 'loop')).toEqual(['loop'])
  })

  test('results that nothing reads are not stored', () => {
    const body = trace([row, row], (p) => [c.add(at(p, 0), at(p, 1)), c.exp(at(p, 1))])
    const { program } = run([row, matrix], (p) => loopNodes(body, { length: 5 }, [], [at(p, 0)], [at(p, 1)]).carries)
    expect(region(program, 'loop').results).toEqual([])
  })

  test('carries that swap, stay, or come from a sequence', () => {
    const body = trace([row, row, row, row], (p) => [at(p, 1), c.add(at(p, 0), at(p, 1)), at(p, 2), at(p, 3), at(p, 3)])
    run([row, row, row, row, matrix], (p) => {
      const four = trace([row, row, row, row, row], (q) => [
        at(q, 1),
        c.add(at(q, 0), at(q, 1)),
        at(q, 2),
        at(q, 4),
        at(q, 0),
      ])
      expect(body.outputs.length).toBe(5)
      const { carries, sequences } = loopNodes(four, { length: 5 }, [], p.slice(0, 4), [at(p, 4)])
      return [...carries, ...sequences]
    })
  })

  test('the same tensor as constant, carry and sequence', () => {
    const body = trace([matrix, matrix, row], (p) => c.add(c.mul(at(p, 1), 0.5), c.add(at(p, 0), at(p, 2))))
    run([matrix], (p) => {
      const x = c.exp(at(p, 0))
      return loopNodes(body, { length: 5 }, [x], [x], [x]).carries
    })
  })

  test('no steps', () => {
    const { program } = run([row, row, { shape: [0, 7] }], (p) => {
      const { carries, sequences } = loopNodes(recurrence, { length: 0 }, [at(p, 0)], [c.exp(at(p, 1))], [at(p, 2)])
      return [...carries, ...sequences]
    })
    expect(kinds(program)).not.toContain('loop')
  })

  test('the result stands over a dying initial value', () => {
    const { program } = run([row, row, matrix], (p) => {
      const { carries } = loopNodes(recurrence, { length: 5 }, [at(p, 0)], [c.exp(at(p, 1))], [at(p, 2)])
      return c.sum(at(carries, 0))
    })
    const [carry] = region(program, 'loop').carries
    const source = (b: number | undefined) => program.buffers[b ?? -1]?.source
    expect(source(carry?.result)).toEqual(source(carry?.init))
  })

  test('a donated initial value', () => {
    const graph = trace([row, row, matrix], (p) => {
      return loopNodes(recurrence, { length: 5 }, [at(p, 0)], [at(p, 1)], [at(p, 2)]).carries
    })
    const { program } = check(graph, { donated: [false, true, false] }, backend)
    expect(program.outputs).toEqual([program.inputs[1]])
  })

  test('a row set in place in every step', () => {
    const index = { shape: [], dtype: 'i32' } as const
    const body = trace([{ shape: [5] }, index, { shape: [] }], (p) =>
      c.scatterND(at(p, 0), c.reshape(at(p, 1), [1, 1]), c.reshape(at(p, 2), [1]), 'set'),
    )
    const { program } = run([{ shape: [5] }, { shape: [5] }], (p) => {
      const order = c.iota([5], 0, 'i32')
      return loopNodes(body, { length: 5 }, [], [at(p, 0)], [order, at(p, 1)]).carries
    })
    expect(region(program, 'loop').carries.map((x) => x.spare)).toEqual([undefined])
  })

  test('nested loops', () => {
    const inner = trace([row, row], (p) => [c.add(at(p, 0), at(p, 1)), c.mul(at(p, 0), at(p, 1))])
    const outer = trace([row, matrix], (p) => {
      const { carries, sequences } = loopNodes(inner, { length: 5 }, [], [c.neg(at(p, 0))], [at(p, 1)])
      return [c.mul(at(carries, 0), 0.5), at(sequences, 0)]
    })
    const { program } = run([row, { shape: [3, 5, 7] }], (p) => {
      const { carries, sequences } = loopNodes(outer, { length: 3 }, [], [at(p, 0)], [at(p, 1)])
      return [...carries, ...sequences]
    })
    expect(kinds(region(program, 'loop').body.program)).toContain('loop')
  })

  test('elements of odd sizes and other dtypes', () => {
    for (const dtype of ['i8', 'bool', 'f16', 'i64', 'f64'] as const) {
      const one: Input = { shape: [3], dtype }
      const body = trace([one, one], (p) => {
        const next = dtype === 'bool' ? c.logicalXor(at(p, 0), at(p, 1)) : c.add(at(p, 0), at(p, 1))
        return [next, next]
      })
      for (const reverse of [false, true])
        run([one, { shape: [5, 3], dtype }], (p) => {
          const r = loopNodes(body, { length: 5, reverse }, [], [at(p, 0)], [at(p, 1)])
          return [...r.carries, ...r.sequences]
        })
    }
  })
})

test('kernels of steps shared between threads', () => {
  const shared = createWasmBackend({ threads: 2, shareAbove: 0 })
  try {
    const wide: Input = { shape: [37, 301] }
    const body = trace([wide, wide], (p) => [c.tanh(c.add(at(p, 0), at(p, 1))), c.sum(at(p, 0), [1])])
    const graph = trace([wide, { shape: [9, 37, 301] }], (p) => {
      const r = loopNodes(body, { length: 9 }, [], [at(p, 0)], [at(p, 1)])
      return [...r.carries, ...r.sequences]
    })
    check(graph, {}, shared)
    check(graph, { mode: 'strict' }, shared)
  } finally {
    shared.dispose()
  }
})

describe('cond', () => {
  const flag: Input = { shape: [], dtype: 'bool' }
  const then = trace([row, row], (p) => [c.add(at(p, 0), at(p, 1)), at(p, 0)])
  const otherwise = trace([row, row], (p) => [c.tanh(c.mul(at(p, 0), at(p, 1))), c.exp(at(p, 1))])
  test('either branch', () => {
    for (const invert of [false, true]) {
      const { program } = run([flag, row, row], (p) => {
        const test = invert ? c.logicalNot(at(p, 0)) : at(p, 0)
        return condNodes(test, [at(p, 1), at(p, 2)], then, otherwise)
      })
      expect(kinds(region(program, 'cond').whenFalse.program)).toContain('kernel')
    }
  })
  test('one result, used by what follows', () => {
    const { program } = run([flag, row, row], (p) => {
      const [r] = condNodes(at(p, 0), [c.exp(at(p, 1)), at(p, 2)], then, otherwise)
      return r === undefined ? [] : c.sum(r)
    })
    expect(region(program, 'cond').results.length).toBe(1)
  })
})

describe('while', () => {
  const scalar: Input = { shape: [], dtype: 'i32' }
  const below = (limit: number) => trace([scalar, row], (p) => c.compare('lt', at(p, 0), c.full([], limit, 'i32')))
  test.each([0, 1, 2, 7])('%i steps', (limit) => {
    const body = trace([scalar, row], (p) => [c.add(at(p, 0), c.full([], 1, 'i32')), c.mul(at(p, 1), 1.25)])
    run([row], (p) => whileNodes(below(limit), body, [], [c.full([], 0, 'i32'), at(p, 0)]))
    const apart = trace([scalar, row], (p) => [c.add(at(p, 0), c.full([], 1, 'i32')), c.flip(at(p, 1), [0])])
    const { program } = run([row], (p) => whileNodes(below(limit), apart, [], [c.full([], 0, 'i32'), c.exp(at(p, 0))]))
    expect(region(program, 'while').carries.map((x) => x.spare === undefined)).toEqual([true, false])
  })
})

describe('reports', () => {
  test('kernels inside are listed with their steps and counted once', () => {
    const body = trace([row, row], (p) => [c.add(c.exp(at(p, 0)), at(p, 1)), c.tanh(c.mul(at(p, 0), at(p, 0)))])
    const graph = trace([row, matrix], (p) => {
      const { carries, sequences } = loopNodes(body, { length: 5 }, [], [c.neg(at(p, 0))], [at(p, 1)])
      return [...carries, c.exp(at(sequences, 0))]
    })
    const { report } = check(graph)
    const loop = report.kernels.find((k) => k.kind === 'loop')
    expect(loop?.inner?.map((i) => [i.role, i.trips, i.kernels.length])).toEqual([['body', 5, 1]])
    const [step] = loop?.inner?.[0]?.kernels ?? []
    // A row of the carry and of the sequence in, the next carry and an element out, of four bytes each.
    expect([step?.bytesRead, step?.bytesWritten]).toEqual([2 * 28, 2 * 28])
    expect([loop?.bytesRead, loop?.bytesWritten]).toEqual([5 * 2 * 28, 5 * 2 * 28])
    expect(report.totals.kernels).toBe(3)
    expect(report.totals.bytes).toBeLessThanOrEqual(report.totals.bytesOpByOp)
    expect(String(report)).toContain('body, 5 steps:')
    expect(reportPage(report)).toContain('loop body, 5 steps')
  })
})
