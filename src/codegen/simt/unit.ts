/** What the code of one kernel shares while it is emitted: its dialect and machine, names, shared arrays, and what is loaded ahead. */
import { invariant } from '../../diagnostics/errors.ts'
import type { KernelParam, LetStmt, NumericsMode, ValueId } from '../../kernel/ir.ts'
import type { LoadPlan } from '../../schedule/simt/access/loadPlan.ts'
import type { Layout } from '../../schedule/simt/layout/layout.ts'
import type { NextProgram } from '../../schedule/simt/layout/nextProgram.ts'
import type { SubgroupMatrices } from '../../schedule/simt/part/subgroupMatrices.ts'
import type { SimtMachine } from '../../target/simt.ts'
import { type Block, type Ex, type SharedArray, type Type, v } from './ir/ir.ts'
import type { Registers } from './ir/registers.ts'

/** What a dialect can do, as far as it changes the code that is made. */
export interface Dialect {
  /** Single bytes and half words are addressable. */
  readonly bytes: boolean
  /** Addresses beyond 32 bits. */
  readonly wideIndex: boolean
  readonly f64: boolean
  /** Its compiler evaluates functions of constants in arithmetic of its own. */
  readonly foldsConstants: boolean
  /** Its compiler takes multiples of a program's number to fit 32 bits, whatever is added to them (programNumber.ts). */
  readonly movesConstants: boolean
  /** Functions of its library stand in place unless they are told to be called (passes/calledFunctions.ts). */
  readonly inlinesFunctions: boolean
  /** Several values are folded by max or min in less code than one by one (passes/foldExtremes.ts). */
  readonly foldsExtremes: boolean
  /** It divides by what a loop does not change in less code than by a number (passes/shareReciprocals.ts). */
  readonly sharesReciprocals: boolean
  /** Launch scalars are arguments of the kernel, not read from memory. */
  readonly passesScalars: boolean
  /** Parameters that the code does not touch are not bound. */
  readonly bindsTouched: boolean
  /** Whether it has conversions to half precision; else they are written out. */
  readonly convertsHalf: boolean
}

/** A load whose groups of words a thread copies before they are needed, and where the copies are: by slot of the ring, group and thread. */
export interface LoadAhead extends LoadPlan {
  readonly array: SharedArray
}

/** Loads ahead under a layout. */
export interface LoadsAhead {
  readonly layout: Layout
  readonly loads: readonly LoadAhead[]
  /** The slot of the block that is computed now. */
  readonly slot: Ex
}

/** A stage that is computed from loads ahead, under a layout of its own. */
export interface Ahead extends LoadsAhead {
  readonly stage: LetStmt
}

/** A load whose words a thread has in registers, by group (prefetch.ts). */
export interface WordsAhead extends LoadPlan {
  readonly registers: Registers
}

/** Matrices of a product's results, by the rows and columns of them that a subgroup has, the subgroup that a thread is in, and the array that the product has. */
export interface ResultMatrices extends SubgroupMatrices {
  readonly array: SharedArray
  readonly names: readonly (readonly string[])[]
  readonly warp: Ex
}

/** Names and shared memory of one kernel. */
export class Unit {
  readonly dialect: Dialect
  readonly machine: SimtMachine
  readonly mode: NumericsMode
  readonly params: ReadonlyMap<string, KernelParam>
  readonly shared: SharedArray[] = []
  /** Blocks that run a program together. */
  readonly cluster: number
  /** The values of launch scalars, by name. */
  readonly scalars = new Map<string, Ex>()
  /** Whether the kernel has loops: exchanges between blocks inside have no fixed number. */
  loops = false
  /** Exchanges between the blocks so far. */
  exchanges = 0
  /** The number of the program. */
  program: Ex = v('i32', 'program')
  /** The program whose rows are asked for early. */
  next: NextProgram | undefined
  /** Code that goes between the start of a product and the wait for it, by the product. */
  readonly meanwhile = new Map<ValueId, Block>()
  /** Matrices that stand for the results of products while their loop goes on, by product. */
  readonly matrices = new Map<ValueId, ResultMatrices>()
  /** How products in the background are waited for: what stands behind the wait, by product. */
  readonly background = new Map<ValueId, Block>()
  /** What threads do halfway through an iteration of the loop that meets there; a kernel has one. */
  halfway: Block = []
  /** Stages of the current loop whose loads were copied ahead; the one that is computed now. */
  readonly aheads = new Map<ValueId, Ahead>()
  ahead: LoadsAhead | undefined
  /** Loads of the current loop whose words were loaded one iteration early. */
  wordsAhead: ReadonlyMap<ValueId, WordsAhead> = new Map()
  private readonly names = new Set<string>()

  constructor(
    dialect: Dialect,
    machine: SimtMachine,
    mode: NumericsMode,
    params: readonly KernelParam[],
    reserved: Iterable<string>,
    cluster = 1,
  ) {
    this.cluster = cluster
    this.dialect = dialect
    this.machine = machine
    this.mode = mode
    this.params = new Map(params.map((p) => [p.name, p]))
    for (const n of reserved) this.names.add(n)
    for (const p of params) this.names.add(p.name)
  }

  param(name: string): KernelParam {
    const p = this.params.get(name)
    invariant(p !== undefined, `there is no parameter ${name}`)
    return p
  }

  /** The value of a launch scalar. */
  launched(name: string): Ex {
    const value = this.scalars.get(name)
    invariant(value !== undefined, `the launch scalar ${name} is not read`)
    return value
  }

  name(wish: string): string {
    let name = wish
    for (let i = 2; this.names.has(name); i++) name = `${wish}_${i}`
    this.names.add(name)
    return name
  }

  /** A shared array of its own. */
  share(
    wish: string,
    type: Type,
    length: number,
    like: Pick<SharedArray, 'half' | 'align' | 'pitch' | 'inGroups'> = {},
  ): SharedArray {
    const a: SharedArray = { name: this.name(wish), type, length: Math.max(1, length), ...like }
    this.shared.push(a)
    return a
  }

  /** A shared array for partial results, used by one exchange after another. */
  scratch(type: Type, length: number, which = ''): SharedArray {
    const name = `partial${which}_${type}`
    const at = this.shared.findIndex((a) => a.name === name)
    const have = this.shared[at]
    if (have === undefined) {
      this.names.add(name)
      const a = { name, type, length }
      this.shared.push(a)
      return a
    }
    const a = { ...have, length: Math.max(have.length, length) }
    this.shared[at] = a
    return a
  }
}
