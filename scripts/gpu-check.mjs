/**
 * Checks and measures the GPU backends: correctness against float64, ONNX cases, and benchmark rows as shares of the copy ceiling.
 *
 *   node scripts/gpu-check.mjs --pack FOLDER       bundles it with the sources into FOLDER/gpu-check.mjs
 *   node scripts/gpu-check.mjs [options]           bundles and runs it here
 *   node FOLDER/gpu-check.mjs [options]            runs it where Node and the native packages (koffi, webgpu) are
 *
 * Options: --device cuda|webgpu, --index N, --parts cases,rows,random,sums,library,open,large,early,first,bench,verify, --rows NAME,NAME, --seeds N, --cases FOLDER (repeatable),
 * --seconds N, --subset (of large: what compute-sanitizer has time for),
 * --peers torch,jax (measured in turn with the library, through python3), --out FILE.json
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

async function pack(folder) {
  mkdirSync(folder, { recursive: true })
  const bundle = await rolldown({
    input: join(root, 'scripts', 'gpu', 'main.mjs'),
    platform: 'node',
    external: ['koffi', 'webgpu'],
    logLevel: 'silent',
    resolve: { tsconfigFilename: join(root, 'tsconfig.json') },
  })
  await bundle.write({ file: join(folder, 'gpu-check.mjs'), format: 'esm', codeSplitting: false })
  await bundle.close()
  const cases = join(root, 'test', 'kernel', 'hard-cases')
  for (const script of ['peers.py', 'problems.py', 'networks.py', 'domains.py', 'neighbours.py'])
    cpSync(join(root, 'scripts', 'gpu', script), join(folder, script))
  for (const f of readdirSync(cases)) if (f.endsWith('.kernel')) cpSync(join(cases, f), join(folder, f))
  return join(folder, 'gpu-check.mjs')
}

const args = process.argv.slice(2)
if (args[0] === '--pack') {
  console.log(await pack(resolve(args[1] ?? '.gpu')))
} else {
  const file = await pack(join(root, 'node_modules', '.cache', 'gpu-check'))
  process.exitCode = spawnSync(process.execPath, [file, ...args], { stdio: 'inherit' }).status ?? 1
}
