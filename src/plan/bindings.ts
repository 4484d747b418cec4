/** Buffers that the kernels of a body bind: with reductions that are cut, its main kernel and its finishing stages. */
import { operandsOf, type ValueId } from '../kernel/ir.ts'
import { ancestorsOf } from '../kernel/walk.ts'
import { type Body, type BodyTensor, storedTensors } from './body.ts'
import { follows } from './split.ts'

/** What each of the two binds, a key for every buffer: equal keys are joined where kernels are launched as one. */
export interface Bindings {
  readonly main: ReadonlySet<string>
  readonly finish: ReadonlySet<string>
}

/** A tensor that is read with two shapes is bound twice. */
const readKey = (t: BodyTensor): string => `read ${t.node.id} [${t.shape.join()}]`

/** What a body binds whose reductions in `split` end as partial results. */
export function bindingsOf(body: Body, split: ReadonlySet<ValueId>): Bindings {
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const late = new Set(
    split.size === 0 ? [] : body.lets.flatMap((l) => (split.has(l.id) || follows(l, split, lets) ? [l.id] : [])),
  )
  const [main, finish] = [new Set<string>(), new Set<string>()]
  const [early, after] = [new Map(lets), new Map(lets)]
  for (const id of late) early.delete(id)
  for (const id of split) {
    after.delete(id)
    const [first] = body.stores
    // Of one body alone.
    const key = `partial ${first?.node.id} ${id}`
    main.add(key)
    finish.add(key)
  }
  for (const s of storedTensors(body)) (late.has(s.value) ? finish : main).add(`store ${s.node.id}`)
  const read = (values: Iterable<ValueId>, among: typeof early, to: Set<string>): void => {
    for (const id of ancestorsOf([...values], among)) {
      const op = among.get(id)?.op
      const tensor = op?.kind === 'load' ? body.loads.get(op.param) : undefined
      if (tensor !== undefined) to.add(readKey(tensor))
    }
  }
  const values = (isLate: boolean): ValueId[] =>
    body.stores.flatMap((s) => (late.has(s.value) === isLate ? [s.value] : []))
  const cut = [...split].flatMap((id) => {
    const l = lets.get(id)
    return l === undefined ? [] : operandsOf(l.op)
  })
  read([...values(false), ...cut], early, main)
  read(values(true), after, finish)
  return { main, finish }
}

/** The most buffers that one kernel of a body binds. */
export function mostBuffers(body: Body, split: ReadonlySet<ValueId>): number {
  const { main, finish } = bindingsOf(body, split)
  return Math.max(main.size, finish.size)
}
