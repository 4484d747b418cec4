/**
 * Special functions as data: a formula over the operations of `formula.ts`, an error bound, derivatives. The oracle, WebAssembly, CUDA
 * and WGSL all compute them by these; prices are those of what the formula asks for. Rational coefficients: weighted linear least
 * squares of the relative error at Chebyshev nodes, with 60 digits. Series: Abramowitz & Stegun 6.1.41, 6.3.18, 6.4.12.
 */
import {
  type Algebra,
  type Coefficients,
  clamp,
  type ErrorBound,
  type Formula,
  type Partial,
  poly,
  polyOf,
} from './formula.ts'

export interface Approximation {
  readonly formula: Formula
  readonly bound: ErrorBound
  /** One for each operand, or why there is none. */
  readonly derivatives: readonly Partial[] | { readonly unsupported: string; readonly help: string }
}

/** lgamma(u) / ((u - 1)(u - 2)) on [1/2, 8]: over each other. */
const lgammaAbove: Coefficients = {
  narrow: [
    0.0019098082925353619, 0.6283818665790178, 9.844368387630945, 29.726295765255443, 19.57462160807727,
    2.1431773234529543,
  ],
  wide: [
    3.285668138411305e-5, 0.04877291101282003, 3.9423501204756257, 88.32859585648171, 754.0582930271506,
    2778.872791169548, 4616.510789327851, 3420.232826269104, 1058.790741879006, 115.04318391331934, 2.7474907380911238,
  ],
}
const lgammaBelow: Coefficients = {
  narrow: [0.17880395340228022, 5.414454324503524, 32.406679007956306, 49.98181479502687, 18.28968631092413, 1.0],
  wide: [
    0.01018722455764782, 1.2553053780680354, 40.120088194845664, 485.9668024166546, 2589.653318581367, 6457.7792561676,
    7607.121379660782, 4082.466608728977, 908.5983013298221, 68.28004371089989, 1.0,
  ],
}
/** digamma(u) / (u - zero) on [1, 8]: over each other. */
const digammaAbove: Coefficients = {
  narrow: [4.819149145824823, 243.93501405754088, 2058.117676860773, 4075.9667827350445, 1590.0773151463143],
  wide: [
    49.57231217862276, 12510.529804540663, 715898.6609835906, 15116929.831348192, 142117220.18319437, 641417584.7062023,
    1387907944.0637803, 1303802270.5156183, 378019572.8043121,
  ],
}
const digammaBelow: Coefficients = {
  narrow: [0.8311725283442181, 70.31718096971422, 933.8919566271511, 3053.5608446528927, 2316.792481779093, 1.0],
  wide: [
    6.942289692979873, 2513.573871493964, 186661.38081449032, 4967561.367548306, 58486363.12919807, 333468256.454,
    935976659.8591218, 1208733391.298249, 552525547.8256553, 1.0,
  ],
}
/** trigamma(u) on [1, 8]: over each other. */
const trigammaAbove: Coefficients = {
  narrow: [-884.6280609251139, -1677.389729549308, -1903.088747939265, -1043.4904889574414, -305.47823064194404],
  wide: [
    -1234719.0464018593, -12163405.55432965, -56318216.54082302, -154395011.85523894, -269790642.86303234,
    -305848034.9171518, -221529047.34716228, -97151688.69869675, -21525239.383700646,
  ],
}
const trigammaBelow: Coefficients = {
  narrow: [-884.627969297408, -1235.0788582288203, -1138.0656342446175, -268.99351969040623, -8.767939915892166, 1.0],
  wide: [
    -1234719.046399878, -11546046.031272408, -50339407.01261348, -127300967.4467476, -197791413.72495973,
    -186120385.82458192, -97152046.66071127, -21525152.969462827, -13.377481877569862, 1.0,
  ],
}
/** erfc(m) exp(m^2) / t, t = 1 / (1 + m/2), m from 1/2 to 28 (10.5 for f32): over each other. */
const erfcAbove: Coefficients = {
  narrow: [0.07612712204330735, 0.08034949716682621, 0.24527209374026918, -0.06094575056061376, 0.28209845660195854],
  wide: [
    0.1771906632266565, 0.500210660521867, 0.9481200510807838, 1.3528743226408135, 1.5111733952199105,
    1.687352813984767, 0.9438420446481827, 1.1123351123155334, 0.1734553600118876, 0.28209479177341773,
  ],
}
const erfcBelow: Coefficients = {
  narrow: [0.0995363461263064, -0.46809546543655434, 1.2072121358270658, -1.2157400364100377, 1.0],
  wide: [
    0.029929666217910354, 0.058573239771352675, 0.30195539188552983, 0.9508650605836381, 0.3754524844693141,
    3.2991801574275708, -0.39543209749968056, 3.4532420705389004, -0.3851167585131406, 1.0,
  ],
}
/** The same for f64, by which erf is what it lacks beyond 1. */
export const tailTerms = { above: erfcAbove.wide, below: erfcBelow.wide } as const
/** erfinv(x) / x of w = -log(1 - x^2) on [0, 5]: over each other. */
const erfinvAbove: Coefficients = {
  narrow: [0.0003860464002816373, 0.006271721636449134, 0.05540338834652892, 0.30908110959451635, 0.8862269280822831],
  wide: [
    -3.5197783407538747e-10, -8.895847775982255e-9, -7.488964031162719e-8, 5.611628623176935e-7, 2.3766014446719245e-5,
    0.0003539311603532535, 0.003462716143810127, 0.024166409513426496, 0.12131598301178789, 0.44791646159510756,
    0.886226925452758,
  ],
}
const erfinvBelow: Coefficients = {
  narrow: [4.334558250857647e-5, 0.0015860738203364914, 0.02671673250509128, 0.08696142014822847, 1.0],
  wide: [
    -2.212995486420423e-11, -2.3083553852433223e-9, -3.2280699803650987e-8, 4.850424487303276e-9, 2.6949127730756573e-6,
    0.000127045782132576, 0.0010308274370282582, 0.011000300876404287, 0.06007876749554208, 0.2436202160639072, 1.0,
  ],
}
/** erfinv(x) of sqrt(w) - 2.2 up to 3.9 (2 for f32): over each other. */
const erfinvTailAbove: Coefficients = {
  narrow: [0.2730842160972272, 1.2897833299960157, 2.4769638147889763, 2.037330971359803],
  wide: [
    2.8410531937364542e-5, 0.0007607408411922599, 0.005341574509994713, 0.02630792881290744, 0.09143439935280805,
    0.2743089753754732, 0.6319739442317344, 1.2602718457234692, 1.9888515853242024, 2.1868461126323644,
    2.037331158659478,
  ],
}
const erfinvTailBelow: Coefficients = {
  narrow: [0.00016048366412568357, 0.26960689155766837, 0.7335282710599085, 1.0],
  wide: [
    2.8414540710816175e-5, 0.0006982343095646889, 0.003868090847543104, 0.0184095635269134, 0.053179416670668916,
    0.16676390684440925, 0.2876520363373454, 0.6813768963080991, 0.5911306397865956, 1.0,
  ],
}
/** The zero of digamma in two parts. */
const digammaZero = {
  narrow: [1.4616321325302124, 1.2438149938918909e-8],
  wide: [1.4616321449683622, 9.549995429965697e-17],
} as const

