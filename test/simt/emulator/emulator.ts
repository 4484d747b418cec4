/** Runs printed CUDA sources on the host: compiled as C++ against device.h, blocks one after another, a host thread a thread. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cudaCaps, type SimtCaps } from '../../../src/codegen/simt/capability.ts'
import { emitKernel, type KernelSource } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import type { HostArray } from '../../../src/types/host.ts'

export type Buffers = Record<string, HostArray>

const header = fileURLToPath(new URL('./device.h', import.meta.url))

/** Whether there is a C++20 compiler to build with. */
export function hasCompiler(): boolean {
  try {
    execFileSync('g++', ['-std=c++20', '-E', '-x', 'c++', '/dev/null'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Kernels run one after another: none waits for another, nor lets it start. */
const alone = 'static void wait_for_kernels() {}\nstatic void launch_dependents() {}'

/** What device.h has in plain code is left out of a source. */
const withoutAssembly = (source: string): string =>
  source
    .split('\n\n')
    .filter((f) => !f.includes('asm'))
    .join('\n\n')
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
const namesOf = (source: KernelSource): string[] => [
  ...new Set([...source.bindings.map((b) => b.name), ...(source.table ?? []).filter((e) => typeof e === 'string')]),
]

function entryCode(source: KernelSource, i: number): string {
  const types = typesOf(source.source.replace(/__cluster_dims__\([^)]*\) /, ''))
  const names = namesOf(source)
  const words = (source.table ?? []).map((e) =>
    typeof e === 'string' ? `(unsigned long long)data[${names.indexOf(e)}]` : `${e}ull`,
  )
  const table = source.table === undefined ? [] : ['table.data()']
  const args = [...types.slice(0, source.bindings.length).map((t, j) => `(${t})data[${j}]`), ...table].join(', ')
  return `if (which == ${i}) {
    const std::vector<unsigned long long> table{${words.join(', ')}};
    launch(${source.programs}, ${source.cluster}, ${source.threads}, [=] { n${i}::${source.entry}(${args}); });
  }`
}

/** Kernels built into one program. */
export class Emulated {
  private readonly folder = mkdtempSync(join(tmpdir(), 'sinter-emulator-'))
  private readonly sources: readonly KernelSource[]

  constructor(kernels: readonly Kernel[], caps: SimtCaps = { ...cudaCaps, pointerTable: true }) {
    this.sources = kernels.map((k, i) => emitKernel({ ...k, name: `k${i}_${k.name}` }, 'cuda', caps))
    const spaces = this.sources.map((s, i) => `namespace n${i} {\n${placed(withoutAssembly(s.source))}\n}`)
    const main = `int main(int count, char** names) {
  const int which = atoi(names[1]);
  std::vector<long> sizes(count);
  std::vector<unsigned char*> data;
  for (int i = 2; i < count; ++i) data.push_back(read_file(names[i], sizes[i]));
  ${this.sources.map(entryCode).join('\n  ')}
  for (int i = 2; i < count; ++i) {
    FILE* f = fopen(names[i], "wb");
    fwrite(data[i - 2], 1, sizes[i], f);
    fclose(f);
  }
}
`
    const file = join(this.folder, 'kernels.cpp')
    writeFileSync(file, [`#include ${JSON.stringify(header)}`, alone, ...spaces, main].join('\n'))
    const args = ['-std=c++20', '-O1', '-w', '-ffp-contract=off', '-pthread', '-o', join(this.folder, 'run'), file]
    execFileSync('g++', args, { stdio: ['ignore', 'inherit', 'inherit'] })
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
    execFileSync(join(this.folder, 'run'), [String(i), ...files.map((f) => f.file)], { stdio: 'inherit' })
    for (const { file, data, written } of files)
      if (written) new Uint8Array(data.buffer, data.byteOffset, data.byteLength).set(readFileSync(file))
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true })
  }
}
