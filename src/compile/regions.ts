/** Regions as steps: their graphs compiled as programs that stand in the buffers of the program around them. */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { regionResults } from '../graph/ops/region.ts'
import type { BoundaryGroup } from '../plan/plan.ts'
import type { CarryPlace, InnerProgram, InnerRole, Program } from '../runtime/program.ts'
import { writesOver } from '../runtime/region.ts'
import type { Assembly } from './assembly.ts'

/**
 * Compiles an inner graph. `over[i]` names the input whose memory output i may be placed on. `C` is what the compiler keeps of
 * it for the report.
 */
export type CompileInner<C> = (
  graph: Graph,
  name: string,
  over: readonly (number | undefined)[],
) => { readonly program: Program; readonly kept: C }

/** An inner program of a group, as reports see it. */
export interface Inner<C> {
  readonly role: InnerRole
  /** Times it runs in one run of what is around it, where that is known. */
  readonly trips: number | undefined
  readonly kept: C
}

class Placing<C> {
  readonly inners: Inner<C>[] = []
  readonly name: string
  private readonly a: Assembly
  private readonly compile: CompileInner<C>
  private readonly node: Node
  private readonly used: ReadonlyMap<number, Node>

  constructor(a: Assembly, group: BoundaryGroup, name: string, compile: CompileInner<C>) {
    this.a = a
    this.node = group.node
    this.name = name
    this.compile = compile
    this.used = new Map(group.results.map((r) => [(r as NodeOf<'result'>).attrs.index, r]))
  }

  inner(
    role: InnerRole,
    graph: Graph,
    trips: number | undefined,
    over: readonly (number | undefined)[] = [],
  ): InnerProgram {
    const { program, kept } = this.compile(graph, `${this.name}.${role}`, over)
    this.inners.push({ role, trips, kept })
    return {
      program,
      arena: program.arenaBytes === 0 ? undefined : this.a.buffer('u8', [program.arenaBytes]),
    }
  }

  /** Results that something reads, in order. */
  get wanted(): readonly number[] {
    return [...this.used.keys()].sort((x, y) => x - y)
  }

  /** A graph without the outputs that nothing reads, but for the first ones. */
  only(graph: Graph, keep = 0): Graph {
    return { ...graph, outputs: graph.outputs.filter((_, i) => i < keep || this.used.has(i)) }
  }

  /** The buffer of a result; carries that nothing reads have one too, which lives for the step alone. */
  result(index: number): number {
    const node = this.used.get(index)
    if (node !== undefined) return this.a.of(node)
    const type = regionResults(this.node)[index]
    invariant(type !== undefined, `no result ${index} of ${this.node.op}`)
    return this.a.buffer(type.dtype, type.shape)
  }

  operands(from = 0, to = this.node.inputs.length): number[] {
    return this.node.inputs.slice(from, to).map((x) => this.a.of(x))
  }

  /** Places of the carries of a body, whose inputs begin with `consts` constants. */
  carries(body: InnerProgram, consts: number, count: number, steps: number | undefined): CarryPlace[] {
    return this.operands(consts, consts + count).map((init, i): CarryPlace => {
      const result = this.result(i)
      const { dtype, shape } = this.node.inputs[consts + i] ?? { dtype: 'f32', shape: [] }
      const inPlace = steps === 1 || writesOver(body.program, i, consts + i)
      return { init, result, spare: inPlace ? undefined : this.a.buffer(dtype, shape) }
    })
  }
}

const overCarries = (consts: number, count: number): number[] => Array.from({ length: count }, (_, i) => consts + i)

/** Adds the step of a region. Gives its inner programs. */
export function addRegion<C>(
  a: Assembly,
  group: BoundaryGroup,
  name: string,
  compile: CompileInner<C>,
): readonly Inner<C>[] {
  const { node } = group
  const p = new Placing(a, group, name, compile)
  switch (node.op) {
    case 'cond': {
      const [test, ...operands] = p.operands()
      invariant(test !== undefined, 'cond without condition')
      const whenTrue = p.inner('then', p.only(node.attrs.then), undefined)
      const whenFalse = p.inner('otherwise', p.only(node.attrs.otherwise), undefined)
      const results = p.wanted.map((i) => p.result(i))
      a.steps.push({ kind: 'cond', name, test, whenTrue, whenFalse, operands, results })
      break
    }
    case 'while': {
      const { consts } = node.attrs
      const count = node.inputs.length - consts
      const test = p.inner('test', node.attrs.test, undefined)
      const body = p.inner('body', node.attrs.body, undefined, overCarries(consts, count))
      const carries = p.carries(body, consts, count, undefined)
      const flag = a.buffer('bool', [])
      a.steps.push({ kind: 'while', name, test, body, flag, consts: p.operands(0, consts), carries })
      break
    }
    case 'loop': {
      const { consts, carries: count, length, reverse } = node.attrs
      if (length === 0) {
        p.operands(consts, consts + count).forEach((from, i) => {
          if (p.wanted.includes(i)) a.steps.push({ kind: 'copy', from, to: p.result(i) })
        })
        break
      }
      const body = p.inner('body', p.only(node.attrs.body, count), length, overCarries(consts, count))
      const carries = p.carries(body, consts, count, length)
      const results = p.wanted.filter((i) => i >= count).map((i) => p.result(i))
      const sequences = p.operands(consts + count)
      a.steps.push({
        kind: 'loop',
        name,
        body,
        length,
        reverse,
        consts: p.operands(0, consts),
        carries,
        sequences,
        results,
      })
      break
    }
    default:
      throw new InternalError(`${node.op} is no control flow: it has no step`)
  }
  return p.inners
}
