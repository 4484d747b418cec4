/** The operators of ai.onnx.ml: classical models and what prepares their features. */
import type { HandlerTable } from '../../context.ts'
import { mlEncoderHandlers } from './encoders.ts'
import { mlLinearHandlers } from './linear.ts'
import { mlSvmHandlers } from './svm.ts'
import { mlTreeHandlers } from './trees.ts'

const strings = 'strings are not imported'
const maps = 'maps are not imported: export the model without them (zipmap off)'

/** Operators that are known and refused, with the reason. */
export const mlReasons: Readonly<Record<string, string>> = {
  CastMap: maps,
  CategoryMapper: strings,
  DictVectorizer: maps,
  ZipMap: maps,
}

export const mlHandlers: HandlerTable = {
  ...mlEncoderHandlers,
  ...mlLinearHandlers,
  ...mlSvmHandlers,
  ...mlTreeHandlers,
  ...Object.fromEntries(
    Object.entries(mlReasons).map(([op, reason]): [string, HandlerTable[string]] => [op, (c) => c.fail(reason)]),
  ),
}
