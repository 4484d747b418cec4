/**
 * Parts of a union that are the same code on other parameters and over other extents (an optimiser step over many tensors):
 * emitted once, with their parameters and extents in a table.
 */

import { powerFrom } from '../../../affine/powers.ts'
import { gridSize, type Kernel, type KernelParam, type KernelPart, type Stmt } from '../../../kernel/ir.ts'
import { allStmts } from '../../../kernel/walk.ts'
import { flatIndex } from './facts.ts'

/** An entry of the table: the address of a parameter, or a number. */
export type TableEntry = string | number

export interface PartGroup {
  /** The part that is lowered. */
  readonly part: KernelPart
  /** Parts in the group, and their programs. */
  readonly count: number
  readonly programs: number
  /** Parameters of the lowered part that stand in the table, in the order of a part's row. */
  readonly varying: readonly string[]
  /** Of those, the ones that may share memory with another parameter in some part. */
  readonly aliased: ReadonlySet<string>
  /** First entry of the rows in the table, and entries of a row. */
  readonly offset: number
  readonly stride: number
  /** The axis whose extent differs from part to part and ends inside a block: the extent ends the row. */
  readonly extentOf?: string
  /** Where the parts' first programs begin in the table; absent where all have equally many. */
  readonly firsts?: number
}

export interface Union {
  readonly groups: readonly PartGroup[]
  /** A row a part, the groups one after another. */
  readonly table: readonly TableEntry[]
  /** Parameters that stand in the table alone. */
  readonly tabled: ReadonlySet<string>
}

/** Parameters a part names, in order of first use. */
function paramsOf(part: KernelPart): string[] {
  const out = new Set<string>()
  for (const s of allStmts(part.body)) {
    if (s.kind === 'store') out.add(s.param)
    if (s.kind === 'let' && s.op.kind === 'load') out.add(s.op.param)
  }
  return [...out]
}

/** What of a body does not change with its parameters and extents: parameters by number, accesses by their flat position. */
function outline(
  body: readonly Stmt[],
  names: ReadonlyMap<string, number>,
  shapeOf: (p: string) => readonly number[],
): unknown[] {
  const access = <
    T extends { readonly param: string; readonly index: readonly Parameters<typeof flatIndex>[0][number][] },
  >(
    a: T,
  ): object => ({ ...a, param: names.get(a.param), index: flatIndex(a.index, shapeOf(a.param)) })
  return body.map((s): unknown => {
    if (s.kind === 'loop') return { ...s, body: outline(s.body, names, shapeOf) }
    if (s.kind === 'store') return access(s)
    return s.op.kind === 'load' ? { ...s, op: access(s.op) } : s
  })
}

/** Index expressions are written by their keys, which leave the extents of axes out. */
const text = (x: unknown): string =>
  JSON.stringify(x, (_, v: unknown) => {
    if (typeof v === 'bigint') return `${v}n`
    if (typeof v === 'number' && !Number.isSafeInteger(v)) return `${Object.is(v, -0) ? '-0' : v}`
    return typeof v === 'object' && v !== null && 'terms' in v && 'key' in v ? v.key : v
  })

/** The axis along which parts of a group may have different extents: programs are numbered along it last. */
function freeAxis(part: KernelPart): string | undefined {
  const [first] = part.grid
  if (first === undefined || part.grid.filter((g) => g.axis === first.axis).length !== 1) return undefined
  if (part.axes.some((a) => a.name === first.axis && a.open !== undefined)) return undefined
  for (const s of allStmts(part.body)) {
    if (s.kind === 'loop') return undefined
    if (s.kind === 'store' && s.combiner !== undefined) return undefined
    if (s.kind === 'let' && (s.op.kind === 'dot' || s.op.kind === 'scan')) return undefined
  }
  return first.axis
}

const extentOf = (part: KernelPart, axis: string | undefined): number =>
  part.axes.find((a) => a.name === axis)?.extent ?? 1
