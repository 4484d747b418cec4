/**
 * Checks what the type checker and the linter do not:
 *
 * - everything public has a doc comment, functions with the codes of their errors and an example that fits their types;
 * - every file of the sources, tests and benchmarks starts with a comment that says what lives there, and is at most 500 lines long;
 * - no test reads a clock: tests assert the work that is done, not how long it takes;
 * - every relative link of README.md, CONTRIBUTING.md and docs/ (docs/api too, where it was made) leads to a file, and every anchor to a heading;
 * - files, folders and identifiers that the pages on the sources name in code exist;
 * - docs/architecture.md has at most 2,000 words beside its code;
 * - docs/glossary.md has every folder of src, its terms in order, and none that the sources do not use.
 *
 * A file marked `@generated` in its first line may be of any length.
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { importsOf, publicApi, statementsOf } from './public-api.mjs'

const LINES_WARN = 400
const LINES_FAIL = 500
const MOST_WORDS = 2000

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const problems = []
const warnings = []

const shown = (path) => relative(root, path).split(sep).join('/')

/** Every file under `folder` whose name ends in `extension`; none where the folder does not exist. */
function filesUnder(folder, extension) {
  const path = join(root, folder)
  if (!existsSync(path)) return []
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith(extension))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .filter((file) => !file.includes(`${sep}node_modules${sep}`))
    .sort()
}

