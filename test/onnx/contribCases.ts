/** Cases of onnxruntime's operators that are refused, each with the reason that the importer gives. */
const sizedByData = /the shape of its result depends on the values of its input/

export const refusedCases: Readonly<Record<string, RegExp>> = {
  ms_Unique_single: sizedByData,
  onnx_NonMaxSuppression_corners: sizedByData,
  onnx_NonMaxSuppression_yolo_tail: sizedByData,
}
