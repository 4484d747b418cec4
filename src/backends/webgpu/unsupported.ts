/** What WebGPU cannot run: dtypes its shading language lacks, and steps a host has to wait for. */
import { unsupportedDType } from '../../codegen/simt/capability.ts'
import { wgslDialect } from '../../codegen/simt/dialects/wgsl/print.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { DType } from '../../types/dtype.ts'

const why: Readonly<Record<string, string>> = {
  opaque:
    "a kernel of one's own in JavaScript needs its operands on the host while the program runs, and WebGPU cannot wait for them",
  inspect: 'inspect needs values on the host while the program runs, and WebGPU cannot wait for them',
  cond: 'a condition known only on the device needs the host to wait for it, which WebGPU cannot',
  while: 'the end of a while loop is known only on the device, and WebGPU cannot wait for it',
}

/** What the WebGPU device cannot run, for the check before planning. */
export const webgpuCapabilities = {
  dtype: (dtype: DType): string | undefined => unsupportedDType(wgslDialect, dtype),
  op: (op: string): string | undefined => (Object.hasOwn(why, op) ? why[op] : undefined),
}

/** A launch plan that was compiled without asking. */
export function refuseHostStep(step: {
  readonly kind: string
  readonly name?: string
  readonly label?: string
}): never {
  throw new UserError('E_UNSUPPORTED', `${step.name ?? step.label ?? step.kind}: ${why[step.kind] ?? step.kind}`, {
    help: "run this program on another device, for instance setDevice('wasm')",
  })
}
