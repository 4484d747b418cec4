/**
 * CONTRIBUTING's lists of what to touch are complete: an operation, an approximated function, a primitive and a dtype are added to the sources in
 * memory, and what the type checker then asks for is what the lists mark; files that name those that are there are all listed.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { approximated } from '../../src/scalar/approximations.ts'
import { atNight } from '../support/nightly.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (file: string): string => readFileSync(join(root, file), 'utf8')
const contributing = read('CONTRIBUTING.md')

const titles = {
  approximated: '*An approximated function*',
  elementwise: '*An elementwise primitive*',
  primitive: '*Another primitive*',
  rule: '## Adding a rewrite rule',
  target: '## Adding a target',
  dtype: '## Adding a dtype',
} as const

/** The entries of the numbered list below a title, with the files and folders that each names, and those it marks. */
function listBelow(title: string): { readonly text: string; readonly paths: string[]; readonly asked: string[] }[] {
  const from = contributing.indexOf(title)
  expect(from, title).toBeGreaterThanOrEqual(0)
  const list = /\n\n(1\. [\s\S]*?)(?=\n\n|$)/.exec(contributing.slice(from))?.[1] ?? ''
  return list.split(/\n(?=\d+\. )/).map((text) => {
    const paths: string[] = []
    const asked: string[] = []
    for (const [, code = '', star] of text.matchAll(/`([\w./-]+)`(\*?)/g)) {
      if (/^(?:src|test|docs|scripts)\/|\.(?:json|cjs)$/.test(code)) paths.push(code)
      // A file named by itself, with a star, stands in the folder named before it.
      if (star === '*') asked.push(paths.at(-1) === code ? code : `${paths.at(-1)}/${code}`)
    }
    return { text, paths, asked }
  })
}

const lists = Object.fromEntries(Object.entries(titles).map(([name, title]) => [name, listBelow(title)])) as Record<
  keyof typeof titles,
  ReturnType<typeof listBelow>
>
const pathsOf = (name: keyof typeof titles): string[] => lists[name].flatMap((entry) => entry.paths)
const askedOf = (name: keyof typeof titles): string[] => lists[name].flatMap((entry) => entry.asked).sort()
const covers = (paths: readonly string[], file: string): boolean =>
  paths.some((path) => file === path || file.startsWith(`${path}/`))

/** The sources with their comments and imports away. */
const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => join(entry.parentPath, entry.name))
  .map((path) => ({
    file: relative(root, path),
    code: readFileSync(path, 'utf8')
      .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
      .replace(/^(?:import|export) .* from .*$/gm, ''),
  }))
/** Files that name something in text or as a key. */
const naming = (name: string): string[] =>
  sources.filter(({ code }) => new RegExp(`'${name}'|\\b${name}:`).test(code)).map(({ file }) => file)

describe.each(Object.keys(titles) as (keyof typeof titles)[])('the list of: %s', (name) => {
  it('names files and folders that are there', () => {
    expect(lists[name].length).toBeGreaterThan(1)
    for (const { text, paths } of lists[name]) expect(paths.length, text).toBeGreaterThan(0)
    expect(pathsOf(name).filter((path) => !existsSync(join(root, path)))).toEqual([])
    expect(askedOf(name).filter((path) => !existsSync(join(root, path)))).toEqual([])
  })
})

/** Compositions that compute with an approximated function: truncated normal values invert erf. */
const compositions = new Set(['src/compose/distributions.ts'])

it('an approximated function touches five files at most; no other file of the sources names one, unless it computes with it', () => {
  const list = lists.approximated.map((entry) => entry.paths)
  expect(list.length).toBeLessThanOrEqual(5)
  for (const op of approximated)
    for (const [i, files] of list.entries())
      expect(
        files.some((file) => new RegExp(`\\b${op}\\b`).test(read(file))),
        `${op} in entry ${i + 1}`,
      ).toBe(true)
  const any = new RegExp(`(?<!Math\\.)\\b(${approximated.join('|')})\\b`)
  expect(sources.length).toBeGreaterThan(300)
  const others = sources.filter(({ file }) => !pathsOf('approximated').includes(file) && !compositions.has(file))
  expect(others.filter(({ file }) => any.test(read(file))).map(({ file }) => file)).toEqual([])
})

