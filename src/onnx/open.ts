/**
 * Inputs whose shapes nobody has said: all of them at once, with shapes that were tried. A guess is shown only if the model imports with
 * it. The number of tries is bounded by the size of the model, so that an error costs about as much as an import.
 */
import { UserError } from '../diagnostics/errors.ts'
import type { Shape } from '../types/shape.ts'
import type { Dimension, GraphProto, ModelProto } from './proto.ts'

/** An input with an extent that is not known, or with no declared rank. */
export interface OpenInput {
  readonly name: string
  /** Declared extents, with those that are known filled in; undefined when the rank is not declared. */
  readonly shape: readonly Dimension[] | undefined
}

/** Shapes to give: those of the inputs that fix every open extent. */
export type Remedy = readonly (readonly [name: string, shape: Shape])[]

const showOpen = (shape: readonly Dimension[]): string => `[${shape.map((d) => d ?? '?').join(', ')}]`

const said = (x: OpenInput): string =>
  `input "${x.name}" has ${x.shape === undefined ? 'no declared shape' : `the open shape ${showOpen(x.shape)}`}`

/** How a caller gives shapes: as options of the library, or of a command. */
export interface Wording {
  /** How shapes are given; extents without a number are names. */
  readonly shapes: (shapes: readonly (readonly [string, readonly Dimension[]])[]) => string
  readonly values: string
}

const key = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name))
const inOptions: Wording = {
  shapes: (shapes) => {
    const entries = shapes.map(([name, s]) => `${name === '__proto__' ? '["__proto__"]' : key(name)}: ${showOpen(s)}`)
    return `pass { inputShapes: { ${entries.join(', ')} } }`
  },
  values: 'values in inputValues',
}

/** E_ONNX_INPUT for every open input, with a remedy that was tried, or why there is none. */
export class OpenShapes extends UserError {
  readonly open: readonly OpenInput[]
  readonly remedy: Remedy | undefined
  /** What the last of the shapes tried met. */
  readonly met: UserError | undefined

  constructor(
    open: readonly OpenInput[],
    remedy: Remedy | undefined,
    met: UserError | undefined,
    wording: Wording = inOptions,
  ) {
    super('E_ONNX_INPUT', open.map(said).join('; '), { help: helpOf(open, remedy, met, wording) })
    this.open = open
    this.remedy = remedy
    this.met = met
  }

  /** The same in other words. */
  worded(wording: Wording): OpenShapes {
    return new OpenShapes(this.open, this.remedy, this.met, wording)
  }
}

function helpOf(
  open: readonly OpenInput[],
  remedy: Remedy | undefined,
  met: UserError | undefined,
  { shapes, values }: Wording,
): string {
  if (remedy !== undefined)
    return `${shapes(remedy)}, with which the model imports (other extents may do too), or give ${values}`
  const why =
    met === undefined
      ? 'the model says no more about them'
      : `none of the extents tried imports (the last: ${met.summary})`
  const form = shapes(deciding(open).map((x) => [x.name, x.shape ?? ['N', '...']]))
  return `${form} with the extents that the model was made for, or give ${values}: ${why}`
}

/** Inputs that fix every extent: one whose names others fix need not be given. */
function deciding(open: readonly OpenInput[]): readonly OpenInput[] {
  const fixed = new Set<string>()
  return open.filter(({ shape }) => {
    const names = shape?.filter((d) => typeof d === 'string') ?? []
    const needed = shape === undefined || shape.includes(undefined) || names.some((d) => !fixed.has(d))
    for (const d of names) fixed.add(d)
    return needed
  })
}

const ladder = [1, 2, 8, 16, 32, 64, 224, 512]
/** Ranks of an input that declares none. */
const ranks = [1, 2, 3, 4]
const mostTries = 32
/** Nodes passed over by all tries together. */
const mostNodes = 20_000

/** Nodes of a graph, with those of graphs inside. */
function nodesOf(graph: GraphProto): number {
  const stack = [graph]
  let count = 0
  for (let g = stack.pop(); g !== undefined; g = stack.pop()) {
    count += g.node.length
    for (const n of g.node) for (const a of n.attribute) stack.push(...(a.g === undefined ? a.graphs : [a.g]))
  }
  return count
}

/** Which open extents vary; the others are 1. */
const patterns = ['the last of the first input', 'not the leading', 'all'] as const

/** Shapes for the deciding inputs: an extent that several share has one value. */
function guess(inputs: readonly OpenInput[], extent: number, rank: number, pattern: (typeof patterns)[number]): Remedy {
  const values = new Map<string, number>()
  return inputs.map(({ name, shape }, nth) => {
    const declared: readonly Dimension[] = shape ?? new Array<undefined>(rank).fill(undefined)
    const last = declared.findLastIndex((d) => typeof d !== 'number')
    const varies = (axis: number): boolean =>
      pattern === 'all' || (pattern === 'not the leading' ? axis > 0 : nth === 0 && axis === last)
    const extents = declared.map((d, axis) => {
      if (typeof d === 'number') return d
      const value = (d === undefined ? undefined : values.get(d)) ?? (varies(axis) ? extent : 1)
      if (d !== undefined) values.set(d, value)
      return value
    })
    return [name, extents]
  })
}

/** Whether weights of a model stand in other files. */
export const hasExternal = (model: ModelProto): boolean => model.graph.initializer.some((t) => t.external)

/**
 * What to tell of open inputs, after trying shapes for them. `attempt` imports the model with shapes, or throws; without weights that can
 * be read (`readable`) nothing is tried.
 */
export function openShapes(
  model: ModelProto,
  readable: boolean,
  open: readonly OpenInput[],
  attempt: (remedy: Remedy) => void,
): OpenShapes {
  const inputs = deciding(open)
  const nodes = nodesOf(model.graph) + model.functions.reduce((sum, f) => sum + f.node.length, 0)
  const limit = !readable ? 0 : Math.min(mostTries, Math.floor(mostNodes / Math.max(1, nodes)))
  const tried = new Set<string>()
  let met: UserError | undefined
  /** Extents that errors name: a window's, a product's. */
  const named: number[] = []
  const works = (remedy: Remedy): boolean => {
    const text = JSON.stringify(remedy)
    if (tried.has(text) || tried.size >= limit) return false
    tried.add(text)
    try {
      attempt(remedy)
      return true
    } catch (error) {
      if (!(error instanceof UserError)) throw error
      met = error
      for (const digits of error.summary.match(/\b\d{1,5}\b/g) ?? []) {
        const n = Number(digits)
        if (n > 1 && !ladder.includes(n) && !named.includes(n)) named.push(n)
      }
      return false
    }
  }
  const anyRank = inputs.some((x) => x.shape === undefined) ? ranks : [0]
  const search = (extents: readonly number[], over: readonly (typeof patterns)[number][]): Remedy | undefined => {
    for (const extent of extents)
      for (const pattern of over)
        for (const rank of anyRank) {
          const remedy = guess(inputs, extent, rank, pattern)
          if (works(remedy)) return remedy
        }
    return undefined
  }
  const remedy = search(ladder, ['the last of the first input', 'not the leading']) ?? search(ladder, ['all'])
  return new OpenShapes(open, remedy ?? search([...named], patterns), met)
}
