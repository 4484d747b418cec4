/** Lowering of elementwise and reduction bodies: the statements stand as they are, under a grid over the parallel axes. */

import type { KernelPart, NumericsMode, Stmt } from '../kernel/ir.ts'
import { straightGrid } from '../plan/axes/blocks.ts'
import { elementPoints } from '../plan/axes/elementBlocks.ts'
import { parallelGrid } from '../plan/axes/parallelGrid.ts'
import { elementwiseRoles, type Roles } from '../plan/axes/roles.ts'
import type { Body } from '../plan/body/body.ts'
import type { Machine } from '../target/machine.ts'
import { lowerChunks } from './chunks.ts'
import { lowerCutFolds } from './cutFolds.ts'
import { kernelOf } from './kernelOf.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'

/** Lowers a body that holds no matrix product. */
export function lowerStraight(name: string, body: Body, roles: Roles, target: Machine, mode: NumericsMode): Launch {
  if (roles.stages.split.size > 0) return lowerCutFolds(name, body, roles, target, mode)
  if (roles.chunks !== undefined) return lowerChunks(name, body, roles, roles.chunks, target, mode)
  const grid = straightGrid(body, roles, target, mode)
  const main = kernelOf(name, body, grid, body.lets, mode, new Params(), [])
  return { main, finishing: [], partials: [] }
}

/** Lowers the ranges of an elementwise body to the parts of one kernel. */
export function lowerSegments(name: string, segments: readonly Body[], target: Machine, mode: NumericsMode): Launch {
  const params = new Params()
  for (const body of segments) params.loads(body, body.lets)
  for (const body of segments) for (const s of body.stores) params.stored(s)
  const parts = segments.map((body): KernelPart => {
    const roles = elementwiseRoles(body)
    const stores = body.stores.map(
      (s): Stmt => ({ kind: 'store', param: params.stored(s), index: s.index, mask: s.mask ?? [], value: s.value }),
    )
    return {
      axes: body.axes,
      grid: parallelGrid(body, roles, elementPoints(body, roles, target)),
      body: [...body.lets, ...stores],
    }
  })
  return {
    main: { kernel: { name, params: params.list, mode, parts }, bindings: params.bindings },
    finishing: [],
    partials: [],
  }
}
