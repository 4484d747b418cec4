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

/** Unpacks archives into a fresh folder, which goes with the process. */
export function unpack(names: readonly ('onnx-models' | 'onnx-node-cases')[]): string {
  const root = mkdtempSync(join(tmpdir(), 'sinter-onnx-'))
  process.once('exit', () => rmSync(root, { recursive: true, force: true }))
  for (const name of names) execFileSync('tar', ['-xJf', join(archives ?? '', `${name}.tar.xz`), '-C', root])
  return root
}
