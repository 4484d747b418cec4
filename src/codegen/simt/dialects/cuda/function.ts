/** The form of CUDA functions in libraries. */
import { fn, type LibraryFunction } from '../shared/print.ts'

/** A function of the device, put in place where it is called: its type, name and parameters, its statements, what they call. */
export const device = (head: string, body: string, uses: readonly string[] = [], note?: string): LibraryFunction =>
  fn(`${note === undefined ? '' : `// ${note}\n`}__device__ __forceinline__ ${head} {\n  ${body}\n}`, uses)
