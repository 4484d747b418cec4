/** Scopes and joint evaluation: when tensors' memory is taken and given back. */
import { UserError } from '../diagnostics/errors.ts'
import { currentTrace, evaluateAll } from './core.ts'
import { checkFunction } from './options.ts'
import { placed } from './place.ts'
import { inScope } from './scope.ts'
import { tensorsOf } from './tree.ts'

/** Evaluates all pending tensors of a tree as one program, and gives the tree back. Inside jit it does nothing. Throws E_STRUCTURE. */
export function evaluate<T>(tree: T): T {
  if (currentTrace() === undefined) evaluateAll(placed(() => tensorsOf(tree, 'what evaluate got')))
  return tree
}

/**
 * Runs `body` and frees every tensor made in it except those in its result, which are evaluated first. Inside jit it only
 * runs the body. Throws E_ARGUMENT for an async body.
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
