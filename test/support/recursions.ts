/**
 * The recursive functions of src: the strongly connected components of its call graph, by the TypeScript checker. A function refers to what it
 * names (called or handed on), to the functions written inside it and to the constructors of the classes it makes; a module's table stands for
 * the functions in it. A call of a value whose type alone is known (a parameter, a field that an interface declares) is not followed.
 */
import { relative } from 'node:path'
import ts from 'typescript'

export interface Recursion {
  /** The file of the first member, from the root of the repository. */
  file: string
  /** The members as they stand in the text, outer.inner; functions without a name are left out where others have one. */
  functions: string[]
}

interface Graph {
  nodes: ts.Node[]
  edges: Set<number>[]
}

type FunctionNode = ts.FunctionLikeDeclaration

const isFunction = (n: ts.Node): n is FunctionNode =>
  ts.isFunctionDeclaration(n) ||
  ts.isFunctionExpression(n) ||
  ts.isArrowFunction(n) ||
  ts.isMethodDeclaration(n) ||
  ts.isConstructorDeclaration(n) ||
  ts.isGetAccessor(n) ||
  ts.isSetAccessor(n)

/** An initialiser without the casts around it. */
function bare(e: ts.Expression): ts.Expression {
  let at = e
  while (ts.isParenthesizedExpression(at) || ts.isAsExpression(at) || ts.isSatisfiesExpression(at)) at = at.expression
  return at
}

/** What a name stands for: a function with a body, or a table of a module. */
function meaningOf(d: ts.Declaration): ts.Node | undefined {
  if (isFunction(d)) return d.body && d
  const isHeld = ts.isVariableDeclaration(d) || ts.isPropertyDeclaration(d) || ts.isPropertyAssignment(d)
  const held = isHeld && d.initializer ? bare(d.initializer) : undefined
  const isTable = ts.isVariableDeclaration(d) && ts.isSourceFile(d.parent.parent.parent)
  return held && (isTable || isFunction(held)) ? held : undefined
}

/** The name a node is given where it stands, if any. */
function ownName(n: ts.Node): string | undefined {
  if (ts.isConstructorDeclaration(n)) return 'constructor'
  if (isFunction(n) || ts.isClassLike(n)) {
    if (n.name) return n.name.getText()
  }
  const p = n.parent
  if (p === undefined || !(isFunction(n) || ts.isExpression(n))) return undefined
  if (ts.isVariableDeclaration(p) || ts.isPropertyAssignment(p) || ts.isPropertyDeclaration(p)) {
    return p.initializer === n ? p.name.getText() : undefined
  }
  return ts.isParenthesizedExpression(p) || ts.isAsExpression(p) || ts.isSatisfiesExpression(p) ? ownName(p) : undefined
}

/** The names around a node, outermost first, then its own. */
function pathOf(n: ts.Node): string {
  const path: string[] = []
  for (let at: ts.Node = n; !ts.isSourceFile(at); at = at.parent) {
    if (at !== n && !isFunction(at) && !ts.isClassLike(at)) continue
    const name = ownName(at)
    if (name !== undefined) path.unshift(name)
  }
  return path.join('.')
}

/** A name that is read, and no declaration, property key or type. */
const isUse = (n: ts.Node): n is ts.Identifier =>
  ts.isIdentifier(n) &&
  !ts.isPartOfTypeNode(n) &&
  (!('name' in n.parent && n.parent.name === n) ||
    ts.isPropertyAccessExpression(n.parent) ||
    ts.isShorthandPropertyAssignment(n.parent))

/**
 * The names by which functions, tables and classes of files may be read: their own, and those of imports and exports. The checker, which
 * takes nearly all of the time, is asked for no other name.
 */
function namesIn(files: readonly ts.SourceFile[]): Set<string> {
  const names = new Set<string>()
  const visit = (n: ts.Node): void => {
    const isOther = ts.isImportClause(n) || ts.isImportSpecifier(n) || ts.isExportSpecifier(n)
    const { name } = n as ts.NamedDeclaration
    if (name && (isOther || ts.isClassLike(n) || meaningOf(n as ts.Declaration)))
      names.add(ts.isIdentifier(name) || ts.isStringLiteral(name) ? name.text : name.getText())
    ts.forEachChild(n, visit)
  }
  for (const file of files) visit(file)
  return names
}

