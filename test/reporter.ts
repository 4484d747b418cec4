/** A reporter whose last line counts the tests: `N passed, N failed, N skipped`. */
import type { Reporter, TestModule } from 'vitest/node'

interface Counts {
  passed: number
  failed: number
  skipped: number
}

/**
 * Counts the tests of a run. A module or suite that fails outside its tests (a failing import or hook) counts as one
 * failure, and so does each unhandled error, so the line says `0 failed` only when the run passes.
 */
function countTests(modules: ReadonlyArray<TestModule>, unhandledErrors: number): Counts {
  const counts: Counts = { passed: 0, failed: unhandledErrors, skipped: 0 }
  for (const module of modules) {
    if (module.errors().length > 0) counts.failed += 1
    for (const suite of module.children.allSuites()) {
      if (suite.errors().length > 0) counts.failed += 1
    }
    for (const test of module.children.allTests()) {
      const { state } = test.result()
      if (state === 'passed' || state === 'failed') counts[state] += 1
      else counts.skipped += 1
    }
  }
  return counts
}

/** Prints the counts when the process ends, after everything else; in watch mode, after every run. */
export default class ClosingLineReporter implements Reporter {
  #line = '0 passed, 0 failed, 0 skipped'
  #watching = false

  onInit(vitest: { config: { watch: boolean } }): void {
    this.#watching = vitest.config.watch
    if (!this.#watching) process.once('exit', () => this.#print())
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>, unhandledErrors: ReadonlyArray<unknown>): void {
    const { passed, failed, skipped } = countTests(modules, unhandledErrors.length)
    this.#line = `${passed} passed, ${failed} failed, ${skipped} skipped`
    if (this.#watching) this.#print()
  }

  #print(): void {
    process.stdout.write(`${this.#line}\n`)
  }
}
