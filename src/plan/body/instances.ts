/**
 * Instances: a region's nodes evaluated at index maps over named axes. One node may have several instances in a kernel
 * (`x @ x.T` reads x at [m, k] and at [n, k]); equal maps share one. With views.ts, folds.ts and buildBody.ts this is the one
 * piece of code that decides which regions can be a kernel: the planner asks it, the lowering uses what it built.
 */

import type { Expr } from '../../affine/expr.ts'
import * as ix from '../../affine/expr.ts'
import { keepsBounds, type Predicate, predicateKey } from '../../affine/predicate.ts'
import { InternalError, invariant } from '../../diagnostics/errors.ts'
import { isKnownWithin } from '../../graph/knownIndex.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import { familyOf, opDef } from '../../graph/table.ts'
import type { NumericsMode, ValueId } from '../../kernel/ir.ts'
import { readElement } from '../../scalar/host.ts'
import type { Scalar, ScalarOp } from '../../scalar/ops.ts'
import { maskMultipliers, maskRounds, secondFrom, sharedByMask } from '../../scalar/threefry.ts'
import { type DType, holdsInteger, isWide, positionDType } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { Refusal, refuse } from '../refusal.ts'
import type { Evaluation, Instance } from './evaluation.ts'
import { Folds } from './folds.ts'
import { joinLiterals } from './literals.ts'
import { isFree, type Region, shallowFirst } from './region.ts'
import type { Tiles } from './tiles.ts'
import { unrounded } from './unrounded.ts'
import { viewed } from './views.ts'

/** Evaluates a region's nodes at index maps into tiles. */
export class Instances implements Evaluation {
  readonly tiles: Tiles
  readonly loads = new Map<string, Node>()
  private readonly loadNames = new Map<Node, string>()
  private readonly positions = new Map<string, ValueId>()
  /** Keys of index maps: operands are evaluated at the very map of their user. */
  private readonly keys = new WeakMap<readonly Expr[], { readonly mask: Predicate; readonly key: string }>()
  private readonly instances = new Map<Node, Instance[]>()
  readonly folds: Folds
  readonly region: Region
  readonly mode: NumericsMode
  readonly isInside: boolean
  branches = false
  /** Values that are being evaluated, each for the one before. */
  private depth = 0

  constructor(region: Region, tiles: Tiles, mode: NumericsMode, mayTie: boolean, isInside = false) {
    this.isInside = isInside
    this.region = region
    this.tiles = tiles
    this.mode = mode
    this.folds = new Folds(this, mayTie)
  }

  value(node: Node, index: readonly Expr[], within: Predicate): ValueId {
    if (index.length !== node.shape.length)
      throw new InternalError(`${node.op} of rank ${node.shape.length} at ${index.length} coordinates`)
    if (this.tiles.rebind !== undefined) return this.tiles.zero(node)
    const mask = this.tiles.guards.neededAt(within, index, node.shape)
    const key = this.keyOf(index, mask)
    for (const i of this.instances.get(node) ?? []) if (i.key === key) return i.value
    this.tiles.checkDepth(++this.depth)
    this.tiles.checkIndex(key)
    const id =
      this.region.members.has(node) || isFree(node) ? this.compute(node, index, mask) : this.load(node, index, mask, 0)
    this.depth--
    const instance = { key, index, mask, value: id }
    const list = this.instances.get(node)
    if (list === undefined) this.instances.set(node, [instance])
    else list.push(instance)
    return id
  }

  private keyOf(index: readonly Expr[], mask: Predicate): string {
    const have = this.keys.get(index)
    if (have?.mask === mask) return have.key
    let key = ''
    for (const e of index) key += `${e.key},`
    if (mask.length > 0) key += `|${predicateKey(mask)}`
    this.keys.set(index, { mask, key })
    return key
  }

  instancesOf(node: Node): readonly Instance[] {
    return this.instances.get(node) ?? []
  }

  instancesNear(node: Node): readonly Instance[] {
    const stack = [node]
    const seen = new Set<Node>()
    for (let n = stack.shift(); n !== undefined; n = stack.shift()) {
      const have = this.instancesOf(n)
      if (have.length > 0) return have
      if (seen.has(n) || familyOf(n) !== 'elementwise' || !this.region.members.has(n)) continue
      seen.add(n)
      stack.push(...n.inputs)
    }
    return []
  }

