/**
 * Performance fuzzing (bench/cliffs): random programs, timed fused and unfused and held against a floor.
 *
 *   npm run cliffs -- --device wasm|cuda|webgpu --seeds N [--seed S] [--rows] [--json FILE] [--threads T]
 *   node scripts/cliffs.mjs --pack FOLDER      bundles it with the library into FOLDER/cliffs.mjs
 *   node FOLDER/cliffs.mjs [options]           runs it where Node and the native packages (koffi, webgpu) are
 *
 * bench/cliffs/README.md has all options.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

async function pack(folder) {
  mkdirSync(folder, { recursive: true })
  const bundle = await rolldown({
    input: join(root, 'bench', 'cliffs', 'main.ts'),
    platform: 'node',
    external: ['koffi', 'webgpu'],
    logLevel: 'silent',
    resolve: { tsconfigFilename: join(root, 'tsconfig.json') },
  })
  const file = join(folder, 'cliffs.mjs')
  await bundle.write({ file, format: 'esm', codeSplitting: false })
  await bundle.close()
  return file
}

const args = process.argv.slice(2)
if (args[0] === '--pack') {
  console.log(await pack(resolve(args[1] ?? '.gpu')))
} else {
  const file = await pack(join(root, 'node_modules', '.cache', 'cliffs'))
  process.exitCode = spawnSync(process.execPath, [file, ...args], { stdio: 'inherit' }).status ?? 1
}
