/** What the generated code looks like: a few kernels as whole sources. `vitest -u` writes them anew. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'

const kernels = {
  softmax: `kernel softmax {
    param x: f32[512, 1024] read
    param y: f32[512, 1024] write
    axes r: 512, c: 1024
    grid r
    %0 f32{r, c} = load x[r, c]
    %1 f32{r} = reduce max %0 over c
    %2 f32{r, c} = sub %0, %1
    %3 f32{r, c} = exp %2
    %4 f32{r} = reduce sum %3 over c
    %5 f32{r, c} = div %3, %4
    store y[r, c] = %5
  }`,
  product: `kernel product {
    param x: bf16[256, 512] read
    param w: bf16[512, 256] read
    param y: bf16[256, 256] write
    axes m: 256, n: 256, k: 512
    grid m/64, n/64
    %0 f32{m, n} = const 0
    %1 = loop k/32 {
      carry %2 f32{m, n} = %0
      %3 bf16{m, k} = load x[m, k]
      %4 bf16{m, k} = stage %3
      %5 bf16{k, n} = load w[k, n]
      %6 bf16{k, n} = stage %5
      %7 f32{m, n} = dot %4, %6 over k acc %2
      next %7
    }
    %8 bf16{m, n} = cast %1
    store y[m, n] = %8
  }`,
} as const

describe.each(Object.entries(kernels))('%s', (name, text) => {
  test('CUDA C++', async () => {
    await expect(emitKernel(parseKernel(text), cudaSimt).source).toMatchFileSnapshot(`golden/${name}.cu`)
  })

  test('WGSL', async () => {
    await expect(emitKernel(parseKernel(text), webgpuSimt).source).toMatchFileSnapshot(`golden/${name}.wgsl`)
  })
})
