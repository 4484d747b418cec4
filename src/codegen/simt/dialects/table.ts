/** The dialects by the language that a machine takes: their facts, and the printer of their code. */
import type { Language } from '../../../target/simt.ts'
import type { ThreadCode } from '../ir/code.ts'
import type { Dialect } from '../unit.ts'
import { cudaDialect, printCuda } from './cuda/print.ts'
import { printWgsl, wgslDialect } from './wgsl/print.ts'

interface Printed {
  readonly facts: Dialect
  /** The code's text; `isDynamic`: its shared memory is given at launch. */
  readonly print: (code: ThreadCode, isDynamic: boolean) => string
}

export const dialects: Readonly<Record<Language, Printed>> = {
  cuda: { facts: cudaDialect, print: printCuda },
  wgsl: { facts: wgslDialect, print: printWgsl },
}
