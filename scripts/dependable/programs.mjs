/** Programs are bounded: the slowest of mutated programs to compile and run. */
import { slowest } from './mutants/slowest.mjs'

export const items = [
  {
    id: 'program-mutants',
    what: 'the slowest compilation and run of 3,000 mutated programs',
    unit: 's',
    bound: 2,
    seconds: 180,
    measure: () => slowest('test/random/mutate/compiles.ts', 3000),
  },
]
