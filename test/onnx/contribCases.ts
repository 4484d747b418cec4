/** Cases of onnxruntime's operators that are refused, each with the reason that the importer gives. */
export const refusedCases: Readonly<Record<string, RegExp>> = {}