/** sin(pi r) by its series, for r from 0 to 1/2. */
function sinOfTurns<T, M>(a: Algebra<T, M>, r: T): T {
  const terms: number[] = []
  let term = Math.PI
  for (let k = 1; k <= (a.wide ? 14 : 7); k++) {
    terms.unshift(term)
    term *= -(Math.PI * Math.PI) / (2 * k * (2 * k + 1))
  }
  const z = a.let(a.mul(r, r))
  return a.let(a.mul(r, poly(a, z, terms)))
}

/** x less the nearest whole number. */
const beyondWhole = <T, M>(a: Algebra<T, M>, x: T): T => a.let(a.sub(x, a.round(x)))

/** Where Stirling's series take over from the rational functions. */
const far = 8

/** sum c_k i^(2k), c from the first on: as many as the format shows at `far`. */
const series = <T, M>(a: Algebra<T, M>, square: T, c: readonly number[]): T =>
  poly(a, square, c.slice(0, a.wide ? c.length : 4).reverse())

const cbrt: Formula = (a, x) => {
  const m = a.let(a.abs(x))
  const y = a.let(a.exp(a.mul(a.log(m), a.lit(1 / 3))))
  // A step of Newton's method, in an order that cannot overflow.
  const z = a.let(a.sub(y, a.mul(a.sub(y, a.div(m, a.mul(y, y))), a.lit(1 / 3))))
  const signed = a.let(a.select(a.lt(x, a.lit(0)), a.neg(z), z))
  const finite = a.let(a.select(a.isinf(m), x, signed))
  return a.select(a.eq(m, a.lit(0)), x, finite)
}

