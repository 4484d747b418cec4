/** Arguments whose extents vary: what is declared of them, the extents of a call, and the programs that serve those. */

import { invariant, UserError } from '../../diagnostics/errors.ts'
import type { Extents } from '../../runtime/extents.ts'
import { showShape } from '../../types/shape.ts'
import type { CompileRequest, Device } from '../device/device.ts'
import { type DeclaredDimension, OpenPrograms, type Served } from '../device/openPrograms.ts'
import { Dim, OpenSpec } from '../tensor/openSpec.ts'
import { type Traced, traceFunction } from '../tensor/traceFunction.ts'
import { describe, leavesOf, maxDepth, rebuildTree, sameTree, TensorSpec, type TreeSpec } from '../tensor/tree.ts'

/** Arguments as trees of specs with dimensions; what is left out does not vary. */
export type Dynamic = readonly unknown[]

/** A tensor of the arguments whose shape has dimensions. */
interface OpenLeaf {
  /** Its path in the list of arguments: positions and names. */
  readonly path: readonly (string | number)[]
  readonly spec: OpenSpec
}

const help = "give specs with dimensions for the arguments: dynamic: [spec([dim('batch', 1, 64), 384])]"

/** The declared leaves of a tree. */
function openLeaves(x: unknown, path: readonly (string | number)[]): OpenLeaf[] {
  if (path.length > maxDepth)
    throw new UserError('E_ARGUMENT', 'dynamic is nested deeper than arguments may be', { help })
  if (x instanceof OpenSpec) return [{ path, spec: x }]
  if (x === undefined || x === null || x instanceof TensorSpec) return []
  if (Array.isArray(x)) return x.flatMap((y: unknown, i) => openLeaves(y, [...path, i]))
  if (typeof x === 'object') return Object.entries(x).flatMap(([k, y]) => openLeaves(y, [...path, k]))
  throw new UserError('E_ARGUMENT', `dynamic has ${typeof x} where specs are expected`, { help })
}

const shownPath = ([argument, ...rest]: readonly (string | number)[]): string =>
  `argument ${argument}${rest.map((k) => (typeof k === 'number' ? `[${k}]` : `.${k}`)).join('')}`

/** The programs of one structure of arguments. */
interface Family {
  readonly device: Device
  /** The arguments with the dimensions' numbers in the place of extents. */
  readonly form: TreeSpec
  readonly programs: OpenPrograms<Traced>
}

/** What functions say of their own arguments. */
const declarations = new WeakMap<object, Dynamic>()

/** Says of a function which of its arguments vary, for a `jit` of it that is told nothing else. */
export const declareDynamic = (f: object, dynamic: Dynamic): void => {
  declarations.set(f, dynamic)
}

/** What a function says of its own arguments. */
export const declaredDynamic = (f: object): Dynamic | undefined => declarations.get(f)

export class DynamicPrograms {
  private readonly f: (...args: never[]) => unknown
  private readonly dimensions: readonly DeclaredDimension[]
  /** All that are named, sums among them. */
  private readonly named: readonly Dim[]
  private readonly leaves: readonly OpenLeaf[]
  private readonly families: Family[] = []

  /** Throws E_ARGUMENT for what declares no dimension, and for one name with two bounds. */
  constructor(f: (...args: never[]) => unknown, dynamic: Dynamic) {
    this.f = f
    this.leaves = openLeaves(dynamic, [])
    const dimensions = new Map<string, Dim>()
    for (const { spec } of this.leaves)
      for (const d of spec.shape) {
        if (!(d instanceof Dim)) continue
        const have = dimensions.get(d.name)
        if (have !== undefined && (have.least !== d.least || have.most !== d.most))
          throw new UserError('E_ARGUMENT', `the dimension ${d.name} is declared twice, with other bounds`, {
            help: 'make it once, and use it in every spec',
          })
        dimensions.set(d.name, d)
      }
    if (dimensions.size === 0) throw new UserError('E_ARGUMENT', 'dynamic declares no dimension', { help })
    this.named = [...dimensions.values()]
    this.dimensions = this.named.flatMap(({ name, least, most, sum }) =>
      sum === undefined ? [{ name, least, most }] : [],
    )
    for (const { name, sum } of this.named)
      for (const term of sum?.of ?? [])
        if (!dimensions.has(term.name))
          throw new UserError('E_ARGUMENT', `the dimension ${name} is a sum of ${term.name}, which no argument has`, {
            help: 'give it a dimension of its own, or declare an argument with its terms',
          })
  }

