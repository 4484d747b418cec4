/** Graph -> graph transforms: forward mode, reverse mode, linearisation, batching. They compose with each other in any order. */
export { stopGradient } from '../compose/stopGradient.ts'
export { type Applied, inlineGraph } from './inline.ts'
export { jvpGraph, type PushedForward, pushForward } from './jvp.ts'
export { type Linearized, linearizeGraph } from './linearize.ts'
export { type LinearResult, transposeLinear } from './transpose.ts'
export { type PulledBack, pullBack, vjpGraph } from './vjp.ts'
export { type BatchedGraph, type BatchedNode, batchGraph, vmapGraph } from './vmap.ts'
