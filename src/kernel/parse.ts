/**
 * The parser of the kernel's text form:
 *
 *     kernel NAME [strict] {
 *       param NAME: DTYPE[EXTENT, ...] read|write|update [bits|int4]
 *       launch $NAME: LEAST to MOST [multiple M] = PARAM[ELEMENT]   # any number
 *       part { ... }                                     # any number; one alone may be written without `part { }`
 *     }
 *     part:   axes NAME: EXTENT | $NAME, ...             # left out where there are none
 *             grid NAME[/BLOCK], ... | grid 1
 *             statements
 *     %ID DTYPE{AXIS, ...} = OP                          # a scalar has no braces
 *     store PARAM[INDEX, ...] (= | += | *= | max= | min=) %ID [where MASK] [distinct]
 *     [%RESULT, ... =] loop AXIS[/BLOCK] [from %ID] [to %ID] {
 *       carry %PARAM DTYPE{AXIS, ...} = %INIT            # one for each result, in order
 *       statements
 *       next %ID, ...
 *     }
 *     OP:     const SCALAR | index INDEX | holds BOUNDS | load PARAM[INDEX, ...] [where MASK] [else SCALAR]
 *           | SCALAROP %ID, ... | random %K0, %K1 at INDEX [rounds 13] | stage %ID | at %ID[AXIS: INDEX, ...]
 *           | reduce COMBINER %ID over AXIS, ... [position INDEX] [first|last]
 *           | scan COMBINER %ID along AXIS [reverse] [exclusive] [tree] | dot %A, %B over AXIS, ... [acc %ID] [in tf32 | in tf32x3]
 *     INDEX:  sums of multiples of AXIS, AXIS.start, %ID:EXTENT, quotients by / and remainders by %; factors may be $NAME
 *     BOUNDS: LO <= INDEX < HI [and ...] | true          MASK: BOUNDS | BOUNDS and %ID | %ID
 */
import type { Predicate } from '../affine/predicate.ts'
import { isScalarOp, type Scalar, scalarInfo } from '../scalar/ops.ts'
import type { Rounds } from '../scalar/threefry.ts'
import { allDTypes, type DType, isWide } from '../types/dtype.ts'
import { Cursor } from './cursor.ts'
import type {
  Carry,
  GridAxis,
  Kernel,
  KernelAxis,
  KernelParam,
  KernelPart,
  LaunchScalar,
  LoopStmt,
  Stmt,
  StoreStmt,
  TileOp,
  ValueId,
} from './ir.ts'
import { syntaxError } from './lex.ts'
import { defaultOther } from './print.ts'

const foldNames = ['sum', 'prod', 'max', 'min'] as const
const combinerNames = [...foldNames, 'argmax', 'argmin'] as const

/** Reads one kernel. Throws E_KERNEL_SYNTAX naming line and column. */
export function parseKernel(text: string): Kernel {
  const c = new Cursor(text)
  c.skipNewlines()
  const kernel = readKernel(c)
  c.skipNewlines()
  if (c.token.kind !== 'end') c.fail('the end of the text')
  return kernel
}

/** Reads several kernels in a row. Throws E_KERNEL_SYNTAX naming line and column. */
export function parseKernels(text: string): Kernel[] {
  const c = new Cursor(text)
  const out: Kernel[] = []
  for (c.skipNewlines(); c.token.kind !== 'end'; c.skipNewlines()) out.push(readKernel(c))
  return out
}

function readKernel(c: Cursor): Kernel {
  c.expect('kernel')
  const name = readKernelName(c)
  const mode = c.accept('strict') ? 'strict' : 'fast'
  const params: KernelParam[] = []
  const parts: KernelPart[] = []
  c.expect('{')
  c.skipNewlines()
  while (c.is('param')) {
    params.push(readParam(c))
    c.endStatement()
  }
  const scalars: LaunchScalar[] = []
  while (c.is('launch')) {
    scalars.push(readLaunchScalar(c))
    c.endStatement()
  }
  c.scalars = new Map(scalars.map((s) => [s.by, s]))
  if (c.is('axes') || c.is('grid')) {
    parts.push(readPart(c))
    c.expect('}')
  } else
    while (!c.accept('}')) {
      c.expect('part')
      c.expect('{')
      c.skipNewlines()
      parts.push(readPart(c))
      c.expect('}')
      c.endStatement()
    }
  return { name, params, mode, ...(scalars.length === 0 ? {} : { scalars }), parts }
}

function readLaunchScalar(c: Cursor): LaunchScalar {
  c.expect('launch')
  const by = c.name('the name of a launch scalar')
  c.expect(':')
  const least = c.natural('the least the scalar can be')
  c.expect('to')
  const most = c.natural('the most the scalar can be')
  const multiple = c.accept('multiple') ? c.natural('what the scalar is a multiple of') : 1
  c.expect('=')
  const param = c.name('a parameter')
  c.expect('[')
  const at = c.natural('the element of the parameter')
  c.expect(']')
  return { by, least, most, multiple, param, at }
}

