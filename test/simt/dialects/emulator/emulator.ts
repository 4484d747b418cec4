/** Runs printed CUDA sources on the host: compiled as C++ against device.h, blocks one after another, a fiber a thread. */
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { emitKernel, type KernelSource } from '../../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../../src/kernel/ir.ts'
import { cudaSimt, type SimtMachine } from '../../../../src/target/simt.ts'
import type { HostArray } from '../../../../src/types/host.ts'
import { isRunsFolder } from '../../../temporary.ts'

export type Buffers = Record<string, HostArray>

const header = fileURLToPath(new URL('./device.h', import.meta.url))
const flags = ['-std=c++14', '-Og', '-w', '-ffp-contract=off']

const gcc = (args: readonly string[]): Buffer =>
  execFileSync('g++', [...flags, ...args], { stdio: ['ignore', 'inherit', 'inherit'] })

/**
 * The header to include: within a run of the tests a copy in the run's folder, with a precompiled one beside it that g++ takes instead. The first
 * process that needs it makes both in a folder of its own, and gives that folder its name when they are whole.
 */
function included(): string {
  if (!isRunsFolder(tmpdir())) return header
  const folder = join(tmpdir(), 'sinter-emulator-header')
  const file = join(folder, 'device.h')
  if (existsSync(file)) return file
  const own = mkdtempSync(`${folder}-`)
  copyFileSync(header, join(own, 'device.h'))
  gcc(['-x', 'c++-header', '-o', join(own, 'device.h.gch'), join(own, 'device.h')])
  try {
    renameSync(own, folder)
  } catch (e) {
    // Another process was first.
    rmSync(own, { recursive: true, force: true })
    if (!existsSync(file)) throw e
  }
  return file
}

/** Builds a source that begins with the header into a program. */
export function build(program: string, source: readonly string[]): void {
  writeFileSync(`${program}.cpp`, [`#include ${JSON.stringify(included())}`, ...source].join('\n'))
  gcc(['-o', program, `${program}.cpp`])
}

let found: boolean | undefined

/** Whether there is a C++ compiler to build with. */
export function hasCompiler(): boolean {
  if (found === undefined)
    try {
      execFileSync('g++', ['--version'], { stdio: 'ignore' })
      found = true
    } catch {
      found = false
    }
  return found
}

/** Kernels run one after another: none waits for another, nor lets it start. */
export const alone = 'static void wait_for_kernels() {}\nstatic void launch_dependents() {}'

/** What device.h has in plain code is left out of a source. */
const withoutAssembly = (source: string): string =>
  source
    .split('\n\n')
    .filter((f) => !/asm|__shfl_sync/.test(f))
    .join('\n\n')
    .replace('extern "C" ', '')
    .replace(/__cluster_dims__\([^)]*\) /, '')
    .replace(/extern __shared__.*\n/, 'unsigned char* const shared_memory = shared_memories[block_rank];\n')

/** Shared arrays in memory that the blocks of a cluster have each for themselves. */
function placed(source: string): string {
  let at = 0
  return source.replace(/__shared__ __align__\((\d+)\) (.+) (\w+)\[(\d+)\];/g, (_, align, type, name, length) => {
    const first = Math.ceil(at / Number(align)) * Number(align)
    at = first + 8 * Number(length)
    return `${type}* const ${name} = (${type}*)(shared_memories[block_rank] + ${first});`
  })
}

/** The parameters' types, as declared. */
function typesOf(source: string): string[] {
  const head = /__global__[^(]*\([^)]*\)\s*\w+\(([^)]*)\)/.exec(source)?.[1] ?? ''
  return head
    .split(',')
    .map((p) => p.replace(/__restrict__|\w+\s*$/g, '').trim())
    .filter((p) => p !== '')
}

/** Buffers of a kernel: arguments in order, then those that stand in the table alone. */
export const namesOf = (source: KernelSource): string[] => [
  ...new Set([
    ...source.bindings.map((b) => b.name),
    ...(source.table ?? []).filter((e) => typeof e === 'string'),
    ...(source.scalars ?? []).map((s) => s.param),
  ]),
]

