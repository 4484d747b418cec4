/** The code of matrix products on tensor cores: fragments from shared tiles, one instruction a tile (product.ts has the layout). */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import type { Product } from '../../../schedule/simt/part/product.ts'
import { cutAxes } from '../../../schedule/simt/sequence/usual.ts'
import { panelElements } from '../../../schedule/simt/storage/swizzle.ts'
import { add, type Block, bin, call, type Ex, elem, int, lit, mul, select, uint, v, yes } from '../ir/ir.ts'
import { type Lanes, registerAt, registerIndex } from '../ir/registers.ts'
import { isWhole, whole } from '../nest/nests.ts'
import { Point } from '../nest/point.ts'
import { insideAlong, type Scope, type SharedTile, tid } from '../nest/scope.ts'
import type { Accumulator } from '../reduce/open.ts'
import { multiplyFragments, warpOfDepth } from './fragments.ts'
import { multiplySplit, multiplySplitInGroups } from './multiplySplit.ts'
import { blockOf } from './splitOperands.ts'

const address = (tile: SharedTile, first: Ex, second: Ex): Ex => {
  const [p = 1, q = 1] = tile.strides
  const index = add(add(mul(first, int(p)), mul(second, int(q))), tile.offset ?? int(0))
  return { k: 'address', type: 'u32', of: tile.array.name, index }
}

/** Adds the product of two staged tiles to the accumulator; in the background, until it is waited for (`awaitProduct`). */
export function multiplyTiles(scope: Scope, acc: Accumulator, p: Product, inBackground: boolean, out: Block): void {
  const [ta, tb] = [scope.held.get(p.a), scope.held.get(p.b)]
  if (tb?.kind === 'fragments') {
    invariant(ta?.kind === 'shared', 'rows beside fragments are read from shared memory')
    multiplyFragments(scope, acc, p, ta, tb, out)
    return
  }
  invariant(tb?.kind === 'shared' && (ta?.kind === 'shared' || p.chained), 'the operands of a product are not staged')
  if (p.split === true) {
    invariant(ta?.kind === 'shared', 'operands that are split are read from shared memory')
    if (p.groups === undefined) multiplySplit(scope, acc, p, [ta, tb], out)
    else multiplySplitInGroups(scope, acc, p, p.groups, [ta, tb], out)
    return
  }
  if (p.groups !== undefined) {
    multiplyInGroups(scope, acc, p, p.groups, ta?.kind === 'shared' ? ta : undefined, tb, inBackground, out)
    return
  }
  const { unit, layout } = scope
  const rowTiles = layout.axis(p.rows).reps / 2
  const columnTiles = layout.axis(p.columns).reps
  const lane8 = bin('&', tid, int(7))
  const bit = (b: number): Ex => bin('&', bin('>>', tid, uint(b)), int(1))
  const step = v('i32', unit.name(`${p.depth}_step`))
  const [depthOfStep, depthOfHalf] = [16 / p.halves, 8 / p.halves]
  const steps = p.depthSize / depthOfStep / (p.warpsOfDepth ?? 1)
  const depth0 = mul(add(step, mul(warpOfDepth(p), int(steps))), int(depthOfStep))
  const [fa, fb] = [unit.name(`a_${p.dot}`), unit.name(`b_${p.dot}`)]
  const at = (array: string, i: Ex): Ex => elem('u32', array, i)
  const body: Block = [
    { k: 'array', name: fa, type: 'u32', length: rowTiles * 4 },
    { k: 'array', name: fb, type: 'u32', length: columnTiles * 2 },
  ]
  const four = (array: string, i: Ex): Ex[] => [0, 1, 2, 3].map((n) => at(array, add(mul(i, int(4)), int(n))))
  const loop = (wish: string, count: number, make: (i: Ex) => Block): void => {
    const i = unit.name(wish)
    body.push({ k: 'for', name: i, from: int(0), to: int(count), step: 1, unroll: true, body: make(v('i32', i)) })
  }
  const depthLast = (t: SharedTile): boolean => t.axes[1] === p.depth
  loop('row_tile', rowTiles, (i) => {
    if (ta?.kind !== 'shared') return packRows(scope, p, i, step, four(fa, i))
    // Matrices: rows of both halves at the first 8 of the depth, then at the next 8.
    const row = blockOf(scope, p.rows, 3, add(mul(i, int(2)), bit(3)))
    const deep = add(depth0, mul(bit(4), int(depthOfHalf)))
    return depthLast(ta)
      ? [{ k: 'call', fn: 'load_matrices', args: [...four(fa, i), address(ta, add(row, lane8), deep)] }]
      : [{ k: 'call', fn: 'load_matrices_transposed', args: [...four(fa, i), address(ta, add(deep, lane8), row)] }]
  })
  loop('column_pair', columnTiles / 2, (i) => {
    // Matrices: both halves of the depth for one tile of columns, then for the next.
    const column = blockOf(scope, p.columns, 2, add(mul(i, int(2)), bit(4)))
    const deep = add(depth0, mul(bit(3), int(depthOfHalf)))
    return depthLast(tb)
      ? [{ k: 'call', fn: 'load_matrices', args: [...four(fb, i), address(tb, add(column, lane8), deep)] }]
      : [{ k: 'call', fn: 'load_matrices_transposed', args: [...four(fb, i), address(tb, add(deep, lane8), column)] }]
  })
  const [ri, ci] = [v('i32', unit.name('row_tile')), v('i32', unit.name('column_tile'))]
  const lanes = (half: number, lane: number): Lanes =>
    new Map([
      [p.rows, { rep: add(mul(ri, int(2)), int(half)), lane: int(0) }],
      [p.columns, { rep: ci, lane: int(lane) }],
    ])
  const c = [0, 1, 2, 3].map((n) => registerAt(acc.values, registerIndex(layout, acc.kept, lanes(n >> 1, n & 1))))
  const b = [0, 1].map((n) => at(fb, add(mul(ci, int(2)), int(n))))
  const inner: Block = [{ k: 'call', fn: `multiply_${p.dtype}`, args: [...c, ...four(fa, ri), ...b] }]
  const columns: Block = [
    { k: 'for', name: nameOf(ci), from: int(0), to: int(columnTiles), step: 1, unroll: true, body: inner },
  ]
  body.push({ k: 'for', name: nameOf(ri), from: int(0), to: int(rowTiles), step: 1, unroll: true, body: columns })
  out.push({ k: 'comment', text: `dot %${p.dot} on tensor cores: ${rowTiles} x ${columnTiles} tiles of 16 x 8 a warp` })
  out.push({
    k: 'for',
    name: nameOf(step),
    from: int(0),
    to: int(steps),
    step: 1,
    unroll: true,
    body,
  })
}

