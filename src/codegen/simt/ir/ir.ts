/**
 * Thread-level code: typed expressions and statements of one thread of a block, the common form that the dialects print.
 * Constructors fold constants, so that index arithmetic on literals disappears.
 */
import { type RegisterType, registerBytes } from '../../../schedule/simt/storage/registerType.ts'

export { registerType as regType } from '../../../schedule/simt/storage/registerType.ts'

/**
 * Register types. Half precision lives in f32, narrow integers in i32 and u32 (wrapped after every operation). Index arithmetic is i32
 * where intervals prove that it fits, else i64 (indexType.ts); where the two meet, constructors widen the narrow one.
 */
export type Type = RegisterType

export type Binary =
  | '+'
  | '-'
  | '*'
  | '/'
  | '%'
  | '&'
  | '|'
  | '^'
  | '<<'
  | '>>'
  | '<'
  | '<='
  | '>'
  | '>='
  | '=='
  | '!='
  | '&&'
  | '||'

export type Ex =
  | { readonly k: 'lit'; readonly type: Type; readonly value: number | bigint | boolean }
  | { readonly k: 'var'; readonly type: Type; readonly name: string }
  /** Element of a register array: the index is a constant once loops are unrolled. */
  | { readonly k: 'elem'; readonly type: Type; readonly array: string; readonly index: Ex }
  /** Element of an array in memory shared by the block. */
  | { readonly k: 'shared'; readonly type: Type; readonly array: string; readonly index: Ex }
  | { readonly k: 'neg' | 'not'; readonly type: Type; readonly a: Ex }
  | { readonly k: 'bin'; readonly type: Type; readonly op: Binary; readonly a: Ex; readonly b: Ex }
  /** Conversion between number types (`bool` to 0 or 1); the operand is in range. */
  | { readonly k: 'cast'; readonly type: Type; readonly a: Ex }
  /** The same bits as another type of the same width. */
  | { readonly k: 'bitcast'; readonly type: Type; readonly a: Ex }
  | { readonly k: 'select'; readonly type: Type; readonly cond: Ex; readonly a: Ex; readonly b: Ex }
  /** A function of the dialect's library, by name. */
  | { readonly k: 'call'; readonly type: Type; readonly fn: string; readonly args: readonly Ex[] }
  /** Element of a parameter whose elements the dialect can address (`index` counts elements). */
  | { readonly k: 'load'; readonly type: Type; readonly param: string; readonly index: Ex }
  /** 32-bit word of a parameter. */
  | { readonly k: 'word'; readonly type: 'u32'; readonly param: string; readonly index: Ex }
  /** Component of what a `vload` read or `words` gave. */
  | { readonly k: 'comp'; readonly type: Type; readonly of: string; readonly words: number; readonly at: number }
  /** Where an element of a shared array or of a parameter stands (CUDA). */
  | { readonly k: 'address'; readonly type: Type; readonly of: string; readonly index: Ex }
  /** The value of another lane of the warp: the one whose number differs in `mask`. */
  | { readonly k: 'shuffle'; readonly type: Type; readonly a: Ex; readonly mask: number }
  /** A warp's words as rows of a block of 8 x 8 halves, four lanes a row, for its columns. */
  | { readonly k: 'turn'; readonly type: 'u32'; readonly a: Ex }

