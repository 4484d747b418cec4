/** What the build makes of loops over lists: the same results, and no iterator of a list. */
import { createContext, runInContext } from 'node:vm'
import ts from 'typescript'
import { expect, it } from 'vitest'
import { listsByIndex } from '../../scripts/lists.mjs'

/** The declarations of the language, read once. */
const libraries = new Map<string, ts.SourceFile | undefined>()

/** A source compiled, as the build does or plainly. */
function compiled(source: string, byIndex: boolean): string {
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    lib: ['lib.es2022.d.ts'],
    strict: true,
    types: [],
    skipLibCheck: true,
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile } = host
  let out = ''
  host.getSourceFile = (name, version, ...rest) => {
    if (name === 'given.ts') return ts.createSourceFile(name, source, version, true)
    if (!libraries.has(name)) libraries.set(name, getSourceFile(name, version, ...rest))
    return libraries.get(name)
  }
  host.writeFile = (_, text) => {
    out = text
  }
  const program = ts.createProgram(['given.ts'], options, host)
  expect(ts.getPreEmitDiagnostics(program).map((d) => ts.flattenDiagnosticMessageText(d.messageText, '\n'))).toEqual([])
  const before = byIndex ? [listsByIndex(program, (path: string) => path === 'given.ts')] : []
  program.emit(undefined, undefined, undefined, false, { before })
  return out
}

/** What a source leaves in `out`, and how many iterators of lists it took on the way. */
function run(source: string, byIndex: boolean): { out: unknown; iterators: number } {
  const context = createContext({})
  const counted = `
    let iterators = 0
    const { values } = Array.prototype
    Array.prototype[Symbol.iterator] = function () { iterators++; return values.call(this) }
    const { entries } = Array.prototype
    Array.prototype.entries = function () { iterators++; return entries.call(this) }
    ;(() => { ${compiled(source, byIndex)}; return JSON.stringify({ out, iterators }) })()`
  return JSON.parse(runInContext(counted, context))
}

const same: Record<string, string> = {
  'a loop, left and gone on with': `
    const out: number[] = []
    outer: for (const x of [1, 2, 3, 4, 5]) {
      for (const y of [10, 20]) { if (x === 2) continue outer; if (x === 4) break outer; out.push(x * y) }
    }`,
  'a list that grows and one that shrinks': `
    const out: number[] = []
    const grows = [1]
    for (const x of grows) { out.push(x); if (x < 5) grows.push(x + 1) }
    const shrinks = [1, 2, 3]
    for (const x of shrinks) { out.push(x); shrinks.pop() }`,
  'closures of each round, and a name again': `
    const made: (() => number)[] = []
    for (const x of [1, 2, 3]) { made.push(() => x); { const x = 7; made.push(() => x) } }
    for (let x of [1, 2]) { x++; made.push(() => x) }
    const out = made.map((f) => f())`,
  'a body without braces, a list that is found once': `
    let found = 0
    const list = (): readonly number[] => { found++; return [1, 2, 3] }
    let sum = 0
    for (const x of list()) sum += x
    const out = [found, sum]`,
  'patterns with defaults, holes, and beyond the end': `
    const pairs: [number, number?][] = [[1, 2], [3]]
    const out: unknown[] = []
    for (const [a, b = 9] of pairs) out.push(a, b)
    const [, second, third] = [1, 2] as number[]
    const [[inner], { length }] = [[5], [6, 7]]
    out.push(second, third ?? 'none', inner, length, pairs.map(([a, b]) => a + (b ?? 0)))`,
  'literals, in order': `
    const seen: string[] = []
    const say = (s: string): string => { seen.push(s); return s }
    let [a, b] = [say('a'), say('b')]
    const [c, d = say('never')] = [say('c'), say('d')]
    const out = [a, b, c, d, seen]`,
  'numbers of elements': `
    const out: unknown[] = []
    for (const [i, x] of ['a', 'b'].entries()) out.push(i, x)
    for (const [i, [p, q]] of [[1, 2], [3, 4]].entries()) out.push(i, p, q)
    for (const [, x] of ['c'].entries()) out.push(x)`,
}

it.each(Object.keys(same))('%s', (name) => {
  const source = same[name] ?? ''
  const [plain, byIndex] = [run(source, false), run(source, true)]
  expect(byIndex.out).toEqual(plain.out)
  expect(plain.iterators).toBeGreaterThan(0)
  expect(byIndex.iterators).toBe(0)
})

it('what is no list keeps its iterator', () => {
  const source = `
    const out: unknown[] = []
    for (const x of new Set([1, 2])) out.push(x)
    for (const [k, v] of new Map([[1, 2]])) out.push(k, v)
    for (const c of 'ab') out.push(c)
    function* two(): Generator<number> { yield 1; yield 2 }
    for (const x of two()) out.push(x)
    const [first] = new Set([3])
    const [head, ...rest] = [1, 2, 3]
    const either: readonly number[] | ReadonlySet<number> = out.length > 99 ? [1] : new Set([4])
    for (const x of either) out.push(x)
    out.push(first, head, rest)`
  expect(run(source, true).out).toEqual(run(source, false).out)
  expect(run(source, true).out).toEqual([1, 2, 1, 2, 'a', 'b', 1, 2, 4, 3, 1, [2, 3]])
})