const hypot: Formula = (a, x, y) => {
  const [p, q] = [a.let(a.abs(x)), a.let(a.abs(y))]
  const high = a.let(a.select(a.lt(p, q), q, p))
  const low = a.let(a.select(a.lt(p, q), p, q))
  // Squares neither overflow nor vanish after a scale that is a power of two.
  const [tiny, huge, more] = a.wide ? [2 ** -400, 2 ** 500, 2 ** 600] : [2 ** -40, 2 ** 60, 2 ** 90]
  const isTiny = a.lt(high, a.lit(tiny))
  const isHuge = a.lt(a.lit(huge), high)
  const scale = a.let(a.select(isTiny, a.lit(more), a.select(isHuge, a.lit(1 / more), a.lit(1))))
  const back = a.select(isTiny, a.lit(1 / more), a.select(isHuge, a.lit(more), a.lit(1)))
  const [h, l] = [a.let(a.mul(high, scale)), a.let(a.mul(low, scale))]
  const length = a.let(a.mul(a.sqrt(a.fma(h, h, a.mul(l, l))), back))
  // An infinity wins over NaN (IEEE 754).
  const first = a.let(a.select(a.isnan(p), p, length))
  const both = a.let(a.select(a.isnan(q), q, first))
  const infinite = a.let(a.select(a.isinf(p), p, both))
  return a.select(a.isinf(q), q, infinite)
}

const erfc: Formula = (a, x) => {
  const m = clamp(a, a.let(a.abs(x)), 0.5, a.wide ? 28 : 10.5)
  const t = a.let(a.div(a.lit(1), a.fma(m, a.lit(0.5), a.lit(1))))
  // The square of a multiple of 1/16 is exact: x^2 = h^2 + (x - h)(x + h).
  const h = a.let(a.mul(a.round(a.mul(m, a.lit(16))), a.lit(1 / 16)))
  const rest = a.let(a.neg(a.mul(a.sub(m, h), a.add(m, h))))
  const power = a.let(a.mul(a.exp(a.let(a.neg(a.mul(h, h)))), a.exp(rest)))
  const scaled = a.let(a.mul(t, a.div(polyOf(a, t, erfcAbove), polyOf(a, t, erfcBelow))))
  const tail = a.let(a.mul(power, scaled))
  const outer = a.let(a.select(a.lt(x, a.lit(0)), a.sub(a.lit(2), tail), tail))
  const inner = a.let(a.sub(a.lit(1), a.erf(x)))
  return a.select(a.lt(a.abs(x), a.lit(0.5)), inner, outer)
}