/**
 * The fragment of a tile of rows and 16 of the depth from what the thread has of another product's results there, which stand as fragments of
 * accumulators do: the halves of 8 columns are the halves of 8 of the depth. What lies outside the range is zero.
 */
function packRows(scope: Scope, p: Product, tile: Ex, step: Ex, to: readonly Ex[]): Block {
  return to.map((word, n) => {
    const value = (lane: number): Ex => {
      const lanes: Lanes = new Map([
        [p.rows, { rep: add(mul(tile, int(2)), int(n & 1)), lane: int(0) }],
        [p.depth, { rep: add(mul(step, int(2)), int(n >> 1)), lane: int(lane) }],
      ])
      const there = insideAlong(scope, p.depth, lanes)
      return select(there ?? yes, new Point(scope, lanes).read(p.a), lit('f32', 0))
    }
    return { k: 'assign', to: word, value: call('u32', `${p.dtype}_pair`, value(0), value(1)) }
  })
}

const nameOf = (e: Ex): string => {
  invariant(e.k === 'var', 'not a variable')
  return e.name
}

/**
 * The same by groups of four warps: started, and waited for after what can go on meanwhile. Rows of the first operand come from a tile, or
 * from the registers of the product before this one.
 */
function multiplyInGroups(
  scope: Scope,
  acc: Accumulator,
  p: Product,
  groups: NonNullable<Product['groups']>,
  ta: SharedTile | undefined,
  tb: SharedTile,
  inBackground: boolean,
  out: Block,
): void {
  const { unit } = scope
  const steps = (p.depthSize * p.halves) / 16
  const registers = acc.values.length / groups.pieces
  const depthLast = (t: SharedTile): boolean => t.axes[1] === p.depth
  const results = (at: Ex): Ex => ({ k: 'address', type: 'u32', of: acc.values.name, index: at })
  const place = (t: SharedTile, at: Ex): Ex => ({
    k: 'address',
    type: 'u32',
    of: t.array.name,
    index: add(at, t.offset ?? int(0)),
  })
  const step = v('i32', unit.name(`${p.depth}_step`))
  const piece = v('i32', unit.name('piece'))
  const widthOf = (t: SharedTile): number => t.swizzle?.panel ?? panelElements
  // In a panel of the depth a step is 16 elements of a row; in panels of rows or columns it is 16 rows.
  const along = (t: SharedTile, own: number, step: Ex): Ex => {
    const width = widthOf(t)
    if (!depthLast(t)) return mul(step, int(16 * width))
    const steps = width / 16
    if (steps === 1) return mul(step, int(own * width))
    const panel = bin('>>', step, uint(Math.log2(steps)))
    return add(mul(bin('&', step, int(steps - 1)), int(16)), mul(panel, int(own * width)))
  }
  const group = groups.count === 1 ? int(0) : bin('&', call('i32', 'warp_group'), int(groups.count - 1))
  const packed = ta === undefined ? unit.name(`a_${p.dot}`) : ''
  /** The first operand: its order, and arguments that say where a group's rows stand and where in them those of a piece and a step. */
  const rowsAt = (step: Ex): { readonly order: string; readonly args: readonly Ex[] } => {
    if (ta === undefined) {
      const index = mul(add(mul(piece, int(steps)), step), int(4))
      return { order: 'r', args: [{ k: 'address', type: 'u32', of: packed, index }] }
    }
    const each = panelElements * (depthLast(ta) ? widthOf(ta) : p.depthSize)
    const at = add(mul(piece, int(each)), along(ta, p.rowSize, step))
    return { order: depthLast(ta) ? 'k' : 'm', args: [place(ta, mul(group, int(groups.pieces * each))), at] }
  }
  const widths = [tb, ...(ta === undefined ? [] : [ta])].map(widthOf)
  const started = (at: Ex, suffix: string): Block => [
    {
      k: 'call',
      fn: `multiply_group_${p.dtype}_${p.columnSize}_${rowsAt(at).order}${depthLast(tb) ? 'k' : 'n'}${suffix}`,
      args: [
        results(mul(piece, int(registers))),
        ...rowsAt(at).args,
        place(tb, int(0)),
        along(tb, p.columnSize, at),
        int(depthLast(tb) ? 16 : 2 * widthOf(tb) * p.depthSize),
        ...(widths.every((w) => w === panelElements) ? [] : widths.map(int)),
      ],
    },
  ]
  const pieces = (body: Block): Block => [
    { k: 'for', name: nameOf(piece), from: int(0), to: int(groups.pieces), step: 1, unroll: true, body },
  ]
  // A sum that starts from nothing needs no zeros: writing them would have to wait for what is in the background.
  const begins = inBackground && acc.let.op.kind === 'dot' && acc.let.op.acc === undefined
  const hold: Block[number] = { k: 'call', fn: `hold_${acc.values.length}`, args: [results(int(0))] }
  const plain = (fn: string): Block[number] => ({ k: 'call', fn, args: [] })
  out.push({
    k: 'comment',
    text: `dot %${p.dot} on tensor cores: ${groups.count} groups of warps, ${groups.pieces} x 64 rows each`,
  })
  if (ta === undefined) {
    out.push({ k: 'array', name: packed, type: 'u32', length: 4 * steps * groups.pieces })
    const pack = (at: Scope, to: Block): void => {
      for (let i = 0; i < groups.pieces; i++)
        for (let s = 0; s < steps; s++) {
          const words = [0, 1, 2, 3].map((n) => elem('u32', packed, int((i * steps + s) * 4 + n)))
          to.push(...packRows(at, p, int(i), int(s), words))
        }
    }
    const cut = cutAxes(scope.part, scope.layout, [p.depth])
    if (cut.length === 0) pack(scope, out)
    else {
      const [body, otherwise]: [Block, Block] = [[], []]
      pack(whole(scope, cut), body)
      pack(scope, otherwise)
      out.push({ k: 'if', cond: isWhole(scope, cut), body, otherwise })
    }
  }
  if (!begins) out.push(hold)
  out.push(plain('group_begin'))
  if (begins) out.push(...pieces(started(int(0), '_begin')))
  out.push({
    k: 'for',
    name: nameOf(step),
    from: int(begins ? 1 : 0),
    to: int(steps),
    step: 1,
    unroll: true,
    body: pieces(started(step, '')),
  })
  out.push(plain('group_commit'), ...(unit.meanwhile.get(p.dot) ?? []))
  unit.meanwhile.delete(p.dot)
  // Words that are read in the background stay in their registers.
  const words = 4 * steps * groups.pieces
  const packedAt: Ex = { k: 'address', type: 'u32', of: packed, index: int(0) }
  const behind: Block = [
    hold,
    ...(ta === undefined ? [{ k: 'call', fn: `keep_${words}`, args: [packedAt] } as const] : []),
  ]
  if (inBackground) unit.background.set(p.dot, behind)
  else out.push(plain('group_wait'), ...behind)
}

/** Waits for a product in the background, and all that began before it; `later` began after it and may go on. */
export function awaitProduct({ unit }: Scope, dot: ValueId, later: number, out: Block): void {
  const behind = unit.background.get(dot)
  invariant(behind !== undefined, `the product %${dot} is not in the background`)
  unit.background.delete(dot)
  out.push({ k: 'call', fn: later === 0 ? 'group_wait' : `group_wait_${later}`, args: [] }, ...behind)
}
