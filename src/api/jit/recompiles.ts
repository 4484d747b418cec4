/** Says once that a jitted function is compiled at nearly every call, and which argument is to blame. */
import { sameShape, showShape } from '../../types/shape.ts'
import { warn } from '../calls/warnings.ts'
import type { TreeSpec } from '../tensor/tree.ts'

/** Compilations for signatures alike before it is said: fewer may be the shapes of a few layers, or a handful of settings. */
const mostCompilations = 8
/** Jitted calls, of all functions, within which these compilations stand: where most calls find their program, it is not said. */
const within = 256
/** Signatures looked back at. */
const memory = 32

/** A place where two signatures of one structure differ. */
interface Difference {
  readonly path: string
  readonly kind: 'number' | 'function' | 'value' | 'shape' | 'length'
}

const staticKind = (x: unknown): 'number' | 'function' | 'value' =>
  typeof x === 'number' || typeof x === 'bigint' ? 'number' : typeof x === 'function' ? 'function' : 'value'

/** The path of a part of what stands at a path; the outermost list is that of the arguments. */
function inner(s: TreeSpec, at: string, i: number): string {
  if (s.kind === 'record') return `${at}.${s.keys[i] ?? i}`
  return at === '' ? `argument ${i}` : `${at}[${i}]`
}

/** Where two signatures differ that are otherwise alike; undefined for those of another structure. */
function differences(a: TreeSpec, b: TreeSpec, at = ''): Difference[] | undefined {
  if (a.kind === 'tensor') {
    if (b.kind !== 'tensor' || a.dtype !== b.dtype || a.shape.length !== b.shape.length) return undefined
    return sameShape(a.shape, b.shape) ? [] : [{ path: at, kind: 'shape' }]
  }
  if (a.kind === 'static') {
    if (b.kind !== 'static' || typeof a.value !== typeof b.value) return undefined
    return Object.is(a.value, b.value) ? [] : [{ path: at, kind: staticKind(a.value) }]
  }
  if (a.kind === 'list') {
    if (b.kind !== 'list') return undefined
    if (a.items.length !== b.items.length) return at === '' ? undefined : [{ path: at, kind: 'length' }]
  } else if (b.kind !== 'record' || a.keys.join('\0') !== b.keys.join('\0')) return undefined
  const found: Difference[] = []
  for (const [i, item] of a.items.entries()) {
    const beside = b.items[i]
    const parts = beside === undefined ? undefined : differences(item, beside, inner(a, at, i))
    if (parts === undefined) return undefined
    found.push(...parts)
  }
  return found
}

/** What stands at a path of a signature, in a few letters. */
function shownAt(s: TreeSpec, path: string, at = ''): string | undefined {
  if (at === path && at !== '') {
    if (s.kind === 'tensor') return showShape(s.shape)
    if (s.kind === 'list') return `${s.items.length}`
    if (s.kind !== 'static') return undefined
    const text = typeof s.value === 'string' ? JSON.stringify(s.value) : String(s.value)
    return text.length > 24 ? `${text.slice(0, 24)}...` : text
  }
  if (s.kind !== 'list' && s.kind !== 'record') return undefined
  for (const [i, item] of s.items.entries()) {
    const shown = path.startsWith(inner(s, at, i)) ? shownAt(item, path, inner(s, at, i)) : undefined
    if (shown !== undefined) return shown
  }
  return undefined
}

const remedies = {
  number: 'a number is part of the program: pass tensor(x), whose value is not',
  function: 'a function is part of the program: make it once, outside the loop, and pass the same one',
  value: 'such a value is part of the program: keep to a few, or pass tensors',
  shape: 'a program has fixed shapes: keep to a few, as by padding to the next of some sizes',
  length: 'a program has a fixed number of tensors: keep to a few lengths, or stack them into one tensor',
} as const satisfies Readonly<Record<Difference['kind'], string>>

const nouns = {
  number: 'is another number',
  function: 'is another function',
  value: 'is another value',
  shape: 'has another shape',
  length: 'has another length',
} as const satisfies Readonly<Record<Difference['kind'], string>>

/** The compilations of one function. */
export class Recompiles {
  readonly #name: string
  #past: { readonly signature: TreeSpec; readonly call: number }[] = []
  #isSaid = false

  constructor(name: string) {
    this.#name = name
  }

  /** Notes a compilation for a signature; `call` counts jitted calls. */
  note(signature: TreeSpec, call: number): void {
    if (this.#isSaid) return
    const alike = this.#past.flatMap((p) => {
      const found = call - p.call > within ? undefined : differences(p.signature, signature)
      return found === undefined || found.length === 0 ? [] : [{ signature: p.signature, found }]
    })
    this.#past = [...this.#past.slice(1 - memory), { signature, call }]
    if (alike.length < mostCompilations - 1) return
    this.#isSaid = true
    this.#past = []
    const places = new Map(alike.flatMap(({ found }) => found.map((d) => [d.path, d.kind] as const)))
    const signatures = [...alike.map((p) => p.signature), signature]
    const shown = [...places].map(([path, kind]) => {
      const values = [...new Set(signatures.map((s) => shownAt(s, path) ?? ''))]
      const list = `${values.slice(0, 3).join(', ')}${values.length > 3 ? ', ...' : ''}`
      return { kind, values: values.length, text: `${path} ${nouns[kind]}${kind === 'function' ? '' : ` (${list})`}` }
    })
    const worst = shown.toSorted((a, b) => b.values - a.values)
    const more = worst.length > 3 ? `, and ${worst.length - 3} more` : ''
    const kinds = [...new Set(worst.slice(0, 3).map((p) => p.kind))]
    warn(
      'W_RECOMPILES',
      `the jitted function ${this.#name} has been compiled ${signatures.length} times: ${worst
        .slice(0, 3)
        .map((p) => p.text)
        .join(', ')}${more} from call to call`,
      kinds.map((kind) => remedies[kind]).join('; '),
    )
  }
}
