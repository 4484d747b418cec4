/** Building the fusion report from a plan and its lowering. */
import type { Node } from '../graph/node.ts'
import { gridSize } from '../kernel/ir.ts'
import { hostLength } from '../kernel/memory.ts'
import type { Launch } from '../lower/launch.ts'
import { describeNode } from '../plan/body/region.ts'
import { storedBytes } from '../plan/body/stored.ts'
import { Later } from '../plan/later.ts'
import { type FusionPlan, membersOf, type PlannedGroup, type RefusedMerge, type UnionGroup } from '../plan/plan.ts'
import type {
  FusionReport,
  KernelReport,
  LibraryReport,
  OperationReport,
  RefusalReport,
  StageReport,
  StoredBoolReport,
} from '../report/data.ts'
import { formatReport } from '../report/format.ts'
import type { ProductStep } from '../runtime/program.ts'
import type { Machine } from '../target/machine.ts'
import { dtypeBytes } from '../types/dtype.ts'
import type { Kept } from './assemble.ts'
import { addInner, type BytesByOrigin, operationTraffic } from './operations.ts'
import { passesReport } from './passesReport.ts'
import { Predicted } from './predicted.ts'
import { regionReport, withInner } from './regionReport.ts'

/** The user's operations in the order they were called. */
function operationsOf(nodes: Iterable<Node>): OperationReport[] {
  const by = new Map([...nodes].map((n) => [n.origin.id, n.origin]))
  const called = [...by.values()].sort((a, b) => a.id - b.id)
  return called.map((o) => (o.where === undefined ? { name: o.name } : { name: o.name, where: o.where }))
}

function stagesOf(launch: Launch | undefined): StageReport[] {
  return (launch?.finishing ?? []).map((f) => ({
    name: f.kernel.name,
    stage: 'finishing',
    bytes: f.kernel.params.reduce((n, p) => n + hostLength(p) * dtypeBytes(p.dtype), 0),
  }))
}

/** Refusals in the order of planning, those that say the same of several pairs once. */
function refusalReports(refused: readonly RefusedMerge[]): RefusalReport[] {
  const told = new Map<string, RefusalReport>()
  for (const { from, to, code, detail, loss } of refused) {
    const said = { from: describeNode(from), to: describeNode(to), code, detail }
    const key = [...Object.values(said), loss === undefined].join('\0')
    const have = told.get(key)
    const lossMs = loss === undefined ? undefined : Math.min(loss * 1e3, have?.lossMs ?? Number.POSITIVE_INFINITY)
    told.set(key, { ...said, ...(lossMs === undefined ? {} : { lossMs }), count: (have?.count ?? 0) + 1 })
  }
  return [...told.values()]
}

/** The refusals of a plan when they are asked for, which takes trials; holds nothing else of the plan. */
function refusalsOf({ refusals }: FusionPlan): Later<RefusalReport[]> {
  return new Later(() => refusalReports(refusals.value))
}

/** The kind of a union is that of its parts, where they agree. */
function kindOf(group: UnionGroup): string {
  const kinds = new Set(group.parts.map((g) => g.roles.kind))
  return kinds.size === 1 ? ([...kinds][0] ?? 'union') : 'union'
}

function libraryOf(group: PlannedGroup): LibraryReport | undefined {
  if (group.kind !== 'kernel' || group.choice === undefined) return undefined
  const { library, seconds, kernelSeconds, refused } = group.choice
  return {
    name: library,
    choice: group.called !== undefined ? 'call' : refused !== undefined ? 'refused' : 'kernel',
    callMs: seconds * 1e3,
    kernelMs: kernelSeconds * 1e3,
    ...(group.called?.parts === undefined ? {} : { calls: group.called.parts.length }),
    ...(group.called?.addend === undefined ? {} : { adds: true }),
    ...(refused === undefined ? {} : { detail: refused }),
  }
}

/** `predicted`: milliseconds by the schedule that runs, where there is one. */
function kernelReport(
  group: PlannedGroup,
  launch: Launch | undefined,
  step: ProductStep | undefined,
  predicted: () => number | undefined,
): KernelReport {
  const programs = launch?.main.kernel.parts.reduce((n, p) => n + gridSize(p), 0) ?? 1
  const stages = stagesOf(launch)
  if (group.kind === 'kernel' || group.kind === 'union') {
    const { cost } = group
    const members = membersOf(group)
    const bytes = cost.bytesRead + cost.bytesWritten
    const library = libraryOf(group)
    return {
      name: launch?.main.kernel.name ?? step?.name ?? 'empty',
      kind: group.kind === 'union' ? kindOf(group) : library?.choice === 'call' ? 'library' : group.roles.kind,
      parts: group.kind === 'union' ? group.parts.length : 1,
      operations: operationsOf(members),
      primitives: members.sort((a, b) => a.id - b.id).map((n) => n.op),
      bytesRead: cost.bytesRead,
      bytesWritten: cost.bytesWritten,
      flops: cost.flops,
      specialFunctions: cost.special,
      intensity: (cost.flops + cost.special) / Math.max(1, bytes),
      get modelledMs() {
        return predicted() ?? cost.seconds * 1e3
      },
      programs,
      stages,
      ...(library === undefined ? {} : { library }),
    }
  }
  const { node, cost } = group
  return {
    name: launch?.main.kernel.name ?? node.op,
    kind: group.kind,
    parts: 1,
    operations: operationsOf([node]),
    primitives: [node.op],
    bytesRead: cost.bytesRead,
    bytesWritten: cost.bytesWritten,
    flops: cost.flops,
    specialFunctions: 0,
    intensity: cost.flops / Math.max(1, cost.bytesRead + cost.bytesWritten),
    get modelledMs() {
      return predicted() ?? cost.seconds * 1e3
    },
    programs,
    stages,
  }
}

