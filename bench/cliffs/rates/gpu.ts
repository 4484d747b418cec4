/** Bandwidth of a GPU over working sets, from kernels that walk 16-byte words several times. */
import type { Bandwidth } from '../rates.ts'

/** Seconds of a kernel that goes `repeats` times over `words` 16-byte words of each of its operands. */
export type Walk = (kind: 'read' | 'mixed' | 'copy' | 'write', words: number, repeats: number) => Promise<number>

const operands = { read: 1, mixed: 3, copy: 2, write: 1 } as const

/** The largest rates of several tries; `most` is the size of one operand's buffer. */
export async function gpuBandwidth(most: number, walk: Walk): Promise<Bandwidth[]> {
  const list: Bandwidth[] = []
  for (let bytes = 64 << 10; bytes <= most; bytes *= 4) {
    const rate = async (kind: keyof typeof operands): Promise<number> => {
      const words = Math.max(1, Math.floor(bytes / operands[kind] / 16))
      let repeats = 1
      let seconds = await walk(kind, words, repeats)
      while (seconds < 0.002 && repeats < 1 << 16) {
        repeats *= 2
        seconds = await walk(kind, words, repeats)
      }
      for (let i = 0; i < 5; i++) seconds = Math.min(seconds, await walk(kind, words, repeats))
      return (16 * words * operands[kind] * repeats) / seconds
    }
    list.push({
      bytes,
      read: await rate('read'),
      mixed: await rate('mixed'),
      copy: await rate('copy'),
      write: await rate('write'),
    })
  }
  return list
}