export type S =
  | { readonly k: 'comment'; readonly text: string }
  /** An immutable value. */
  | { readonly k: 'let'; readonly name: string; readonly value: Ex }
  | { readonly k: 'var'; readonly name: string; readonly type: Type; readonly value: Ex | undefined }
  | { readonly k: 'array'; readonly name: string; readonly type: Type; readonly length: number }
  /** `to` is a var, elem or shared expression. */
  | { readonly k: 'assign'; readonly to: Ex; readonly value: Ex }
  | {
      readonly k: 'for'
      readonly name: string
      readonly from: Ex
      readonly to: Ex
      readonly step: number
      /** Constant bounds; the body is to be repeated in place. */
      readonly unroll: boolean
      readonly body: readonly S[]
      /** A loop that would else be written out: quotients in its stores' places are found before it where no iteration changes them. */
      readonly storesApart?: true
      /** Of the counter and both bounds; i32 unless given. */
      readonly type?: 'i64'
    }
  | { readonly k: 'if'; readonly cond: Ex; readonly body: readonly S[]; readonly otherwise: readonly S[] }
  /** Statements whose names are known to them alone. */
  | { readonly k: 'scope'; readonly body: readonly S[] }
  | ExtremeFold
  /** `reuse`: it guards slots just read against what is written there next. */
  | { readonly k: 'barrier'; readonly reuse?: boolean }
  /** Aligned read of 1, 2 or 4 words, each of the given type; `index` counts elements of `bits` bits. */
  | {
      readonly k: 'vload'
      readonly name: string
      readonly param: string
      readonly index: Ex
      readonly bits: number
      readonly words: number
      readonly type: Type
    }
  /** Two words that a library function gives, to be read by `comp`. */
  | { readonly k: 'words'; readonly name: string; readonly fn: string; readonly args: readonly Ex[] }
  | {
      readonly k: 'vstore'
      readonly param: string
      readonly index: Ex
      readonly bits: number
      readonly values: readonly Ex[]
    }
  /** Write of one element the dialect can address. */
  | { readonly k: 'store'; readonly param: string; readonly index: Ex; readonly value: Ex }
  /** Replaces the bits of `mask` in a word that other threads may be writing other bits of. */
  | { readonly k: 'storeBits'; readonly param: string; readonly index: Ex; readonly mask: Ex; readonly bits: Ex }
  /** `name` = what thread 0 holds of `value`, the same in the whole block; a barrier. */
  | { readonly k: 'uniform'; readonly name: string; readonly value: Ex; readonly slot: string }
  /** A parameter under its name, from the table at an index; it may share memory with others where `aliased` (CUDA). */
  | { readonly k: 'pointer'; readonly param: string; readonly aliased: boolean; readonly index: Ex }
  /** A number from the table at an index (CUDA). */
  | { readonly k: 'entry'; readonly name: string; readonly type: 'i32' | 'i64'; readonly index: Ex }
  /** The last of `count` numbers, ascending from 0, in the table at `firsts` that is not beyond `index` (CUDA). */
  | {
      readonly k: 'member'
      readonly name: string
      readonly firsts: number
      readonly count: number
      readonly index: Ex
    }
  /** A library procedure; variables among the arguments may be assigned (CUDA). */
  | { readonly k: 'call'; readonly fn: string; readonly args: readonly Ex[] }
  /** Write into a shared array of another block of the cluster, by its number there, told to that block's meeting (CUDA). */
  | {
      readonly k: 'push'
      readonly array: string
      readonly index: Ex
      readonly rank: Ex
      readonly value: Ex
      readonly meeting: Ex
    }
  /** Aligned write of words into a shared array of half-precision elements (`index` counts elements). */
  | { readonly k: 'fill'; readonly array: string; readonly index: Ex; readonly words: readonly Ex[] }
  | { readonly k: 'vector'; readonly of: VectorOp }
  | { readonly k: 'matrix'; readonly of: MatrixOp }

/** Values that code folds into one place by max or min. */
export interface ExtremeFold {
  readonly k: 'extreme'
  readonly to: Ex
  readonly by: 'max' | 'min'
  /** What is folded, and the value without the test whether it is there. */
  readonly of: readonly { readonly taken: Ex; readonly value: Ex }[]
}