  /**
   * The program for arguments of a structure. Throws E_SHAPE for an argument that is not what is declared, and what tracing and compiling
   * throw.
   */
  of(structure: TreeSpec, device: Device, request: (traced: Traced) => CompileRequest): Served<Traced> {
    const at = this.extents(structure)
    const form = this.open(structure, (d) => -1 - this.named.findIndex((x) => x.name === d.name))
    const have = this.families.find((x) => x.device === device && sameTree(x.form, form))
    if (have !== undefined) return have.programs.at(at)
    const trace = (extents: Extents): Traced => this.trace(structure, extents)
    const made = { device, form, programs: new OpenPrograms(device, this.dimensions, trace, request) }
    this.families.push(made)
    return made.programs.at(at)
  }

  dispose(): void {
    for (const { programs } of this.families.splice(0)) programs.dispose()
  }

  /** The dimensions of a tensor at a path, if it has some. */
  private declared(path: string): readonly (Dim | number)[] | undefined {
    return this.leaves.find((l) => shownPath(l.path) === path)?.spec.shape
  }

  /** What a dimension is where those that are no sums have some extents. */
  private extentOf({ name, sum }: Dim, at: readonly (number | undefined)[]): number {
    if (sum !== undefined) return sum.of.reduce((n, d) => n + this.extentOf(d, at), sum.plus)
    return at[this.dimensions.findIndex((x) => x.name === name)] ?? 0
  }

  /** A structure with other extents for dimensions. */
  private open(structure: TreeSpec, extentOf: (dimension: Dim) => number): TreeSpec {
    const walk = (s: TreeSpec, path: string): TreeSpec => {
      if (s.kind === 'static') return s
      if (s.kind === 'list')
        return { ...s, items: s.items.map((x, i) => walk(x, path === '' ? `argument ${i}` : `${path}[${i}]`)) }
      if (s.kind === 'record') return { ...s, items: s.items.map((x, i) => walk(x, `${path}.${s.keys[i] ?? ''}`)) }
      const declared = this.declared(path)
      if (declared === undefined) return s
      return {
        ...s,
        shape: s.shape.map((n, i) => {
          const d = declared[i]
          return d instanceof Dim ? extentOf(d) : n
        }),
      }
    }
    return walk(structure, '')
  }

  /** The extents that arguments give the dimensions. */
  private extents(structure: TreeSpec): Extents {
    const at: (number | undefined)[] = this.dimensions.map(() => undefined)
    const tensors = structure.kind === 'list' ? structure.items.flatMap((s, i) => leavesOf(s, `argument ${i}`)) : []
    for (const { path, spec } of this.leaves) {
      const name = shownPath(path)
      const tensor = tensors.find((t) => t.path === name)
      const shown = `[${spec.shape.map((d) => (d instanceof Dim ? d.name : d)).join(', ')}]`
      const fail = (why: string): never => {
        throw new UserError('E_SHAPE', `${name} is declared as ${spec.dtype}${shown}, ${why}`, {
          help: 'pass what dynamic declares, or leave the argument out of it',
        })
      }
      if (tensor === undefined) return fail('and is no tensor')
      const is = `and is ${tensor.dtype}${showShape(tensor.shape)}`
      if (tensor.dtype !== spec.dtype || tensor.shape.length !== spec.shape.length) fail(is)
      spec.shape.forEach((d, i) => {
        const n = tensor.shape[i] ?? 0
        if (!(d instanceof Dim)) {
          if (d !== n) fail(is)
          return
        }
        if (d.sum !== undefined) return
        const k = this.dimensions.findIndex((x) => x.name === d.name)
        if (at[k] !== undefined && at[k] !== n) fail(`${is}: ${d.name} is ${at[k]} elsewhere`)
        if (n < d.least || (d.most !== undefined && n > d.most))
          fail(`${is}: ${d.name} is from ${d.least} to ${d.most ?? 'any number'}`)
        at[k] = n
      })
    }
    for (const { path, spec } of this.leaves)
      spec.shape.forEach((d, i) => {
        if (!(d instanceof Dim) || d.sum === undefined) return
        const [n, is] = [tensors.find((t) => t.path === shownPath(path))?.shape[i], this.extentOf(d, at)]
        if (n !== is)
          throw new UserError('E_SHAPE', `${shownPath(path)} has extent ${n} on axis ${i}, where ${d.name} is ${is}`, {
            help: 'pass what dynamic declares, or leave the argument out of it',
          })
      })
    return at.map((n) => n ?? 0)
  }

  private trace(structure: TreeSpec, at: Extents): Traced {
    const opened = this.open(structure, (d) => this.extentOf(d, at))
    const args = rebuildWithSpecs(opened)
    invariant(Array.isArray(args), 'arguments that are no list')
    return traceFunction(this.f, args)
  }
}

/** A tree with specs as its tensors. */
function rebuildWithSpecs(s: TreeSpec): unknown {
  const specs = leavesOf(s, '').map(({ shape, dtype }) => new TensorSpec(shape, dtype))
  return rebuildTree(s, () => specs.shift())
}

/** The structure of arguments. */
export const structureOf = (args: readonly unknown[]): TreeSpec => describe(args, [], 'arguments')
