/** The least power of two that is not below a number; 1 for numbers below. */
export const powerFrom = (n: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, n)))

/** The greatest power of two that is not above a number; 1 for numbers below. */
export const powerWithin = (n: number): number => 2 ** Math.floor(Math.log2(Math.max(1, n)))
