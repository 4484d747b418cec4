/** Control flow and functions with derivative rules of their own: builders of region nodes that give their results. */
import { invariant } from '../diagnostics/errors.ts'
import { makeNode } from '../graph/build.ts'
import type { CustomRule, Graph, Node, RuleGraphs, TensorType } from '../graph/node.ts'
import { regionResults } from '../graph/ops/region.ts'

/** Every value of a region, in order. */
export const resultsOf = (region: Node): Node[] =>
  regionResults(region).map((_, index) => makeNode('result', [region], { index }))

/** The outputs of one of two graphs on the operands. Throws E_DTYPE, E_SHAPE, E_STRUCTURE where the types do not fit. */
export const condNodes = (test: Node, operands: readonly Node[], then: Graph, otherwise: Graph): Node[] =>
  resultsOf(makeNode('cond', [test, ...operands], { then, otherwise }))

/** The carry after the first failed test. `test` and `body` take the constants, then the carry. */
export const whileNodes = (test: Graph, body: Graph, consts: readonly Node[], init: readonly Node[]): Node[] =>
  resultsOf(makeNode('while', [...consts, ...init], { test, body, consts: consts.length }))

/** The last carries of a loop, and one sequence for each other output of its body. */
export interface LoopResults {
  readonly carries: Node[]
  readonly sequences: Node[]
}

/** Steps of `body` over constants, carries and one element of each sequence (leading axis `length`). */
export function loopNodes(
  body: Graph,
  { length, reverse = false }: { readonly length: number; readonly reverse?: boolean },
  consts: readonly Node[],
  init: readonly Node[],
  sequences: readonly Node[],
): LoopResults {
  const attrs = { body, length, reverse, consts: consts.length, carries: init.length }
  const all = resultsOf(makeNode('loop', [...consts, ...init, ...sequences], attrs))
  return { carries: all.slice(0, init.length), sequences: all.slice(init.length) }
}

/** A function with a derivative rule of its own, applied. */
export const customNodes = (body: Graph, rule: CustomRule, operands: readonly Node[]): Node[] =>
  resultsOf(makeNode('custom', operands, { body, rule }))

/** A rule whose graphs are made when they are first asked for. */
export function deferredRule(name: string, kind: CustomRule['kind'], make: () => RuleGraphs): CustomRule {
  let made: RuleGraphs | undefined
  const graphs = <K extends RuleGraphs['kind']>(want: K): Extract<RuleGraphs, { readonly kind: K }> => {
    made ??= make()
    invariant(made.kind === want, 'a rule of another kind')
    return made as Extract<RuleGraphs, { readonly kind: K }>
  }
  if (kind === 'jvp')
    return {
      kind,
      name,
      deferred: true,
      get graph() {
        return graphs('jvp').graph
      },
    }
  return {
    kind,
    name,
    deferred: true,
    get forward() {
      return graphs('vjp').forward
    },
    get backward() {
      return graphs('vjp').backward
    },
  }
}

/** The derivative of a function known by its transpose alone: tangents of the results from residuals and tangents. */
export const customLinearNodes = (
  attrs: { readonly name: string; readonly backward: Graph; readonly results: readonly TensorType[] },
  residuals: readonly Node[],
  tangents: readonly Node[],
): Node[] => resultsOf(makeNode('customLinear', [...residuals, ...tangents], { ...attrs, residuals: residuals.length }))

/** What of a list of a loop's or while's inputs (or of its body's parameters) is constant, carry, sequence. */
export function byRole<T>(
  list: readonly T[],
  { consts, carries }: { readonly consts: number; readonly carries: number },
): { readonly consts: T[]; readonly carries: T[]; readonly sequences: T[] } {
  invariant(list.length >= consts + carries, 'a region with too few inputs')
  return {
    consts: list.slice(0, consts),
    carries: list.slice(consts, consts + carries),
    sequences: list.slice(consts + carries),
  }
}
