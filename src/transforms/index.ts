/** Graph -> graph transforms: forward mode, reverse mode, linearisation, batching. They compose with each other in any order. */
export { type Applied, inlineGraph } from './inline.ts'
export { jvpGraph, type PushedForward, pushForward } from './jvp.ts'
export { type Linearized, linearizeGraph } from './linearize.ts'
export { stopGradient } from './stopGradient.ts'
export { type LinearResult, transposeLinear } from './transpose.ts'
export { type PulledBack, pullBack, vjpGraph } from './vjp.ts'
export { type BatchedGraph, type BatchedNode, batchGraph, vmapGraph } from './vmap.ts'
