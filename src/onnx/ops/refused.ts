/** Operators of ONNX that are known and refused, with the reason. */
import type { HandlerTable } from '../context.ts'

const sequences = 'sequences are not imported'
const strings = 'strings are not imported'

export const standardReasons: Readonly<Record<string, string>> = {
  ConcatFromSequence: sequences,
  ImageDecoder: 'images are decoded outside the model',
  Multinomial: 'draws by category are not imported',
  Optional: 'optionals are not imported',
  RegexFullMatch: strings,
  SequenceAt: sequences,
  SequenceConstruct: sequences,
  SequenceEmpty: sequences,
  SequenceErase: sequences,
  SequenceInsert: sequences,
  SequenceLength: sequences,
  SequenceMap: sequences,
  SplitToSequence: sequences,
  StringConcat: strings,
  StringNormalizer: strings,
  StringSplit: strings,
}

export const refusedHandlers: HandlerTable = Object.fromEntries(
  Object.entries(standardReasons).map(([op, reason]) => [op, (c) => c.fail(reason)]),
)
