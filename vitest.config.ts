/** Test runner settings: two processes or more at a time. */
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import LongFirst from './test/sequencer.ts'

/**
 * Folders whose files share a process, one after another: they keep nothing outside of themselves, and the compiler that all of them run is
 * loaded once and stays warm. A file anywhere else has a process of its own: those open devices, fill caches, set the environment or measure memory.
 */
const sharing = [
  'affine',
  'compile',
  'compose',
  'graph',
  'kernel',
  'lower',
  'plan',
  'reference',
  'rewrite',
  'scalar',
  'schedule',
  'simt',
  'transforms',
  'wasm',
  'wasm-math',
].map((folder) => `test/${folder}/**/*.test.ts`)

export default defineConfig({
  // Examples import the library by name: in tests, its sources.
  resolve: { alias: { sinter: fileURLToPath(new URL('./src/index.ts', import.meta.url)) } },
  test: {
    globalSetup: ['test/temporary.ts'],
    setupFiles: ['test/setup.ts'],
    pool: 'forks',
    sequence: { sequencer: LongFirst },
    maxWorkers: Math.min(8, Math.max(2, availableParallelism())),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default', './test/reporter.ts'],
    projects: [
      {
        extends: true,
        test: { name: 'apart', include: ['test/**/*.test.ts'], exclude: ['**/node_modules/**', ...sharing] },
      },
      { extends: true, test: { name: 'sharing', include: sharing, isolate: false } },
    ],
  },
})
