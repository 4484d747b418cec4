/**
 * Verifies functions of the vector IR: operands have the types of their operations, vectors fill the machine's registers, what a machine may
 * lack is there, and a register is read only where every path has assigned it, as what it was assigned as: not after another register took
 * its place.
 */
import { InternalError } from '../../../diagnostics/errors.ts'
import type { BinaryOp, CompareOp, Expr, Register, Statement, UnaryOp, VectorFunction, VectorMachine } from './ir.ts'
import { printExpr } from './print.ts'
import { bytesOf, elementBytes, i16x8, i32, i32x4, type Type, truthOf } from './types.ts'
import { assignedIn } from './walk.ts'

/** Throws an internal error that names the first thing that is wrong. */
export function verifyFunction(fn: VectorFunction, machine: VectorMachine): void {
  new Verifier(fn, machine).verify()
}

const isFloat = (t: Type): boolean => t.element === 'f32' || t.element === 'f64'
const anyBits: ReadonlySet<string> = new Set(['and', 'or', 'xor', 'andnot', 'not'])
const floatsOnly: ReadonlySet<string> = new Set<UnaryOp | BinaryOp>([
  ...(['ceil', 'floor', 'trunc', 'nearest', 'sqrt', 'div', 'min', 'max', 'pmin', 'pmax'] as const),
])
const eitherKind: ReadonlySet<string> = new Set<UnaryOp | BinaryOp>(['neg', 'abs', 'add', 'sub', 'mul'])

/** Whether an operation is one on a type: bits are any type's, masks have nothing else. */
function fits(op: UnaryOp | BinaryOp, t: Type): boolean {
  if (anyBits.has(op)) return t.bank === 'vector' || !isFloat(t)
  if (t.isMask) return false
  if (eitherKind.has(op)) return true
  return floatsOnly.has(op) ? isFloat(t) : !isFloat(t)
}

const comparesSigns = (op: CompareOp): boolean => op.endsWith('_s') || op.endsWith('_u')

class Verifier {
  private readonly fn: VectorFunction
  private readonly machine: VectorMachine
  /** By number, the register that stands there; undefined: none does on every path. */
  private readonly holders: (Register | undefined)[] = []
  /** What stood where, before each change. */
  private readonly log: { readonly index: number; readonly before: Register | undefined }[] = []
  private readonly banks: string[] = []
  /** Scopes that may be left: where their changes begin in the log, and what stood where when they were left. */
  private readonly open = new Map<
    number,
    { readonly mark: number; readonly left: ReadonlyMap<number, Register | undefined>[] }
  >()

  constructor(fn: VectorFunction, machine: VectorMachine) {
    this.fn = fn
    this.machine = machine
  }

  verify(): void {
    for (const p of this.fn.params) this.hold(p)
    this.statements(this.fn.body)
  }

  private check(holds: boolean, what: () => string): void {
    if (!holds) throw new InternalError(`function ${this.fn.name}: ${what()}`)
  }

  private is(e: Expr, type: Type): void {
    this.check(e.type === type, () => `${printExpr(e)} is ${e.type.name}, not ${type.name}`)
  }

  private hold(r: Register): void {
    const bank = this.banks[r.index] ?? r.type.bank
    this.check(bank === r.type.bank, () => `%${r.index} is of ${bank} and of ${r.type.bank}`)
    this.banks[r.index] = bank
    this.put(r.index, r)
  }

  private put(index: number, holder: Register | undefined): void {
    this.log.push({ index, before: this.holders[index] })
    this.holders[index] = holder
  }

  /** Changes since a point of the log are taken back; gives what stood at their places. */
  private undo(to: number): Map<number, Register | undefined> {
    const after = new Map<number, Register | undefined>()
    for (let entry = this.log[this.log.length - 1]; this.log.length > to; entry = this.log[this.log.length - 1]) {
      if (entry === undefined) break
      if (!after.has(entry.index)) after.set(entry.index, this.holders[entry.index])
      this.holders[entry.index] = entry.before
      this.log.pop()
    }
    return after
  }

