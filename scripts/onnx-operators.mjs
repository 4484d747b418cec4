/**
 * The importer's operators as tables of docs/onnx.md, read from its sources: the handlers by domain (`src/onnx/ops`), at which operator set
 * versions a handler reads a node differently (comparisons with `opset`), and what it refuses (the reasons given to `fail`), in it or in what
 * it calls.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import ts from 'typescript'

/** A declaration at the top of a module: what it refuses, which versions it tells apart, what it names. */
const nothing = () => ({ refuses: [], versions: [], names: new Set() })

/** The text of a reason: what stands in a template is left out. */
function reasonOf(node) {
  if (ts.isStringLiteralLike(node)) return node.text
  if (ts.isTemplateExpression(node))
    return [node.head.text, ...node.templateSpans.map((s) => `…${s.literal.text}`)].join('')
  return undefined
}

/** What a piece of code refuses and names; strings that constants of the module hold are put in. */
function read(root, strings) {
  const found = nothing()
  const visit = (node) => {
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const { name, expression } = node.expression
      const [argument] = node.arguments
      if (name.text === 'fail' && argument !== undefined && expression.getText() === 'c') {
        const text = ts.isIdentifier(argument) ? strings.get(argument.text) : reasonOf(argument)
        if (text !== undefined) found.refuses.push(text)
      }
    }
    if (ts.isBinaryExpression(node) && node.left.getText() === 'c.opset' && ts.isNumericLiteral(node.right)) {
      const version = Number(node.right.text)
      if (/^(<|>=)$/.test(node.operatorToken.getText())) found.versions.push(version)
    }
    if (ts.isIdentifier(node) && !ts.isPropertyAccessExpression(node.parent)) found.names.add(node.text)
    ts.forEachChild(node, visit)
  }
  visit(root)
  return found
}

/** Every module below a folder: its declarations by name, its imports, and the entries of its handler tables. */
function modulesOf(folder) {
  const files = readdirSync(folder, { recursive: true }).filter((f) => f.endsWith('.ts'))
  const modules = new Map()
  for (const file of files) {
    const path = join(folder, file)
    const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true)
    const module = { declarations: new Map(), imports: new Map(), entries: new Map(), strings: new Map() }
    for (const s of source.statements)
      if (ts.isVariableStatement(s))
        for (const d of s.declarationList.declarations)
          if (d.initializer !== undefined && ts.isStringLiteralLike(d.initializer))
            module.strings.set(d.name.getText(), d.initializer.text)
    for (const s of source.statements) {
      if (ts.isImportDeclaration(s) && s.moduleSpecifier.text.startsWith('.'))
        for (const e of s.importClause?.namedBindings?.elements ?? [])
          module.imports.set(e.name.text, {
            path: resolve(dirname(path), s.moduleSpecifier.text),
            name: (e.propertyName ?? e.name).text,
          })
      if (ts.isFunctionDeclaration(s) && s.name) module.declarations.set(s.name.text, read(s, module.strings))
      if (!ts.isVariableStatement(s)) continue
      for (const d of s.declarationList.declarations) {
        const isTable = d.type?.getText() === 'HandlerTable'
        if (!isTable) module.declarations.set(d.name.getText(), read(d, module.strings))
        else if (d.initializer !== undefined && ts.isObjectLiteralExpression(d.initializer))
          for (const p of d.initializer.properties)
            if (ts.isPropertyAssignment(p)) module.entries.set(p.name.getText(), read(p.initializer, module.strings))
      }
    }
    modules.set(path, module)
  }
  return modules
}

/** What a declaration refuses and tells apart, with all it calls; functions that several operators share among them. */
function gathered(modules, path, start) {
  const seen = new Set()
  const refuses = new Set()
  const versions = new Set()
  const visit = (from, found) => {
    for (const r of found.refuses) refuses.add(r)
    for (const v of found.versions) versions.add(v)
    const module = modules.get(from)
    for (const name of found.names) {
      const imported = module?.imports.get(name)
      const [at, called] = imported === undefined ? [from, name] : [imported.path, imported.name]
      const next = modules.get(at)?.declarations.get(called)
      const key = `${at}:${called}`
      if (next === undefined || seen.has(key)) continue
      seen.add(key)
      visit(at, next)
    }
  }
  visit(path, start)
  return { refuses: [...refuses].sort(), versions: [...versions].sort((a, b) => a - b) }
}

const cell = (text) => text.replaceAll('|', '\\|')

/** Tables of markdown by the names of their places in docs/onnx.md. `part` imports a compiled module of the sources. */
export async function onnxOperators(root, part) {
  const folder = join(root, 'src', 'onnx', 'ops')
  const modules = modulesOf(folder)
  const { handlerDomains } = await part('onnx/ops/index.js')
  const { standardReasons } = await part('onnx/ops/refused.js')
  const { contribReasons } = await part('onnx/ops/contrib/refused.js')
  const { mlReasons } = await part('onnx/ops/ml/index.js')
  const reasons = { '': standardReasons, 'ai.onnx.ml': mlReasons, 'com.microsoft': contribReasons }
  const blocks = {}
  for (const [domain, table] of Object.entries(handlerDomains)) {
    const refused = reasons[domain] ?? {}
    const rows = Object.keys(table)
      .filter((op) => !Object.hasOwn(refused, op))
      .sort()
      .map((op) => {
        const places = [...modules].filter(([, m]) => m.entries.has(op))
        // Domains have operators of one name in modules of their own.
        const own =
          domain === 'com.microsoft' ? /contrib|state|regions/ : domain === 'ai.onnx.ml' ? /[/\\]ml[/\\]/ : undefined
        const chosen =
          places.find(
            ([path]) => own?.test(relative(folder, path)) ?? !/contrib|[/\\]?ml[/\\]/.test(relative(folder, path)),
          ) ?? places[0]
        if (chosen === undefined) throw new Error(`no table of src/onnx/ops lists ${op} of "${domain}"`)
        const [path, module] = chosen
        const { refuses, versions } = gathered(modules, path, module.entries.get(op))
        return `| ${op} | ${versions.join(', ')} | ${cell(refuses.join('; '))} |`
      })
    const listed = Object.keys(refused)
      .filter((op) => Object.hasOwn(table, op))
      .sort()
      .map((op) => `| ${op} | ${cell(refused[op])} |`)
    const name = domain === '' ? 'ai.onnx' : domain
    const others = listed.length === 0 ? '' : `\nRefused:\n\n| operator | why |\n|---|---|\n${listed.join('\n')}\n`
    blocks[`operators-${name.replaceAll('.', '-')}`] =
      `\n| operator | reads differently from version | refuses |\n|---|---|---|\n${rows.join('\n')}\n${others}`
  }
  return blocks
}
