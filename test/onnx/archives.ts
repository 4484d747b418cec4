/** The folder of ONNX models and node cases that the larger tests read, where SINTER_SHARED names it. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Ten real models, smallest first. */
export const models = [
  'unet_block',
  'lstm',
  'whisper_encoder',
  'bert',
  'gpt2',
  'qwen3',
  'resnext_byob',
  'vit',
  'resnet',
  'mobilenetv3_small',
]

const shared = process.env.SINTER_SHARED
const archives = shared === undefined ? undefined : join(shared, 'onnx')

/** Whether the archives are there. Says loudly what does not run without them. */
export function archivesPresent(what: string): boolean {
  if (archives !== undefined && existsSync(archives)) return true
  console.warn(
    `\n*** ${what} NOT RUN: ${shared === undefined ? 'SINTER_SHARED is not set' : `${archives} is missing`}. ***\n` +
      '*** Set SINTER_SHARED to the folder that holds onnx/onnx-models.tar.xz and onnx/onnx-node-cases.tar.xz. ***\n',
  )
  return false
}

const contribArchive = shared === undefined ? undefined : join(shared, 'contrib', 'contrib-cases.tar.xz')

/** Whether the cases of onnxruntime's operators are there. Says loudly what does not run without them. */
export function contribPresent(what: string): boolean {
  if (contribArchive !== undefined && existsSync(contribArchive)) return true
  console.warn(
    `\n*** ${what} NOT RUN: ${contribArchive === undefined ? 'SINTER_SHARED is not set' : `${contribArchive} is missing`}. ***\n`,
  )
  return false
}

/** Unpacks the cases of onnxruntime's operators; gives their folder, which goes with the process. */
export function unpackContrib(): string {
  const root = mkdtempSync(join(tmpdir(), 'sinter-contrib-'))
  process.once('exit', () => rmSync(root, { recursive: true, force: true }))
  execFileSync('tar', ['-xJf', contribArchive ?? '', '-C', root, '--strip-components', '1'])
  return root
}

/** Unpacks archives into a fresh folder, which goes with the process. */
export function unpack(names: readonly ('onnx-models' | 'onnx-node-cases')[]): string {
  const root = mkdtempSync(join(tmpdir(), 'sinter-onnx-'))
  process.once('exit', () => rmSync(root, { recursive: true, force: true }))
  for (const name of names) execFileSync('tar', ['-xJf', join(archives ?? '', `${name}.tar.xz`), '-C', root])
  return root
}
