/** Operators that ONNX had on trial and dropped, which onnxruntime still runs. */
import { softplus } from '../../../compose/nn.ts'
import type { Handler, HandlerTable } from '../../context.ts'
import * as n from '../../nodes.ts'

/** scale x + a bias for each channel. */
const imageScaler: Handler = (c) => {
  const x = c.need(0)
  const bias = c.floats('bias') ?? []
  c.requireLength('bias', bias, x.shape[1] ?? 0)
  const shift = n.floats(bias, [bias.length, ...x.shape.slice(2).map(() => 1)], x.dtype)
  return n.add(n.mul(x, c.float('scale', 1)), shift)
}

/** Rows and columns left after a border [left, top, right, bottom], or from it on in a size. */
const crop: Handler = (c) => {
  const x = c.need(0)
  const border = c.ints('border') ?? []
  c.requireLength('border', border, 4)
  const [left = 0, top = 0, right = 0, bottom = 0] = border
  const [, , height = 0, width = 0] = x.shape
  const size = c.ints('scale')
  const [rows = 0, columns = 0] = size ?? [height - top - bottom, width - left - right]
  c.requireShape(
    top + rows <= height && left + columns <= width,
    x.shape,
    `the image of a crop of ${rows} x ${columns}`,
  )
  return n.sliceAxis(n.sliceAxis(x, 2, top, top + rows), 3, left, left + columns)
}

export const deprecatedHandlers: HandlerTable = {
  Affine: (c) => n.add(n.mul(c.need(0), c.float('alpha', 1)), c.float('beta', 0)),
  Crop: crop,
  ImageScaler: imageScaler,
  ParametricSoftplus: (c) => n.mul(softplus(n.mul(c.need(0), c.float('beta', 1))), c.float('alpha', 1)),
  Scale: (c) => n.mul(c.need(0), c.float('scale', 1)),
  ScaledTanh: (c) => n.mul(n.tanh(n.mul(c.need(0), c.float('beta', 1))), c.float('alpha', 1)),
}
