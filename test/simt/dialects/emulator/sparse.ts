/**
 * Kernels over tensors that no memory would hold: their addresses are real, few of their pages are. Some programs run, on the elements
 * that a check asks about.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { emitKernel, type KernelSource } from '../../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../../src/kernel/ir.ts'
import { cudaSimt } from '../../../../src/target/simt.ts'
import { alone, build, namesOf, runnable } from './emulator.ts'

/** A buffer: its size, what stands in it (zeros elsewhere), and where to look afterwards, by byte. */
export interface SparseBuffer {
  readonly bytes: number
  readonly given: ReadonlyMap<number, Uint8Array>
  readonly wanted: readonly { readonly at: number; readonly bytes: number }[]
}

const hex = (b: Uint8Array): string => Buffer.from(b).toString('hex')

/** Kernels built into one program. */
export class SparseEmulated {
  readonly sources: readonly KernelSource[]
  private readonly folder = mkdtempSync(join(tmpdir(), 'sinter-sparse-'))

  constructor(kernels: readonly Kernel[]) {
    this.sources = kernels.map((k) => emitKernel(k, cudaSimt))
    const spaces = this.sources.map((s, i) => runnable(s)(i))
    const main = `int main(int, char** names) {
  FILE* f = fopen(names[2], "r");
  FILE* to = fopen(names[3], "wb");
  static long long programs[65536];
  char kind;
  long long a, b, c;
  while (fscanf(f, " %c %lld %lld %lld", &kind, &a, &b, &c) == 4) {
    if (kind == 'b') data[a] = sparse(b);
    if (kind == 'p') programs[chosen_count++] = a;
    if (kind == 'w')
      for (long long i = 0; i < c; ++i) {
        unsigned x;
        if (fscanf(f, "%2x", &x) != 1) abort();
        data[a][b + i] = x;
      }
    if (kind == 'x') {
      chosen = programs;
      switch (atoi(names[1])) {
        ${spaces.map((_, i) => `case ${i}: n${i}::run(); break;`).join('\n        ')}
      }
    }
    if (kind == 'r') fwrite(data[a] + b, 1, c, to);
  }
  fclose(to);
}
`
    build(join(this.folder, 'run'), [alone, 'static unsigned char* data[1024];', ...spaces, main])
  }

  /** Runs some programs of kernel number `i`; the bytes wanted of each buffer, in order. */
  run(i: number, programs: readonly number[], buffers: Readonly<Record<string, SparseBuffer>>): Uint8Array[] {
    const source = this.sources[i]
    if (source === undefined) throw new Error(`no kernel ${i}`)
    const named = namesOf(source).map((name) => {
      const b = buffers[name]
      if (b === undefined) throw new Error(`no buffer ${name}`)
      return b
    })
    const lines = [
      ...named.map((b, n) => `b ${n} ${b.bytes} 0`),
      ...named.flatMap((b, n) => [...b.given].map(([at, d]) => `w ${n} ${at} ${d.length} ${hex(d)}`)),
      ...programs.map((p) => `p ${p} 0 0`),
      'x 0 0 0',
      ...named.flatMap((b, n) => b.wanted.map((w) => `r ${n} ${w.at} ${w.bytes}`)),
    ]
    const [script, result] = [join(this.folder, 'script'), join(this.folder, 'result')]
    writeFileSync(script, `${lines.join('\n')}\n`)
    execFileSync(join(this.folder, 'run'), [String(i), script, result], { stdio: 'inherit' })
    const all = new Uint8Array(readFileSync(result))
    let at = 0
    return named.flatMap((b) =>
      b.wanted.map((w) => {
        at += w.bytes
        return all.slice(at - w.bytes, at)
      }),
    )
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true })
  }
}