/** Operations on vectors of four floats: reads and writes of tiles in shared memory, and multiply-adds on running sums. */
export type VectorOp =
  /** An immutable vector, the one at `at` of a row of a tile (`at` counts vectors). */
  | { readonly op: 'read'; readonly name: string; readonly array: SharedArray; readonly row: Ex; readonly at: Ex }
  | {
      readonly op: 'write'
      readonly array: SharedArray
      readonly row: Ex
      readonly at: Ex
      readonly values: readonly Ex[]
    }
  /** Writes one element (`at` counts elements). */
  | { readonly op: 'put'; readonly array: SharedArray; readonly row: Ex; readonly at: Ex; readonly value: Ex }
  | { readonly op: 'var'; readonly name: string; readonly values: readonly Ex[] }
  /** Adds the product of a number and a vector. */
  | { readonly op: 'multiplyAdd'; readonly to: string; readonly a: Ex; readonly b: string }

/**
 * Operations of a subgroup on matrices of 16 x 16: halves of two tiles in shared memory, and running sums in f32. Both are in arrays of groups of 16 bytes; places
 * and pitches count elements, whole groups of them.
 */
export type MatrixOp =
  | { readonly op: 'zeros'; readonly name: string }
  /** An immutable operand; `byRows`: a row of the tile is a row of the matrix, else a column. */
  | {
      readonly op: 'load'
      readonly name: string
      readonly side: 'left' | 'right'
      readonly byRows: boolean
      readonly array: SharedArray
      readonly at: Ex
      readonly pitch: number
    }
  /** Adds the product of two. */
  | { readonly op: 'multiplyAdd'; readonly to: string; readonly a: string; readonly b: string }
  /** Rows of sums into an array. */
  | {
      readonly op: 'store'
      readonly name: string
      readonly array: SharedArray
      readonly at: Ex
      readonly pitch: number
    }
  /** One thread writes a group of halves: values of f32, or (u32) the bits of each below others. */
  | { readonly op: 'put'; readonly array: SharedArray; readonly at: Ex; readonly values: readonly Ex[] }
  /** One thread reads a group of sums as an immutable vector. */
  | { readonly op: 'take'; readonly name: string; readonly array: SharedArray; readonly at: Ex }

/** An array in shared memory. */
export interface SharedArray {
  readonly name: string
  readonly type: Type
  readonly length: number
  /** Elements of 16 bits, which only matrix units read. */
  readonly half?: boolean
  /** Elements of a row, where the array is rows of vectors of four. */
  readonly pitch?: number
  /** Words are read and written by fours. */
  readonly inGroups?: boolean
  /** Bytes its address is a multiple of (16 if absent). */
  readonly align?: number
  /** A thread reads and writes cells of its own alone: no barrier guards them. */
  readonly own?: boolean
  /** The byte of shared memory where it stands, over arrays that are used no more; else behind them. */
  readonly over?: number
}

/** Where a straight run of statements is collected. */
export type Block = S[]

export const typeBytes = registerBytes

export const isWideType = (t: Type): boolean => t === 'i64' || t === 'u64'
const isNarrowInt = (t: Type): boolean => t === 'i32' || t === 'u32'

export function lit(type: Type, value: number | bigint | boolean): Ex {
  if (type === 'i64' || type === 'u64') return { k: 'lit', type, value: BigInt(value) }
  if (type === 'bool') return { k: 'lit', type, value: Boolean(value) }
  return { k: 'lit', type, value: Number(value) }
}
/** A number of index arithmetic: i32 where it fits. */
export const int = (value: number): Ex => lit(value >= -(2 ** 31) && value < 2 ** 31 ? 'i32' : 'i64', value)
export const uint = (value: number): Ex => lit('u32', value >>> 0)
export const yes: Ex = lit('bool', true)
export const no: Ex = lit('bool', false)
export const v = (type: Type, name: string): Ex => ({ k: 'var', type, name })

/** The number a narrow integer literal is. */
export const constantOf = (e: Ex): number | undefined =>
  e.k === 'lit' && isNarrowInt(e.type) ? Number(e.value) : undefined

/** The number that a literal of index arithmetic is. */
export const indexConstantOf = (e: Ex): number | undefined =>
  e.k === 'lit' && (e.type === 'i32' || e.type === 'i64') ? Number(e.value) : undefined

const wrap = (t: Type, n: number): number => (t === 'u32' ? n >>> 0 : n | 0)

