/**
 * Imports mutants, one after the other, and says on the standard output what happened: a process of its own, so that one that does
 * not come back can be ended. Arguments: the first mutant, the one after the last, and folders of ONNX cases to mutate as well.
 * A line is `N` before mutant N, and `N CODE message` after what is neither a model nor an error with a code of the user's.
 */
import { existsSync, readdirSync, readFileSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { UserError } from '../../../src/diagnostics/errors.ts'
import { verifyGraph } from '../../../src/graph/verify.ts'
import {
  decodeModel,
  type HostTensor,
  type ImportOptions,
  importOnnx,
  readTensorProto,
} from '../../../src/onnx/index.ts'
import { evaluateConstant } from '../../../src/reference/evaluate.ts'
import { makeRng } from '../../random/rng.ts'
import { bases } from './bases.ts'
import { allMessages, readMessage } from './messages.ts'
import { mutant } from './mutations.ts'

/** A model that is mutated, and the values its first data set gives. */
interface Base {
  readonly bytes: Uint8Array
  readonly values: Readonly<Record<string, HostTensor>>
}

/** Cases of at most this many bytes; larger ones are the same operators written out. */
const largest = 4000

function caseOf(dir: string): Base[] {
  const path = join(dir, 'model.onnx')
  if (!existsSync(path) || statSync(path).size > largest) return []
  const bytes = new Uint8Array(readFileSync(path))
  const { graph } = decodeModel(bytes)
  const values = graph.input.flatMap((v, i) => {
    const file = join(dir, 'test_data_set_0', `input_${i}.pb`)
    try {
      return existsSync(file) ? [[v.name, readTensorProto(readFileSync(file))] as const] : []
    } catch (error) {
      if (error instanceof UserError) return []
      throw error
    }
  })
  return [{ bytes, values: Object.fromEntries(values) }]
}

const [, , from = '0', to = '0', ...folders] = process.argv
const own = bases().map((bytes): Base => ({ bytes, values: {} }))
/** By folder. */
const cases = folders.map((folder) =>
  readdirSync(folder)
    .sort()
    .flatMap((name) => caseOf(join(folder, name))),
)
const others = own.map((b) => readMessage(b.bytes, 'model'))
const operators = new Set<string>()
for (const { bytes } of [own, ...cases].flat()) for (const n of decodeModel(bytes).graph.node) operators.add(n.opType)
const stock = { others: others.filter((m) => allMessages(m).length > 0), operators: [...operators].sort() }

function run(seed: number): void {
  const rng = makeRng(seed)
  const base = rng.pick(cases.length > 0 && rng.chance(0.5) ? rng.pick(cases) : own)
  const bytes = mutant(base.bytes, rng, stock)
  const options: ImportOptions = {
    evaluate: evaluateConstant,
    parameters: rng.chance(0.5),
    external: (_, offset, length) => new Uint8Array(Math.min(1024, length ?? 1024)).fill(offset & 63),
    ...(rng.chance(0.7) ? { inputValues: base.values } : {}),
  }
  try {
    verifyGraph(importOnnx(bytes, options).graph)
  } catch (error) {
    if (error instanceof UserError) return
    const [code, message] =
      error instanceof Error
        ? ['code' in error ? String(error.code) : error.name, error.stack ?? '']
        : ['?', String(error)]
    say(`${seed} ${code} ${message.replaceAll('\n', ' | ').slice(0, 600)}\n`)
  }
}

// The first import is of no mutant: what is loaded once is loaded then.
for (const { bytes } of own) {
  try {
    importOnnx(bytes, { evaluate: evaluateConstant, external: () => new Uint8Array(16) })
  } catch (error) {
    if (!(error instanceof UserError)) throw error
  }
}
/** Writes a line; waits while the reader is behind. */
function say(line: string): void {
  for (;;) {
    try {
      writeSync(1, line)
      return
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EAGAIN')) throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5)
    }
  }
}

for (let seed = Number(from); seed < Number(to); seed++) {
  say(`${seed}\n`)
  run(seed)
}
