/**
 * Coefficients of special functions on f64 vectors, beside those on f32 (`polynomials.ts`): minimax fits by the Remez exchange with 50 digits, each
 * rounded to f64; highest power first. Errors are relative to the function named.
 */

/** ln 2; the first part has 32 significant bits, so its product with a whole number below 2^21 is exact. */
export const ln2 = { high: 0.6931471803691238, low: 1.9082149292705877e-10 } as const

/** e^r on [0, ln 2] with constant term 1: error 6.4e-18. */
export const expTerms = [
  3.5517790081563986e-8, 2.554686049481645e-7, 2.777154963676238e-6, 2.4787382230382347e-5, 0.00019841882184951453,
  0.0013888871586777702, 0.00833333364780515, 0.04166666663164869, 0.1666666666688415, 0.49999999999993733,
  1.0000000000000004, 1,
] as const

/** (e^r - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2]: error 2.6e-19 of e^r - 1. */
export const expm1Terms = [
  2.0875328496723333e-9, 2.5108967514332335e-8, 2.755740262092869e-7, 2.755724440416545e-6, 2.4801587172594978e-5,
  0.00019841269885938984, 0.0013888888888962327, 0.0083333333333217, 0.04166666666666651, 0.16666666666666677, 0.5,
] as const

/** Where e^x - 1 is computed: below, it rounds to -1, above, it is infinite. */
export const expm1Range = { from: -38, to: 709.8 } as const

/** |x| from which e^|x| / 2 is infinite. */
export const halfExpEnd = 710.6

/** |x| from which tanh rounds to one. */
export const tanhEnd = 20

/** (sinh x - x) / x^3 in x^2 on [0, 1]: error 9.5e-20 of sinh. */
export const sinhTerms = [
  7.759225588304323e-13, 1.6057243491548175e-10, 2.5052123353209024e-8, 2.7557319155663516e-6, 0.00019841269841436461,
  0.00833333333333314, 0.16666666666666669,
] as const

/**
 * (log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 in s^2, s up to (sqrt 2 - 1) / (sqrt 2 + 1): error 2.4e-20 of s^4, and no more than 2^-66 of
 * the logarithm.
 */
export const logTerms = [
  0.131880911073814, 0.13257775624796247, 0.15386712500899427, 0.18181785441155401, 0.2222222250614685,
  0.28571428570188256, 0.40000000000002034,
] as const

/** Beyond it 1 + x and x are one, and asinh and acosh are log(2x). */
export const largeOfLog = 2 ** 60

/** erf(x) / x in x^2 on [0, 1]: error 7.3e-18. */
export const erfTerms = [
  -7.779466538474252e-10, 1.3710979372067498e-8, -1.620631352519064e-7, 1.6447131541262487e-6, -1.4924712299609983e-5,
  0.00012055293576777468, -0.0008548325929310457, 0.005223977606118393, -0.026866170643111458, 0.11283791670944185,
  -0.3761263890318352, 1.1283791670955126,
] as const
