/** Seeded mutations of the text of a program: numbers, names, values, arguments, options and results that nobody meant. */
import type { Rng } from '../rng.ts'

const numbers: readonly string[] = [
  ...['0', '-0', '1', '-1', '2', '3', '7', '64', '-64', '1.5', '-2.25', '1e-30', '1e30', '100000', '3n', '-1n'],
  ...['NaN', 'Infinity', '-Infinity', '2 ** 16', '2 ** 31', '-(2 ** 31)', '2 ** 32', '2 ** 53', '-(2 ** 53)', '1e300'],
]
const values: readonly string[] = [
  ...['undefined', 'null', 'true', "''", "'x'", "'f32'", '{}', '[]', '[[]]', '[[], [1]]', '[, 1]', '{ length: 3 }'],
  ...["Symbol('a')", '() => {}', '(x) => x', '(x) => [x, x]', 'Object.create(null)', 'new Proxy({}, {})', '[NaN]'],
  ...['new Float32Array(3)', 'new Date(0)', 'new Map()', 'new Set([1])', 'Promise.resolve(1)', '/x/', 'async () => 1'],
  ...[
    's',
    's.Tensor',
    's.spec([2])',
    's.ones([2, 3])',
    "s.zeros([0], 'i32')",
    "s.full([], 1, 'bool')",
    's.random.key(1)',
  ],
  ...['{ __proto__: null }', "{ ['__proto__']: 1 }", '(() => { const a = []; a.push(a); return a })()'],
  ...['(() => { const o = {}; o.o = o; return o })()', 'function* () { yield 1 }', '[s.ones([2]), null]', 'globalThis'],
]
const texts: readonly string[] = [
  ...['f64', 'f32', 'f16', 'bf16', 'i64', 'i32', 'i16', 'i8', 'u64', 'u32', 'u16', 'u8', 'bool'],
  ...[
    '',
    'f33',
    'F32',
    '__proto__',
    'constructor',
    'toString',
    'sum',
    'set',
    'edge',
    'none',
    'ij,jk->ik',
    '\\u001b[31m',
    '\\ud800',
  ],
]
const properties: readonly string[] = [
  ...['__proto__', 'constructor', 'axis', 'axes', 'keepdims', 'dtype', 'shape', 'inAxes', 'outAxes', 'epsilon', 'then'],
]

/** What stands in a text: words, numbers, strings, single signs, and the white space between. */
const tokensOf = (text: string): string[] =>
  text.match(/[A-Za-z_$][\w$]*|\d+(?:\.\d+)?(?:e-?\d+)?|'[^']*'|=>|\s+|[^\s]/g) ?? []

const isWord = (t: string | undefined): boolean => t !== undefined && /^[A-Za-z_$]/.test(t)
const isVariable = (t: string | undefined): boolean => t !== undefined && /^[tuxf]\d+$/.test(t)

/** Positions of the tokens that a test accepts. */
const placesOf = (tokens: readonly string[], test: (token: string, i: number) => boolean): number[] =>
  tokens.flatMap((t, i) => (test(t, i) ? [i] : []))

/** The stretch of tokens that is the argument, element or entry around a place: from the sign before it to the sign after it. */
function partAt(tokens: readonly string[], place: number): readonly [from: number, to: number] | undefined {
  const edge = (step: 1 | -1): number | undefined => {
    let depth = 0
    for (let i = place + (step < 0 ? -1 : 0); i >= 0 && i < tokens.length; i += step) {
      const t = tokens[i] ?? ''
      const opens = step > 0 ? '([{' : ')]}'
      const closes = step > 0 ? ')]}' : '([{'
      if (depth === 0 && (t === ',' || closes.includes(t))) return i
      if (opens.includes(t)) depth++
      else if (closes.includes(t)) depth--
      if (t.includes('\n') && depth === 0) return undefined
    }
    return undefined
  }
  const [before, after] = [edge(-1), edge(1)]
  return before === undefined || after === undefined ? undefined : [before + 1, after]
}

type Mutation = (tokens: string[], rng: Rng, names: readonly string[]) => void

const replaceOne =
  (
    test: (tokens: readonly string[], i: number) => boolean,
    by: (rng: Rng, tokens: readonly string[], names: readonly string[]) => string,
  ): Mutation =>
  (tokens, rng, names) => {
    const places = placesOf(tokens, (_, i) => test(tokens, i))
    if (places.length > 0) tokens[rng.pick(places)] = by(rng, tokens, names)
  }

