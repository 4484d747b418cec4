/** Whole numbers as sums of few others: which members of a basis, with which whole coefficients, give what was seen at every sample. */

/** A member of a basis by its values at the samples. */
interface Member {
  readonly values: readonly number[]
}

/** A sum of members, each times a number other than 0, and a constant. */
export interface Sum<M extends Member> {
  readonly terms: readonly { readonly member: M; readonly coef: number }[]
  readonly constant: number
}

/**
 * Values as a sum of at most two members and a constant, of which there are fewer than samples; the shortest sum comes first, and of equally
 * long ones that of the members named first. Undefined where there is none.
 */
export function asSum<M extends Member>(values: readonly number[], members: readonly M[]): Sum<M> | undefined {
  const [first = 0] = values
  const rest = values.map((v) => v - first)
  const moved = members.map((member) => ({ member, values: member.values.map((v) => v - (member.values[0] ?? 0)) }))
  const plain = members.map((member) => ({ member, values: member.values }))
  const made = (terms: Sum<M>['terms'], hasConstant: boolean): Sum<M> | undefined => {
    const own = terms.reduce((n, { member, coef }) => n + coef * (member.values[0] ?? 0), 0)
    const constant = hasConstant ? first - own : 0
    // Doubles hold whole numbers up to a size: the sum itself is what decides.
    const gives = (i: number): number =>
      terms.reduce((n, { member, coef }) => n + coef * (member.values[i] ?? 0), constant)
    return (hasConstant && constant === 0) || values.some((v, i) => gives(i) !== v) ? undefined : { terms, constant }
  }
  const tries = [
    { hasConstant: false, of: values, basis: plain },
    { hasConstant: true, of: rest, basis: moved },
  ]
  for (const { hasConstant, of, basis } of tries) {
    if (values.length <= (hasConstant ? 2 : 1)) continue
    for (const { member, values: m } of basis) {
      const coef = oneOf(of, m)
      const found = coef === undefined ? undefined : made([{ member, coef }], hasConstant)
      if (found !== undefined) return found
    }
  }
  for (const { hasConstant, of, basis } of tries) {
    if (values.length <= (hasConstant ? 3 : 2)) continue
    for (const [i, a] of basis.entries())
      for (let j = i + 1; j < basis.length; j++) {
        const b = basis[j]
        const coefs = b === undefined ? undefined : twoOf(of, a.values, b.values)
        if (b === undefined || coefs === undefined) continue
        const [p, q] = coefs
        const terms = [
          { member: a.member, coef: p },
          { member: b.member, coef: q },
        ]
        const found = made(terms, hasConstant)
        if (found !== undefined) return found
      }
  }
  return undefined
}

/** The whole number c with v = c m where m is not 0 for the first time, if it may be. */
function oneOf(v: readonly number[], m: readonly number[]): number | undefined {
  const at = m.findIndex((x) => x !== 0)
  const coef = Math.round((v[at] ?? 0) / (m[at] ?? 1))
  return at < 0 || coef === 0 || v.some((x, i) => x !== coef * (m[i] ?? 0)) ? undefined : coef
}

/** Whole numbers p and q with v = p a + q b at all samples (Cramer), none of them 0. */
function twoOf(
  v: readonly number[],
  a: readonly number[],
  b: readonly number[],
): readonly [number, number] | undefined {
  for (let i = 0; i < v.length; i++)
    for (let j = i + 1; j < v.length; j++) {
      const [ai = 0, aj = 0, bi = 0, bj = 0, vi = 0, vj = 0] = [a[i], a[j], b[i], b[j], v[i], v[j]]
      const det = ai * bj - aj * bi
      if (det === 0) continue
      const [p, q] = [Math.round((vi * bj - vj * bi) / det), Math.round((ai * vj - aj * vi) / det)]
      if (p === 0 || q === 0) return undefined
      for (let k = 0; k < v.length; k++) if (p * (a[k] ?? 0) + q * (b[k] ?? 0) !== v[k]) return undefined
      return [p, q]
    }
  return undefined
}
