/** Packed bools of a launch: the formats its plan decided, and grids under which every program stores whole bytes. */

import { axesOf, flatten } from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import type { Node } from '../graph/node.ts'
import { startOf } from '../kernel/axes.ts'
import type { KernelParam, KernelPart, Stmt } from '../kernel/ir.ts'
import { alignGrid, extentsOf, joinBlocks, storesTo, wholeByteBlocks } from '../kernel/wholeBytes.ts'
import { sizeOf } from '../types/shape.ts'
import type { BoundKernel, Launch } from './launch.ts'

/** The launch with the given nodes one bit an element. */
export function packBits(launch: Launch, bits: ReadonlySet<Node>): Launch {
  const packed = (k: BoundKernel): BoundKernel => {
    const params = k.kernel.params.map((p, i): KernelParam => {
      const b = k.bindings[i]
      return b?.kind === 'node' && bits.has(b.node) ? { ...p, format: 'bits' } : p
    })
    const changed = new Map(params.flatMap((p, i) => (p === k.kernel.params[i] ? [] : [[p.name, p]])))
    if (changed.size === 0) return k
    return { ...k, kernel: { ...k.kernel, params, parts: k.kernel.parts.map((part) => alignPart(part, changed)) } }
  }
  return { ...launch, main: packed(launch.main), finishing: launch.finishing.map(packed) }
}

function alignPart(part: KernelPart, params: ReadonlyMap<string, KernelParam>): KernelPart {
  const extents = extentsOf(part)
  const all = storesTo(part.body, new Set(params.keys())).map((s) => {
    const shape = params.get(s.param)?.shape ?? []
    const blocks = wholeByteBlocks(flatten(s.index, shape), sizeOf(shape), extents)
    invariant(blocks !== undefined, `the plan packs ${s.param}, whose bytes no cut keeps apart`)
    return blocks
  })
  if (all.length === 0) return part
  const grid = alignGrid(part.grid, joinBlocks(all, extents), extents)
  const numbered = blockNumbers(part.body)
  for (const [i, g] of grid.entries())
    invariant(g === part.grid[i] || !numbered.has(g.axis), `blocks of ${g.axis} are numbered as they were`)
  return { ...part, grid }
}

/** Axes whose blocks are counted by indices: their partial results have places. */
function blockNumbers(body: readonly Stmt[]): Set<string> {
  const out = new Set<string>()
  for (const s of body) {
    if (s.kind === 'loop') for (const a of blockNumbers(s.body)) out.add(a)
    if (s.kind !== 'store') continue
    for (const e of s.index)
      for (const a of axesOf(e)) {
        const of = startOf(a)
        if (of !== undefined) out.add(of)
      }
  }
  return out
}
