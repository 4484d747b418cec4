/**
 * The public API as the compiler sees it: everything the entries export, through re-exports and namespaces, with its doc comment.
 * `check-docs.mjs` holds the comments to their form, `test/api/examples.test.ts` runs their examples.
 */
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

/** The entries of the package by what users import them as. */
export const entries = {
  sinter: 'src/index.ts',
  'sinter/onnx': 'src/onnx.ts',
  'sinter/ort': 'src/ort.ts',
  'sinter/cuda': 'src/cuda.ts',
  'sinter/webgpu': 'src/webgpu.ts',
}

/**
 * One export, or a member of an exported class or interface.
 * @typedef {object} Export
 * @property {string} name as users write it: `relu`, `optim.adam`, `Tensor.add`
 * @property {string} entry what it is imported from
 * @property {'function' | 'class' | 'constant' | 'type' | 'method' | 'property'} kind
 * @property {string} file its place, from the root
 * @property {number} line
 * @property {boolean} isClassMember
 * @property {boolean} takes whether it takes arguments
 * @property {string} description the comment without its tags
 * @property {readonly string[]} throws the text of each `@throws`
 * @property {readonly string[]} examples the code of each `@example`
 */

/** The compiler's program of the entries, and what they export. */
export function publicApi() {
  const config = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.build.json'), undefined, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: (diagnostic) => {
      throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n'))
    },
  })
  const files = Object.values(entries).map((entry) => join(root, entry))
  const program = ts.createProgram(files, config.options)
  const checker = program.getTypeChecker()
  const source = join(root, 'src') + sep
  const seen = new Set()
  /** @type {Export[]} */
  const found = []

  const callsOf = (symbol, at) => checker.getTypeOfSymbolAtLocation(symbol, at).getCallSignatures()

  const add = (symbol, name, entry, kind, declaration, signatures, isClassMember = false) => {
    const file = declaration.getSourceFile()
    const tags = symbol.getJsDocTags(checker)
    const texts = (tag) => tags.filter((t) => t.name === tag).map((t) => ts.displayPartsToString(t.text).trim())
    found.push({
      name,
      entry,
      kind,
      file: relative(root, file.fileName).split(sep).join('/'),
      line: file.getLineAndCharacterOfPosition(declaration.getStart()).line + 1,
      takes: signatures.some((s) => s.parameters.length > 0),
      description: ts.displayPartsToString(symbol.getDocumentationComment(checker)).trim(),
      throws: texts('throws'),
      examples: texts('example'),
      isClassMember,
    })
  }

  const isOurs = (declaration) => declaration && resolve(declaration.getSourceFile().fileName).startsWith(source)

  /** The members of a class or an interface that are written down for users. */
  const addMembers = (symbol, name, entry) => {
    for (const member of checker.getDeclaredTypeOfSymbol(symbol).getProperties()) {
      const [declaration] = member.declarations ?? []
      if (seen.has(declaration)) continue
      seen.add(declaration)
      if (
        !isOurs(declaration) ||
        member.name.startsWith('__') ||
        ts.isPrivateIdentifier(declaration.name ?? declaration)
      )
        continue
      const signatures = callsOf(member, declaration)
      const kind = signatures.length > 0 ? 'method' : 'property'
      const isClass = (symbol.flags & ts.SymbolFlags.Class) !== 0
      add(member, `${name}.${member.name}`, entry, kind, declaration, signatures, isClass)
    }
  }

  // What stands in a namespace and at the top too is found at the top: namespaces come last.
  const visit = (moduleSymbol, entry, prefix) => {
    const namespaces = []
    for (const exported of checker.getExportsOfModule(moduleSymbol)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      if (seen.has(symbol)) continue
      seen.add(symbol)
      const name = prefix + exported.name
      if (symbol.flags & ts.SymbolFlags.ValueModule) {
        namespaces.push([symbol, name])
        continue
      }
      const [declaration] = symbol.declarations ?? []
      if (!isOurs(declaration)) continue
      const { Function: isFunction, Class, Variable, Interface } = ts.SymbolFlags
      const signatures = symbol.flags & (isFunction | Variable) ? callsOf(symbol, declaration) : []
      const kind =
        signatures.length > 0
          ? 'function'
          : symbol.flags & Class
            ? 'class'
            : symbol.flags & Variable
              ? 'constant'
              : 'type'
      add(symbol, name, entry, kind, declaration, signatures)
      if (symbol.flags & (Class | Interface)) addMembers(symbol, name, entry)
    }
    for (const [symbol, name] of namespaces) visit(symbol, entry, `${name}.`)
  }

  for (const [entry, path] of Object.entries(entries)) {
    const file = program.getSourceFile(join(root, path))
    const symbol = file && checker.getSymbolAtLocation(file)
    if (symbol) visit(symbol, entry, '')
  }
  return { root, program, options: config.options, exports: found }
}

/** The names at the top of each entry, of values and of types, as the imports of a module have them. */
export function importsOf({ program }) {
  const checker = program.getTypeChecker()
  const taken = new Set()
  return Object.entries(entries).map(([entry, path]) => {
    const file = program.getSourceFile(join(root, path))
    const own = checker.getExportsOfModule(checker.getSymbolAtLocation(file)).filter(({ name }) => !taken.has(name))
    for (const { name } of own) taken.add(name)
    const isValue = (s) =>
      ((s.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(s) : s).flags & ts.SymbolFlags.Value) !== 0
    const named = (test) => own.filter(test).map(({ name }) => name)
    return {
      entry,
      path: `./${relative('src', path).split(sep).join('/')}`,
      values: named(isValue),
      types: named((s) => !isValue(s)),
    }
  })
}

/** The code of an example in statements; of each that stands alone, what the comment behind it says its value is. */
export function statementsOf(code) {
  const file = ts.createSourceFile('example.ts', code, ts.ScriptTarget.ES2022, true)
  return file.statements.map((statement) => {
    const comments = ts.getTrailingCommentRanges(code, statement.end) ?? []
    const [comment] = comments.map(({ pos, end }) => code.slice(pos, end))
    const isExpression = ts.isExpressionStatement(statement)
    return {
      text: isExpression ? statement.expression.getText() : statement.getText(),
      comment,
      value: isExpression ? comment?.replace(/^\/\/\s*/, '') : undefined,
    }
  })
}
