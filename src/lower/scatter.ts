/** Lowering of a scatter: programs walk the updates in row-major order and combine them into a copy of the target. */

import { flatten } from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import type { NodeOf } from '../graph/node.ts'
import type { KernelPart, NumericsMode, StoreStmt } from '../kernel/ir.ts'
import { copiesTarget } from '../plan/body/reads.ts'
import type { ScatterBody } from '../plan/body/scatterBody.ts'
import type { Machine } from '../target/machine.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'
import { gridOf, sharePlaces } from './sharePlaces.ts'

export function lowerScatter(
  name: string,
  node: NodeOf<'scatter'>,
  { body, inside, columns }: ScatterBody,
  target: Machine,
  mode: NumericsMode,
): Launch {
  const { axes, lets } = body
  const [into, stands, ...dimensions] = body.stores
  invariant(into !== undefined && stands !== undefined, 'a scatter without places')
  const params = new Params()
  for (const [p, t] of body.loads) params.add(p, t.shape, t.node.dtype, 'read', { kind: 'node', node: t.node })
  params.add('y', into.shape, node.dtype, copiesTarget(node) ? 'update' : 'write', { kind: 'node', node })
  const { combiner, distinct } = node.attrs
  const store: StoreStmt = {
    kind: 'store',
    param: 'y',
    index: into.index,
    mask: [],
    value: into.value,
    ...(inside === undefined ? {} : { maskValue: inside }),
    ...(combiner === 'set' ? {} : { combiner }),
    ...(distinct === true ? { distinct } : {}),
  }
  const places = dimensions.map((d) => ({ index: flatten(d.index, d.shape), extent: d.shape[0] ?? 1 }))
  const update = flatten(stands.index, stands.shape)
  const whole: KernelPart = { axes, grid: [], body: [...lets, store] }
  // Programs share out the updates themselves where no two of them meet: any order will do.
  const grid = distinct === true && target.simt !== undefined ? gridOf(axes, target.elementBlock) : undefined
  const part =
    grid === undefined
      ? (sharePlaces({ axes, lets, store, update, places, columns }, target) ?? whole)
      : { ...whole, grid }
  return {
    main: { kernel: { name, params: params.list, mode, parts: [part] }, bindings: params.bindings },
    finishing: [],
    partials: [],
  }
}
