/** Scopes and joint evaluation: when tensors' memory is taken and given back. */
import { UserError } from '../../diagnostics/errors.ts'
import { checkFunction } from '../calls/options.ts'
import { placed } from '../calls/place.ts'
import { currentTrace, evaluateAll } from './core.ts'
import { inScope } from './scope.ts'
import { tensorsOf } from './tree.ts'

/**
 * Evaluates all pending tensors of a tree as one program, and gives the tree back. Inside jit it does nothing.
 * @throws E_STRUCTURE for what is no tree, and what running throws: E_OUT_OF_MEMORY, E_DEVICE
 * @example
 * const x = tensor([1, 2])
 * evaluate({ sum: x.sum(), product: x.prod() }) // { sum: 3, product: 2 }
 */
export function evaluate<T>(tree: T): T {
  if (currentTrace() === undefined) evaluateAll(placed(() => tensorsOf(tree, 'what evaluate got')))
  return tree
}

/**
 * Runs `body` and frees every tensor made in it except those in its result, which are evaluated first. Inside jit it only runs
 * the body.
 * @throws E_ARGUMENT for an async body and what is no function, E_STRUCTURE for a result that is no tree
 * @example
 * let inner: Tensor | undefined
 * tidy(() => {
 *   inner = tensor([1, 2])
 *   return inner.mul(3)
 * }) // [3, 6]
 * inner?.disposed // true
 */
export function tidy<R>(body: () => R): R {
  placed(() => checkFunction(body, 'tidy'))
  if (currentTrace() !== undefined) return body()
  return inScope(body, (result) =>
    placed(() => {
      if (result instanceof Promise)
        throw new UserError('E_ARGUMENT', 'tidy of an async function', {
          help: 'await outside, and tidy the synchronous parts',
        })
      const kept = tensorsOf(result, 'the result of tidy')
      evaluateAll(kept)
      return kept
    }),
  )
}