function callGraph(program: ts.Program, isOurs: (f: ts.SourceFile) => boolean): Graph {
  const checker = program.getTypeChecker()
  const files = program.getSourceFiles().filter(isOurs)
  const names = namesIn(files)
  const nodes: ts.Node[] = []
  const edges: Set<number>[] = []
  const ids = new Map<ts.Node, number>()
  const idOf = (n: ts.Node): number => {
    const known = ids.get(n)
    if (known !== undefined) return known
    ids.set(n, nodes.length)
    edges.push(new Set())
    return nodes.push(n) - 1
  }
  const usesOf = (n: ts.Identifier): ts.Node[] => {
    const named = ts.isShorthandPropertyAssignment(n.parent)
      ? checker.getShorthandAssignmentValueSymbol(n.parent)
      : checker.getSymbolAtLocation(n)
    const symbol = named && named.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(named) : named
    return (symbol?.declarations ?? [])
      .filter((d) => isOurs(d.getSourceFile()))
      .flatMap((d) => {
        const made =
          ts.isClassDeclaration(d) && ts.isNewExpression(n.parent) ? d.members.filter(ts.isConstructorDeclaration) : []
        return [meaningOf(d) ?? [], ...made.filter((m) => m.body)].flat()
      })
  }
  const visit = (n: ts.Node, within: number | undefined): void => {
    let inside = within
    if (isFunction(n)) {
      inside = idOf(n)
      if (within !== undefined && within !== inside) edges[within]?.add(inside)
    } else if (within === undefined && ts.isVariableDeclaration(n) && n.initializer) {
      inside = idOf(bare(n.initializer))
    }
    if (within !== undefined && isUse(n) && names.has(n.text))
      for (const used of usesOf(n)) edges[within]?.add(idOf(used))
    ts.forEachChild(n, (c) => visit(c, inside))
  }
  for (const file of files) visit(file, undefined)
  return { nodes, edges }
}

/** The components that hold a cycle (Tarjan's algorithm, as a loop). */
function cycles({ edges }: Graph): number[][] {
  const found: number[][] = []
  const order = new Map<number, number>()
  const low: number[] = []
  const open: number[] = []
  const isOpen = new Set<number>()
  const enter = (v: number) => {
    low[v] = order.size
    order.set(v, order.size)
    open.push(v)
    isOpen.add(v)
    return { v, rest: [...(edges[v] ?? [])] }
  }
  const lower = (v: number, to: number) => {
    low[v] = Math.min(low[v] ?? to, to)
  }
  for (let root = 0; root < edges.length; root++) {
    const work = order.has(root) ? [] : [enter(root)]
    for (let top = work.at(-1); top; top = work.at(-1)) {
      const next = top.rest.pop()
      if (next !== undefined) {
        const seen = order.get(next)
        if (seen === undefined) work.push(enter(next))
        else if (isOpen.has(next)) lower(top.v, seen)
        continue
      }
      work.pop()
      const parent = work.at(-1)
      const { v } = top
      if (parent) lower(parent.v, low[v] ?? 0)
      if (low[v] !== order.get(v)) continue
      const component = open.splice(open.lastIndexOf(v))
      for (const w of component) isOpen.delete(w)
      if (component.length > 1 || edges[v]?.has(v)) found.push(component)
    }
  }
  return found
}

/** The recursive components of the sources under a folder, in the order of their files and names. */
export function recursionsOf(root: string, folder: string): Recursion[] {
  const read = ts.readConfigFile(`${root}/tsconfig.json`, ts.sys.readFile)
  const config = ts.parseJsonConfigFileContent(read.config, ts.sys, root)
  const start = `${root}/${folder}/`
  const program = ts.createProgram(
    config.fileNames.filter((f) => f.startsWith(start)),
    { ...config.options, skipLibCheck: true, noEmit: true },
  )
  const graph = callGraph(program, (f) => f.fileName.startsWith(start))
  return cycles(graph)
    .map((component) => {
      const members = component.flatMap((i) => graph.nodes[i] ?? [])
      const named = members.filter((n) => ownName(n) !== undefined)
      const shown = named.length > 0 ? named : members
      const files = new Set(shown.map((n) => relative(root, n.getSourceFile().fileName)))
      const nameOf = (n: ts.Node) =>
        files.size === 1 ? pathOf(n) : `${relative(root, n.getSourceFile().fileName)} ${pathOf(n)}`
      return { file: [...files].sort()[0] ?? '', functions: [...new Set(shown.map(nameOf))].sort() }
    })
    .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
}

/** A component in one line. */
export const keyOf = (r: Recursion): string => `${r.file}: ${r.functions.join(', ')}`
