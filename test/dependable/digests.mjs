/**
 * Digests that every engine must give: random bits in both modes, and in strict the normals, the distributions that are made by functions and
 * comparisons, and every function of doubles.
 * Run by itself with the path of a build (`bun test/dependable/digests.mjs dist/index.js`), it says which differ, and exits 1.
 */
import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

/** First digits of the SHA-256 of 100,003 elements (10,007 of distributions) of key 12345. */
export const expected = {
  'bits u8': '59afb0e87c43',
  'bits u16': '0437c6fd3c13',
  'bits u32': '421e81e66a4e',
  'uniform f32': '8d11ba955377',
  'uniform f64': '6aba452c2788',
  'uniform f16': 'b11ce6b9b1a3',
  'uniform bf16': '2a6589f9584c',
  integers: '1caad8c8953a',
  bernoulli: '0f28da5d09fc',
  dropout: '996eb38fa3aa',
  'strict normal f32': '0efd9e4c7423',
  'strict normal f16': '628643c87062',
  'strict normal bf16': '6159fd20a402',
  'strict exponential': 'ec95472c5b20',
  'strict gumbel': 'd2c1a8631365',
  'strict truncatedNormal': '6d6667b7a4f9',
  'strict gamma': '0f72e6208bf6',
  'strict beta': '196bb300c630',
  'strict categorical': '6761733fdec7',
  'strict permutation': '59c0f25773cd',
  'strict choice': 'e1ca68cd5e72',
  'strict normal f64': '0df8de923499',
  'strict exp f64': '49c60aab2c1e',
  'strict expm1 f64': '58a0da180d38',
  'strict log f64': 'b94e30617c15',
  'strict log1p f64': '25ccb951e8b3',
  'strict sin f64': 'ed606f34c2e5',
  'strict cos f64': 'cb138b550488',
  'strict tan f64': 'd1f43ffbcb41',
  'strict atan f64': '2d84bde9139d',
  'strict sinh f64': '1aa7708a4ef7',
  'strict cosh f64': '91321f0ef0cd',
  'strict tanh f64': '46226fd56577',
  'strict asinh f64': '5a1f44bed81a',
  'strict erf f64': '675268a03abc',
  'strict sigmoid f64': 'b7358b37774f',
  'strict erfc f64': '1f42af49e96b',
  'strict lgamma f64': 'eb7f2a951e9d',
  'strict digamma f64': '231ce4662a01',
  'strict cbrt f64': 'efaa4b15fa4d',
  'strict asin f64': '5758b05e86e5',
  'strict acos f64': 'b215a1fd05d6',
  'strict atanh f64': '40ccb8835a8b',
  'strict erfinv f64': '39e73d54e62a',
  'strict acosh f64': '6f0f809f0e24',
  'strict log of small f64': '331b234669d7',
  'strict sin of large f64': '195df3061ce0',
  'strict pow f64': '67bc6c352d01',
  'strict atan2 f64': '1832a3b40efb',
}

const plain = 'exp expm1 log log1p sin cos tan atan sinh cosh tanh asinh erf sigmoid erfc lgamma digamma cbrt'.split(
  ' ',
)
const inverse = ['asin', 'acos', 'atanh', 'erfinv']

const shape = [100_003]
const few = [10_007]

async function digest(x) {
  const data = await x.data()
  return createHash('sha256')
    .update(Buffer.from(data.buffer, data.byteOffset, data.byteLength))
    .digest('hex')
    .slice(0, 12)
}

/** The digests of an API on its current device. */
export async function digests(api) {
  const { random } = api
  const key = random.key(12345)
  const draws = {
    ...Object.fromEntries(['u8', 'u16', 'u32'].map((d) => [`bits ${d}`, (k) => random.bits(k, shape, d)])),
    ...Object.fromEntries(
      ['f32', 'f64', 'f16', 'bf16'].map((d) => [`uniform ${d}`, (k) => random.uniform(k, shape, d)]),
    ),
    integers: (k) => random.integers(k, shape, -5, 1000),
    bernoulli: (k) => random.bernoulli(k, 0.3, shape),
    dropout: (k) => api.dropout(api.ones(shape), k, 0.3),
  }
  const found = {}
  for (const [name, draw] of Object.entries(draws)) {
    const [strict, fast] = [api.jit(draw, { mode: 'strict' })(key), api.jit(draw, { mode: 'fast' })(key)]
    const [a, b] = [await digest(strict), await digest(fast)]
    found[name] = a === b ? a : `${a} strict, ${b} fast`
  }
  for (const d of ['f32', 'f64', 'f16', 'bf16'])
    found[`strict normal ${d}`] = await digest(api.jit((k) => random.normal(k, shape, d), { mode: 'strict' })(key))
  const strict = {
    exponential: (k) => random.exponential(k, few),
    gumbel: (k) => random.gumbel(k, few),
    truncatedNormal: (k) => random.truncatedNormal(k, -1, 2, few),
    gamma: (k) => random.gamma(k, 2.5, few),
    beta: (k) => random.beta(k, 0.5, 2, few),
    categorical: (k) => random.categorical(k, api.linspace(-1, 1, 5), { shape: few }),
    permutation: (k) => random.permutation(k, 10_007),
    choice: (k) => random.choice(k, 100, few),
  }
  for (const [name, draw] of Object.entries(strict))
    found[`strict ${name}`] = await digest(api.jit(draw, { mode: 'strict' })(key))
  // Whole numbers over 2048, to 4.9; in [-1, 1], from 1, and beyond what one reduction of an angle takes, made of them exactly.
  const x = api.arange(0, few[0], 1, 'f64').div(2048)
  const unit = x.div(5)
  const functions = {
    ...Object.fromEntries(plain.map((name) => [name, (a) => api[name](a)])),
    ...Object.fromEntries(inverse.map((name) => [name, (_, u) => api[name](u)])),
    acosh: (a) => api.acosh(a.add(1)),
    'log of small': (a) => api.log(a.mul(2 ** -1040)),
    'sin of large': (a) => api.sin(a.mul(2 ** 40)),
    pow: (a) => api.pow(a, a.sub(2)),
    atan2: (a, u) => api.atan2(u.sub(0.5), a.sub(2)),
  }
  for (const [name, f] of Object.entries(functions))
    found[`strict ${name} f64`] = await digest(api.jit(f, { mode: 'strict' })(x, unit))
  return found
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(resolve(process.argv[1])).href) {
  const found = await digests(await import(pathToFileURL(resolve(process.argv[2] ?? 'dist/index.js')).href))
  const wrong = Object.keys(expected).filter((name) => found[name] !== expected[name])
  for (const name of wrong) console.log(`${name}: ${found[name]}, expected ${expected[name]}`)
  console.log(`${Object.keys(expected).length - wrong.length} of ${Object.keys(expected).length} as expected`)
  process.exit(wrong.length === 0 ? 0 : 1)
}
