/** A transformer block as it is written on paper. `npx sinter explain examples/block.ts --html block.html` */
import { gelu, layerNorm, linear, matmul, program, softmax, type Tensor } from 'sinter'

const [batch, length, width, heads, hidden] = [4, 128, 256, 4, 1024]

/** [batch, length, width] as [batch, heads, length, width of a head]. */
const split = (x: Tensor): Tensor => x.reshape([batch, length, heads, width / heads]).transpose([0, 2, 1, 3])

export default program(
  function block({ x, ...p }) {
    const normed = layerNorm(x, { scale: p.scale1, bias: p.shift1 })
    const [q, k, v] = [p.wq, p.wk, p.wv].map((w) => split(matmul(normed, w))) as [Tensor, Tensor, Tensor]
    const weights = softmax(matmul(q, k.swapaxes(-1, -2)).mul(1 / Math.sqrt(width / heads)))
    const mixed = matmul(weights, v).transpose([0, 2, 1, 3]).reshape([batch, length, width])
    const attended = x.add(linear(mixed, p.wo, p.bo))
    const up = gelu(linear(layerNorm(attended, { scale: p.scale2, bias: p.shift2 }), p.w1, p.b1))
    return attended.add(linear(up, p.w2, p.b2))
  },
  {
    x: { shape: [batch, length, width] },
    wq: { shape: [width, width] },
    wk: { shape: [width, width] },
    wv: { shape: [width, width] },
    wo: { shape: [width, width] },
    bo: { shape: [width] },
    w1: { shape: [width, hidden] },
    b1: { shape: [hidden] },
    w2: { shape: [hidden, width] },
    b2: { shape: [width] },
    scale1: { shape: [width] },
    shift1: { shape: [width] },
    scale2: { shape: [width] },
    shift2: { shape: [width] },
  },
)
