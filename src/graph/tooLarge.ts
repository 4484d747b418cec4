/** A value that must stand in memory and does not fit there: one error, whoever finds it. */
import { UserError } from '../diagnostics/errors.ts'
import { showShape } from '../types/shape.ts'
import type { Node } from './node.ts'

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const

/** Bytes in words: in full, since limits lie just below round numbers. */
export function showSize(bytes: number): string {
  const at = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  return `${bytes} bytes${at === 0 ? '' : ` (${(bytes / 1024 ** at).toFixed(1)} ${units[at]})`}`
}

/** The operation of a node, as the user knows it. */
export const operationOf = ({ op, origin }: Node): string =>
  op === 'param' ? 'an input' : origin.name === 'unknown' ? op : origin.name

export interface TooLarge {
  readonly node: Node
  readonly bytes: number
  /** Most bytes of a value there. */
  readonly most: number
  /** What has it as a limit: `the target wasm`. */
  readonly holder: string
  /** Why the value has to stand in memory. */
  readonly why: string
  readonly help: string
}

/** E_OVERFLOW that names the operation whose value it is, where the user called it, and why it is stored. */
export function tooLarge({ node, bytes, most, holder, why, help }: TooLarge): UserError {
  const { where } = node.origin
  const value = `${node.dtype}${showShape(node.shape)}`
  return new UserError(
    'E_OVERFLOW',
    `${operationOf(node)} ${node.op === 'param' ? 'is' : 'gives'} ${value}, which would be stored in ${showSize(bytes)}; ${holder} has at most ${most} bytes for a value: ${why}`,
    { help, ...(where === undefined ? {} : { where }) },
  )
}
