/** What takes long: all of it where SINTER_NIGHTLY is set (`npm run nightly`), else a part that is the same every time. */
import { test } from 'vitest'

/** Whether this is the run of everything. */
export const nightly = process.env.SINTER_NIGHTLY !== undefined

/** A test that has no shorter part: `it` at night, else skipped. */
export const atNight = test.skipIf(!nightly)

/** Every n-th of a list, from the first on; at night all. */
export const some = <T>(list: readonly T[], every: number): T[] => list.filter((_, i) => nightly || i % every === 0)

/** One of a list by day, in turn: the `i`-th case's (a mode, a dtype); at night all. */
export const turn = <T>(list: readonly T[], i: number): T[] => list.filter((_, k) => nightly || k === i % list.length)

/** A number of seeds: as the variable of the environment says, else `usual`, or at night `most`. */
export const seedsOf = (variable: string, usual: number, most: number): number =>
  Number(process.env[variable] ?? (nightly ? most : usual))
