/** Where values of a part stand at a point of its schedule: in registers, in tiles of scratch memory, or nowhere (computed where they are used). */
import { InternalError } from '../../../diagnostics/errors.ts'
import { type KernelParam, type LaunchScalar, operandsOf, type TileOp, type ValueId } from '../../../kernel/ir.ts'
import { expressionsOf } from '../../../kernel/walk.ts'
import type { Machine } from '../../../target/machine.ts'
import { type Axes, type Def, namedAxes, type Place, Scratch, type Tile } from '../ir/tile.ts'

/** What scheduling knows of the kernel around a part. */
export interface KernelFacts {
  readonly params: ReadonlyMap<string, KernelParam>
  /** Launch scalars by name. */
  readonly scalars: ReadonlyMap<string, LaunchScalar>
  readonly machine: Machine
  readonly strict: boolean
  /** Whether two parameters may share memory. */
  readonly mayAlias: (a: string, b: string) => boolean
}

export class Places {
  readonly facts: KernelFacts
  readonly scratch = new Scratch()
  axes: Axes
  private readonly places = new Map<ValueId, Place>()
  private readonly definitions: ReadonlyMap<ValueId, Def>
  private readonly reach: Reach

  constructor(facts: KernelFacts, definitions: ReadonlyMap<ValueId, Def>, axes: Axes) {
    this.facts = facts
    this.definitions = definitions
    this.axes = axes
    this.reach = new Reach(
      (id) => this.def(id),
      (id) => this.places.get(id),
    )
  }

  def(id: ValueId): Def {
    const d = this.definitions.get(id)
    if (d === undefined) throw new InternalError(`value %${id} is not defined`)
    return d
  }

  paramOf(name: string): KernelParam {
    const p = this.facts.params.get(name)
    if (p === undefined) throw new InternalError(`parameter ${name} is not declared`)
    return p
  }

  has(id: ValueId): boolean {
    return this.places.has(id)
  }

  get(id: ValueId): Place | undefined {
    return this.places.get(id)
  }

  /** The tile of a value that must have one. */
  tileOf(id: ValueId): Tile {
    return tilePlace(id, this.places.get(id))
  }

  set(id: ValueId, place: Place): void {
    this.places.set(id, place)
    this.reach.forget()
  }

  /** Forgets where a value of a finished loop body stood. */
  drop(id: ValueId): void {
    this.places.delete(id)
    this.reach.forget()
  }

  /** Axes of several indices a value really depends on. */
  reachOf(id: ValueId): ReadonlySet<string> {
    return this.reach.of(id)
  }
}

function tilePlace(id: ValueId, place: Place | undefined): Tile {
  if (place === undefined || place === 'register') throw new InternalError(`staged value %${id} has no tile`)
  return place
}

/** Axes of several indices that values really depend on, by where they stand. */
export class Reach {
  private known = new Map<ValueId, ReadonlySet<string>>()
  private readonly def: (id: ValueId) => Def
  private readonly placeOf: (id: ValueId) => Place | undefined

  constructor(def: (id: ValueId) => Def, placeOf: (id: ValueId) => Place | undefined) {
    this.def = def
    this.placeOf = placeOf
  }

  /** Places have changed. */
  forget(): void {
    if (this.known.size > 0) this.known = new Map()
  }

  of(id: ValueId): ReadonlySet<string> {
    const known = this.known.get(id)
    if (known !== undefined) return known
    const place = this.placeOf(id)
    const names = new Set<string>()
    if (place === undefined) {
      const { op } = this.def(id)
      if (op === undefined) throw new InternalError(`carried value %${id} has no place`)
      for (const a of namedAxes(expressionsOf(op))) names.add(a)
      for (const i of inlineOperands(op)) for (const a of this.of(i)) names.add(a)
      if (op.kind === 'at')
        for (const a of tilePlace(op.of, this.placeOf(op.of)).strides.keys())
          if (!Object.hasOwn(op.index, a)) names.add(a)
    } else if (place !== 'register') for (const a of place.strides.keys()) names.add(a)
    this.known.set(id, names)
    return names
  }
}

/** Operands evaluated as values; `at` reads its tile by itself. */
export const inlineOperands = (op: TileOp): ValueId[] => operandsOf(op).filter((id) => op.kind !== 'at' || id !== op.of)
