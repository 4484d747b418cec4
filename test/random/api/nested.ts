/** Steps of random programs that call functions of the program: derivatives, batches, control flow, rules, optimisers. */
import { zeros } from '../../../src/index.ts'
import { type DType, isFloat, isInteger } from '../../../src/types/dtype.ts'
import type { Shape } from '../../../src/types/shape.ts'
import type { Scope, Step, Var, Writer } from './writer.ts'

type Made = Var | undefined
const deepest = 3
const names = (vars: readonly Var[]): string => vars.map((v) => v.name).join(', ')

/** Distinct variables that a function is called with. */
function operands(w: Writer, scope: Scope, most: number, accept: (v: Var) => boolean): Var[] {
  const found = new Set<Var>()
  for (let i = w.rng.int(1, most); i > 0; i--) {
    const v = w.find(scope, accept)
    if (v !== undefined) found.add(v)
  }
  return [...found]
}

const differentiable = (v: Var): boolean => isFloat(v.value.dtype) && v.value.size > 0
const size = (w: Writer, scope: Scope): number => Math.max(1, w.rng.int(2, 6) - scope.depth)

/** An expression of a type made of what a scope has: a variable of it, or one forced into it. */
function shaped(w: Writer, scope: Scope, shape: Shape, dtype: DType, base?: Var): string {
  const v = w.find(
    scope,
    (x) =>
      x !== base && x.value.dtype === dtype && x.value.rank === shape.length && x.value.shape.join() === shape.join(),
  )
  // Carries of loops must not grow.
  if (v !== undefined) return isFloat(dtype) && scope.varying ? `s.tanh(${v.name})` : v.name
  const own = base?.name ?? `s.zeros(${JSON.stringify(shape)}, '${dtype}')`
  if (dtype === 'bool') return `s.logicalNot(${own})`
  if (isInteger(dtype)) return `${own}.add(1)`
  const x = w.float(scope, (y) => y !== base && y.value.size > 0)
  return x === undefined ? `${own}.mul(0.5)` : `${own}.mul(0.5).add(s.tanh(${x.name}.mean()).astype('${dtype}'))`
}

/** A scalar loss of the latest floats of a body. */
function lossOf(w: Writer, scope: Scope): string | undefined {
  const x = scope.vars.findLast(differentiable)
  if (x === undefined) return undefined
  const y = w.float(scope, (v) => v !== x && v.value.size > 0)
  const all = w.rng.pick([`${x.name}.sum()`, `${x.name}.mean()`, `${x.name}.square().mean()`, `${x.name}.max()`])
  return y === undefined || w.rng.chance(0.4) ? all : `${all}.add(${y.name}.mean())`
}

function derivative(w: Writer, scope: Scope): Made {
  const args = operands(w, scope, 2, differentiable)
  if (args.length === 0) return undefined
  const body = w.inside(scope, args)
  const params = names(body.vars)
  w.write(body, size(w, scope))
  const loss = lossOf(w, body)
  if (loss === undefined) return undefined
  const all = JSON.stringify(args.map((_, i) => i))
  const kind = w.rng.int(0, 3)
  const aux = body.vars.at(-1)
  if (kind === 0 && aux !== undefined) {
    const f = w.functionText(body, params, `[${loss}, ${aux.name}]`)
    return w.emitList(
      scope,
      `(([[a, b], c]) => [a, b, ...c])(s.valueAndGrad(${f}, { argnums: ${all}, hasAux: true })(${names(args)}))`,
    )
  }
  const f = w.functionText(body, params, loss)
  if (kind === 1) return w.emitList(scope, `s.valueAndGrad(${f})(${names(args)})`)
  return w.emitList(scope, `s.grad(${f}, { argnums: ${all} })(${names(args)})`)
}

/** A function of several results, for the transforms that take any. */
function mapping(
  w: Writer,
  scope: Scope,
  args: readonly Var[],
): { readonly f: string; readonly results: number } | undefined {
  const body = w.inside(scope, args)
  const params = names(body.vars)
  w.write(body, size(w, scope))
  const floats = body.vars.filter(differentiable)
  if (floats.length === 0) return undefined
  const results = floats.slice(-w.rng.int(1, 2))
  return { f: w.functionText(body, params, `[${names(results)}]`), results: results.length }
}

