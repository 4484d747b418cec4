/** The sources, compiled without checks: what scripts run that need the compiler of a checkout, but no build of it. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Compiles `src`, `types` and `test/replay` of a checkout; the folder of the result, in which they lie as there. Whoever asks removes it. */
export function emitted(root) {
  const out = join(root, 'node_modules', '.cache', `emitted-${process.pid}`)
  mkdirSync(out, { recursive: true })
  const project = join(out, 'tsconfig.json')
  writeFileSync(
    project,
    JSON.stringify({
      extends: join(root, 'tsconfig.json'),
      compilerOptions: { noEmit: false, noCheck: true, rootDir: root, outDir: out, allowJs: false },
      include: ['types', 'src', 'test/replay'].map((folder) => join(root, folder)),
    }),
  )
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const made = spawnSync(process.execPath, [tsc, '-p', project], { cwd: root, encoding: 'utf8' })
  if (made.status !== 0) throw new Error(made.stdout + made.stderr)
  writeFileSync(join(out, 'package.json'), readFileSync(join(root, 'package.json')))
  return out
}
