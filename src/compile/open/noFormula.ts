/** Why something of a program follows from its dimensions by no formula: caught where the dimensions have names. */

import type { Node } from '../../graph/node.ts'

export class NoFormula extends Error {
  /** What it is a part of. */
  readonly node: Node | undefined

  constructor(what: string, node: Node | undefined) {
    super(what)
    this.name = 'NoFormula'
    this.node = node
  }
}

/** What has another form at another extent: masks that hold at some alone may be why. */
export class OtherForm extends NoFormula {}
