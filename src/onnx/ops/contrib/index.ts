/** The operators of onnxruntime's own domain, com.microsoft, as compositions; and what it keeps in ONNX's. */
import type { HandlerTable } from '../../context.ts'
import { contribRegionHandlers } from '../regions.ts'
import { contribStateHandlers } from '../state.ts'
import { contribActivationHandlers } from './activation.ts'
import { contribAttentionHandlers } from './attention.ts'
import { deprecatedHandlers } from './deprecated.ts'
import { contribFusedHandlers } from './fused.ts'
import { gatherBlockQuantized } from './gatherBlockQuantized.ts'
import { contribGroupQueryHandlers } from './groupQuery.ts'
import { contribIntegerHandlers } from './integer.ts'
import { contribMatMulHandlers } from './matMulNBits.ts'
import { contribMiscHandlers } from './misc.ts'
import { contribMoeHandlers } from './moe.ts'
import { contribMultiHeadHandlers } from './multiHead.ts'
import { contribNormHandlers, defaultNormHandlers } from './norm.ts'
import { contribQuantizedHandlers } from './quantized.ts'
import { contribRefusedHandlers } from './refused.ts'
import { contribRotaryHandlers } from './rotary.ts'

export const contribHandlers: HandlerTable = {
  ...contribActivationHandlers,
  ...contribAttentionHandlers,
  ...contribFusedHandlers,
  ...contribGroupQueryHandlers,
  ...contribIntegerHandlers,
  ...contribMatMulHandlers,
  ...contribMiscHandlers,
  ...contribMoeHandlers,
  ...contribMultiHeadHandlers,
  ...contribNormHandlers,
  ...contribQuantizedHandlers,
  ...contribRefusedHandlers,
  ...contribRegionHandlers,
  ...contribRotaryHandlers,
  ...contribStateHandlers,
  GatherBlockQuantized: gatherBlockQuantized,
}

/** Operators that onnxruntime writes into models without a domain. */
export const defaultDomainHandlers: HandlerTable = { ...defaultNormHandlers, ...deprecatedHandlers }
