/**
 * The public interface as the type checker sees it: every function and method that a user can call, and which of its parameters
 * are objects of options. What tests go over, so that nothing new escapes them.
 */
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const fileOf = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url))

/** The entry points, and what a path of theirs begins with. */
const entries = [
  ['src/index.ts', ''],
  ['src/onnx.ts', 'sinter/onnx:'],
  ['src/cuda.ts', 'sinter/cuda:'],
  ['src/webgpu.ts', 'sinter/webgpu:'],
] as const

/** A parameter that takes options, by where it is, with the names that its type has. */
export interface OptionsParameter {
  /** `conv2d(options)`, `Tensor.cumsum(options)`, `optim.sgd(options)`. */
  readonly path: string
  readonly names: readonly string[]
}

/** A function or method: its path, and how many parameters its longest signature has. */
export interface PublicCall {
  readonly path: string
  readonly parameters: number
}

const settings: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'],
  types: ['node', '@webgpu/types'],
  strict: true,
  exactOptionalPropertyTypes: true,
  allowImportingTsExtensions: true,
  noEmit: true,
  skipLibCheck: true,
}

/** Reads the interface. Takes a few seconds. */
export function readPublicApi(): { readonly options: OptionsParameter[]; readonly calls: PublicCall[] } {
  const program = ts.createProgram(
    [...entries.map(([path]) => fileOf(path)), fileOf('types/webassembly.d.ts')],
    settings,
  )
  const checker = program.getTypeChecker()
  const options: OptionsParameter[] = []
  const calls: PublicCall[] = []
  const home = fileOf('src/')

  const isOurs = (type: ts.Type): boolean =>
    type.symbol?.declarations?.some((d) => d.getSourceFile().fileName.startsWith(home)) ?? false

  /** Plain objects of named entries: no list, function, class or record of anything. */
  const entriesOf = (type: ts.Type): ts.Symbol[] => {
    const alike = type.isUnion() ? type.types : [type]
    return alike.flatMap((t) => {
      if ((t.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) === 0 || checker.isArrayLikeType(t)) return []
      if (t.isClass() || t.getCallSignatures().length > 0 || t.symbol?.flags & ts.SymbolFlags.Class) return []
      const properties = t.getProperties()
      const own = t.isIntersection() ? t.types.some(isOurs) : isOurs(t) || t.aliasSymbol !== undefined
      return own ? properties : []
    })
  }

  const addSignatures = (path: string, type: ts.Type, at: ts.Node): void => {
    const signatures = type.getNonNullableType().getCallSignatures()
    if (signatures.length === 0) return
    calls.push({ path, parameters: Math.max(...signatures.map((s) => s.parameters.length)) })
    const found = new Map<string, Set<string>>()
    for (const signature of signatures)
      for (const parameter of signature.parameters) {
        const given = checker.getNonNullableType(checker.getTypeOfSymbolAtLocation(parameter, at))
        const bound = given.isTypeParameter() ? (checker.getBaseConstraintOfType(given) ?? given) : given
        const properties = entriesOf(bound)
        const isOptions = /options/i.test(parameter.name)
        const isWeak = properties.some((p) => (p.flags & ts.SymbolFlags.Optional) !== 0)
        if (properties.length === 0 || !(isOptions || isWeak)) continue
        const key = `${path}(${parameter.name})`
        const names = found.get(key) ?? new Set()
        for (const p of properties) names.add(p.name)
        found.set(key, names)
      }
    for (const [key, names] of found) options.push({ path: key, names: [...names] })
  }

  const addMembers = (path: string, type: ts.Type, at: ts.Node): void => {
    for (const member of type.getProperties()) {
      if (
        member.name.startsWith('__') ||
        !member.declarations?.some((d) => d.getSourceFile().fileName.startsWith(home))
      )
        continue
      addSignatures(`${path}.${member.name}`, checker.getTypeOfSymbolAtLocation(member, at), at)
    }
  }

  const addSymbol = (path: string, symbol: ts.Symbol, at: ts.Node): void => {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
    if (target.flags & ts.SymbolFlags.Module) {
      for (const inner of checker.getExportsOfModule(target)) addSymbol(`${path}.${inner.name}`, inner, at)
      return
    }
    if (target.flags & ts.SymbolFlags.Class) {
      addMembers(path, checker.getDeclaredTypeOfSymbol(target), at)
      return
    }
    if (target.flags & ts.SymbolFlags.Interface) {
      const type = checker.getDeclaredTypeOfSymbol(target)
      const isObject = type.getProperties().every((p) => (p.flags & ts.SymbolFlags.Optional) === 0)
      // Interfaces that the library gives out have methods; those that a user fills have options.
      if (isObject) addMembers(path, type, at)
      if (target.flags & ts.SymbolFlags.Value) addSignatures(path, checker.getTypeOfSymbolAtLocation(target, at), at)
      return
    }
    if (target.flags & ts.SymbolFlags.Value) addSignatures(path, checker.getTypeOfSymbolAtLocation(target, at), at)
  }

  for (const [file, prefix] of entries) {
    const source = program.getSourceFile(fileOf(file))
    const module = source === undefined ? undefined : checker.getSymbolAtLocation(source)
    if (source === undefined || module === undefined) throw new Error(`${file} is no module`)
    for (const symbol of checker.getExportsOfModule(module)) addSymbol(prefix + symbol.name, symbol, source)
  }
  return { options, calls }
}
