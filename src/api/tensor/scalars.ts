/**
 * Numbers in lazy graphs. They are literals, so that the compiler can fold them; but a number seen to change between
 * evaluations of one structure becomes an input, so that a loop with a step count compiles twice, not at every step.
 */
import type { Scalar } from '../../scalar/ops.ts'

interface Family {
  /** The values when the structure was first seen. */
  readonly first: readonly Scalar[]
  /** Places where another value was seen since. */
  readonly free: Set<number>
}

const maxFamilies = 256
const families = new Map<string, Family>()

/** Which of a structure's numbers are inputs by now. */
export function freeScalars(structure: string, values: readonly Scalar[]): ReadonlySet<number> {
  const family = families.get(structure) ?? { first: values, free: new Set<number>() }
  families.delete(structure)
  families.set(structure, family)
  if (families.size > maxFamilies) {
    const [eldest] = families.keys()
    if (eldest !== undefined) families.delete(eldest)
  }
  values.forEach((v, i) => {
    if (!Object.is(v, family.first[i])) family.free.add(i)
  })
  return family.free
}

/** The fixed values of a structure as part of its key. */
export const scalarsKey = (values: readonly Scalar[], free: ReadonlySet<number>): string =>
  values.map((v, i) => (free.has(i) ? '*' : Object.is(v, -0) ? '-0' : String(v))).join()
