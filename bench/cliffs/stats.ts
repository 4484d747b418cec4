/** Order statistics of measurements. */

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) * q
  const low = Math.floor(at)
  const [a = Number.NaN, b = a] = [sorted[low], sorted[low + 1]]
  return a + (b - a) * (at - low)
}

export const median = (values: readonly number[]): number => quantile(values, 0.5)

/** The mean of the middle half of values: no outlier counts, and no step of a coarse clock. */
export function middleMean(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const cut = Math.floor(sorted.length / 4)
  const middle = sorted.slice(cut, sorted.length - cut)
  return middle.reduce((a, b) => a + b, 0) / middle.length
}

/**
 * A lower bound of the median of what paired ratios are drawn from, at a confidence of 95% at least: the largest order statistic that
 * the median is below with a chance of at most 5%, whatever the distribution (sign test). Of 15 it is the fourth least (98.2%).
 */
export function lowerBound(ratios: readonly number[]): number {
  const n = ratios.length
  const sorted = [...ratios].sort((a, b) => a - b)
  let [k, chance, term] = [0, 0, 0.5 ** n]
  while (k < n && chance + term <= 0.05) {
    chance += term
    term = (term * (n - k)) / (k + 1)
    k++
  }
  return sorted[k - 1] ?? 0
}

/** The share of values within bounds. */
export const within = (values: readonly number[], lo: number, hi: number): number =>
  values.filter((v) => v >= lo && v <= hi).length / Math.max(1, values.length)
