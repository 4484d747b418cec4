/**
 * Prints functions of the vector IR as WebAssembly: expressions become stack code in the order of their operands, registers locals (a vector
 * of any lanes is a v128), loops and conditions structured control. What stands in one place shares a local; `binary/slots.ts` gives locals
 * that are never needed at once one slot.
 */
import { InternalError, invariant } from '../../diagnostics/errors.ts'
import type { Expr, Label as Left, Register, Statement, VectorFunction } from '../vector/ir/ir.ts'
import { elementBytes, i32, type Type } from '../vector/ir/types.ts'
import type { FuncRef, FunctionBuilder, Label, Local, ModuleBuilder, WasmType } from './binary/builder.ts'
import { constantKey, type KeptConstants, vectorBytes } from './constants.ts'
import * as I from './instructions.ts'

/** Where functions outside the program are imported from. */
export const mathModule = 'math'

const wasmType = (t: Type): WasmType => (t.bank === 'vector' ? 'v128' : t.bank)

/** Adds a function to a module, exported by its name; `functions` are those that are there already. `kept`: of a kernel's function. */
export function printFunction(
  fn: VectorFunction,
  module: ModuleBuilder,
  functions: Map<VectorFunction, FuncRef>,
  kept?: KeptConstants,
): FuncRef {
  const imports = new Map(
    fn.externals.map((e) => [
      e.name,
      module.importFunction(mathModule, e.name, e.params.map(wasmType), [wasmType(e.result)]),
    ]),
  )
  const params = fn.params.map((p) => wasmType(p.type))
  const made = module.function(
    fn.name,
    params,
    [],
    (f) => {
      const printer = new Printer(f, fn, imports, functions)
      if (kept !== undefined) printer.keepConstants(kept)
      printer.statements(fn.body)
    },
    { export: true },
  )
  functions.set(fn, made)
  return made
}

class Printer {
  private readonly f: FunctionBuilder
  private readonly imports: ReadonlyMap<string, FuncRef>
  private readonly functions: ReadonlyMap<VectorFunction, FuncRef>
  /** By register. */
  private readonly locals: (Local | undefined)[]
  private readonly labels = new Map<Left, Label>()
  /** Locals of constants that are kept, by their keys. */
  private readonly kept = new Map<string, Local>()

  constructor(
    f: FunctionBuilder,
    fn: VectorFunction,
    imports: ReadonlyMap<string, FuncRef>,
    functions: ReadonlyMap<VectorFunction, FuncRef>,
  ) {
    this.f = f
    this.imports = imports
    this.functions = functions
    this.locals = fn.params.map((_, i) => f.param(i))
  }

  /** The local of a register that may have none yet. */
  private local(r: Register): Local {
    const have = this.locals[r.index]
    if (have !== undefined) return have
    const made = this.f.local(wasmType(r.type))
    this.locals[r.index] = made
    return made
  }

  /** Keeps constants of a kernel's function `(params, start, end, scratch)` in locals. Of no programs it touches nothing. */
  keepConstants({ constants, offset }: KeptConstants): void {
    if (constants.size === 0) return
    const { f } = this
    const scratch = f.param(3)
    f.get(f.param(1))
    f.get(f.param(2))
    f.instruction(I.compareCode('lt_s', i32))
    f.if(() => {
      let at = offset
      for (const [key, c] of constants) {
        const local = f.local('v128')
        f.get(scratch)
        this.constant(c.type, c.value)
        f.access(I.storeCode('plain', c.type), 4, at)
        f.get(scratch)
        f.access(I.loadCode('plain', c.type), 4, at)
        f.set(local)
        this.kept.set(key, local)
        at += vectorBytes
      }
    })
  }

  statements(list: readonly Statement[]): void {
    for (const s of list) this.statement(s)
  }