  /** What has changed since a point of the log, and stands there now. */
  private since(mark: number): Map<number, Register | undefined> {
    const now = new Map<number, Register | undefined>()
    for (let i = mark; i < this.log.length; i++) {
      const index = this.log[i]?.index ?? 0
      now.set(index, this.holders[index])
    }
    return now
  }

  /** After one of several paths: what they disagree on is held by none. */
  private join(paths: readonly ReadonlyMap<number, Register | undefined>[]): void {
    for (const index of new Set(paths.flatMap((p) => [...p.keys()]))) {
      const [first, ...others] = paths.map((p) => (p.has(index) ? p.get(index) : this.holders[index]))
      this.put(index, others.every((h) => h === first) ? first : undefined)
    }
  }

  /** Runs one of two. */
  private either(first: () => void, second: () => void): void {
    const mark = this.log.length
    first()
    const after = this.undo(mark)
    second()
    this.join([after, this.undo(mark)])
  }

  private statements(list: readonly Statement[]): void {
    for (const s of list) this.statement(s)
  }

  /** A body that may run again: what it assigns as something else than what stood there does not stand there at its start. */
  private rounds(body: readonly Statement[]): void {
    for (const r of assignedIn(body))
      if (this.holders[r.index] !== r && this.holders[r.index] !== undefined) this.put(r.index, undefined)
    this.statements(body)
  }

  private statement(s: Statement): void {
    switch (s.kind) {
      case 'assign':
        this.value(s.value)
        this.is(s.value, s.register.type)
        this.hold(s.register)
        return
      case 'store':
        this.place(s.address, s.offset, s.align)
        this.value(s.value)
        this.check(
          s.form === 'plain' || s.value.type === i32,
          () => `the low bits of ${printExpr(s.value)} are stored, which is ${s.value.type.name}`,
        )
        return
      case 'storeLane':
        this.place(s.address, s.offset, s.align)
        this.value(s.value)
        this.lane(s.value.type, s.lane)
        return
      case 'if':
        this.value(s.condition)
        this.is(s.condition, i32)
        this.either(
          () => this.statements(s.body),
          () => this.statements(s.otherwise ?? []),
        )
        return
      case 'for':
        this.value(s.from)
        this.is(s.from, i32)
        this.is(s.counter, i32)
        this.check(s.step > 0, () => `a loop goes on by ${s.step}`)
        this.hold(s.counter)
        this.value(s.to)
        this.is(s.to, i32)
        this.either(
          () => {
            this.rounds(s.body)
            this.value(s.counter)
            this.value(s.to)
          },
          () => undefined,
        )
        return
      case 'repeat':
        this.rounds(s.body)
        this.value(s.condition)
        this.is(s.condition, i32)
        return
      case 'until':
        this.value(s.condition)
        this.is(s.condition, i32)
        this.either(
          () => this.rounds(s.body),
          () => undefined,
        )
        return
      case 'scope': {
        const mark = this.log.length
        const left: ReadonlyMap<number, Register | undefined>[] = []
        this.open.set(s.label.id, { mark, left })
        this.statements(s.body)
        this.open.delete(s.label.id)
        this.join([this.undo(mark), ...left])
        return
      }
      case 'leave':
        this.value(s.condition)
        this.is(s.condition, i32)
        this.leave(s.label.id)
        return
      case 'copy':
        for (const e of [s.to, s.from, s.bytes]) {
          this.value(e)
          this.is(e, i32)
        }
        return
      case 'run':
        this.args(s.callee.name, s.args, s.callee.params)
        return
    }
  }

  private leave(label: number): void {
    const scope = this.open.get(label)
    this.check(scope !== undefined, () => `scope ${label} is left outside it`)
    scope?.left.push(this.since(scope.mark))
  }

