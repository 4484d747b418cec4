/** Strided products computed plainly: what a library's answers are compared with, and what stands in for one. */
import { readElement, writeElement } from '../../src/scalar/host.ts'
import type { HostArray } from '../../src/types/host.ts'
import type { StridedMatrix, StridedProduct } from '../../src/types/product.ts'

const position = (x: StridedMatrix, batch: number, row: number, column: number): number =>
  batch * x.batch + (x.order === 'rows' ? row * x.leading + column : column * x.leading + row)

/** Matrices begin at the first elements of the arrays; `addend` may be `out`. */
export function multiply(p: StridedProduct, a: HostArray, b: HostArray, out: HostArray, addend?: HostArray): void {
  if ((p.addend === undefined) !== (addend === undefined)) throw new Error('a matrix to add to, or none')
  for (let batch = 0; batch < p.batches; batch++)
    for (let i = 0; i < p.m; i++)
      for (let j = 0; j < p.n; j++) {
        let sum = 0
        for (let l = 0; l < p.k; l++)
          sum +=
            Number(readElement(a, p.a.dtype, position(p.a, batch, i, l))) *
            Number(readElement(b, p.b.dtype, position(p.b, batch, l, j)))
        const added =
          p.addend === undefined || addend === undefined
            ? 0
            : p.addend.beta * Number(readElement(addend, p.addend.dtype, position(p.addend, batch, i, j)))
        writeElement(out, p.out.dtype, position(p.out, batch, i, j), p.alpha * sum + added)
      }
}
