/**
 * The order of test files: those with a process of their own, then those that share one; of each, those that take long first, so that no
 * process is left with one at the end.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const long = [
  'test/cli/conformance',
  'test/engines/',
  'test/cuda/open',
  'test/onnx/openSized',
  'test/transformers/',
  'test/cli/',
  'test/webgpu/',
  'test/dependable/',
  'test/simt/',
]

const rank = ({ moduleId }: TestSpecification): number => {
  const at = long.findIndex((name) => moduleId.includes(name))
  return at < 0 ? long.length : at
}

export default class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const shares = ({ project }: TestSpecification): number => Number(!project.config.isolate)
    return [...(await super.sort(files))].sort((a, b) => shares(a) - shares(b) || rank(a) - rank(b))
  }
}