function pullback(w: Writer, scope: Scope): Made {
  const args = operands(w, scope, 2, differentiable)
  const made = args.length === 0 ? undefined : mapping(w, scope, args)
  if (made === undefined) return undefined
  const cotangent = w.rng.pick([
    'ys',
    'ys.map((y) => s.onesLike(y))',
    'ys.map((y, i) => (i === 0 ? y.mul(0.5) : null))',
  ])
  const again = w.rng.chance(0.2) ? ', ...back(ys)' : ''
  const list = `(([ys, back]) => [...ys, ...back(${cotangent})${again}])`
  return w.emitList(scope, `${list}(s.vjp(${made.f}, ${names(args)}))`)
}

function pushforward(w: Writer, scope: Scope): Made {
  const args = operands(w, scope, 2, differentiable)
  const made = args.length === 0 ? undefined : mapping(w, scope, args)
  if (made === undefined) return undefined
  const tangents = args.map((a, i) =>
    i > 0 && w.rng.chance(0.3)
      ? 'null'
      : w.rng.pick([`${a.name}.mul(0.5)`, `s.onesLike(${a.name})`, w.like(scope, a.value.shape, a.value.dtype).name]),
  )
  return w.rng.chance(0.5)
    ? w.emitList(scope, `s.jvp(${made.f}, [${names(args)}], [${tangents.join(', ')}]).flat()`)
    : w.emitList(
        scope,
        `(([ys, push]) => [...ys, ...push(${tangents.join(', ')})])(s.linearize(${made.f}, ${names(args)}))`,
      )
}

function jacobian(w: Writer, scope: Scope): Made {
  const x = w.float(scope, (v) => v.value.size > 0 && v.value.size <= 12)
  if (x === undefined) return undefined
  const body = w.inside(scope, [x])
  const params = names(body.vars)
  w.write(body, size(w, scope))
  const y = body.vars.findLast((v) => differentiable(v) && v.value.size <= 20)
  if (y === undefined) return undefined
  if (w.rng.chance(0.3) && x.value.size <= 5) {
    const loss = lossOf(w, body)
    return loss === undefined ? undefined : w.emit(scope, `s.hessian(${w.functionText(body, params, loss)})(${x.name})`)
  }
  return w.emit(scope, `s.${w.rng.pick(['jacfwd', 'jacrev'])}(${w.functionText(body, params, y.name)})(${x.name})`)
}

function batch(w: Writer, scope: Scope): Made {
  const first = w.find(scope, (v) => v.value.rank > 0 && v.value.size > 0)
  if (first === undefined) return undefined
  const axis = w.rng.int(0, first.value.rank - 1)
  const extent = first.value.shape[axis] ?? 1
  if (extent > 40) return undefined
  const args: { readonly v: Var; readonly axis: number | null }[] = [{ v: first, axis }]
  for (const v of operands(w, scope, 2, (x) => x.value.size > 0)) {
    const at = v.value.shape.indexOf(extent)
    args.push({ v, axis: at < 0 || w.rng.chance(0.3) ? null : w.rng.chance(0.3) ? at - v.value.rank : at })
  }
  const examples = args.map(({ v, axis: at }) => {
    const { value, exact } = v
    if (at === null) return { value, exact }
    const k = at < 0 ? at + value.rank : at
    return { value: value.slice(...Array.from({ length: k }, () => null), 0), exact }
  })
  const body = w.inside(scope, examples, true)
  const params = names(body.vars)
  w.write(body, size(w, scope) + 1)
  const results = body.vars.slice(-w.rng.int(1, 3))
  const outAxes = results.map((r) => w.rng.int(w.rng.chance(0.3) ? -1 : 0, w.rng.chance(0.5) ? 0 : r.value.rank))
  const f = w.functionText(body, params, `[${names(results)}]`)
  const options = `{ inAxes: ${JSON.stringify(args.map((a) => a.axis))}, outAxes: ${JSON.stringify(outAxes)} }`
  return w.emitList(scope, `s.vmap(${f}, ${options})(${names(args.map((a) => a.v))})`)
}

