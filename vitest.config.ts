/** Test runner settings: two processes or more at a time. With `SINTER_TESTS=compiled` sources are compiled once for all of them. */
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { compiledSources } from './test/compiled.ts'
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

/** Files that load the sources anew or replace what a module exports, which Node's own modules do not allow. */
const replacing = ['test/dependable/random.test.ts', 'test/host/engine.test.ts', 'test/ort/kept.test.ts']

const plugins =
  process.env.SINTER_TESTS === 'compiled' ? [await compiledSources(fileURLToPath(new URL('.', import.meta.url)))] : []

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
        plugins,
        test: {
          name: 'apart',
          include: ['test/**/*.test.ts'],
          exclude: ['**/node_modules/**', ...sharing, ...replacing],
        },
      },
      { extends: true, test: { name: 'replacing', include: replacing } },
      { extends: true, plugins, test: { name: 'sharing', include: sharing, isolate: false } },
    ],
  },
})