/** Bools between kernels, largest first. */
function storedBools({ stored, unpacked }: FusionPlan): StoredBoolReport[] {
  const all: StoredBoolReport[] = [...stored.bits].map((n) => ({
    value: describeNode(n),
    form: 'bits',
    bytes: storedBytes(n, stored),
  }))
  for (const { node, code, detail } of unpacked)
    all.push({ value: describeNode(node), form: 'bytes', bytes: storedBytes(node, stored), why: { code, detail } })
  return all.sort((a, b) => b.bytes - a.bytes)
}

/** Reports of a plan's kernels, in order; control flow holds those inside. */
function kernelReports({ plan, assembled }: Pick<Kept, 'plan' | 'assembled'>, target: Machine): KernelReport[] {
  const predicted = new Predicted(assembled.program, target)
  const names = assembled.program.steps.flatMap((s) =>
    s.kind === 'cond' || s.kind === 'while' || s.kind === 'loop' ? [s.name] : [],
  )
  const products = new Map(
    assembled.program.steps.flatMap((s) => (s.kind === 'product' ? [[s.launch, s] as const] : [])),
  )
  return plan.groups.flatMap((g, i) => {
    const inners = assembled.inners[i]
    if (g.kind === 'region' && inners !== undefined)
      return inners.length === 0
        ? []
        : [
            regionReport(
              g.node.op,
              { name: names.shift() ?? g.node.op, operations: operationsOf([g.node]), primitives: [g.node.op] },
              inners.map(({ role, trips, kept }) => ({ role, trips, kernels: kernelReports(kept, target) })),
            ),
          ]
    const launch = assembled.launches[i]
    const product = products.get(i)
    return g.kind === 'kernel' && launch === undefined && product === undefined
      ? []
      : [
          kernelReport(g, launch, product, () => {
            const seconds = predicted.of(i)
            return seconds === undefined ? undefined : seconds * 1e3
          }),
        ]
  })
}

/** Bytes of the kernels that compute one operation and nothing else, by its origin. */
function kernelsAlone({ plan, assembled }: Pick<Kept, 'plan' | 'assembled'>): BytesByOrigin {
  const alone = new Map<number, number>()
  plan.groups.forEach((group, i) => {
    const inners = assembled.inners[i]
    if (inners !== undefined)
      addInner(
        alone,
        inners.map(({ role, trips, kept }) => ({ role, trips, bytes: kernelsAlone(kept) })),
      )
    for (const g of group.kind === 'union' ? group.parts : [group]) {
      const origins = new Set(membersOf(g).map((n) => n.origin.id))
      const [origin] = origins
      if (origin === undefined || origins.size > 1) continue
      alone.set(origin, (alone.get(origin) ?? 0) + g.cost.bytesRead + g.cost.bytesWritten)
    }
  })
  return alone
}

export function makeReport(
  name: string,
  { source, plan, assembled, passes }: Kept,
  target: Machine,
  mode: 'fast' | 'strict',
  rewrites: FusionReport['rewrites'],
  compileMs: number,
  open?: FusionReport['open'],
): FusionReport {
  const kernels = kernelReports({ plan, assembled }, target)
  const once = withInner(kernels)
  const traffic = operationTraffic(source, kernelsAlone({ plan, assembled }))
  const launches = once.filter((k) => k.kind !== 'effect' && k.kind !== 'library')
  const libraryCalls = once.filter((k) => k.kind === 'library').length
  const refused = refusalsOf(plan)
  const report: FusionReport = {
    name,
    target: target.name,
    mode,
    kernels,
    get refused() {
      return refused.value
    },
    recomputed: plan.recomputed.map((r) => ({
      value: describeNode(r.node),
      consumers: r.consumers,
      savedBytes: r.savedBytes,
    })),
    storedBools: storedBools(plan),
    ...(passes === undefined ? {} : { passes: passesReport(passes, describeNode) }),
    rewrites,
    memory: assembled.memory,
    totals: {
      kernels: launches.length,
      ...(libraryCalls > 0 ? { libraryCalls } : {}),
      stages: once.reduce((n, k) => n + k.stages.length, 0),
      operations: traffic.operations,
      bytes: kernels.reduce((n, k) => n + k.bytesRead + k.bytesWritten, 0),
      bytesOpByOp: traffic.bytes,
      flops: kernels.reduce((n, k) => n + k.flops, 0),
      get modelledMs() {
        return kernels.reduce((n, k) => n + k.modelledMs, 0)
      },
    },
    compileMs,
    ...(open === undefined ? {} : { open }),
  }
  Object.defineProperty(report, 'toString', { value: () => formatReport(report), enumerable: false })
  return report
}