  private load(node: Node, index: readonly Expr[], mask: Predicate, other: Scalar): ValueId {
    let name = this.loadNames.get(node)
    if (name === undefined) {
      name = `x${this.loads.size}`
      this.loadNames.set(node, name)
      this.loads.set(name, node)
    }
    const zero: Scalar = node.dtype === 'bool' ? Boolean(other) : isWide(node.dtype) ? BigInt(other) : other
    const axes = this.tiles.ordered(this.tiles.axesOfExprs([...index, ...mask.map((b) => b.expr)]))
    return this.tiles.emit({ kind: 'load', param: name, index, mask, other: zero }, node.dtype, axes, node)
  }

  private compute(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    switch (familyOf(node)) {
      case 'elementwise':
        return this.elementwise(node, index, mask)
      case 'source':
        return this.source(node, index)
      case 'random':
        return this.random(node, index, mask)
      case 'view':
        return viewed(this, node, index, mask)
      case 'gather':
        return this.gather(node as NodeOf<'gather'>, index, mask)
      case 'reduction':
        return this.folds.reduce(node as NodeOf<'reduce'>, index, mask)
      case 'scan':
        return this.folds.scan(node as NodeOf<'scan'>, index, mask)
      case 'contraction':
        return this.folds.contract(node as NodeOf<'contract'>, index, mask)
      case 'scatter':
      case 'boundary':
      case 'region':
        throw new Refusal(refuse(`${opDef(node).boundary ?? 'opaque'}-boundary`, `${node.op} stands alone`))
    }
  }

  private elementwise(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    const op = opDef(node).scalar
    invariant(op !== undefined, `${node.op} has no scalar operation`)
    const wide = this.mode === 'fast' ? unrounded(node, (x) => this.region.members.has(x)) : undefined
    if (wide !== undefined) return this.value(wide, index, mask)
    const [only] = node.inputs
    // A tensor or a product as a value of its own, which was not worth storing: what reads it reads the original.
    const isOwn = op === 'cast' && only?.dtype === node.dtype
    if (isOwn && (familyOf(only) === 'contraction' || this.isRead(only))) return this.value(only, index, mask)
    const args = new Array<ValueId>(node.inputs.length)
    for (const i of shallowFirst(node)) {
      const x = node.inputs[i]
      if (x !== undefined) args[i] = this.value(x, index, mask)
    }
    const [a] = args
    const isLoose = this.mode === 'fast' && node.op === 'cast' && node.attrs.loose === true
    if (isLoose && a !== undefined) return this.tiles.looseCast(a, node.dtype, node)
    const joined = this.mode === 'fast' && op === 'mul' ? joinLiterals(this.tiles, args, node) : undefined
    return joined ?? this.tiles.scalar(op, args, node.dtype, node)
  }

  /** Whether a node is a tensor that stands in memory, or a view of one. */
  private isRead(node: Node): boolean {
    let n = node
    while (isFree(n) && n.inputs.length === 1) n = n.inputs[0] ?? n
    return !isFree(n) && !this.region.members.has(n)
  }

  private source(node: Node, index: readonly Expr[]): ValueId {
    switch (node.op) {
      case 'full':
        return this.tiles.constant(node.attrs.value, node.dtype, node)
      case 'constant':
        return this.tiles.constant(readElement(node.attrs.data, node.dtype, 0), node.dtype, node)
      case 'iota': {
        const at = index[node.attrs.axis] ?? ix.zero
        let id = this.positions.get(at.key)
        if (id === undefined) {
          id = this.tiles.emit(
            { kind: 'index', expr: at },
            positionDType(ix.rangeOf(at)),
            this.tiles.ordered(this.tiles.axesOfExprs([at])),
            node,
          )
          this.positions.set(at.key, id)
        }
        const { dtype } = this.tiles.letOf(id)
        return node.dtype === dtype ? id : this.tiles.scalar('cast', [id], node.dtype, node)
      }
      default:
        throw new Refusal(refuse('unaligned-output', `${node.op} is not computed`))
    }
  }

