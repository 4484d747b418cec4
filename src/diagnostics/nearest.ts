/** The known name that an unknown one was probably meant to be. */

const plain = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** Edits from one text to another: insertions, deletions, substitutions, neighbours exchanged (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const edits = [(last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1)]
      row.push(Math.min(...edits, swapped ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY))
    }
    before = last
    last = row
  }
  return last[b.length] ?? 0
}

/** How far a name is from another, capitals and separators apart; the beginning of a name is near it (`eps` of `epsilon`). */
function distance(a: string, b: string): number {
  const [x, y] = [plain(a), plain(b)]
  if (x === y) return 0
  const isBeginning = x.length >= 3 && y.length >= 3 && (x.startsWith(y) || y.startsWith(x))
  return Math.min(editDistance(x, y), isBeginning ? 1.5 : Number.POSITIVE_INFINITY)
}

/** The nearest of the names, if one is near: a third of the longer of the two, and no more, differs. */
export function nearestName(given: string, names: readonly string[]): string | undefined {
  // Names that come from data may be of any length.
  if (given.length > 64) return undefined
  const near = names.flatMap((name) => {
    const d = distance(given, name)
    return d <= Math.max(1, Math.floor(Math.max(given.length, name.length) / 3)) ? [{ name, d }] : []
  })
  return near.toSorted((a, b) => a.d - b.d)[0]?.name
}
