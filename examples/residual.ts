/**
 * What stands between two layers of a transformer: bias, residual connection, layer normalisation, activation. Every
 * operation alone reads and writes the whole tensor; fused, memory is read once and written once for each result.
 * `npx sinter bench examples/residual.ts`
 */
import { gelu, layerNorm, program } from 'sinter'

const [rows, width] = [4096, 768]

export default program(
  function residual({ x, skip, bias, scale, shift }) {
    const sum = x.add(bias).add(skip)
    return { sum, activated: gelu(layerNorm(sum, { scale, bias: shift })) }
  },
  {
    x: { shape: [rows, width] },
    skip: { shape: [rows, width] },
    bias: { shape: [width] },
    scale: { shape: [width] },
    shift: { shape: [width] },
  },
)