  private statement(s: Statement): void {
    const { f } = this
    switch (s.kind) {
      case 'assign':
        if (s.value.kind === 'undefined') return
        this.push(s.value)
        f.set(this.locals[s.register.index] ?? this.local(s.register))
        return
      case 'store':
        this.push(s.address)
        this.push(s.value)
        f.access(I.storeCode(s.form, s.value.type), s.align, s.offset)
        return
      case 'storeLane':
        this.push(s.address)
        this.push(s.value)
        f.access(I.laneMoveCode('store', s.value.type), s.align, s.offset, s.lane)
        return
      case 'if': {
        const { otherwise } = s
        this.push(s.condition)
        f.if(() => this.statements(s.body), otherwise === undefined ? undefined : () => this.statements(otherwise))
        return
      }
      case 'for':
        this.forLoop(s)
        return
      case 'repeat':
        f.loop((again) => {
          this.statements(s.body)
          this.push(s.condition)
          f.brIf(again)
        })
        return
      case 'until':
        f.block((done) =>
          f.loop((again) => {
            this.push(s.condition)
            f.brIf(done)
            this.statements(s.body)
            f.br(again)
          }),
        )
        return
      case 'scope':
        f.block((label) => {
          this.labels.set(s.label, label)
          this.statements(s.body)
        })
        return
      case 'leave': {
        const label = this.labels.get(s.label)
        invariant(label !== undefined, 'a scope that is not open is left')
        this.push(s.condition)
        f.brIf(label)
        return
      }
      case 'copy':
        this.push(s.to)
        this.push(s.from)
        this.push(s.bytes)
        f.memoryCopy()
        return
      case 'run': {
        const callee = this.functions.get(s.callee)
        invariant(callee !== undefined, `${s.callee.name} is not in the module yet`)
        for (const a of s.args) this.push(a)
        f.call(callee)
        return
      }
    }
  }

  private forLoop(s: Extract<Statement, { kind: 'for' }>): void {
    const { f } = this
    const counter = this.local(s.counter)
    const goesOn = (): void => {
      f.get(counter)
      this.push(s.to)
      f.instruction(lessThan)
    }
    this.push(s.from)
    f.set(counter)
    const rounds = (): void =>
      f.loop((again) => {
        this.statements(s.body)
        f.get(counter)
        f.i32Const(s.step)
        f.instruction(addition)
        f.set(counter)
        goesOn()
        f.brIf(again)
      })
    if (s.from.kind === 'const' && s.to.kind === 'const' && Number(s.from.value) < Number(s.to.value)) {
      rounds()
      return
    }
    goesOn()
    f.if(rounds)
  }

