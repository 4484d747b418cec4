/** The template of what a function is traced to over a range: which samples it takes to know its formulas. */

import type { Graph } from '../../graph/node.ts'
import type { Dimension, Extents } from '../../runtime/extents.ts'
import { alignGraphs, extentsOf, TraceTemplate } from './align.ts'
import { Fitter } from './fit.ts'
import { type SampleRange, samplesOf } from './samples.ts'

/** Rounds in which samples are added until what numbers are quotients by is known. */
const mostRounds = 4

/**
 * The template of traces over some ranges; `traced` gives the graphs at samples. Those are added until of what extents are divided by each remainder
 * is among them. Throws E_UNSUPPORTED where graphs are not one but for numbers.
 */
export function traceTemplate(
  ranges: readonly SampleRange[],
  taken: ReadonlySet<number>,
  traced: (samples: readonly Extents[]) => readonly Graph[],
): { readonly trace: TraceTemplate; readonly dimensions: readonly Dimension[] } {
  let divisor = 1
  for (let round = 1; ; round++) {
    const { samples, dimensions } = samplesOf(ranges, taken, 'both', divisor)
    const graphs = traced(samples)
    const fitter = new Fitter(samples)
    const { nodes } = alignGraphs(graphs, dimensions)
    const found = fitter.learn(extentsOf(nodes))
    const isLast = round === mostRounds
    if (divisor % found !== 0 && !isLast) {
      divisor = found
      continue
    }
    const trace = new TraceTemplate(graphs, fitter, dimensions)
    if (divisor % trace.divisor === 0 || isLast) return { trace, dimensions }
    divisor = trace.divisor
  }
}