function loop(w: Writer, scope: Scope): Made {
  const carries = operands(w, scope, 3, () => true)
  if (w.rng.chance(0.4)) carries.push(w.like(scope, [], w.rng.pick(['f32', 'i32'])))
  const first = w.rng.chance(0.8) ? w.find(scope, (v) => v.value.rank > 0 && (v.value.shape[0] ?? 99) <= 9) : undefined
  const n = first?.value.shape[0] ?? w.rng.int(0, 5)
  const more = w.find(scope, (v) => v !== first && v.value.rank > 0 && v.value.shape[0] === n)
  const sequences = first === undefined ? [] : more === undefined || w.rng.chance(0.5) ? [first] : [first, more]
  if (n === 0 && sequences.some((v) => v.value.size === 0)) return undefined
  const elements = sequences.map((v) => ({ value: v.value.slice(0), exact: v.exact }))
  const body = w.inside(scope, [...carries, ...elements], true)
  const own = [...body.vars]
  w.write(body, size(w, scope) + 1)
  const [taken, each] = [own.slice(0, carries.length), own.slice(carries.length)]
  const next = carries.map((c, i) => shaped(w, body, c.value.shape, c.value.dtype, taken[i]))
  const ys = body.vars.slice(-w.rng.int(0, 2)).filter((v) => !own.includes(v))
  const f = w.functionText(body, `[${names(taken)}], [${names(each)}]`, `[[${next.join(', ')}], [${names(ys)}]]`)
  const options = `{ length: ${n}, reverse: ${w.rng.chance(0.3)} }`
  return w.emitList(scope, `s.scan(${f}, [${names(carries)}], [${names(sequences)}], ${options}).flat()`)
}

function counted(w: Writer, scope: Scope): Made {
  const carries = operands(w, scope, 3, () => true)
  if (carries.length === 0) return undefined
  const start = { value: zeros([], 'i32'), exact: true }
  const body = w.inside(scope, [start, ...carries], true)
  const [i, ...taken] = [...body.vars]
  w.write(body, size(w, scope))
  const next = carries.map((c, k) => shaped(w, body, c.value.shape, c.value.dtype, taken[k])).join(', ')
  const n = w.rng.int(0, 4)
  if (i === undefined) return undefined
  if (w.rng.chance(0.5)) {
    const f = w.functionText(body, `${i.name}, [${names(taken)}]`, `[${next}]`)
    return w.emitList(scope, `s.foriLoop(${w.rng.int(-1, 1)}, ${n}, ${f}, [${names(carries)}])`)
  }
  const limit = w.find(scope, (v) => isInteger(v.value.dtype) && v.value.size > 0 && !scope.varying)
  const bound = limit === undefined ? String(n) : `${limit.name}.max().astype('i32').clip(0, 4)`
  const f = w.functionText(body, `[${i.name}, ${names(taken)}]`, `[${i.name}.add(1), ${next}]`)
  return w.emitList(scope, `s.whileLoop(([i]) => i.less(${bound}), ${f}, [s.zeros([], 'i32'), ${names(carries)}])`)
}

function branches(w: Writer, scope: Scope): Made {
  const args = operands(w, scope, 3, () => true)
  const test = w.find(scope, (v) => v.exact && v.value.size > 0)
  if (test === undefined || args.length === 0) return undefined
  const then = w.inside(scope, args)
  const params = names(then.vars)
  w.write(then, size(w, scope))
  const results = then.vars.slice(-w.rng.int(1, 2))
  const otherwise = w.inside(scope, args)
  const others = names(otherwise.vars)
  w.write(otherwise, size(w, scope))
  const same = results.map((r) => shaped(w, otherwise, r.value.shape, r.value.dtype))
  const p = test.value.dtype === 'bool' ? `${test.name}.any()` : `${test.name}.max().greater(${w.rng.int(0, 3)})`
  const f = w.functionText(then, params, `[${names(results)}]`)
  const g = w.functionText(otherwise, others, `[${same.join(', ')}]`)
  return w.emitList(scope, `s.cond(${p}, ${f}, ${g}, ${names(args)})`)
}

function wrapped(w: Writer, scope: Scope): Made {
  const args = operands(w, scope, 3, () => true)
  if (args.length === 0) return undefined
  const body = w.inside(scope, args)
  const params = names(body.vars)
  w.write(body, size(w, scope))
  const results = body.vars.slice(-w.rng.int(1, 3))
  const f = w.functionText(body, params, `[${names(results)}]`)
  return w.emitList(scope, `s.${w.rng.pick(['checkpoint', 'checkpoint', 'jit'])}(${f})(${names(args)})`)
}

function rule(w: Writer, scope: Scope): Made {
  const args = operands(w, scope, 2, differentiable)
  const [x] = args
  if (x === undefined) return undefined
  const { shape, dtype } = x.value
  const body = w.inside(scope, args)
  const params = names(body.vars)
  w.write(body, size(w, scope))
  const f = w.define(scope, w.functionText(body, params, shaped(w, body, shape, dtype, body.vars[0])))
  const tail = args.length > 1 ? ', b' : ''
  if (w.rng.chance(0.5)) {
    const also = args[1] === undefined ? '' : `.add(db.mean().astype('${dtype}'))`
    const tangent = `da.mul(s.cos(a))${also}`
    const slopes = args.length > 1 ? '[a, b], [da, db]' : '[a], [da]'
    return w.emit(scope, `s.customJvp(${f}, (${slopes}) => [${f}(a${tail}), ${tangent}])(${names(args)})`)
  }
  const other = args.length > 1 ? w.rng.pick([', null', ', s.zerosLike(b)', ', b.mul(ct.mean().astype(b.dtype))']) : ''
  const back = `([a${tail}], ct) => [ct.mul(s.sin(a))${other}]`
  return w.emit(scope, `s.customVjp(${f}, (a${tail}) => [${f}(a${tail}), [a${tail}]], ${back})(${names(args)})`)
}