  private random(node: Node, index: readonly Expr[], mask: Predicate): ValueId {
    const [key] = node.inputs
    invariant(key !== undefined, 'random bits without key')
    const k0 = this.value(key, [ix.constant(0)], mask)
    const k1 = this.value(key, [ix.constant(1)], mask)
    const at = ix.flatten(index, node.shape)
    const { lo, hi } = ix.rangeOf(at)
    if (lo < 0 || hi >= Math.max(1, sizeOf(node.shape)))
      throw new Refusal(refuse('random-in-padding', 'random bits would be drawn outside their tensor'))
    const axes = this.tiles.ordered([
      ...this.tiles.axesOfExprs([at]),
      ...this.tiles.letOf(k0).axes,
      ...this.tiles.letOf(k1).axes,
    ])
    if (node.op === 'randomMask') return this.randomMask(node as NodeOf<'randomMask'>, k0, k1, at)
    return this.tiles.emit({ kind: 'random', k0, k1, index: at, rounds: 20 }, node.dtype, axes, node)
  }

  /** Elements of a mask that share a word (`maskElement`): its multiples, as unsigned distances from where each begins to hold. */
  private randomMask(node: NodeOf<'randomMask'>, k0: ValueId, k1: ValueId, at: Expr): ValueId {
    const { tiles } = this
    const { chance } = node.attrs
    const u32 = (v: number): ValueId => tiles.constant(v, 'u32', node)
    const scalar = (op: ScalarOp, a: ValueId, b: ValueId, dtype: DType = 'u32'): ValueId =>
      tiles.scalar(op, [a, b], dtype, node)
    const index = ix.div(at, sharedByMask)
    const axes = [...tiles.axesOfExprs([index]), ...tiles.letOf(k0).axes, ...tiles.letOf(k1).axes]
    const word = tiles.emit({ kind: 'random', k0, k1, index, rounds: maskRounds }, 'u32', tiles.ordered(axes), node)
    const expr = ix.mod(at, sharedByMask)
    const place = tiles.scalar(
      'cast',
      [tiles.emit({ kind: 'index', expr }, 'i32', tiles.ordered(tiles.axesOfExprs([expr])), node)],
      'u32',
      node,
    )
    // 1 or the multiplier, by a bit of the place.
    const factor = (bit: number, multiplier: number): ValueId =>
      scalar('add', scalar('mul', scalar('and', place, u32(bit)), u32((multiplier - 1) / bit)), u32(1))
    const [m1, m2] = maskMultipliers
    const drawn = scalar('mul', scalar('mul', word, factor(2, m1)), factor(4, m2))
    const from = scalar('mul', scalar('and', place, u32(1)), u32(secondFrom(chance)))
    return scalar('lt', scalar('sub', drawn, from), u32(chance * 65536), 'bool')
  }

  private gather(node: NodeOf<'gather'>, index: readonly Expr[], mask: Predicate): ValueId {
    const [x, ...indices] = node.inputs
    invariant(x !== undefined, 'gather without input')
    const inner = node.attrs.sources.map((s, d) => {
      if ('axis' in s) return index[s.axis] ?? ix.zero
      const source = indices[s.input]
      invariant(source !== undefined, 'gather without index')
      const n = x.shape[d] ?? 1
      if (n === 1) return ix.zero
      const raw = this.value(source, index, mask)
      const dtype = source.dtype === 'i32' ? 'i32' : positionDType({ lo: 0, hi: n - 1 })
      const place = (value: ValueId): Expr =>
        ix.value(source.dtype === dtype ? value : this.tiles.scalar('cast', [value], dtype, node), n)
      if (!keepsBounds() && isKnownWithin(source, n)) return place(raw)
      const literal = (v: number): ValueId =>
        this.tiles.constant(isWide(source.dtype) ? BigInt(v) : v, source.dtype, node)
      const scalar = (op: ScalarOp, ...args: readonly ValueId[]): ValueId =>
        this.tiles.scalar(op, args, source.dtype, node)
      const positive = scalar('max', raw, literal(0))
      return place(holdsInteger(source.dtype, n - 1) ? scalar('min', positive, literal(n - 1)) : positive)
    })
    return this.value(x, inner, mask)
  }
}
