/** Runs the command line inside the test, with its output captured; temporary folders; cases in ONNX's layout. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { main } from '../../src/cli/commands.ts'
import { consoleOn } from '../../src/cli/console.ts'
import { encodeModel, encodeTensor, type ModelSpec, type TensorSpec } from '../onnx/encode.ts'

export interface Result {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** What the command line prints, without colours. */
export async function sinter(...args: string[]): Promise<Result> {
  const out: string[] = []
  const err: string[] = []
  const sink = (to: string[]) => ({ write: (text: string) => void to.push(text), colour: false })
  const code = await main(args, consoleOn(sink(out), sink(err)))
  const text = (parts: readonly string[]): string => parts.join('').replace(/\n$/, '')
  return { code, out: text(out), err: text(err) }
}

/** A folder that goes away after the tests of a file. */
export function temporaryFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'sinter-cli-'))
  afterAll(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** f32 values as bytes. */
export const floats = (...values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer)
/** i64 values as bytes. */
export const longs = (...values: number[]): Uint8Array => new Uint8Array(BigInt64Array.from(values, BigInt).buffer)

export interface CaseSpec {
  readonly model: ModelSpec
  readonly inputs: readonly TensorSpec[]
  readonly outputs: readonly TensorSpec[]
}

/** Writes a case folder; gives its path. */
export function writeCase(root: string, name: string, { model, inputs, outputs }: CaseSpec): string {
  const dir = join(root, name)
  const set = join(dir, 'test_data_set_0')
  mkdirSync(set, { recursive: true })
  writeFileSync(join(dir, 'model.onnx'), encodeModel(model))
  inputs.forEach((t, i) => {
    writeFileSync(join(set, `input_${i}.pb`), encodeTensor(t))
  })
  outputs.forEach((t, i) => {
    writeFileSync(join(set, `output_${i}.pb`), encodeTensor(t))
  })
  return dir
}

/** f32[n] in a case file. */
export const vector = (name: string, ...values: number[]): TensorSpec => ({
  name,
  type: 1,
  dims: [values.length],
  raw: floats(...values),
})
