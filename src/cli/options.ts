/** Values of command-line options, parsed and checked: every mistake is a usage error. */
import type { Shape } from '../types/shape.ts'
import { UsageError } from './console.ts'
import { type DeviceName, deviceNames } from './devices.ts'
import { readBytes } from './files.ts'
import type { GivenInputs } from './load.ts'
import { readNpy } from './npy.ts'
import type { Mode } from './session.ts'

/** Splits NAME=VALUE; names may hold anything but '='. */
function splitPair(text: string, option: string, form: string): [string, string] {
  const at = text.indexOf('=')
  if (at <= 0 || at === text.length - 1) throw new UsageError(`${option} ${text} is not of the form ${form}`)
  return [text.slice(0, at), text.slice(at + 1)]
}

/** `1,3,224,224`; empty parts or signs are errors. */
export function parseShape(text: string, option = '--shape'): Shape {
  if (text === 'scalar') return []
  const dims = text.split(/[,x]/).map((d) => (/^\d+$/.test(d.trim()) ? Number(d) : Number.NaN))
  if (!dims.every(Number.isSafeInteger))
    throw new UsageError(`${option} ${text} is no shape`, 'a shape is whole numbers: 1,3,224,224')
  return dims
}

/** What the command line says of a model's inputs, as it stands there. */
export interface InputTexts {
  readonly input: readonly string[]
  readonly shape: readonly string[]
  readonly length: readonly string[]
  readonly bound: readonly string[]
}

/** The inputs that --input, --shape and --length give, and what --bound says of results. Throws E_FILE for a file that cannot be read. */
export function parseInputs({ input, shape, length, bound }: InputTexts): GivenInputs {
  const named = new Set<string>()
  const once = (option: string, name: string): void => {
    const text = `${option} ${name}`
    if (named.has(text)) throw new UsageError(`${text} is given twice`, 'give it once')
    named.add(text)
  }
  const values = input.map((text) => {
    const [name, file] = splitPair(text, '--input', 'NAME=FILE.npy')
    once('--input', name)
    return [name, readNpy(readBytes(file), file)] as const
  })
  const given = shape.map((text) => {
    const [name, extents] = splitPair(text, '--shape', 'NAME=1,3,224,224')
    once('--shape', name)
    return [name, parseShape(extents)] as const
  })
  const both = given.find(([name]) => values.some(([valued]) => valued === name))
  if (both !== undefined)
    throw new UsageError(`${both[0]} has a value and a shape`, 'leave --shape away: the value says it')
  return { values: new Map(values), shapes: new Map(given), lengths: parseLengths(length), bounds: parseBounds(bound) }
}

/** Whole numbers by name, as an option gives them one by one. */
function parseNamed(texts: readonly string[], option: string): ReadonlyMap<string, number> {
  const numbers = new Map<string, number>()
  for (const text of texts) {
    const [name, n] = splitPair(text, option, 'NAME=128')
    if (numbers.has(name)) throw new UsageError(`${option} ${name} is given twice`, 'give it once')
    numbers.set(name, parseWhole(n, `${option} ${name}`, 0))
  }
  return numbers
}

/** The open extents that --length gives, by name. */
export const parseLengths = (texts: readonly string[]): ReadonlyMap<string, number> => parseNamed(texts, '--length')

/** The most results that --bound gives, by name of a node or an output of it. */
export const parseBounds = (texts: readonly string[]): ReadonlyMap<string, number> => parseNamed(texts, '--bound')

export function parseDevice(text: string): DeviceName {
  const name = deviceNames.find((d) => d === text)
  if (name === undefined)
    throw new UsageError(
      `there is no device "${text}"`,
      `use one of ${deviceNames.join(', ')}; sinter devices says more`,
    )
  return name
}

/** The number of a GPU, for the device that has numbers. */
export function parseIndex(text: string, device: DeviceName): number {
  if (device !== 'cuda')
    throw new UsageError(`--index ${text} on ${device}, whose devices have no numbers`, 'use it with --device cuda')
  return parseWhole(text, '--index', 0)
}

/** A number of threads, for the device that runs on the host's. */
export function parseThreads(text: string, device: DeviceName): number {
  if (device !== 'wasm')
    throw new UsageError(
      `--threads ${text} on ${device}, which has no threads of the host`,
      'use it with --device wasm',
    )
  return parseWhole(text, '--threads', 1)
}

export function parseMode(text: string): Mode {
  if (text !== 'fast' && text !== 'strict') throw new UsageError(`there is no mode "${text}"`, 'use fast or strict')
  return text
}

/** A whole number of at least `least`. */
export function parseWhole(text: string, option: string, least: number): number {
  const v = Number(text)
  if (text.trim() === '' || !Number.isSafeInteger(v) || v < least)
    throw new UsageError(`${option} ${text} is not a whole number of at least ${least}`)
  return v
}

/** A number of at least zero. */
export function parseAmount(text: string, option: string): number {
  const v = Number(text)
  if (text.trim() === '' || !Number.isFinite(v) || v < 0) throw new UsageError(`${option} ${text} is not a number >= 0`)
  return v
}
