/** Types of the vector IR: scalars, vectors of lanes, and masks, which say of each lane of a vector whether something holds. */

export type Element = 'i8' | 'i16' | 'i32' | 'i64' | 'f32' | 'f64'

/** What registers are drawn from: one of each scalar type, and one of vectors, which hold any lanes. */
export type Bank = 'i32' | 'i64' | 'f32' | 'f64' | 'vector'

/** A type; there is one object of each, so types are compared by identity. */
export interface Type {
  /** As printed: `f32`, `f32x4`, `m32x4` (a mask over lanes of 32 bits). */
  readonly name: string
  /** What a lane holds; of a mask, an integer of the lanes' width. */
  readonly element: Element
  /** 1: a scalar. */
  readonly lanes: number
  readonly isMask: boolean
  readonly bank: Bank
}

export const elementBytes = { i8: 1, i16: 2, i32: 4, i64: 8, f32: 4, f64: 8 } as const satisfies Record<Element, number>

const known = new Map<string, Type>()

function typeOf(name: string, element: Element, lanes: number, isMask: boolean, bank: Bank): Type {
  const have = known.get(name)
  if (have !== undefined) return have
  const made = { name, element, lanes, isMask, bank }
  known.set(name, made)
  return made
}

const scalar = (element: 'i32' | 'i64' | 'f32' | 'f64'): Type => typeOf(element, element, 1, false, element)

/** So many lanes of an element. */
export const vectorOf = (element: Element, lanes: number): Type =>
  typeOf(`${element}x${lanes}`, element, lanes, false, 'vector')

/** A mask over so many lanes of an integer's width. */
export const maskOf = (element: 'i8' | 'i16' | 'i32' | 'i64', lanes: number): Type =>
  typeOf(`m${element.slice(1)}x${lanes}`, element, lanes, true, 'vector')

/** Bytes of a value. */
export const bytesOf = (t: Type): number => elementBytes[t.element] * t.lanes

/** A type by its name, where there is one that a name was made for. */
export const typeNamed = (name: string): Type | undefined => known.get(name)

export const i32 = scalar('i32')
export const i64 = scalar('i64')
export const f32 = scalar('f32')
export const f64 = scalar('f64')

/** Vectors of 16 bytes, and masks over their lanes. */
export const i8x16 = vectorOf('i8', 16)
export const i16x8 = vectorOf('i16', 8)
export const i32x4 = vectorOf('i32', 4)
export const i64x2 = vectorOf('i64', 2)
export const f32x4 = vectorOf('f32', 4)
export const f64x2 = vectorOf('f64', 2)
export const m8x16 = maskOf('i8', 16)
export const m16x8 = maskOf('i16', 8)
export const m32x4 = maskOf('i32', 4)
export const m64x2 = maskOf('i64', 2)

/** The mask over a vector's lanes. */
const masks = new Map<Type, Type>([
  [i8x16, m8x16],
  [i16x8, m16x8],
  [i32x4, m32x4],
  [f32x4, m32x4],
  [i64x2, m64x2],
  [f64x2, m64x2],
])

/** What comparing values of a type gives: a mask, or 0 or 1 as an i32. */
export const truthOf = (t: Type): Type => (t.lanes === 1 ? i32 : t.isMask ? t : (masks.get(t) ?? maskLike(t)))

function maskLike(t: Type): Type {
  const made = maskOf(
    ({ i8: 'i8', i16: 'i16', i32: 'i32', i64: 'i64', f32: 'i32', f64: 'i64' } as const)[t.element],
    t.lanes,
  )
  masks.set(t, made)
  return made
}
