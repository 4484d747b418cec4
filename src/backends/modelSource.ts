/** The bytes of models: from files in Node, from addresses everywhere. No import of Node, so that browsers can load this file. */
import { UserError } from '../diagnostics/errors.ts'
import type { PartLoader } from './modelFiles.ts'

interface Host {
  readonly process?: { readonly versions?: { readonly node?: string } }
}

const isNode = (): boolean => (globalThis as Host).process?.versions?.node !== undefined

/** Whether a path is an address to be fetched. */
export const isAddress = (path: string): boolean => /^(https?|blob|data):/.test(path)

/** Files of Node; undefined in browsers. */
const files = async (): Promise<typeof import('./modelFiles.ts') | undefined> =>
  isNode() ? import('./modelFiles.ts') : undefined

async function fetched(path: string): Promise<Uint8Array> {
  const failed = (why: string, cause?: unknown): UserError =>
    new UserError('E_FILE', `cannot read ${path}: ${why}`, cause === undefined ? {} : { cause })
  let response: Response
  try {
    response = await fetch(path)
  } catch (cause) {
    throw failed(cause instanceof Error ? cause.message : String(cause), cause)
  }
  if (!response.ok) throw failed(`the server answered ${response.status}`)
  return new Uint8Array(await response.arrayBuffer())
}

/** The bytes of a file (Node) or at an address. Throws E_FILE. */
export async function readModelBytes(path: string): Promise<Uint8Array> {
  const node = isAddress(path) ? undefined : await files()
  return node === undefined ? fetched(path) : node.readBytes(path)
}

/** Reads what stands beside a model's file; undefined where there are no files. */
export const besideModel = async (path: string): Promise<PartLoader | undefined> =>
  (await files())?.externalLoader(path)
