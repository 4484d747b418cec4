/**
 * Parts of a union that are the same code on other parameters (an optimiser step over many tensors): emitted once, with their
 * parameters in a table of pointers.
 */
import type { Kernel, KernelParam, KernelPart, Stmt } from '../../kernel/ir.ts'
import { allStmts } from './facts.ts'

export interface PartGroup {
  /** The part that is lowered. */
  readonly part: KernelPart
  /** Parts in the group. */
  readonly count: number
  /** Parameters of the lowered part that differ between the group's parts, in the order of a part's row in the table. */
  readonly varying: readonly string[]
  /** First entry of the group in the table. */
  readonly offset: number
}

export interface Union {
  readonly groups: readonly PartGroup[]
  /** Names of parameters, a row a part, the groups one after another. */
  readonly table: readonly string[]
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

function renamed(body: readonly Stmt[], names: ReadonlyMap<string, string>): Stmt[] {
  const to = (name: string): string => names.get(name) ?? name
  return body.map((s): Stmt => {
    if (s.kind === 'loop') return { ...s, body: renamed(s.body, names) }
    if (s.kind === 'store') return { ...s, param: to(s.param) }
    return s.op.kind === 'load' ? { ...s, op: { ...s.op, param: to(s.op.param) } } : s
  })
}

const text = (x: unknown): string =>
  JSON.stringify(x, (_, v: unknown) =>
    typeof v === 'bigint'
      ? `${v}n`
      : typeof v === 'number' && !Number.isSafeInteger(v)
        ? `${Object.is(v, -0) ? '-0' : v}`
        : v,
  )

/** Parts with equal keys are the same code. */
function keyOf(part: KernelPart, params: ReadonlyMap<string, KernelParam>): string {
  const names = paramsOf(part)
  const body = renamed(part.body, new Map(names.map((n, i) => [n, `#${i}`])))
  const declared = names.map((n) => {
    const p = params.get(n)
    return [p?.dtype, p?.shape, p?.access, p?.format]
  })
  return text([part.axes, part.grid, body, declared])
}

/** Fewer equal parts than this are not worth a table. */
const leastParts = 4

export function unionOf(kernel: Kernel, tables: boolean): Union {
  const single = (part: KernelPart): PartGroup => ({ part, count: 1, varying: [], offset: 0 })
  if (!tables || kernel.parts.length < leastParts) return { groups: kernel.parts.map(single), table: [] }
  const params = new Map(kernel.params.map((p) => [p.name, p]))
  const byKey = new Map<string, KernelPart[]>()
  for (const part of kernel.parts) {
    const key = keyOf(part, params)
    byKey.set(key, [...(byKey.get(key) ?? []), part])
  }
  const table: string[] = []
  const groups: PartGroup[] = []
  for (const parts of byKey.values()) {
    const [part] = parts
    if (part === undefined || parts.length < leastParts) {
      groups.push(...parts.map(single))
      continue
    }
    const rows = parts.map(paramsOf)
    const places = paramsOf(part).flatMap((name, i) => (rows.every((r) => r[i] === name) ? [] : [i]))
    const names = paramsOf(part)
    groups.push({
      part,
      count: parts.length,
      varying: places.flatMap((i) => names[i] ?? []),
      offset: table.length,
    })
    for (const r of rows) table.push(...places.flatMap((i) => r[i] ?? []))
  }
  return { groups, table }
}
