/**
 * Digests of graphs: equal for graphs that compute the same from the same literals, whichever process made them. They tell kept compilations from those
 * of other graphs; they are no defence against whoever seeks two graphs of one digest.
 */
import type { AttrsByOp, Graph, Node, OpName } from '../graph/node.ts'
import { type OpDef, opDef, opTable } from '../graph/table.ts'
import { nodesOf } from '../graph/traverse.ts'
import { overElements } from '../host/engine.ts'
import type { HostArray } from '../types/host.ts'

/** 128 bits that all that was added has mixed: multiplications of four lanes (primes of xxHash, https://xxhash.com). */
export class Digest {
  private a = 0x9e3779b1
  private b = 0x85ebca77
  private c = 0xc2b2ae3d
  private d = 0x27d4eb2f

  private mix(x: number, y: number, z: number, w: number): void {
    this.a = Math.imul(this.a ^ x, 0x9e3779b1) + (this.a >>> 15)
    this.b = Math.imul(this.b ^ y, 0x85ebca77) + (this.b >>> 13)
    this.c = Math.imul(this.c ^ z, 0xc2b2ae3d) + (this.c >>> 16)
    this.d = Math.imul(this.d ^ w, 0x27d4eb2f) + (this.d >>> 14)
  }

  text(text: string): void {
    this.mix(text.length, 1, 2, 3)
    for (let i = 0; i < text.length; i += 4)
      this.mix(text.charCodeAt(i), text.charCodeAt(i + 1) | 0, text.charCodeAt(i + 2) | 0, text.charCodeAt(i + 3) | 0)
  }

  bytes(data: ArrayBufferView): void {
    const { buffer, byteOffset, byteLength } = data
    this.mix(byteLength, 4, 5, 6)
    const aligned = byteOffset % 4 === 0 ? data : new Uint8Array(buffer, byteOffset, byteLength).slice()
    const words = new Int32Array(aligned.buffer, aligned.byteOffset, byteLength >> 2)
    overElements(() => this.words(words))
    const rest = new Uint8Array(buffer, byteOffset + 4 * words.length, byteLength & 3)
    for (const x of rest) this.mix(x, 7, 8, 9)
  }

  private words(words: Int32Array): void {
    let [a, b, c, d] = [this.a, this.b, this.c, this.d]
    const whole = words.length & ~3
    for (let i = 0; i < whole; i += 4) {
      a = (Math.imul(a ^ (words[i] ?? 0), 0x9e3779b1) + (a >>> 15)) | 0
      b = (Math.imul(b ^ (words[i + 1] ?? 0), 0x85ebca77) + (b >>> 13)) | 0
      c = (Math.imul(c ^ (words[i + 2] ?? 0), 0xc2b2ae3d) + (c >>> 16)) | 0
      d = (Math.imul(d ^ (words[i + 3] ?? 0), 0x27d4eb2f) + (d >>> 14)) | 0
    }
    ;[this.a, this.b, this.c, this.d] = [a, b, c, d]
    for (let i = whole; i < words.length; i++) this.mix(words[i] ?? 0, 10, 11, 12)
  }

  get value(): string {
    // The lanes meet, so that each bit of the result depends on all of them.
    for (let i = 0; i < 4; i++) this.mix(this.b, this.c, this.d, this.a)
    return [this.a, this.b, this.c, this.d].map((x) => (x >>> 0).toString(16).padStart(8, '0')).join('')
  }
}

const isGraph = (x: unknown): x is Graph => typeof x === 'object' && x !== null && 'params' in x && 'outputs' in x

/** A graph by what it computes, and its literals in an order that its form fixes. */
export interface DigestedGraph {
  readonly digest: string
  readonly literals: readonly HostArray[]
}

/** Digests a graph; undefined for one that holds what no file can: functions of the user. */
export function digestGraph(graph: Graph): DigestedGraph | undefined {
  const sum = new Digest()
  const literals: HostArray[] = []
  const left: Graph[] = [graph]
  const seen = new Map<Graph, number>([[graph, 0]])
  const numberOf = (g: Graph): number => {
    const have = seen.get(g)
    if (have !== undefined) return have
    seen.set(g, seen.size)
    left.push(g)
    return seen.size - 1
  }
  const attributes = (n: Node): string => {
    switch (n.op) {
      case 'constant':
        literals.push(n.attrs.data)
        sum.bytes(n.attrs.data)
        return n.shape.join()
      case 'cond':
      case 'while':
      case 'loop':
        return Object.entries(n.attrs)
          .map(([name, value]) => `${name}=${isGraph(value) ? numberOf(value) : String(value)}`)
          .join()
      case 'custom':
        return String(numberOf(n.attrs.body))
      default:
        return (opTable[n.op] as OpDef<OpName>).key(n.attrs as AttrsByOp[OpName])
    }
  }
  for (let g = left.shift(); g !== undefined; g = left.shift()) {
    const nodes = nodesOf(g)
    const places = new Map(nodes.map((n, i) => [n, i]))
    const place = (n: Node): string => String(places.get(n))
    for (const n of nodes) {
      const { boundary } = opDef(n)
      if (boundary === 'opaque' || boundary === 'effect') return undefined
      sum.text(`${n.op}(${n.inputs.map(place).join()})${n.dtype}[${attributes(n)}]`)
    }
    sum.text(`${g.params.map(place).join()}>${g.outputs.map(place).join()}`)
  }
  return { digest: sum.value, literals }
}