const blockOf = (part: KernelPart, axis: string | undefined): number =>
  part.grid.find((g) => g.axis === axis)?.block ?? 1

interface Member {
  readonly part: KernelPart
  readonly params: readonly string[]
  readonly free: string | undefined
  readonly extent: number
  readonly block: number
}

/** Members with equal keys are the same code but for the extent of the free axis and its block. */
function keyOf(m: Member, params: ReadonlyMap<string, KernelParam>): string {
  const names = new Map(m.params.map((n, i) => [n, i]))
  const shapeOf = (p: string): readonly number[] => params.get(p)?.shape ?? []
  const declared = m.params.map((n) => {
    const p = params.get(n)
    return [p?.dtype, p?.access, p?.format]
  })
  const axes = m.part.axes.map((a) => [a.name, a.name === m.free ? 0 : a.extent, a.open])
  const grid = m.part.grid.map((g) => [g.axis, g.axis === m.free ? 0 : g.block])
  return text([axes, grid, outline(m.part.body, names, shapeOf), declared])
}

/** Fewer equal parts than this are not worth a table. */
const leastParts = 4

/** Members by the block of their free axis; those of one block alone join whichever is large enough. */
function byBlock(members: readonly Member[]): Map<number, Member[]> {
  const out = new Map<number, Member[]>()
  const put = (block: number, m: Member): void => {
    out.set(block, [...(out.get(block) ?? []), m])
  }
  const isWhole = (m: Member): boolean => m.free !== undefined && m.block >= m.extent
  const whole = members.filter(isWhole)
  for (const m of members) if (!isWhole(m)) put(m.block, m)
  const blocks = [...out.keys()].sort((a, b) => a - b)
  const most = powerFrom(whole.reduce((n, m) => Math.max(n, m.extent), 1))
  const equal = new Set(whole.map((m) => m.extent)).size === 1
  for (const m of whole) put(blocks.find((b) => b >= m.extent) ?? (equal ? m.extent : most), m)
  return out
}

/** The least power of two (up to 16, what an access moves at once) that an extent is known to be a multiple of. */
const divisorOf = (extent: number): number => (extent % 16 === 0 ? 16 : extent % 4 === 0 ? 4 : 1)

/** Members by what their code may know of the extent: whole blocks, or a divisor. Classes of few members join weaker ones. */
function byClass(members: readonly Member[], block: number): Map<number | 'exact', Member[]> {
  const out = new Map<number | 'exact', Member[]>()
  const classOf = (m: Member): number | 'exact' => (m.extent % block === 0 ? 'exact' : divisorOf(m.extent))
  for (const m of members) out.set(classOf(m), [...(out.get(classOf(m)) ?? []), m])
  if (out.size === 1) return out
  const order = ['exact', 16, 4, 1] as const
  order.forEach((c, i) => {
    const have = out.get(c)
    if (have === undefined || have.length >= leastParts) return
    // An exact extent is a multiple of its block: the divisor of every class it may join.
    const known = have.reduce((n, m) => Math.min(n, divisorOf(m.extent)), 16)
    const to = order.slice(i + 1).find((d) => d !== 'exact' && d <= known && out.has(d))
    if (to === undefined) return
    out.set(to, [...(out.get(to) ?? []), ...have])
    out.delete(c)
  })
  return out
}

/** Whether members have the same extents and programs. */
const isRegular = (members: readonly Member[]): boolean =>
  members.every((m) => m.extent === members[0]?.extent && m.block === members[0]?.block)

/** The part that stands for members: an extent of which its code learns no more than holds for all. */
function standIn(members: readonly Member[], block: number, of: number | 'exact'): KernelPart | undefined {
  const [first] = members
  if (first === undefined) return undefined
  const largest = members.reduce((a, b) => (b.extent > a.extent ? b : a), first)
  const { part, free } = largest
  if (isRegular(members)) return part
  let extent = Math.ceil(largest.extent / block) * block
  if (of !== 'exact')
    do extent++
    while (divisorOf(extent) !== of || extent % block === 0)
  return {
    ...part,
    axes: part.axes.map((a) => (a.name === free ? { ...a, extent } : a)),
    grid: part.grid.map((g) => (g.axis === free ? { ...g, block } : g)),
  }
}