const erfinv: Formula = (a, x) => {
  const w = a.let(a.neg(a.log(a.let(a.mul(a.sub(a.lit(1), x), a.add(a.lit(1), x))))))
  const c = clamp(a, w, 0, 5)
  const near = a.let(a.mul(x, a.div(polyOf(a, c, erfinvAbove), polyOf(a, c, erfinvBelow))))
  const s = a.let(a.sub(clamp(a, a.let(a.sqrt(w)), 2.23, a.wide ? 6.1 : 4.2), a.lit(2.2)))
  const t = a.let(a.div(polyOf(a, s, erfinvTailAbove), polyOf(a, s, erfinvTailBelow)))
  const end = a.let(a.select(a.isinf(w), w, t))
  const tail = a.let(a.select(a.lt(x, a.lit(0)), a.neg(end), end))
  const inside = a.let(a.select(a.lt(w, a.lit(5)), near, tail))
  // Beyond 1 the logarithm is NaN.
  return a.select(a.isnan(w), w, inside)
}

const stirling = [
  1 / 12,
  -1 / 360,
  1 / 1260,
  -1 / 1680,
  1 / 1188,
  -691 / 360360,
  1 / 156,
  -3617 / 122400,
  43867 / 244188,
]

const lgamma: Formula = (a, x) => {
  const m = a.let(a.abs(x))
  const l = a.let(a.log(m))
  // (u - 1)(u - 2) P(u) / Q(u) up to 8; below 1/2 by lgamma(m) = lgamma(m + 1) - log m.
  const small = a.let(a.select(a.lt(m, a.lit(0.5)), a.lit(1), a.lit(0)))
  const u = clamp(a, a.let(a.add(m, small)), 0.5, far)
  const ratio = a.div(polyOf(a, u, lgammaAbove), polyOf(a, u, lgammaBelow))
  // Subtracted from zero, so that both zeros are positive.
  const middle = a.let(a.sub(a.lit(0), a.mul(a.mul(a.sub(u, a.lit(1)), a.sub(a.lit(2), u)), ratio)))
  const near = a.let(a.select(a.lt(m, a.lit(0.5)), a.sub(middle, l), middle))
  const i = a.let(a.div(a.lit(1), m))
  const rest = a.fma(i, series(a, a.let(a.mul(i, i)), stirling), a.lit(Math.log(2 * Math.PI) / 2 - 0.5))
  const away = a.let(a.fma(a.sub(m, a.lit(0.5)), a.sub(l, a.lit(1)), rest))
  const right = a.let(a.select(a.lt(m, a.lit(far)), near, away))
  // gamma(-m) gamma(m) = -pi / (m sin(pi m)).
  const s = sinOfTurns(a, a.let(a.abs(beyondWhole(a, m))))
  const reflected = a.let(a.sub(a.sub(a.sub(a.lit(Math.log(Math.PI)), a.log(s)), l), right))
  const left = a.let(a.select(a.eq(s, a.lit(0)), a.lit(Number.POSITIVE_INFINITY), reflected))
  const y = a.let(a.select(a.lt(x, a.lit(0)), left, right))
  // A sine of subnormal numbers would have few digits.
  const finite = a.let(a.select(a.lt(m, a.lit(2 ** -60)), a.neg(l), y))
  return a.select(a.isinf(m), m, finite)
}

const digammaSeries = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160, 43867 / 14364]

const digamma: Formula = (a, x) => {
  // digamma(x) = digamma(1 - x) - pi cot(pi x).
  const v = a.let(a.select(a.lt(x, a.lit(0)), a.sub(a.lit(1), x), x))
  const i = a.let(a.div(a.lit(1), v))
  const small = a.let(a.select(a.lt(v, a.lit(1)), a.lit(1), a.lit(0)))
  const u = clamp(a, a.let(a.add(v, small)), 1, far)
  const [high, low] = a.wide ? digammaZero.wide : digammaZero.narrow
  const root = a.sub(a.let(a.sub(u, a.lit(high))), a.lit(low))
  const middle = a.let(a.mul(root, a.div(polyOf(a, u, digammaAbove), polyOf(a, u, digammaBelow))))
  const near = a.let(a.select(a.lt(v, a.lit(1)), a.sub(middle, i), middle))
  const square = a.let(a.mul(i, i))
  const rest = a.fma(square, series(a, square, digammaSeries), a.mul(i, a.lit(0.5)))
  const away = a.let(a.sub(a.log(v), rest))
  const right = a.let(a.select(a.lt(v, a.lit(far)), near, away))
  const r = beyondWhole(a, x)
  const p = a.let(a.abs(r))
  const quotient = a.div(sinOfTurns(a, a.let(a.sub(a.lit(0.5), p))), sinOfTurns(a, p))
  const cot = a.let(a.mul(a.lit(Math.PI), quotient))
  const left = a.let(a.sub(right, a.let(a.select(a.lt(r, a.lit(0)), a.neg(cot), cot))))
  const pole = a.let(a.select(a.eq(r, a.lit(0)), a.lit(Number.NaN), left))
  return a.select(a.lt(x, a.lit(0)), pole, right)
}