const optimisers = [
  'sgd({ learningRate: 0.1 })',
  'sgd({ learningRate: 0.1, momentum: 0.9, nesterov: true })',
  'adam({ learningRate: 0.01, epsilon: 0.01 })',
  'adamw({ learningRate: (n) => n.astype("f32").mul(0.01), weightDecay: 0.1, epsilon: 0.01 })',
] as const

function optimiser(w: Writer, scope: Scope): Made {
  const params = operands(w, scope, 3, differentiable)
  if (params.length === 0) return undefined
  const body = w.inside(scope, params)
  const own = names(body.vars)
  w.write(body, size(w, scope))
  const loss = lossOf(w, body)
  if (loss === undefined) return undefined
  const f = w.functionText(body, `[${own}]`, loss)
  const kind = w.rng.int(0, optimisers.length - 1)
  const made = `s.optim.${optimisers[kind]}`
  const states = params.map(({ value }): DType => (value.dtype === 'f64' ? 'f64' : 'f32'))
  const slot = (positive: boolean): string => {
    const vars = params.map(({ value }, i) => {
      const n = w.inputs.length + 1
      const data = `real(${value.size}, ${n}, ${positive ? '0.1, 1' : '-1, 1'})`
      return w.input(value.shape, states[i] ?? 'f32', data, true)
    })
    return `[${names(vars)}]`
  }
  const step = w.input([], 'i32', '[3]').name
  const slots =
    kind === 0 ? '' : kind === 1 ? `, velocity: ${slot(false)}` : `, first: ${slot(false)}, second: ${slot(true)}`
  const gradient = `s.grad(${f})([${names(params)}])`
  const given = w.rng.chance(0.3) ? `s.optim.clipByGlobalNorm(${gradient}, 1)` : gradient
  return w.emitList(scope, `s.tree.leaves(${made}.update(${given}, { step: ${step}${slots} }, [${names(params)}]))`)
}

/** Many tensors of many shapes at once, as the parameters of a model. */
function crowd(w: Writer, scope: Scope): Made {
  if (scope.depth > 0) return undefined
  const vars = Array.from({ length: w.rng.int(6, 20) }, () => {
    const shape = w.rng.pick([[], [1], [3], [7], [33], [5, 7], [3, 33], [2, 3, 4], [1, 9], [0]])
    const known = w.rng.chance(0.3) ? w.float(scope) : undefined
    return known ?? w.input(shape, w.rng.pick(w.options.floats))
  })
  const f = w.rng.pick([
    '(x, i) => s.tanh(x).mul(0.5).add(i)',
    '(x, i) => s.sin(x).sub(x.mean())',
    '(x, i, all) => s.sigmoid(x).add(all[0].mean())',
    '(x, i) => (i % 2 === 0 ? x.square() : s.softmax(x.flatten(), 0))',
    '(x, i) => s.grad((v) => s.sin(v).mul(i).sum())(x)',
  ])
  return w.emitList(scope, `[${names([...new Set(vars)])}].map(${f})`)
}

const shallow =
  (apply: (w: Writer, scope: Scope) => Made): Step[2] =>
  (w, scope) =>
    scope.depth < deepest && w.rng.chance(1 / (1 + scope.depth)) ? apply(w, scope) : undefined

export const nestedSteps: readonly Step[] = [
  [4, 'derivative', shallow(derivative)],
  [2, 'pullback', shallow(pullback)],
  [2, 'pushforward', shallow(pushforward)],
  [1, 'jacobian', shallow(jacobian)],
  [3, 'batch', shallow(batch)],
  [3, 'loop', shallow(loop)],
  [2, 'counted', shallow(counted)],
  [2, 'branches', shallow(branches)],
  [2, 'wrapped', shallow(wrapped)],
  [2, 'rule', shallow(rule)],
  [2, 'optimiser', shallow(optimiser)],
  [1, 'crowd', crowd],
]
