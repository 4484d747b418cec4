/** The handler table: every ONNX operator the importer knows, by domain and name. */
import type { Handler, HandlerTable } from '../context.ts'
import { activationHandlers } from './activation.ts'
import { attentionHandlers, previewHandlers } from './attention.ts'
import { castHandlers } from './cast.ts'
import { contribHandlers, defaultDomainHandlers } from './contrib/index.ts'
import { contribReasons } from './contrib/refused.ts'
import { controlHandlers } from './control.ts'
import { elementwiseHandlers } from './elementwise.ts'
import { indexingHandlers } from './indexing.ts'
import { linearHandlers } from './linear.ts'
import { lossHandlers } from './loss.ts'
import { miscHandlers } from './misc.ts'
import { mlHandlers, mlReasons } from './ml/index.ts'
import { normHandlers } from './norm.ts'
import { quantizeHandlers } from './quantize.ts'
import { randomHandlers } from './random.ts'
import { recurrentHandlers } from './recurrent.ts'
import { reductionHandlers } from './reduction.ts'
import { refusedHandlers, standardReasons } from './refused.ts'
import { regionHandlers } from './regions.ts'
import { resizeHandlers } from './resize.ts'
import { sampleHandlers } from './sample.ts'
import { shapeHandlers } from './shape.ts'
import { signalHandlers } from './signal.ts'
import { contribSizedHandlers, sizedHandlers } from './sized.ts'
import { trainingHandlers } from './training.ts'
import { windowHandlers } from './window.ts'

const standard: HandlerTable = {
  ...activationHandlers,
  ...attentionHandlers,
  ...castHandlers,
  ...defaultDomainHandlers,
  ...controlHandlers,
  ...elementwiseHandlers,
  ...indexingHandlers,
  ...linearHandlers,
  ...lossHandlers,
  ...miscHandlers,
  ...normHandlers,
  ...quantizeHandlers,
  ...randomHandlers,
  ...recurrentHandlers,
  ...reductionHandlers,
  ...refusedHandlers,
  ...regionHandlers,
  ...resizeHandlers,
  ...sampleHandlers,
  ...shapeHandlers,
  ...signalHandlers,
  ...sizedHandlers,
  ...windowHandlers,
}

/** The handlers of each domain; docs/onnx.md lists them. */
export const handlerDomains: Readonly<Record<string, HandlerTable>> = {
  '': standard,
  'ai.onnx.ml': mlHandlers,
  'ai.onnx.preview': previewHandlers,
  'ai.onnx.preview.training': trainingHandlers,
  'com.microsoft': { ...contribHandlers, ...contribSizedHandlers },
}

/** The handler of an operator, if there is one. */
export function findHandler(domain: string, op: string): Handler | undefined {
  const table = Object.hasOwn(handlerDomains, domain) ? handlerDomains[domain] : undefined
  return table !== undefined && Object.hasOwn(table, op) ? table[op] : undefined
}

/** Operators that are known and refused, with the reason, by domain. */
const reasonsByDomain: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '': standardReasons,
  'ai.onnx.ml': mlReasons,
  'com.microsoft': contribReasons,
}

/** Why an operator is imported in no form; undefined for one that is. */
export function refusalOf(domain: string, op: string): string | undefined {
  if (findHandler(domain, op) === undefined) return 'there is no such operator here'
  const reasons = Object.hasOwn(reasonsByDomain, domain) ? reasonsByDomain[domain] : undefined
  return reasons !== undefined && Object.hasOwn(reasons, op) ? reasons[op] : undefined
}
