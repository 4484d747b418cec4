/**
 * Coefficients of special functions on f32, which all code generators share: WebAssembly's vectors and WGSL compute by these (CUDA has a library
 * of its own), each in the instructions it has. Minimax fits by the Remez exchange, rounded to f32 one by one; highest power first. Errors
 * are relative to the function named. Functions that are formulas alone stand in `approximations.ts`.
 */

/** A constant as an f32 and what it lacks. */
interface InTwo {
  readonly high: number
  readonly low: number
}

/** ln 2; the first part has 9 significant bits, so its product with |n| < 2^15 is exact (W. J. Cody, W. Waite, 1980). */
export const ln2: InTwo = { high: 0.693359375, low: -2.1219444005469057e-4 }

/** pi / 2 and pi. */
export const halfPi: InTwo = { high: 1.5707963705062866, low: -4.371139000186241e-8 }
export const pi: InTwo = { high: 3.1415927410125732, low: -8.742278000372482e-8 }

/** pi / 2 in `count` parts of so many bits, and a rest: products of parts with multiples below 2^(24 - bits) are exact. */
export function halfPiParts(count: number, bits: number): readonly number[] {
  // pi / 2 = Math.PI / 2 + 6.123233995736766e-17: the first parts are cut off the double, the rest takes both.
  const out: number[] = []
  let rest = Math.PI / 2
  for (let k = 0; k < count; k++) {
    const unit = 2 ** (Math.floor(Math.log2(rest)) - (bits - 1))
    const cut = Math.floor(rest / unit) * unit
    out.push(cut)
    rest -= cut
  }
  return [...out, rest + 6.123233995736766e-17]
}

/** e^r on [0, ln 2] with constant term 1: error 2.1e-9. */
export const expTerms = [
  0.0019467656966298819, 0.007796867750585079, 0.041911039501428604, 0.1666117012500763, 0.5000055432319641,
  0.9999998211860657, 1,
] as const

/** (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2]: error 3.3e-9 of e^r - 1. */
export const expm1Terms = [
  0.00015046245243865997, 0.0013930543791502714, 0.008341509848833084, 0.041666511446237564, 0.16666635870933533, 0.5,
] as const

/** Where e^x - 1 is computed: below, it rounds to -1, above, it is e^x. */
export const expm1Range = { from: -17.5, to: 88.8 } as const

/** |x| from which e^|x| / 2 is infinite. */
export const halfExpEnd = 89.6

/** |x| from which tanh rounds to one. */
export const tanhEnd = 10

/** (sinh x - x) / x^3 in x^2 on [0, 1]: error 3.0e-10 of sinh. */
export const sinhTerms = [
  2.7822131869470468e-6, 0.00019842895562760532, 0.00833331048488617, 0.1666666716337204,
] as const

/** (log(1 + f) - f + f^2 / 2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1]: error 6e-9 of log(1 + f). */
export const logTerms = [
  -0.07643013447523117, 0.12766879796981812, -0.13159491121768951, 0.14200946688652039, -0.1662333458662033,
  0.20001260936260223, -0.250008225440979, 0.3333333134651184,
] as const

/** Beyond it 1 + x^2 and x^2 are one, and asinh and acosh are log(2x). */
export const largeOfLog = 2 ** 30

/**
 * erf(x) / x in x^2 on [0, end], one polynomial over another: error 1.9e-8 after a search over neighbouring f32 values for the least rounded
 * error. From `end` on it rounds to one.
 */
export const erfTerms = {
  above: [
    2.0460220184759237e-6, 0.00028484512586146593, 0.003772611729800701, 0.0527694970369339, 0.19059519469738007,
    1.128379225730896,
  ],
  below: [
    3.8047757698222995e-5, 0.0011638733558356762, 0.014983323402702808, 0.11418331414461136, 0.5022433400154114, 1,
  ],
  end: 3.925,
} as const

/** erf(x) = sign(x) (1 - 2^(|x| p(|x|))): coefficients of p, the lowest first, by least absolute error of the result (6.0e-7). */
export const erfExponent = [
  -1.6278890371322632, -0.9185094237327576, -0.1486654281616211, 0.029589857906103134, -0.002944102045148611,
] as const

/** (atan(t) - t) / t^3 in t^2, t in [0, 1]: error 2.7e-9 of atan. */
export const atanTerms = [
  -0.0017886083805933595, 0.010891420766711235, -0.031133051961660385, 0.057910818606615067, -0.08400601148605347,
  0.10951169580221176, -0.14264041185379028, 0.1999852955341339, -0.33333298563957214,
] as const

/** (asin(t) - t) / t^3 in t^2, t in [0, 1/2]: error 4.9e-9 of asin. */
export const asinTerms = [
  0.04216641187667847, 0.02418077364563942, 0.045469772070646286, 0.07495306432247162, 0.16666752099990845,
] as const

/** (sin r - r) / r^3 in r^2 on [-pi / 4, pi / 4]: error 3.7e-9 of sin. */
export const sinTerms = [-0.0001951878803083673, 0.008332191966474056, -0.16666655242443085] as const

/** (cos r - 1 + r^2 / 2) / r^4 in r^2 on [-pi / 4, pi / 4]: error 1.2e-10 of cos. */
export const cosTerms = [2.4432327336398885e-5, -0.0013887309469282627, 0.04166664555668831] as const