function checkFiles() {
  const files = [
    ...filesUnder('src', '.ts'),
    ...filesUnder('test', '.ts'),
    ...filesUnder('bench', '.mjs'),
    ...filesUnder('bench', '.ts'),
  ]
  for (const path of files) {
    const text = readFileSync(path, 'utf8').replace(/^#!.*\n/, '')
    const opening = /^\s*(\/\*[\s\S]*?\*\/|\/\/.*)/.exec(text)?.[1] ?? ''
    const words = opening.replace(/[/*]/g, '').trim()
    if (words === '' || /^(biome-ignore|@ts-)/.test(words)) {
      problems.push(`${shown(path)}:1 starts without a comment that says what lives there`)
    }
    const lines = text.split('\n').length - 1
    if (opening.includes('@generated')) continue
    if (lines > LINES_FAIL) problems.push(`${shown(path)} has ${lines} lines; at most ${LINES_FAIL} are allowed`)
    else if (lines > LINES_WARN) warnings.push(`${shown(path)} has ${lines} lines; aim at ${LINES_WARN}`)
  }
}

function checkClocks() {
  for (const path of filesUnder('test', '.ts')) {
    const lines = readFileSync(path, 'utf8').split('\n')
    const at = lines.findIndex((line) => /\b(?:performance|Date)\.now\b|\bhrtime\b/.test(line))
    if (at >= 0) problems.push(`${shown(path)}:${at + 1} reads a clock`)
  }
}

/** The codes of errors that users meet. */
function errorCodes({ program }) {
  const checker = program.getTypeChecker()
  const file = program.getSourceFile(join(root, 'src', 'diagnostics', 'errors.ts'))
  const symbol = checker.getExportsOfModule(checker.getSymbolAtLocation(file)).find((s) => s.name === 'ErrorCode')
  return new Set([...checker.getDeclaredTypeOfSymbol(symbol).types.map((type) => type.value), 'E_INTERNAL'])
}

/**
 * What lacks in the comment of an export. Everything has a description. A function has a `@throws` with codes (or `nothing`) if it takes
 * arguments, and an `@example` that says what comes out; so has a method, unless a function of its name says it.
 */
function lacksOf({ name, kind, takes, description, throws, examples, isClassMember }, functions, codes) {
  const lacks = []
  if (description === '') lacks.push('a description')
  for (const code of [description, ...throws].join(' ').match(/\bE_[A-Z_]+/g) ?? [])
    if (!codes.has(code)) lacks.push(`an error code in the place of ${code}`)
  const isCalled = kind === 'function' || (isClassMember && kind === 'method' && !functions.has(name.split('.').at(-1)))
  if (isCalled) {
    if (takes && !throws.some((text) => /\bE_[A-Z_]+/.test(text) || text === 'nothing'))
      lacks.push('a @throws with codes')
    if (examples.length === 0) lacks.push('an @example')
  }
  const statements = examples.map(statementsOf)
  if (statements.some((list) => !list.some((s) => s.value !== undefined)))
    lacks.push('an @example that says in a comment what comes out')
  if (statements.some((list) => list.some((s) => s.comment !== undefined && s.value === undefined)))
    lacks.push('a value before the comment behind a statement of its @example')
  return lacks
}

function checkPublicDocs(api) {
  const codes = errorCodes(api)
  const functions = new Set(api.exports.filter((e) => e.kind === 'function').map((e) => e.name))
  for (const exported of api.exports) {
    const { name, file, line } = exported
    const lacks = lacksOf(exported, functions, codes)
    if (lacks.length > 0) problems.push(`${file}:${line} exports ${name} without ${lacks.join(', ')}`)
  }
}

/** Examples are held to the types that users meet: all of them as one module that imports the entries. */
function checkExampleTypes(api) {
  const lines = importsOf(api).flatMap(({ path, values, types }) => [
    ...(values.length > 0 ? [`import { ${values.join(', ')} } from '${path}'`] : []),
    ...(types.length > 0 ? [`import type { ${types.join(', ')} } from '${path}'`] : []),
  ])
  const at = []
  for (const { name, file, line, examples } of api.exports)
    for (const code of examples) {
      const block = [';void (async () => {', ...code.split('\n'), '})']
      lines.push(...block)
      at[lines.length] = { name, file, line }
    }
  const path = join(root, 'src', '.examples.ts')
  const host = ts.createCompilerHost(api.options)
  const read = host.getSourceFile.bind(host)
  const text = lines.join('\n')
  const parsed = ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true)
  host.getSourceFile = (file, ...rest) =>
    file === path ? parsed : (api.program.getSourceFile(file) ?? read(file, ...rest))
  const files = [...api.program.getRootFileNames(), path]
  const program = ts.createProgram(files, api.options, host, api.program)
  for (const found of [...program.getSyntacticDiagnostics(parsed), ...program.getSemanticDiagnostics(parsed)]) {
    const line = parsed.getLineAndCharacterOfPosition(found.start ?? 0).line + 1
    const { name, file, line: place } = at.find((e, end) => e !== undefined && end >= line) ?? {}
    const message = ts.flattenDiagnosticMessageText(found.messageText, ' ')
    problems.push(`${file}:${place} the example of ${name}, "${lines[line - 1]}": ${message}`)
  }
}

const withoutCode = (markdown) => markdown.replace(/^(`{3,}|~{3,})[\s\S]*?^\1.*$/gm, '').replace(/`[^`\n]*`/g, '')

/** The anchors that a Markdown renderer gives the headings of a page. */
function anchorsOf(markdown) {
  const counts = new Map()
  const anchors = new Set()
  const headings = markdown.replace(/^(`{3,}|~{3,})[\s\S]*?^\1.*$/gm, '').matchAll(/^#{1,6}\s+(.*?)\s*#*$/gm)
  for (const [, heading] of headings) {
    const slug = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-')
    const count = counts.get(slug) ?? 0
    counts.set(slug, count + 1)
    anchors.add(count === 0 ? slug : `${slug}-${count}`)
  }
  for (const [, id] of markdown.matchAll(/<a id="([^"]+)">/g)) anchors.add(id)
  return anchors
}

/** Pages that people write: those of docs/api are made of doc comments. */
const pages = [join(root, 'README.md'), join(root, 'CONTRIBUTING.md'), ...filesUnder('docs', '.md')].filter(
  (page) => !shown(page).startsWith('docs/api/'),
)

function checkLinks() {
  for (const page of [...pages, ...filesUnder('docs/api', '.md')]) {
    const text = withoutCode(readFileSync(page, 'utf8'))
    const inline = [...text.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g)]
    const references = [...text.matchAll(/^\s*\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)/gm)]
    for (const [, link] of [...inline, ...references]) {
      if (/^[a-z][a-z0-9+.-]*:/i.test(link) || link.startsWith('//')) continue
      const [path, anchor] = decodeURI(link).split('#')
      const target = path === '' ? page : resolve(dirname(page), path)
      if (!target.startsWith(root) || !existsSync(target)) {
        problems.push(`${shown(page)} links to ${link}, which does not exist`)
      } else if (anchor && target.endsWith('.md') && statSync(target).isFile()) {
        if (!anchorsOf(readFileSync(target, 'utf8')).has(anchor)) {
          problems.push(`${shown(page)} links to ${link}, a heading that does not exist`)
        }
      }
    }
  }
}

/** A page without its blocks of code, fenced or indented. */
const prose = (markdown) =>
  markdown
    .replace(/^(`{3,}|~{3,})[\s\S]*?^\1.*$/gm, '')
    .replace(/^ {4}.*$/gm, '')
    .replace(/<!--[\s\S]*?-->/g, '')

/** What a page says in code that is no longer there: a file by the end of its path, a folder, a word of the sources. */
function checkMentions(words) {
  const files = ['src', 'test', 'scripts', 'bench', 'examples', 'types', 'docs']
    .flatMap((folder) => filesUnder(folder, ''))
    .map(shown)
  const known = files.map((file) => `/${file}`)
  for (const page of pages) {
    const path = shown(page)
    if (path === 'README.md' || path === 'docs/dependencies.md') continue
    for (const [, code] of prose(readFileSync(page, 'utf8')).matchAll(/`([^`\n]+)`/g)) {
      const isThere = /^[\w./-]+\.(?:ts|mjs|md|json)$/.test(code)
        ? known.some((file) => file.endsWith(`/${code}`)) || existsSync(join(root, code))
        : /^(?:src|test|scripts|bench|examples)\/[\w./-]+$/.test(code)
          ? known.some((file) => file.startsWith(`/${code}`))
          : !/^[A-Za-z]\w*(?:\.\w+)*$/.test(code) || code.split('.').every((word) => words.has(word))
      if (!isThere) problems.push(`${path} names ${code}, which is not there`)
    }
  }
}

function checkArchitecture() {
  const page = join(root, 'docs', 'architecture.md')
  const count = prose(readFileSync(page, 'utf8')).match(/\S*[\p{L}\p{N}]\S*/gu)?.length ?? 0
  if (count > MOST_WORDS) problems.push(`${shown(page)} has ${count} words of prose; at most ${MOST_WORDS} are allowed`)
}

function checkGlossary(words) {
  const page = join(root, 'docs', 'glossary.md')
  const terms = new Set()
  for (const section of readFileSync(page, 'utf8')
    .split(/^## .*$/m)
    .slice(1)) {
    const listed = [...section.matchAll(/^- \*\*(.+?)\*\*: \S/gm)].map(([, term]) => term)
    for (const [i, term] of listed.entries()) {
      terms.add(term)
      if (i > 0 && listed[i - 1] > term) problems.push(`${shown(page)} has ${term} out of order`)
    }
  }
  const text = [...words].join(' ').toLowerCase()
  for (const term of terms)
    if (!term.split(' ').every((word) => text.includes(word)))
      problems.push(`${shown(page)} has ${term}, which no source uses`)
  const folders = new Set(filesUnder('src', '.ts').flatMap((file) => shown(file).split('/').slice(1, -1)))
  for (const folder of folders)
    if (!terms.has(folder)) problems.push(`${shown(page)} lacks ${folder}, the name of a folder of src`)
}

/** Every word of the sources, tests and scripts. */
const sourceWords = () =>
  new Set(
    [
      ...['src', 'test', 'bench', 'types'].flatMap((f) => filesUnder(f, '.ts')),
      ...['scripts', 'bench'].flatMap((f) => filesUnder(f, '.mjs')),
    ]
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n')
      .match(/[A-Za-z_]\w*/g),
  )

checkFiles()
checkClocks()
const api = publicApi()
checkPublicDocs(api)
checkExampleTypes(api)
checkLinks()
checkArchitecture()
const words = sourceWords()
checkMentions(words)
checkGlossary(words)

for (const warning of warnings) console.warn(`warning: ${warning}`)
for (const problem of problems) console.error(`error: ${problem}`)
if (problems.length > 0) process.exit(1)
console.log('docs: headers, file sizes, tests without clocks, public doc comments, links and the glossary are in order')
