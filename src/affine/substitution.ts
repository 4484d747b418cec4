/** A substitution that goes through many expressions of one body: equal ones, which most index maps and masks are made of, are rebuilt once. */
import { type Atom, type Expr, substitute } from './expr.ts'
import { mapPredicate, type Predicate, predicateKey } from './predicate.ts'

/** Where atoms are replaced: of expressions, of lists of coordinates, and of predicates. What was one list stays one, what holds no such atom is as it was. */
export class Substitution {
  private readonly map: (a: Atom) => Expr | undefined
  private readonly exprs = new Map<string, Expr>()
  private readonly lists = new Map<readonly Expr[], readonly Expr[]>()
  private readonly predicates = new Map<string, Predicate>()

  /** `map`: what an atom becomes; undefined keeps it. It answers for an atom as it did before. */
  constructor(map: (a: Atom) => Expr | undefined) {
    this.map = map
  }

  readonly of = (e: Expr): Expr => {
    if (e.terms.length === 0) return e
    // Of what stands in place of tile values the key does not tell all.
    if (e.hasValues !== false) return substitute(e, this.map)
    const have = this.exprs.get(e.key)
    if (have !== undefined) return have
    const made = substitute(e, this.map)
    this.exprs.set(e.key, made)
    return made
  }

  readonly ofList = (list: readonly Expr[]): readonly Expr[] => {
    const have = this.lists.get(list)
    if (have !== undefined) return have
    const mapped = list.map(this.of)
    const made = mapped.every((e, i) => e === list[i]) ? list : mapped
    this.lists.set(list, made)
    return made
  }

  readonly ofPredicate = (p: Predicate): Predicate => {
    if (p.length === 0) return p
    if (p.some((b) => b.expr.hasValues !== false)) return mapPredicate(p, this.of)
    const key = predicateKey(p)
    const have = this.predicates.get(key)
    if (have !== undefined) return have
    const made = mapPredicate(p, this.of)
    this.predicates.set(key, made)
    return made
  }
}