  /** Pushes a value. */
  private push(e: Expr): void {
    const { f } = this
    switch (e.kind) {
      case 'register':
        f.get(this.locals[e.index] ?? this.local(e))
        return
      case 'const': {
        const local = e.type.bank === 'vector' ? this.kept.get(constantKey(e)) : undefined
        if (local === undefined) this.constant(e.type, e.value)
        else f.get(local)
        return
      }
      case 'unary':
        this.push(e.a)
        f.instruction(I.unaryCode(e.op, e.type))
        return
      case 'binary':
        this.push(e.a)
        this.push(e.b)
        f.instruction(I.binaryCode(e.op, e.type))
        return
      case 'isZero':
        this.push(e.a)
        f.instruction(I.zeroCode(e.a.type))
        return
      case 'compare':
        this.push(e.a)
        this.push(e.b)
        f.instruction(I.compareCode(e.op, e.a.type))
        return
      case 'shift':
        this.push(e.a)
        this.push(e.count)
        f.instruction(I.shiftCode(e.op, e.type))
        return
      case 'select':
        this.push(e.a)
        this.push(e.b)
        this.push(e.condition)
        f.instruction(I.selectCode(e.type))
        return
      case 'fma':
        this.push(e.a)
        this.push(e.b)
        this.push(e.c)
        f.instruction(I.fusedCode(e.negated, e.type))
        return
      case 'load':
        this.push(e.address)
        f.access(I.loadCode(e.form, e.type), e.align, e.offset)
        return
      case 'loadLane':
        this.push(e.address)
        this.push(e.a)
        f.access(I.laneMoveCode('load', e.type), e.align, e.offset, e.lane)
        return
      case 'splat':
        this.push(e.a)
        f.instruction(I.splatCode(e.type))
        return
      case 'extract':
        this.push(e.a)
        f.instruction(I.laneCode('extract_lane', e.a.type), e.lane)
        return
      case 'replace':
        this.push(e.a)
        this.push(e.value)
        f.instruction(I.laneCode('replace_lane', e.type), e.lane)
        return
      case 'shuffle':
        this.push(e.a)
        this.push(e.b)
        f.shuffle(bytesOfLanes(e.lanes))
        return
      case 'lookup':
        this.push(e.a)
        this.push(e.indices)
        f.instruction(I.lookupCode)
        return
      case 'convert':
        this.push(e.a)
        f.instruction(I.convertCode(e.type, e.a.type, e.signed, e.high))
        return
      case 'pack':
        this.push(e.a)
        this.push(e.b)
        f.instruction(I.packCode(e.type))
        return
      case 'dotPairs':
        this.push(e.a)
        this.push(e.b)
        f.instruction(I.dotPairsCode)
        return
      case 'bits':
        this.push(e.a)
        f.instruction(I.bitsCode(e.a.type))
        return
      case 'any':
        this.push(e.a)
        f.instruction(I.anyCode)
        return
      case 'view': {
        this.push(e.a)
        const code = I.viewCode(e.type, e.a.type)
        if (code !== undefined) f.instruction(code)
        return
      }
      case 'call': {
        for (const a of e.args) this.push(a)
        const callee = this.imports.get(e.callee.name)
        invariant(callee !== undefined, `${e.callee.name} is not imported`)
        f.call(callee)
        return
      }
      case 'branch':
        this.push(e.condition)
        f.if(
          () => this.push(e.a),
          () => this.push(e.b),
          wasmType(e.type),
        )
        return
      case 'let':
        this.statements(e.body)
        this.push(e.value)
        return
      case 'undefined':
        throw new InternalError('an undefined value is read')
    }
  }

  private constant(t: Type, value: number | bigint | readonly number[]): void {
    const { f } = this
    if (typeof value === 'object') {
      const isShort = elementBytes[t.element] === 2
      invariant((isShort || t.element === 'i32') && value.length === t.lanes, `no constant of ${t.name} lane by lane`)
      const [a = 0, b = 0, c = 0, d = 0] = isShort ? new Int32Array(Int16Array.from(value).buffer) : value
      f.i32x4Const(a, b, c, d)
      return
    }
    switch (t.name) {
      case 'i32':
        f.i32Const(Number(value))
        return
      case 'i64':
        f.i64Const(BigInt(value))
        return
      case 'f32':
        f.f32Const(Number(value))
        return
      case 'f64':
        f.f64Const(Number(value))
        return
      case 'f32x4':
        f.f32x4Const(Number(value))
        return
      case 'f64x2':
        f.f64x2Const(Number(value))
        return
      case 'i64x2':
        f.i64x2Const(BigInt(value))
        return
      case 'i32x4':
      case 'm32x4':
        f.i32x4Const(Number(value))
        return
      default:
        throw new InternalError(`no constant of ${t.name}`)
    }
  }
}

const lessThan = I.compareCode('lt_s', i32)
const addition = I.binaryCode('add', i32)

/** Lanes' numbers as those of their bytes. */
function bytesOfLanes(lanes: readonly number[]): readonly number[] {
  const each = 16 / lanes.length
  if (each === 1) return lanes
  const out: number[] = []
  for (const l of lanes) for (let i = 0; i < each; i++) out.push(each * l + i)
  return out
}
