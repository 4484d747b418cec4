/** Compiles CUDA sources with nvcc, and reads what each kernel uses. */
import { execFile, execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

function findCompiler(): string | undefined {
  try {
    execFileSync('nvcc', ['--version'], { stdio: 'ignore' })
    return 'nvcc'
  } catch {
    return undefined
  }
}

export const nvcc = findCompiler()

export interface Usage {
  readonly registers: number
  readonly stack: number
  readonly spills: number
}

/** Compiles sources in one unit, each in a namespace of its own; what each kernel uses, by number. */
export async function compile(sources: readonly string[], folder: string, name: string): Promise<Map<number, Usage>> {
  const file = join(folder, `${name}.cu`)
  writeFileSync(file, sources.map((s, i) => `namespace n${i} {\n${s}\n}`).join('\n'))
  const args = ['-cubin', '-arch=sm_90a', '--resource-usage', '-o', join(folder, `${name}.cubin`), file]
  const { stdout, stderr } = await run(nvcc ?? 'nvcc', args, { maxBuffer: 1 << 26 })
  const out = new Map<number, Usage>()
  const pattern =
    /Compiling entry function 'k(\d+)_[\s\S]*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads[\s\S]*?Used (\d+) registers/g
  for (const [, i, stack, stores, loads, registers] of `${stdout}${stderr}`.matchAll(pattern))
    out.set(Number(i), { registers: Number(registers), stack: Number(stack), spills: Number(stores) + Number(loads) })
  return out
}