it.each([
  ['elementwise', ['sinh', 'asinh', 'atan2']],
  ['primitive', ['flip', 'iota', 'randomBits']],
  ['dtype', ['u16', 'i16', 'f16', 'bf16']],
] as const)('files that name one of them are listed: %s', (name, examples) => {
  for (const example of examples) {
    const files = naming(example)
    expect(files.length).toBeGreaterThan(5)
    expect(
      files.filter((file) => !covers(pathsOf(name), file)),
      example,
    ).toEqual([])
  }
})

it('files that name a device outside of its own folders are listed', () => {
  const own = /^src\/(backends|target|codegen)\//
  const files = sources.filter(({ file, code }) => !own.test(file) && /\bwebgpu\b/.test(code)).map(({ file }) => file)
  expect(files.length).toBeGreaterThan(5)
  expect(files.filter((file) => !covers(pathsOf('target'), file))).toEqual([])
})

it('rules stand in the files of the list', () => {
  const imported = [...read('src/rewrite/rules.ts').matchAll(/from '\.\/(\w+\.ts)'/g)].map(([, file]) => file ?? '')
  expect(imported.length).toBeGreaterThan(5)
  for (const file of imported) expect(covers(pathsOf('rule'), `src/rewrite/${file}`)).toBe(true)
})

/** Changes of the sources, as what is replaced by what in each file. */
const added: Readonly<Record<string, readonly (readonly [from: string, to: string])[]>> = {
  'src/types/dtype.ts': [['export type DType =\n', "export type DType =\n  | 'f8'\n"]],
  'src/scalar/ops.ts': [
    ['export type UnaryName =\n', "export type UnaryName =\n  | 'novel'\n  | 'formulaic'\n"],
    ['  cbrt: special(', '  formulaic: special(),\n  cbrt: special('],
  ],
  'src/scalar/approximations.ts': [
    [
      '  cbrt: {',
      '  formulaic: { formula: cbrt, bound: { ulp: 4 }, derivatives: [(t, out) => t.mul(out, 2)] },\n  cbrt: {',
    ],
  ],
  'src/graph/node.ts': [['  flip: {', '  twist: { readonly axes: readonly number[] }\n  flip: {']],
}

/** Half a minute of the type checker. */
const night = { timeout: 120_000 }

atNight('what the type checker asks for is marked; for an approximated function it asks for nothing', night, () => {
  const config = ts.getParsedCommandLineOfConfigFile(
    join(root, 'tsconfig.build.json'),
    { noEmit: true },
    {
      ...ts.sys,
      onUnRecoverableConfigFileDiagnostic: (d) => {
        throw new Error(ts.flattenDiagnosticMessageText(d.messageText, ' '))
      },
    },
  )
  if (config === undefined) throw new Error('no configuration')
  const host = ts.createCompilerHost(config.options)
  const plain = host.readFile.bind(host)
  host.readFile = (path) => {
    const text = plain(path)
    return (added[relative(root, path)] ?? []).reduce<string | undefined>((changed, [from, to]) => {
      expect(changed, path).toContain(from)
      return changed?.replace(from, to)
    }, text)
  }
  const program = ts.createProgram(config.fileNames, config.options, host)
  const found = program.getSemanticDiagnostics().map((d) => ({
    file: relative(root, d.file?.fileName ?? ''),
    text: ts.flattenDiagnosticMessageText(d.messageText, ' '),
  }))
  const files = [...new Set(found.map(({ file }) => file))].sort()
  const marked = [...new Set([...askedOf('elementwise'), ...askedOf('primitive'), ...askedOf('dtype')])].sort()
  // The file that a name is added to asks for nothing itself.
  expect(files).toEqual(marked.filter((file) => file !== 'src/graph/node.ts'))
  for (const [name, word] of [
    ['elementwise', 'novel'],
    ['primitive', 'twist'],
    ['dtype', 'f8'],
  ] as const) {
    const about = new Set(found.filter(({ text }) => new RegExp(`\\b${word}\\b`).test(text)).map(({ file }) => file))
    expect(
      [...about].filter((file) => !askedOf(name).includes(file)),
      name,
    ).toEqual([])
  }
  expect(found.filter(({ text }) => /'formulaic'/.test(text))).toEqual([])
})
