/**
 * Builds `dist` from `src`: compiles, with loops over lists by index (`lists.mjs`), removes outputs whose source is gone, and makes the command executable.
 *
 * Outputs are overwritten in place, so a program running from `dist` meanwhile never sees it empty.
 */
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { listsByIndex } from './lists.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const dist = join(root, 'dist')
const command = join(dist, 'cli', 'main.js')

/** What compilation is made of. Elsewhere lists may come from callers, who may give anything that can be iterated. */
const inside = ['affine', 'codegen', 'kernel', 'lower', 'plan', 'rewrite', 'schedule']
const isInside = (path) => inside.includes(relative(join(root, 'src'), path).split(/[\\/]/)[0])

const shown = (diagnostics) =>
  ts.formatDiagnostics(diagnostics, {
    getCurrentDirectory: () => root,
    getCanonicalFileName: (path) => path,
    getNewLine: () => '\n',
  })

function compiled() {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (d) => console.error(shown([d])) }
  const config = ts.getParsedCommandLineOfConfigFile(join(root, 'tsconfig.build.json'), {}, host)
  if (config === undefined) process.exit(1)
  const { fileNames, options, errors } = config
  const program = ts.createProgram(fileNames, { ...options, listEmittedFiles: true })
  const before = [listsByIndex(program, isInside)]
  const { diagnostics, emittedFiles, emitSkipped } = program.emit(undefined, undefined, undefined, false, { before })
  const all = ts.sortAndDeduplicateDiagnostics([...errors, ...ts.getPreEmitDiagnostics(program), ...diagnostics])
  if (all.length > 0) console.error(shown(all))
  if (all.length > 0 || emitSkipped) process.exit(1)
  return new Set(emittedFiles?.map((path) => resolve(root, path)))
}

const emitted = compiled()
if (existsSync(dist)) {
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath ?? entry.path, entry.name)
    if (entry.isFile() && !emitted.has(path)) rmSync(path)
  }
}

if (existsSync(command)) {
  if (!readFileSync(command, 'utf8').startsWith('#!/usr/bin/env node')) {
    console.error('src/cli/main.ts must start with #!/usr/bin/env node')
    process.exit(1)
  }
  chmodSync(command, 0o755)
}