function foldBinary(op: Binary, t: Type, a: number, b: number): Ex | undefined {
  switch (op) {
    case '+':
      return lit(t, wrap(t, a + b))
    case '-':
      return lit(t, wrap(t, a - b))
    case '*':
      return lit(t, t === 'u32' ? Math.imul(a, b) >>> 0 : Math.imul(a, b))
    case '/':
      return b === 0 ? undefined : lit(t, wrap(t, Math.trunc(a / b)))
    case '%':
      return b === 0 ? undefined : lit(t, wrap(t, a % b))
    case '&':
      return lit(t, wrap(t, a & b))
    case '|':
      return lit(t, wrap(t, a | b))
    case '^':
      return lit(t, wrap(t, a ^ b))
    case '<<':
      return lit(t, wrap(t, a << b))
    case '>>':
      return lit(t, t === 'u32' ? (a >>> b) >>> 0 : a >> b)
    case '<':
      return lit('bool', a < b)
    case '<=':
      return lit('bool', a <= b)
    case '>':
      return lit('bool', a > b)
    case '>=':
      return lit('bool', a >= b)
    case '==':
      return lit('bool', a === b)
    case '!=':
      return lit('bool', a !== b)
    default:
      return undefined
  }
}

const isCompare = (op: Binary): boolean => ['<', '<=', '>', '>=', '==', '!=', '&&', '||'].includes(op)

/** Arithmetic on literals of 64 bits, where the result is one too. */
function foldWide(op: Binary, a: bigint, b: bigint): bigint | undefined {
  switch (op) {
    case '+':
      return BigInt.asIntN(64, a + b)
    case '-':
      return BigInt.asIntN(64, a - b)
    case '*':
      return BigInt.asIntN(64, a * b)
    default:
      return undefined
  }
}

/** What is neutral or absorbs in sums and products of 64 bits; undefined: nothing. */
function simplifyWide(op: Binary, a: Ex, b: Ex): Ex | undefined {
  const [x, y] = [a, b].map((e) => (e.k === 'lit' ? BigInt(e.value) : undefined))
  if (x !== undefined && y !== undefined) {
    const folded = foldWide(op, x, y)
    return folded === undefined ? undefined : lit('i64', folded)
  }
  if (y === 0n && (op === '+' || op === '-')) return a
  if (x === 0n && op === '+') return b
  if (y === 1n && op === '*') return a
  if (x === 1n && op === '*') return b
  return (x === 0n || y === 0n) && op === '*' ? lit('i64', 0) : undefined
}

const isShift = (op: Binary): boolean => op === '<<' || op === '>>'

/** Two operands in the wider of their types, where they are of index arithmetic. */
function widened(a: Ex, b: Ex): readonly [Ex, Ex] {
  if (a.type === 'i64' && b.type === 'i32') return [a, cast('i64', b)]
  return a.type === 'i32' && b.type === 'i64' ? [cast('i64', a), b] : [a, b]
}

/** An operation on two operands of one type (the count of a shift is u32); of i32 and i64 it is one of i64. */
export function bin(op: Binary, left: Ex, right: Ex): Ex {
  const [a, b] = isShift(op) ? [left, right] : widened(left, right)
  const t = a.type
  if (t === 'i64' && !isShift(op)) {
    const simple = simplifyWide(op, a, b)
    if (simple !== undefined) return simple
  }
  if (op === '&&') {
    if (a.k === 'lit') return a.value === true ? b : no
    if (b.k === 'lit') return b.value === true ? a : no
  }
  if (op === '||') {
    if (a.k === 'lit') return a.value === true ? yes : b
    if (b.k === 'lit') return b.value === true ? yes : a
  }
  const [x, y] = [constantOf(a), constantOf(b)]
  if (x !== undefined && y !== undefined) {
    const folded = foldBinary(op, t, x, y)
    if (folded !== undefined) return folded
  }
  if (isNarrowInt(t)) {
    if (y === 0 && (op === '+' || op === '-' || op === '|' || op === '^' || op === '<<' || op === '>>')) return a
    if (x === 0 && (op === '+' || op === '|')) return b
    if (y === 1 && (op === '*' || op === '/')) return a
    if (x === 1 && op === '*') return b
    if ((x === 0 || y === 0) && op === '*') return lit(t, 0)
    if (y === 1 && op === '%') return lit(t, 0)
    // (a + c) + d = a + (c + d)
    if (op === '+' && y !== undefined && a.k === 'bin' && a.op === '+') {
      const c = constantOf(a.b)
      if (c !== undefined) return bin('+', a.a, lit(t, wrap(t, c + y)))
    }
    if (op === '+' && x !== undefined && y === undefined) return bin('+', b, a)
  }
  return { k: 'bin', type: isCompare(op) ? 'bool' : t, op, a, b }
}

