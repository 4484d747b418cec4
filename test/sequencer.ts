/** The order of test files: those that take minutes first, so that no process is left with one at the end. */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const long = [
  'test/webgpu/onnx',
  'test/webgpu/models',
  'test/random/programs',
  'test/simt/interleaved',
  'test/wasm/pack',
  'test/onnx/gradients',
  'test/transforms/compiled',
  'test/simt/',
]

const rank = ({ moduleId }: TestSpecification): number => {
  const at = long.findIndex((name) => moduleId.includes(name))
  return at < 0 ? long.length : at
}

export default class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return [...(await super.sort(files))].sort((a, b) => rank(a) - rank(b))
  }
}