/** A variable where it is used, not where it is declared. */
const isUse = (tokens: readonly string[], i: number): boolean => {
  if (!isVariable(tokens[i])) return false
  const line = tokens.slice(Math.max(0, i - 12), i).join('')
  return !/(?:const \[?[^=\n]*|\([^()]*)$/.test(line) || /[=(,] *(?:s\.)?[\w.]+\([^()]*$/.test(line)
}

const someVariable = (rng: Rng, tokens: readonly string[]): string => {
  const all = tokens.filter(isVariable)
  return all.length === 0 ? 'undefined' : rng.pick(all)
}

const changeNumber = replaceOne(
  (tokens, i) => /^\d/.test(tokens[i] ?? ''),
  (rng) => rng.pick(numbers),
)
const changeUse = replaceOne(isUse, (rng, tokens) => (rng.chance(0.6) ? someVariable(rng, tokens) : rng.pick(values)))
const changeText = replaceOne(
  (tokens, i) => tokens[i]?.startsWith("'") === true,
  (rng) => (rng.chance(0.9) ? `'${rng.pick(texts)}'` : rng.pick(values)),
)
const changeFunction = replaceOne(
  (tokens, i) => isWord(tokens[i]) && tokens[i - 1] === '.' && tokens[i + 1] === '(',
  (rng, _, names) => rng.pick(names),
)
const changeProperty = replaceOne(
  (tokens, i) => isWord(tokens[i]) && tokens[i + 1] === ':',
  (rng, tokens) =>
    rng.chance(0.5) ? rng.pick(properties) : rng.pick(tokens.filter((t, i) => isWord(t) && tokens[i + 1] === ':')),
)

/** Replaces, removes or doubles an argument, an element or an entry. */
const changePart: Mutation = (tokens, rng) => {
  const places = placesOf(tokens, (t) => isWord(t) || /^[\d']/.test(t))
  if (places.length === 0) return
  const part = partAt(tokens, rng.pick(places))
  if (part === undefined) return
  const [from, to] = part
  const how = rng.int(0, 3)
  if (how === 0) tokens.splice(from, to - from, rng.pick(values))
  else if (how === 1)
    tokens.splice(
      tokens[to] === ',' ? from : Math.max(0, from - 1),
      to - from + 1,
      ...(tokens[to] === ',' ? [] : [tokens[to] ?? '']),
    )
  else if (how === 2) tokens.splice(to, 0, ', ', ...tokens.slice(from, to))
  else tokens.splice(from, 0, rng.pick(values), ', ')
}

/** Gives back something else. */
const changeResult: Mutation = (tokens, rng) => {
  const places = placesOf(tokens, (t, i) => t === 'return' && tokens.indexOf('\n', i) > i)
  if (places.length === 0) return
  const at = rng.pick(places)
  const end = tokens.findIndex((t, i) => i > at && t.includes('\n'))
  if (end < 0) return
  const was = tokens.slice(at + 2, end).join('')
  const forms = [
    `{ a: ${was} }`,
    `[[${was}], 1]`,
    `Promise.resolve(${was})`,
    `[...${was}, ...${was}]`,
    rng.pick(values),
    someVariable(rng, tokens),
  ]
  tokens.splice(at + 2, end - at - 2, rng.pick(forms))
}

const mutations: readonly Mutation[] = [
  ...[changeNumber, changeNumber, changeUse, changeUse, changeText, changeFunction, changeFunction],
  ...[changeProperty, changePart, changePart, changeResult],
]

/** Mutations that often leave a program of tensors: another axis or extent, dtype, operand, operation. */
const likely: readonly Mutation[] = [
  replaceOne(
    (tokens, i) => /^\d/.test(tokens[i] ?? ''),
    (rng) => rng.pick(['0', '1', '2', '3', '-1', '-2', '5', '0.5', '17']),
  ),
  replaceOne(
    (tokens, i) => /^'[bfiu]/.test(tokens[i] ?? ''),
    (rng) => `'${rng.pick(texts.slice(0, 13))}'`,
  ),
  replaceOne(isUse, someVariable),
  changeFunction,
]

/** The text with one to three mutations; `names`: functions and methods that may stand for others. `mild`: it may well run. */
export function mutate(text: string, rng: Rng, names: readonly string[], mild = false): string {
  const tokens = tokensOf(text)
  for (let n = rng.int(1, 3); n > 0; n--) rng.pick(mild ? likely : mutations)(tokens, rng, names)
  return tokens.join('')
}