/** A kernel in a namespace of its own, and the function that runs it on the program's buffers. */
export function runnable(source: KernelSource): (i: number) => string {
  const types = typesOf(source.source.replace(/__cluster_dims__\([^)]*\) /, ''))
  const names = namesOf(source)
  const words = (source.table ?? []).map((e) =>
    typeof e === 'string' ? `(unsigned long long)data[${names.indexOf(e)}]` : `${e}ull`,
  )
  const table = source.table === undefined ? [] : ['table']
  const scalar = (by: string): string => {
    const s = source.scalars?.find((x) => x.by === by)
    return s === undefined ? '0' : `((int*)data[${names.indexOf(s.param)}])[${s.at}]`
  }
  const scalars = (source.scalars ?? []).map((s) => scalar(s.by))
  const args = [...types.slice(0, source.bindings.length).map((t, j) => `(${t})data[${j}]`), ...table, ...scalars].join(
    ', ',
  )
  const programs =
    source.grid === undefined
      ? `${source.programs}ll`
      : `${source.grid.first}ll + ${source.grid.last
          .map((a) => `((${a.open === undefined ? a.extent : scalar(a.open)} + ${a.block - 1}ll) / ${a.block}ll)`)
          .join(' * ')}`
  const code = placed(withoutAssembly(source.source))
  return (i) => `namespace n${i} {
${code}
static unsigned long long table[${words.length + 1}];
static void once() { ${source.entry}(${args}); }
static void run() {
  ${words.map((w, j) => `table[${j}] = ${w};`).join('\n  ')}
  row_programs = ${Math.ceil(source.programs / (source.rows ?? 1))}ll;
  launch(${programs}, ${source.cluster}, ${source.threads}, once);
}
}`
}

/** Checks cases by all of their kernels, built into one program. */
export async function checkEmulated<C extends { readonly kernels: readonly Kernel[] }>(
  cases: readonly C[],
  check: (of: C, run: (kernel: Kernel, buffers: Buffers) => void) => Promise<void>,
): Promise<void> {
  const kernels = cases.flatMap((k) => k.kernels)
  const emulated = new Emulated(kernels)
  try {
    for (const k of cases) await check(k, (kernel, buffers) => emulated.run(kernels.indexOf(kernel), buffers))
  } finally {
    emulated.dispose()
  }
}

/** Kernels built into one program. */
export class Emulated {
  private readonly folder = mkdtempSync(join(tmpdir(), 'sinter-emulator-'))
  private readonly sources: readonly KernelSource[]

  /** Which of the program's kernels each is: kernels of one code are one. */
  private readonly numbers: readonly number[]

  /** `emit`: by another schedule than the first of each. */
  constructor(
    kernels: readonly Kernel[],
    caps: SimtMachine = cudaSimt,
    emit: (k: Kernel) => KernelSource = (k) => emitKernel(k, caps),
  ) {
    this.sources = kernels.map(emit)
    const texts = this.sources.map((s) => runnable(s))
    const unlike = new Map<string, number>()
    this.numbers = texts.map((text) => {
      const number = unlike.get(text(0)) ?? unlike.size
      unlike.set(text(0), number)
      return number
    })
    const spaces = [...unlike.values()].map((number) => texts[this.numbers.indexOf(number)]?.(number) ?? '')
    const main = `int main(int count, char** names) {
  static long sizes[1024];
  for (int i = 2; i < count; ++i) data[i - 2] = read_file(names[i], sizes[i]);
  switch (atoi(names[1])) {
    ${[...unlike.values()].map((i) => `case ${i}: n${i}::run(); break;`).join('\n    ')}
  }
  for (int i = 2; i < count; ++i) {
    FILE* f = fopen(names[i], "wb");
    fwrite(data[i - 2], 1, sizes[i], f);
    fclose(f);
  }
}
`
    build(join(this.folder, 'run'), [alone, 'static unsigned char* data[1024];', ...spaces, main])
  }

  /** Runs kernel number `i` on buffers by parameter name, in place. */
  run(i: number, buffers: Buffers): void {
    const source = this.sources[i]
    if (source === undefined || source.programs === 0) return
    const files = namesOf(source).map((name, n) => {
      const file = join(this.folder, `${n}.bin`)
      const data = buffers[name]
      if (data === undefined) throw new Error(`no buffer ${name}`)
      writeFileSync(file, new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
      return { file, data, written: source.bindings.find((b) => b.name === name)?.access !== 'read' }
    })
    execFileSync(join(this.folder, 'run'), [String(this.numbers[i]), ...files.map((f) => f.file)], { stdio: 'inherit' })
    for (const { file, data, written } of files)
      if (written) new Uint8Array(data.buffer, data.byteOffset, data.byteLength).set(readFileSync(file))
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true })
  }
}