/** Collects the table. */
class Tables {
  readonly groups: PartGroup[] = []
  readonly table: TableEntry[] = []
  private readonly mayAlias: (param: string) => boolean

  constructor(mayAlias: (param: string) => boolean) {
    this.mayAlias = mayAlias
  }

  single(part: KernelPart): void {
    const programs = gridSize(part)
    this.groups.push({ part, count: 1, programs, varying: [], aliased: new Set(), offset: 0, stride: 0 })
  }

  add(members: readonly Member[], block: number, of: number | 'exact'): void {
    const part = standIn(members, block, of)
    const [first] = members
    if (part === undefined || first === undefined) return
    const names = paramsOf(part)
    const places = names.flatMap((name, i) => (members.every((m) => m.params[i] === name) ? [] : [i]))
    const varying = places.flatMap((i) => names[i] ?? [])
    const aliased = places.flatMap((i) =>
      members.some((m) => this.mayAlias(m.params[i] ?? '')) ? (names[i] ?? []) : [],
    )
    const regular = isRegular(members)
    const hasExtent = !regular && of !== 'exact'
    const sizes = members.map((m) => {
      const grid = m.part.grid.map((g) => (g.axis === m.free ? { ...g, block } : g))
      return gridSize({ ...m.part, grid })
    })
    const programs = sizes.reduce((a, b) => a + b, 0)
    let firsts: number | undefined
    if (!regular) {
      firsts = this.table.length
      let at = 0
      for (const n of sizes) {
        this.table.push(at)
        at += n
      }
    }
    const offset = this.table.length
    for (const m of members) {
      for (const i of places) this.table.push(m.params[i] ?? '')
      if (hasExtent) this.table.push(m.extent)
    }
    this.groups.push({
      part,
      count: members.length,
      programs,
      varying,
      aliased: new Set(aliased),
      offset,
      stride: places.length + (hasExtent ? 1 : 0),
      ...(hasExtent && first.free !== undefined ? { extentOf: first.free } : {}),
      ...(firsts === undefined ? {} : { firsts }),
    })
  }

  /** Parameters that code names as arguments. */
  direct(): Set<string> {
    const out = new Set<string>()
    for (const g of this.groups) for (const p of paramsOf(g.part)) if (!g.varying.includes(p)) out.add(p)
    return out
  }
}

export function unionOf(kernel: Kernel, tables: boolean, mayAlias: (param: string) => boolean): Union {
  const found = new Tables(mayAlias)
  const parts = kernel.parts.filter((p) => gridSize(p) > 0)
  if (!tables) {
    for (const p of parts) found.single(p)
    return { groups: found.groups, table: [], tabled: new Set() }
  }
  const params = new Map(kernel.params.map((p) => [p.name, p]))
  const byKey = new Map<string, Member[]>()
  for (const part of parts) {
    const free = freeAxis(part)
    const member = { part, params: paramsOf(part), free, extent: extentOf(part, free), block: blockOf(part, free) }
    const key = keyOf(member, params)
    byKey.set(key, [...(byKey.get(key) ?? []), member])
  }
  for (const same of byKey.values())
    for (const [block, members] of byBlock(same))
      for (const [of, alike] of byClass(members, block)) {
        if (alike.length < leastParts) for (const m of alike) found.single(m.part)
        else found.add(alike, block, of)
      }
  const direct = found.direct()
  const tabled = new Set(found.table.filter((e): e is string => typeof e === 'string' && !direct.has(e)))
  return { groups: found.groups, table: found.table, tabled }
}
