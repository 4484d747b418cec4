/** Derivatives of every op: forward against central differences, reverse against forward, to second order. */
import { describe, it } from 'vitest'
import { allCases } from './cases.ts'
import { checkProgram } from './support.ts'

describe('first derivatives', () => {
  it.each(allCases.filter((c) => c.differentiable).map((c) => [c.name, c] as const))('%s', (_, c) => {
    for (const seed of [1, 2]) checkProgram(c, seed)
  })
})

describe('second derivatives', () => {
  it.each(allCases.filter((c) => c.differentiable && c.once !== true).map((c) => [c.name, c] as const))(
    '%s',
    (_, c) => {
      checkProgram(c, 3, 2)
    },
  )
})