const trigammaSeries = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798]

const trigamma: Formula = (a, x) => {
  // trigamma(x) = (pi / sin(pi x))^2 - trigamma(1 - x).
  const v = a.let(a.select(a.lt(x, a.lit(0)), a.sub(a.lit(1), x), x))
  const i = a.let(a.div(a.lit(1), v))
  const square = a.let(a.mul(i, i))
  const small = a.let(a.select(a.lt(v, a.lit(1)), a.lit(1), a.lit(0)))
  const u = clamp(a, a.let(a.add(v, small)), 1, far)
  const middle = a.let(a.div(polyOf(a, u, trigammaAbove), polyOf(a, u, trigammaBelow)))
  const near = a.let(a.select(a.lt(v, a.lit(1)), a.add(middle, square), middle))
  const rest = a.mul(square, a.fma(i, series(a, square, trigammaSeries), a.lit(0.5)))
  const away = a.let(a.add(i, rest))
  const right = a.let(a.select(a.lt(v, a.lit(far)), near, away))
  const q = a.let(a.div(a.lit(Math.PI), sinOfTurns(a, a.let(a.abs(beyondWhole(a, x))))))
  return a.select(a.lt(x, a.lit(0)), a.sub(a.mul(q, q), right), right)
}

export const approximations = {
  cbrt: {
    formula: cbrt,
    bound: { ulp: 4 },
    derivatives: [(t, out) => t.div(1 / 3, t.mul(out, out))],
  },
  hypot: {
    formula: hypot,
    bound: { ulp: 4 },
    derivatives: [(t, out, x) => t.div(x, out), (t, out, _, y) => t.div(y, out)],
  },
  erfc: {
    formula: erfc,
    bound: { ulp: 8 },
    derivatives: [(t, _, x) => t.mul(t.unary('exp', t.neg(t.mul(x, x))), -2 / Math.sqrt(Math.PI))],
  },
  erfinv: {
    formula: erfinv,
    bound: { ulp: 8 },
    derivatives: [(t, out) => t.mul(t.unary('exp', t.mul(out, out)), Math.sqrt(Math.PI) / 2)],
  },
  lgamma: {
    formula: lgamma,
    bound: { ulp: 8, absolute: 2 ** -18 },
    derivatives: [(t, _, x) => t.unary('digamma', x)],
  },
  digamma: {
    formula: digamma,
    bound: { ulp: 8, absolute: 2 ** -18 },
    derivatives: [(t, _, x) => t.unary('trigamma', x)],
  },
  trigamma: {
    formula: trigamma,
    bound: { ulp: 8 },
    derivatives: {
      unsupported: 'its derivative, polygamma(2, x), is not an operation',
      help: 'lgamma has two derivatives and digamma one; give the function a rule of its own with custom derivatives',
    },
  },
} as const satisfies Readonly<Record<string, Approximation>>

export type Approximated = keyof typeof approximations
export const approximationOf = (op: string): Approximation | undefined =>
  isApproximated(op) ? approximations[op] : undefined
export const isApproximated = (op: string): op is Approximated => Object.hasOwn(approximations, op)
export const approximated = Object.keys(approximations) as readonly Approximated[]
