/**
 * Builds `dist` from `src`: compiles, removes outputs whose source is gone, and makes the command executable.
 *
 * Outputs are overwritten in place, so a program running from `dist` meanwhile never sees it empty.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const dist = join(root, 'dist')
const command = join(dist, 'cli', 'main.js')

const compiled = spawnSync(
  process.execPath,
  [join(root, 'node_modules', 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json', '--listEmittedFiles'],
  { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 },
)
const lines = compiled.stdout.split('\n')
const isEmitted = (line) => line.startsWith('TSFILE: ')
const messages = lines.filter((line) => line !== '' && !isEmitted(line))
if (messages.length > 0) console.error(messages.join('\n'))
if (compiled.stderr !== '') console.error(compiled.stderr)
if (compiled.status !== 0) process.exit(compiled.status ?? 1)

const emitted = new Set(lines.filter(isEmitted).map((line) => resolve(root, line.slice('TSFILE: '.length).trim())))
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
