/** What a model asks for that the importer cannot express: collected, and reported all at once. */
import { UserError } from '../diagnostics/errors.ts'

/** One node, input or tensor at fault. */
export interface Problem {
  /** The operator with its domain, or what it is instead: `input`, `initialiser`. */
  readonly op: string
  readonly name: string
  readonly reason: string
}

/** Everything of a model that cannot be imported, as far as it was looked at. */
export class UnsupportedParts extends UserError {
  constructor(parts: readonly Problem[]) {
    const lines = parts.map((p) => `\n  ${p.op} "${p.name}": ${p.reason}`)
    const count = parts.length === 1 ? 'one part' : `${parts.length} parts`
    super('E_ONNX_UNSUPPORTED', `the model has ${count} that cannot be imported:${lines.join('')}`, {
      help: 'export the model without these operators, or replace them by supported ones',
    })
  }
}

/** Whether an error says that something is not supported, as opposed to wrong. */
export const isUnsupported = (error: unknown): error is UserError =>
  error instanceof UserError && (error.code === 'E_ONNX_UNSUPPORTED' || error.code === 'E_UNSUPPORTED')

/** What to do about a node that contradicts itself, where its handler does not say. */
export const remedyOf = (error: UserError): string =>
  error.code === 'E_ONNX_MALFORMED'
    ? 'the node is not as its operator is defined: export the model again, or check it with the ONNX checker'
    : 'check that inputShapes and inputValues are those the model was exported for'

export class Problems {
  private readonly list: Problem[] = []

  add(op: string, name: string, reason: string): void {
    if (!this.list.some((p) => p.op === op && p.name === name && p.reason === reason))
      this.list.push({ op, name, reason })
  }

  get all(): readonly Problem[] {
    return [...this.list]
  }

  get count(): number {
    return this.list.length
  }

  /** Forgets what was recorded after there were `count`. */
  back(count: number): void {
    this.list.length = count
  }

  /** What was recorded after there were `count`, as E_ONNX_UNSUPPORTED. */
  since(before: number): UserError | undefined {
    const list = this.list.slice(before)
    return list.length === 0 ? undefined : new UnsupportedParts(list)
  }

  /** Throws E_ONNX_UNSUPPORTED if anything was recorded. */
  report(): void {
    const error = this.since(0)
    if (error !== undefined) throw error
  }
}
