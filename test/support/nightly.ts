/** What takes long: all of it where SINTER_NIGHTLY is set (`npm run nightly`), else a part that is the same every time. */
import { test } from 'vitest'

const all = process.env.SINTER_NIGHTLY !== undefined

/** A test that has no shorter part: `it` at night, else skipped. */
export const atNight = test.skipIf(!all)

/** Every n-th of a list, from the first on; at night all. */
export const some = <T>(list: readonly T[], every: number): T[] => list.filter((_, i) => all || i % every === 0)

/** A number of seeds: as the variable of the environment says, else `usual`, or at night `most`. */
export const seedsOf = (variable: string, usual: number, most: number): number =>
  Number(process.env[variable] ?? (all ? most : usual))
