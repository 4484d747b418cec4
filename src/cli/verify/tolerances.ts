/**
 * Tolerances that a set of cases brings along: `tolerance.json` beside the cases, an object with an entry for each case by the name of
 * its folder, or in the folder of a case, the entry itself.
 */
import { existsSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { UserError } from '../../diagnostics/errors.ts'
import { readBytes } from '../files.ts'
import type { Tolerance } from '../values.ts'

const fileName = 'tolerance.json'

type Entries = Readonly<Record<string, unknown>>

const isEntries = (x: unknown): x is Entries => typeof x === 'object' && x !== null && !Array.isArray(x)

const wrong = (path: string, what: string): UserError =>
  new UserError('E_FILE', `${path} ${what}`, {
    help: 'it holds { "CASE": { "rtol": 0.001, "atol": 0.0001, "maxDifferentFraction": 0.05 } }, each number optional',
  })

function readEntries(path: string): Entries {
  let data: unknown
  try {
    data = JSON.parse(new TextDecoder().decode(readBytes(path)))
  } catch (cause) {
    if (cause instanceof UserError) throw cause
    throw wrong(path, `is no JSON: ${cause instanceof Error ? cause.message : String(cause)}`)
  }
  if (!isEntries(data)) throw wrong(path, 'holds no object')
  return data
}

const names = ['rtol', 'atol', 'maxDifferentFraction'] as const

/** What an entry says, over what holds otherwise. */
function readTolerance(entry: unknown, otherwise: Tolerance, path: string): Tolerance {
  if (!isEntries(entry)) throw wrong(path, 'has an entry that is no object')
  const said: Partial<Record<(typeof names)[number], number>> = {}
  for (const [name, value] of Object.entries(entry)) {
    const known = names.find((n) => n === name)
    if (known === undefined) throw wrong(path, `names "${name}", which is no tolerance`)
    if (typeof value !== 'number' || !(value >= 0))
      throw wrong(path, `has ${name} ${String(value)}, which is no number of 0 or more`)
    said[known] = value
  }
  return { ...otherwise, ...said }
}

/** The tolerance of a case: that of its own file, else of the file beside it, else `otherwise`. Throws E_FILE. */
export function toleranceOf(dir: string, otherwise: Tolerance): Tolerance {
  const own = join(dir, fileName)
  if (existsSync(own)) return readTolerance(readEntries(own), otherwise, own)
  const beside = join(dirname(dir), fileName)
  if (!existsSync(beside)) return otherwise
  const entries = readEntries(beside)
  const name = basename(dir)
  return Object.hasOwn(entries, name) ? readTolerance(entries[name], otherwise, beside) : otherwise
}
