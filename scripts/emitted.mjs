/** The sources, compiled without checks: what scripts run that need the compiler of a checkout, but no build of it. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { emit, optionsIn } from './emit.mjs'

/** Compiles `src`, `types` and `test/replay` of a checkout as `dist` is; the folder of the result, in which they lie as there. Whoever asks removes it. */
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
  const { messages } = emit(root, optionsIn(project))
  if (messages !== '') throw new Error(messages)
  writeFileSync(join(out, 'package.json'), readFileSync(join(root, 'package.json')))
  return out
}