  private args(name: string, args: readonly Expr[], params: readonly { readonly type: Type }[]): void {
    this.check(args.length === params.length, () => `${name} takes ${params.length} operands, not ${args.length}`)
    args.forEach((a, i) => {
      this.value(a)
      const type = params[i]?.type
      if (type !== undefined) this.is(a, type)
    })
  }

  private place(address: Expr, offset: number, align: number): void {
    this.value(address)
    this.is(address, i32)
    this.check(Number.isInteger(offset) && offset >= 0, () => `offset ${offset}`)
    this.check([1, 2, 4, 8, 16].includes(align), () => `alignment ${align}`)
  }

  private lane(type: Type, lane: number): void {
    this.check(type.lanes > 1 && !type.isMask, () => `${type.name} has no lanes to take`)
    this.check(Number.isInteger(lane) && lane >= 0 && lane < type.lanes, () => `lane ${lane} of ${type.name}`)
  }

  /** A value and all that it is computed from. */
  private value(e: Expr): void {
    const { type } = e
    const { width } = this.machine
    this.check(
      type.lanes === 1 || bytesOf(type) === width,
      () => `${printExpr(e)} is ${type.name}, of a machine whose vectors have ${width} bytes`,
    )
    const both = (a: Expr, b: Expr, as: Type): void => {
      for (const x of [a, b]) {
        this.value(x)
        this.is(x, as)
      }
    }
    switch (e.kind) {
      case 'register':
        this.check(this.holders[e.index] === e, () =>
          this.holders[e.index] === undefined
            ? `%${e.index} is read where not every path has assigned it`
            : `%${e.index} is read after another register took its place`,
        )
        return
      case 'const':
        this.check(
          typeof e.value !== 'object' || e.value.length === type.lanes,
          () => `${printExpr(e)} has not a value a lane`,
        )
        this.check(
          typeof e.value !== 'bigint' || type.element === 'i64',
          () => `${printExpr(e)} is of 64 bits in ${type.name}`,
        )
        return
      case 'unary':
        this.value(e.a)
        this.is(e.a, type)
        this.check(fits(e.op, type), () => `${e.op} of ${type.name}`)
        return
      case 'binary':
        both(e.a, e.b, type)
        this.check(fits(e.op, type), () => `${e.op} of ${type.name}`)
        return
      case 'isZero':
        this.value(e.a)
        this.is(e, i32)
        this.check(e.a.type.lanes === 1 && !isFloat(e.a.type), () => `isZero of ${e.a.type.name}`)
        return
      case 'compare':
        both(e.a, e.b, e.a.type)
        this.is(e, truthOf(e.a.type))
        this.check(!e.a.type.isMask, () => `${e.op} of masks`)
        this.check(
          e.op === 'eq' || e.op === 'ne' || comparesSigns(e.op) !== isFloat(e.a.type),
          () => `${e.op} of ${e.a.type.name}`,
        )
        return
      case 'shift':
        this.value(e.a)
        this.is(e.a, type)
        this.value(e.count)
        this.is(e.count, i32)
        this.check(type.lanes > 1 && !isFloat(type) && !type.isMask, () => `${e.op} of ${type.name}`)
        return
      case 'select':
        both(e.a, e.b, type)
        this.value(e.condition)
        this.is(e.condition, truthOf(type))
        return
      case 'fma':
        both(e.a, e.b, type)
        this.value(e.c)
        this.is(e.c, type)
        this.check(type.lanes > 1 && isFloat(type), () => `fma of ${type.name}`)
        this.check(this.machine.hasMultiplyAdd, () => 'fma of a machine that has none')
        return
      case 'load':
        this.place(e.address, e.offset, e.align)
        this.check(!type.isMask, () => `a load of ${type.name}`)
        this.check(
          e.form === 'plain' ||
            (type.lanes > 1 ? !isFloat(type) || e.form === 'splat' : type === i32 && /\d/.test(e.form)),
          () => `a load of ${type.name}, ${e.form}`,
        )
        return
      case 'loadLane':
        this.place(e.address, e.offset, e.align)
        this.value(e.a)
        this.is(e.a, type)
        this.lane(type, e.lane)
        return
      case 'splat':
        this.value(e.a)
        this.check(
          type.lanes > 1 && !type.isMask && e.a.type.lanes === 1 && isFloat(e.a.type) === isFloat(type),
          () => `${type.name} of ${e.a.type.name}`,
        )
        this.check(
          bytesOf(e.a.type) === Math.max(4, elementBytes[type.element]),
          () => `${type.name} of ${e.a.type.name}`,
        )
        return
      case 'extract':
        this.value(e.a)
        this.lane(e.a.type, e.lane)
        this.check(
          type.lanes === 1 && type.element === e.a.type.element,
          () => `a lane of ${e.a.type.name} as ${type.name}`,
        )
        return
      case 'replace':
        this.value(e.a)
        this.is(e.a, type)
        this.value(e.value)
        this.lane(type, e.lane)
        this.check(e.value.type.element === type.element, () => `${e.value.type.name} as a lane of ${type.name}`)
        return
      case 'shuffle':
        both(e.a, e.b, type)
        this.check(e.lanes.length === type.lanes, () => `${e.lanes.length} lanes of ${type.name}`)
        this.check(
          e.lanes.every((l) => Number.isInteger(l) && l >= 0 && l < 2 * type.lanes),
          () => `lanes ${e.lanes.join()} of two ${type.name}`,
        )
        return
      case 'lookup':
        both(e.a, e.indices, type)
        this.check(type.element === 'i8' && !type.isMask, () => `lookup in ${type.name}`)
        return
      case 'convert':
        this.value(e.a)
        this.check(
          !type.isMask &&
            !e.a.type.isMask &&
            type.element !== e.a.type.element &&
            type.lanes > 1 === e.a.type.lanes > 1,
          () => `${type.name} from ${e.a.type.name}`,
        )
        this.check(!e.high || type.lanes < e.a.type.lanes, () => `the high lanes of ${e.a.type.name} as ${type.name}`)
        return
      case 'pack':
        both(e.a, e.b, e.a.type)
        this.check(
          type.isMask && e.a.type.isMask && type.lanes === 2 * e.a.type.lanes,
          () => `${e.a.type.name} packed to ${type.name}`,
        )
        return
      case 'dotPairs':
        both(e.a, e.b, i16x8)
        this.check(type === i32x4, () => `products of pairs as ${type.name}`)
        return
      case 'bits':
      case 'any':
        this.value(e.a)
        this.is(e, i32)
        this.check(e.a.type.isMask, () => `${e.kind} of ${e.a.type.name}, which is no mask`)
        return
      case 'view':
        this.value(e.a)
        this.check(
          bytesOf(type) === bytesOf(e.a.type) && type.lanes > 1 === e.a.type.lanes > 1,
          () => `${e.a.type.name} seen as ${type.name}`,
        )
        return
      case 'call':
        this.check(this.fn.externals.includes(e.callee), () => `${e.callee.name} is not among the externals`)
        this.args(
          e.callee.name,
          e.args,
          e.callee.params.map((t) => ({ type: t })),
        )
        this.is(e, e.callee.result)
        this.check(
          type.lanes === 1 && e.callee.params.every((t) => t.lanes === 1),
          () => `${e.callee.name} takes scalars`,
        )
        return
      case 'branch':
        this.value(e.condition)
        this.is(e.condition, i32)
        this.either(
          () => this.value(e.a),
          () => this.value(e.b),
        )
        this.is(e.a, type)
        this.is(e.b, type)
        return
      case 'let':
        this.statements(e.body)
        this.value(e.value)
        this.is(e.value, type)
        return
      case 'undefined':
        return
    }
  }
}
