/** Regions as steps: their graphs compiled as programs that stand in the buffers of the program around them. */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import type { Graph, Node, NodeOf, OpName } from '../graph/node.ts'
import type { BoundaryGroup } from '../plan/plan.ts'
import type { CarryPlace, InnerProgram, InnerRole, Program, ProgramBuffer } from '../runtime/program.ts'
import { writesOver } from '../runtime/region.ts'
import type { Assembly } from './assembly.ts'

/**
 * Compiles a graph inside a node. `over[i]` names the input whose memory output i may be placed on. `C` is what the compiler keeps of
 * it for the report. `handed`: inputs of the program around it, which its own last inputs are.
 */
export type CompileInner<C> = (
  node: Node,
  graphOf: (node: Node) => Graph,
  name: string,
  over: readonly (number | undefined)[],
) => { readonly program: Program; readonly kept: C; readonly handed?: readonly Node[] }

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
  /** Buffers of what launches hand over, of all programs inside. */
  handed: readonly number[] = []

  constructor(a: Assembly, group: BoundaryGroup, name: string, compile: CompileInner<C>) {
    this.a = a
    this.node = group.node
    this.name = name
    this.compile = compile
    this.used = new Map(group.results.map((r) => [(r as NodeOf<'result'>).attrs.index, r]))
  }

  inner(
    role: InnerRole,
    graphOf: (node: Node) => Graph,
    trips: number | undefined,
    over: readonly (number | undefined)[] = [],
  ): InnerProgram {
    const { program, kept, handed = [] } = this.compile(this.node, graphOf, `${this.name}.${role}`, over)
    if (handed.length > this.handed.length) this.handed = handed.map((n) => this.a.of(n))
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

  /** An inner program whose inputs that launches fill are those behind its first `given`, all that programs of the node have. */
  among({ program, arena }: InnerProgram, given: number): InnerProgram {
    return { program: withHanded(program, given, this.handed.length), arena }
  }

  /** The buffer of a result; carries, as `init` says, that nothing reads have one too, which lives for the step alone. */
  result(index: number, init?: Node): number {
    const node = this.used.get(index)
    if (node !== undefined) return this.a.of(node)
    invariant(init !== undefined, `no result ${index} of ${this.node.op}`)
    return this.a.bufferFor(init, { kind: 'unplaced' })
  }

  operands(from = 0, to = this.node.inputs.length): number[] {
    return this.node.inputs.slice(from, to).map((x) => this.a.of(x))
  }

  /** Places of the carries of a body, whose inputs begin with `consts` constants. */
  carries(body: InnerProgram, consts: number, count: number, steps: number | undefined): CarryPlace[] {
    return this.operands(consts, consts + count).map((init, i): CarryPlace => {
      const node = this.node.inputs[consts + i]
      invariant(node !== undefined, `no carry ${i} of ${this.node.op}`)
      const inPlace = steps === 1 || writesOver(body.program, i, consts + i)
      return {
        init,
        result: this.result(i, node),
        spare: inPlace ? undefined : this.a.bufferFor(node, { kind: 'unplaced' }),
      }
    })
  }
}

/** A program with the inputs that launches fill, its last, behind its first `given`: `count` of them, some of which it may not read. */
function withHanded(program: Program, given: number, count: number): Program {
  if (program.open === undefined) return program
  const { inputs, open } = program
  const own = inputs.length - open.numbers.length
  const unread = Array.from({ length: count - open.numbers.length }, (_, i) => program.buffers.length + i)
  const order = [...inputs.slice(0, given), ...inputs.slice(own), ...unread, ...inputs.slice(given, own)]
  const buffers: ProgramBuffer[] = [...program.buffers]
  for (const [index, b] of order.entries()) {
    const have = buffers[b] ?? { dtype: 'i32', shape: [0], format: 'plain', bytes: 0 }
    buffers[b] = { ...have, source: { kind: 'input', index } }
  }
  const donated = order.map(() => false)
  return { ...program, buffers, inputs: order, donated, open: { ...open, first: given } }
}

const attrsOf = <O extends OpName>(node: Node, _: O): NodeOf<O>['attrs'] => (node as NodeOf<O>).attrs

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
      const whenTrue = p.inner('then', (n) => p.only(attrsOf(n, 'cond').then), undefined)
      const whenFalse = p.inner('otherwise', (n) => p.only(attrsOf(n, 'cond').otherwise), undefined)
      const results = p.wanted.map((i) => p.result(i))
      a.steps.push({
        kind: 'cond',
        name,
        test,
        whenTrue: p.among(whenTrue, operands.length),
        whenFalse: p.among(whenFalse, operands.length),
        operands: [...operands, ...p.handed],
        results,
      })
      break
    }
    case 'while': {
      const { consts } = node.attrs
      const count = node.inputs.length - consts
      const test = p.inner('test', (n) => attrsOf(n, 'while').test, undefined)
      const body = p.inner('body', (n) => attrsOf(n, 'while').body, undefined, overCarries(consts, count))
      const carries = p.carries(body, consts, count, undefined)
      const flag = a.buffer('bool', [])
      a.steps.push({
        kind: 'while',
        name,
        test: p.among(test, consts),
        body: p.among(body, consts),
        flag,
        consts: [...p.operands(0, consts), ...p.handed],
        carries,
      })
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
      const varying = a.open?.whole(node, (n) => attrsOf(n, 'loop').length, 'the number of steps')
      const only = (n: Node): Graph => p.only(attrsOf(n, 'loop').body, count)
      const body = p.inner('body', only, length, overCarries(consts, count))
      const carries = p.carries(body, consts, count, varying === undefined ? length : undefined)
      const results = p.wanted.filter((i) => i >= count).map((i) => p.result(i))
      const sequences = p.operands(consts + count)
      a.steps.push({
        kind: 'loop',
        name,
        body: p.among(body, consts),
        length: varying?.most ?? length,
        ...(varying === undefined ? {} : { varying: varying.formula }),
        reverse,
        consts: [...p.operands(0, consts), ...p.handed],
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