function readKernelName(c: Cursor): string {
  if (c.token.kind !== 'string') return c.name('the name of the kernel')
  const at = c.next()
  try {
    return String(JSON.parse(at.text))
  } catch {
    throw syntaxError(`${at.text} is not a JSON string`, at)
  }
}

const readDType = (c: Cursor): DType => c.word(allDTypes, 'a dtype')

function readParam(c: Cursor): KernelParam {
  c.expect('param')
  const name = c.name('the name of a parameter')
  c.expect(':')
  const dtype = readDType(c)
  c.expect('[')
  const shape = c.listUntil(']', () => c.natural('an extent'))
  const access = c.word(['read', 'write', 'update'], 'read, write or update')
  const format = c.is('bits') || c.is('int4') ? c.word(['bits', 'int4'], 'a format') : 'plain'
  return { name, dtype, shape, access, format }
}

/** Everything of a part up to, not including, its closing brace. */
function readPart(c: Cursor): KernelPart {
  const axes: KernelAxis[] = []
  if (c.accept('axes')) {
    axes.push(
      ...c.list(() => {
        const name = c.name('the name of an axis')
        c.expect(':')
        const at = c.token
        if (!at.text.startsWith('$')) return { name, extent: c.natural('the extent of the axis') }
        const open = c.name('a launch scalar')
        return { name, extent: c.scalar(open, at).most, open }
      }),
    )
    c.endStatement()
  }
  c.extents = new Map(axes.map((a) => [a.name, a.extent]))
  c.expect('grid')
  const grid: GridAxis[] = []
  if (c.token.kind === 'number') {
    const at = c.token
    if (c.natural('a grid') !== 1) throw syntaxError('a grid without axes has 1 program', at)
  } else grid.push(...c.list(() => readBlocked(c)))
  c.endStatement()
  const body: Stmt[] = []
  while (!c.is('}')) {
    body.push(readStmt(c))
    c.endStatement()
  }
  return { axes, grid, body }
}

function readBlocked(c: Cursor): { axis: string; block: number } {
  const axis = c.name('an axis')
  return { axis, block: c.accept('/') ? c.natural('a block size') : 1 }
}

function readStmt(c: Cursor): Stmt {
  if (c.is('store')) return readStore(c)
  if (c.is('loop')) return readLoop(c, [])
  if (!c.is('%')) c.fail('a statement')
  const results = c.list(() => c.valueId())
  const [id] = results
  if (c.accept('=')) return readLoop(c, results)
  if (id === undefined || results.length > 1) c.fail('"="')
  const { dtype, axes } = readType(c)
  c.expect('=')
  return { kind: 'let', id, dtype, axes, op: readOp(c, dtype) }
}

function readType(c: Cursor): { dtype: DType; axes: string[] } {
  const dtype = readDType(c)
  return { dtype, axes: c.accept('{') ? c.listUntil('}', () => c.name('an axis')) : [] }
}

function readIndex(c: Cursor): ReturnType<Cursor['expr']>[] {
  c.expect('[')
  return c.listUntil(']', () => c.expr())
}

function readPredicate(c: Cursor): Predicate {
  if (c.accept('true')) return []
  const out = [c.bound()]
  while (c.accept('and')) out.push(c.bound())
  return out
}

function readMask(c: Cursor): { mask: Predicate; maskValue?: ValueId } {
  if (!c.accept('where')) return { mask: [] }
  const mask = []
  do {
    if (c.is('%')) return { mask, maskValue: c.valueId() }
    mask.push(c.bound())
  } while (c.accept('and'))
  return { mask }
}

function readScalar(c: Cursor, dtype: DType): Scalar {
  if (dtype === 'bool') return c.word(['true', 'false'], 'true or false') === 'true'
  const negative = c.accept('-')
  if (c.accept('nan')) return Number.NaN
  if (c.accept('inf')) return negative ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY
  if (c.token.kind !== 'number') c.fail('a number')
  const at = c.next()
  if (!isWide(dtype)) return negative ? -Number(at.text) : Number(at.text)
  if (!/^\d+$/.test(at.text)) throw syntaxError(`${at.text} is not a whole number`, at)
  return negative ? -BigInt(at.text) : BigInt(at.text)
}

