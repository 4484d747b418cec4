/**
 * WebGPU beside other libraries, in Node through Dawn: Sinter, jax-js, onnxruntime-web, TensorFlow.js.
 *
 *   node webgpu.mjs --pack FOLDER [--build DIR]     writes FOLDER/webgpu.mjs and the files it needs
 *   node webgpu.mjs [options]                       packs and runs it here (`--help` tells the options)
 *   node FOLDER/webgpu.mjs [options]                runs it where only Node and the package `webgpu` are
 *
 * `--build` is Sinter's build, ../dist unless told.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants } from 'node:zlib'
import { rolldown } from 'rolldown'
import { ortFiles } from './webgpu/ort.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const ort = join(here, 'node_modules', 'onnxruntime-web', 'dist')

const { library, binary } = ortFiles

/** Writes the folder. The WebAssembly of onnxruntime-web is compressed once, until it changes. */
async function pack(folder, build) {
  mkdirSync(folder, { recursive: true })
  const bundle = await rolldown({
    input: join(here, 'webgpu', 'main.mjs'),
    platform: 'node',
    external: ['webgpu'],
    logLevel: 'silent',
    resolve: { alias: { 'sinter-build': build }, mainFields: ['module', 'main'] },
  })
  await bundle.write({ file: join(folder, 'webgpu.mjs'), format: 'esm', codeSplitting: false })
  await bundle.close()
  copyFileSync(join(ort, library), join(folder, library))
  const packed = join(folder, `${binary}.br`)
  if (!existsSync(packed) || statSync(packed).mtimeMs < statSync(join(ort, binary)).mtimeMs) {
    const data = readFileSync(join(ort, binary))
    const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_LGWIN]: 24 }
    writeFileSync(packed, brotliCompressSync(data, { params }))
  }
  return join(folder, 'webgpu.mjs')
}

const args = process.argv.slice(2)
const at = args.indexOf('--build')
const build = resolve(at < 0 ? join(here, '..', 'dist') : args.splice(at, 2)[1])
if (args[0] === '--pack') {
  console.log(await pack(resolve(args[1] ?? '.gpu-peers'), build))
} else {
  const file = await pack(join(here, 'node_modules', '.cache', 'webgpu'), build)
  process.exitCode = spawnSync(process.execPath, [file, ...args], { stdio: 'inherit' }).status ?? 1
}
