/** The operators of onnxruntime's own domain, com.microsoft, as compositions; and what it keeps in ONNX's. */
import type { HandlerTable } from '../../context.ts'
import { contribActivationHandlers } from './activation.ts'
import { contribAttentionHandlers } from './attention.ts'
import { contribFusedHandlers } from './fused.ts'
import { gatherBlockQuantized } from './gatherBlockQuantized.ts'
import { contribGroupQueryHandlers } from './groupQuery.ts'
import { contribMatMulHandlers } from './matMulNBits.ts'
import { contribMultiHeadHandlers } from './multiHead.ts'
import { contribNormHandlers, defaultNormHandlers } from './norm.ts'
import { contribRotaryHandlers } from './rotary.ts'

export const contribHandlers: HandlerTable = {
  ...contribActivationHandlers,
  ...contribAttentionHandlers,
  ...contribFusedHandlers,
  ...contribGroupQueryHandlers,
  ...contribMatMulHandlers,
  ...contribMultiHeadHandlers,
  ...contribNormHandlers,
  ...contribRotaryHandlers,
  GatherBlockQuantized: gatherBlockQuantized,
}

/** Operators that onnxruntime writes into models without a domain. */
export const defaultDomainHandlers: HandlerTable = { ...defaultNormHandlers }
