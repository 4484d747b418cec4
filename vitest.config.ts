/** Test runner settings: every test file in its own process, two processes or more at a time. */
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import LongFirst from './test/sequencer.ts'

export default defineConfig({
  // Examples import the library by name: in tests, its sources.
  resolve: { alias: { sinter: fileURLToPath(new URL('./src/index.ts', import.meta.url)) } },
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/temporary.ts'],
    setupFiles: ['test/setup.ts'],
    pool: 'forks',
    sequence: { sequencer: LongFirst },
    maxWorkers: Math.min(8, Math.max(2, availableParallelism())),
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['default', './test/reporter.ts'],
  },
})
