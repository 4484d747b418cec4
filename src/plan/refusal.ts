/** Why two pieces of a program are not one kernel. */

export type RefusalCode =
  /** A path between the two through a third kernel would make the kernel graph cyclic; told where the merge would gain otherwise. */
  | 'cycle'
  /** One side is a user's kernel. */
  | 'opaque-boundary'
  /** One side is an effect, or an effect stands between. */
  | 'effect-boundary'
  /** One side is a scatter, whose programs may collide. */
  | 'scatter-boundary'
  /** One side is control flow, with graphs inside that are planned for themselves. */
  | 'region-boundary'
  /** The backward pass computes a value again instead of keeping it: it does so in a kernel of its own time. */
  | 'computed-again'
  /** Recomputing the producer costs more than storing and reading its result. */
  | 'recompute-cost'
  /** Random bits read through padding have no place there. */
  | 'random-in-padding'
  /** More buffers than a kernel of the target may bind. */
  | 'too-many-buffers'
  /** More values live at once than the target holds. */
  | 'too-many-live-values'
  /** A window or a gather reads the result of a reduction, scan or contraction more than once an element. */
  | 'reduction-recomputed'
  /** A reshape between the two regroups the axes of a reduction's result: no axes of one kernel run through both. */
  | 'regrouped-axes'
  /** Only a part of the result of a reduction, scan or contraction is read: a slice, or a piece behind padding or concatenation. */
  | 'reduction-in-part'
  /** A reduction's result is needed again along its own axis, and the row does not fit the target's scratch. */
  | 'row-too-long'
  /** A reduction or scan feeds an operand of a contraction: it would be recomputed for every output block. */
  | 'reduction-in-prologue'
  /** What follows a reduction of a contraction's result needs that result again, or no partial results of it exist. */
  | 'reduction-of-contraction'
  /** In strict mode a reduction would fold in another order than it does alone. */
  | 'strict-order'
  /** Two contractions. */
  | 'two-contractions'
  /** Two contractions in a chain, of which a program would have to hold more than the target takes. */
  | 'chain-too-wide'
  /** What is folded between two contractions is needed before the fold is done, and its sums do not move with it. */
  | 'no-stream'
  /** A reduction's partial results would be as large as what it reads. */
  | 'partials-too-large'
  /** A result whose axes do not line up with the kernel's. */
  | 'unaligned-output'
  /** More code than one launch of the target should hold. */
  | 'too-much-code'
  /** Launched together, most threads of the blocks that one kernel needs would have nothing to do in the many of the other. */
  | 'idle-threads'
  /** Launched together, intermediates would live for longer than the program's peak of memory allows. */
  | 'longer-lifetimes'
  /** The kernel would divide positions by an extent that varies. */
  | 'divided-by-open'
  /** A library of the target computes the product alone, and that is modelled faster. */
  | 'library-product'
  /** Bytes would be saved, but the merged kernel has too few programs to keep the device busy. */
  | 'too-few-programs'
  /** The merged kernel is modelled no faster than the two. */
  | 'no-gain'

export interface Refused {
  readonly ok: false
  readonly code: RefusalCode
  readonly detail: string
}

export const refuse = (code: RefusalCode, detail: string): Refused => ({ ok: false, code, detail })

/** Carries a refusal out of the evaluation. */
export class Refusal {
  readonly refused: Refused
  constructor(refused: Refused) {
    this.refused = refused
  }
}
