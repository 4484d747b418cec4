/** The hard cases of the kernel IR. Each runs in the interpreter (hard-cases.test.ts); lowerings run the same. */
import { attentionCases } from './attention.ts'
import { openCases } from './open.ts'
import { otherCases } from './others.ts'
import { productCases } from './products.ts'
import { rowCases } from './rows.ts'

export const hardCases = [...rowCases, ...productCases, ...attentionCases, ...otherCases, ...openCases]