export const add = (a: Ex, b: Ex): Ex => bin('+', a, b)
export const sub = (a: Ex, b: Ex): Ex => bin('-', a, b)
export const mul = (a: Ex, b: Ex): Ex => bin('*', a, b)
export const lt = (a: Ex, b: Ex): Ex => bin('<', a, b)
export const ge = (a: Ex, b: Ex): Ex => bin('>=', a, b)
export const eq = (a: Ex, b: Ex): Ex => bin('==', a, b)
export const and = (...all: readonly (Ex | undefined)[]): Ex =>
  all.reduce<Ex>((x, y) => (y === undefined ? x : bin('&&', x, y)), yes)
export const not = (a: Ex): Ex =>
  a.k === 'lit' && a.type === 'bool' ? lit('bool', a.value !== true) : { k: 'not', type: a.type, a }
export const neg = (a: Ex): Ex => ({ k: 'neg', type: a.type, a })

/** The lesser and the greater of two numbers of index arithmetic. */
export const least = (a: Ex, b: Ex): Ex => extreme('min', a, b)
export const greatest = (a: Ex, b: Ex): Ex => extreme('max', a, b)
function extreme(which: 'min' | 'max', left: Ex, right: Ex): Ex {
  const [a, b] = widened(left, right)
  return call(a.type, `${a.type}_${which}`, a, b)
}

export function select(cond: Ex, left: Ex, right: Ex): Ex {
  const [a, b] = widened(left, right)
  if (cond.k === 'lit') return cond.value === true ? a : b
  return { k: 'select', type: a.type, cond, a, b }
}

export function cast(type: Type, a: Ex): Ex {
  if (a.type === type) return a
  const c = constantOf(a)
  if (c !== undefined && isNarrowInt(type)) return lit(type, wrap(type, c))
  if (c !== undefined && isWideType(type)) return lit(type, BigInt(c))
  return { k: 'cast', type, a }
}

export const bitcast = (type: Type, a: Ex): Ex => (a.type === type ? a : { k: 'bitcast', type, a })
export const call = (type: Type, fn: string, ...args: readonly Ex[]): Ex => ({ k: 'call', type, fn, args })

/** Whether a condition is known to hold. */
export const isYes = (e: Ex): boolean => e.k === 'lit' && e.value === true

/** A loop whose counter is of a type of index arithmetic. */
export const forLoop = (
  type: 'i32' | 'i64',
  s: { readonly name: string; readonly from: Ex; readonly to: Ex; readonly step: number; readonly body: Block },
): S => ({
  k: 'for',
  ...s,
  from: cast(type, s.from),
  to: cast(type, s.to),
  unroll: false,
  ...(type === 'i64' ? { type } : {}),
})

/** Statements under a condition; plain where it is known to hold. */
export const when = (cond: Ex, body: Block, otherwise: Block = []): Block =>
  isYes(cond) ? body : [{ k: 'if', cond, body, otherwise }]

/** Register or shared array element. */
export const elem = (type: Type, array: string, index: Ex): Ex => ({ k: 'elem', type, array, index })
export const shared = (a: SharedArray, index: Ex): Ex => ({ k: 'shared', type: a.type, array: a.name, index })
