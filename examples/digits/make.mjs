/**
 * Trains the digit reader on drawn digits and writes `digits.onnx`, with images it has not seen and their labels beside it.
 *
 *     node examples/digits/make.mjs          # some minutes; the files are in the repository already
 */
import { writeFileSync } from 'node:fs'
import { drawDigits, side } from './draw.mjs'
import { accuracy, logits, makeParameters, trainStep } from './network.mjs'
import { writeModel } from './onnx.mjs'

const steps = Number(process.argv[2] ?? 900)
const batch = 256

/** A `.npy` file. */
function npy(descr, dims, data) {
  const header = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${dims.join(', ')},), }`
  const length = Math.ceil((10 + header.length + 1) / 64) * 64 - 10
  const bytes = Buffer.alloc(10 + length + data.byteLength)
  bytes.write('\x93NUMPY\x01\x00', 0, 'latin1')
  bytes.writeUInt16LE(length, 8)
  bytes.write(`${header.padEnd(length - 1)}\n`, 10, 'latin1')
  Buffer.from(data.buffer).copy(bytes, 10 + length)
  return bytes
}

const parameters = makeParameters(1)
const moments = {}
for (let step = 1; step <= steps; step++) {
  const rate = 0.003 * Math.min(1, step / 50) * (0.5 + 0.5 * Math.cos((Math.PI * step) / steps))
  const { images, labels } = drawDigits(1000 + step, 32)
  const loss = trainStep(parameters, moments, step, rate, images, labels)
  if (step % 50 === 0) console.log(`step ${step}  loss ${loss.toFixed(3)}`)
}
const unseen = drawDigits(7, 1024)
console.log(
  `unseen digits read correctly: ${(100 * accuracy(logits(parameters, unseen.images), unseen.labels)).toFixed(1)}%`,
)

const here = (name) => new URL(name, import.meta.url)
const shown = drawDigits(8, batch)
writeFileSync(here('digits.onnx'), writeModel(parameters, batch))
writeFileSync(here('images.npy'), npy('<f4', [batch, 1, side, side], shown.images))
writeFileSync(here('labels.npy'), npy('|u1', [batch], shown.labels))
