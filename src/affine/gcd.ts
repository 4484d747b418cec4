/** Greatest common divisor of two integers, not negative; of 0 and b, |b|. */
export const gcd = (a: number, b: number): number => (b === 0 ? Math.abs(a) : gcd(b, a % b))

/** The least number that two positive ones divide. */
export const lcm = (a: number, b: number): number => (a / gcd(a, b)) * b