function readOp(c: Cursor, dtype: DType): TileOp {
  const at = c.token
  const word = c.name('an operation')
  switch (word) {
    case 'const':
      return { kind: 'const', value: readScalar(c, dtype) }
    case 'index':
      return { kind: 'index', expr: c.expr() }
    case 'holds':
      return { kind: 'predicate', predicate: readPredicate(c) }
    case 'load':
      return {
        kind: 'load',
        param: c.name('a parameter'),
        index: readIndex(c),
        ...readMask(c),
        other: c.accept('else') ? readScalar(c, dtype) : defaultOther(dtype),
      }
    case 'random': {
      const k0 = c.valueId()
      c.expect(',')
      const k1 = c.valueId()
      c.expect('at')
      return { kind: 'random', k0, k1, index: c.expr(), rounds: readRounds(c) }
    }
    case 'reduce':
      return readReduce(c)
    case 'scan': {
      const combiner = c.word(foldNames, 'sum, prod, max or min')
      const arg = c.valueId()
      c.expect('along')
      const axis = c.name('an axis')
      const [reverse, exclusive] = [c.accept('reverse'), c.accept('exclusive')]
      return { kind: 'scan', combiner, arg, axis, reverse, exclusive, ...(c.accept('tree') ? { tree: true } : {}) }
    }
    case 'dot': {
      const a = c.valueId()
      c.expect(',')
      const b = c.valueId()
      c.expect('over')
      const axes = c.list(() => c.name('an axis'))
      const acc = c.accept('acc') ? { acc: c.valueId() } : {}
      if (!c.accept('in')) return { kind: 'dot', a, b, axes, ...acc }
      if (c.accept('tf32x3')) return { kind: 'dot', a, b, axes, ...acc, precision: 'tf32x3' }
      c.expect('tf32')
      return { kind: 'dot', a, b, axes, ...acc, precision: 'tf32' }
    }
    case 'stage':
      return { kind: 'stage', of: c.valueId() }
    case 'at':
      return readAt(c)
    default: {
      if (!isScalarOp(word)) throw syntaxError(`${word} is not an operation`, at)
      const args = c.list(() => c.valueId())
      const { arity } = scalarInfo(word)
      if (args.length !== arity) throw syntaxError(`${word} takes ${arity} operands, found ${args.length}`, at)
      return { kind: 'scalar', op: word, args, ...(word === 'cast' && c.accept('loose') ? { loose: true } : {}) }
    }
  }
}

/** Rounds of the generator, where they are not the usual ones. */
function readRounds(c: Cursor): Rounds {
  if (!c.accept('rounds')) return 20
  const rounds = c.natural('a number of rounds')
  return rounds === 13 || rounds === 20 ? rounds : c.fail('13 or 20 rounds')
}

function readReduce(c: Cursor): TileOp {
  const combiner = c.word(combinerNames, 'a combiner')
  const arg = c.valueId()
  c.expect('over')
  const axes = c.list(() => c.name('an axis'))
  const position = c.accept('position') ? { position: c.expr() } : {}
  const last = c.accept('last') ? { last: true } : c.accept('first') ? { last: false } : {}
  return { kind: 'reduce', combiner, arg, axes, ...position, ...last }
}

function readAt(c: Cursor): TileOp {
  const of = c.valueId()
  c.expect('[')
  const entries = c.listUntil(']', () => {
    const name = c.name('an axis of the staged tile')
    c.expect(':')
    return [name, c.expr()] as const
  })
  return { kind: 'at', of, index: Object.fromEntries(entries) }
}

function readStore(c: Cursor): StoreStmt {
  c.expect('store')
  const param = c.name('a parameter')
  const index = readIndex(c)
  const combiner = readStoreSign(c)
  const value = c.valueId()
  return {
    kind: 'store',
    param,
    index,
    value,
    ...readMask(c),
    ...(combiner === undefined ? {} : { combiner }),
    ...(c.accept('distinct') ? { distinct: true } : {}),
  }
}

function readStoreSign(c: Cursor): StoreStmt['combiner'] {
  if (c.accept('+=')) return 'sum'
  if (c.accept('*=')) return 'prod'
  const combiner = c.is('max') || c.is('min') ? c.word(['max', 'min'], 'a combiner') : undefined
  c.expect('=')
  return combiner
}

function readLoop(c: Cursor, results: readonly ValueId[]): LoopStmt {
  c.expect('loop')
  const { axis, block } = readBlocked(c)
  const from = c.accept('from') ? { from: c.valueId() } : {}
  const to = c.accept('to') ? { to: c.valueId() } : {}
  const heads: Omit<Carry, 'next' | 'result'>[] = []
  const body: Stmt[] = []
  let nexts: ValueId[] = []
  const open = c.token
  c.block(() => {
    if (c.accept('carry')) {
      if (body.length > 0) c.fail('carries before the statements of the loop')
      const param = c.valueId()
      const type = readType(c)
      c.expect('=')
      heads.push({ param, ...type, init: c.valueId() })
    } else if (c.accept('next')) {
      nexts = c.list(() => c.valueId())
      c.skipNewlines()
      if (!c.is('}')) c.fail('the end of the loop after next')
    } else body.push(readStmt(c))
  })
  const carries: Carry[] = []
  heads.forEach((h, i) => {
    const next = nexts[i]
    const result = results[i]
    if (next !== undefined && result !== undefined) carries.push({ ...h, next, result })
  })
  if (heads.length !== carries.length || nexts.length !== heads.length || results.length !== heads.length)
    throw syntaxError(
      `the loop carries ${heads.length} tiles, gives ${results.length} results and passes on ${nexts.length}`,
      open,
    )
  return { kind: 'loop', axis, block, ...from, ...to, carries, body }
}
