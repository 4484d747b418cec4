// Kernel product: 16 blocks of 128 threads.
//   read x: bf16[256, 512]
//   read w: bf16[512, 256]
//   write y: bf16[256, 256]

__device__ __forceinline__ unsigned bf16_pair(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// Copies 16 bytes into shared memory in the background; zeros where there is nothing to copy.
__device__ __forceinline__ void copy_async(unsigned short* to, const void* from, bool there) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(there ? 16 : 0) : "memory");
}

// Ends a group of background copies.
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most 1 groups of copies are under way.
__device__ __forceinline__ void copy_wait_1() {
  asm volatile("cp.async.wait_group 1;" ::: "memory");
}

// Four 8 x 8 matrices of 16-bit elements: lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const unsigned short* row) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(address));
}

// Four 8 x 8 matrices of 16-bit elements: lane i gives the address of row i % 8 of matrix i / 8.
__device__ __forceinline__ void load_matrices_transposed(unsigned& a, unsigned& b, unsigned& c, unsigned& d, const unsigned short* row) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(address));
}

// A 16 x 8 tile of the result plus a 16 x 16 tile times a 16 x 8 tile, on tensor cores.
__device__ __forceinline__ void multiply_bf16(float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
    : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(128) product(
  const unsigned short* __restrict__ x,
  const unsigned short* __restrict__ w,
  unsigned short* __restrict__ y) {
  __shared__ __align__(16) unsigned short tile_4[7680];
  __shared__ __align__(16) unsigned short tile_6[6912];
  const int tid = threadIdx.x;
  const int program = blockIdx.x;
  // axis m: 64 of 256 a program = 4 repeats x 16 threads
  // axis n: 64 of 256 a program = 4 repeats x 8 threads x 2 side by side
  // axis k: 32 of 512 a program = 32 chunks
  const int n_start = (program % 4) * 64;
  const int rest = program / 4;
  const int m_start = rest * 64;
  const int m0 = m_start + ((((tid >> 6u) & 1) << 3u) | ((tid >> 2u) & 7));
  const int n0 = n_start + ((((tid >> 5u) & 1) << 2u) | (tid & 3)) * 2;
  float const_0[32];
  #pragma unroll
  for (int m_r = 0; m_r < 4; ++m_r) {
    #pragma unroll
    for (int n_r = 0; n_r < 4; ++n_r) {
      #pragma unroll
      for (int n_v = 0; n_v < 2; ++n_v) {
        const_0[m_r * 8 + (n_r * 2 + n_v)] = 0.0f;
      }
    }
  }
  float carry_2[32];
  #pragma unroll
  for (int m_r_2 = 0; m_r_2 < 4; ++m_r_2) {
    #pragma unroll
    for (int n_r_2 = 0; n_r_2 < 4; ++n_r_2) {
      #pragma unroll
      for (int n_v_2 = 0; n_v_2 < 2; ++n_v_2) {
        carry_2[m_r_2 * 8 + (n_r_2 * 2 + n_v_2)] = const_0[m_r_2 * 8 + (n_r_2 * 2 + n_v_2)];
      }
    }
  }
  const int m0_2 = m_start + ((tid >> 2u) & 31);
  const int k0 = (tid & 3) * 8;
  #pragma unroll
  for (int m_r_3 = 0; m_r_3 < 2; ++m_r_3) {
    copy_async(tile_4 + (((m0_2 + m_r_3 * 32) - m_start) * 40 + k0), x + (k0 + (m0_2 + m_r_3 * 32) * 512), true);
  }
  const int k0_2 = (tid >> 3u) & 15;
  const int n0_2 = n_start + (tid & 7) * 8;
  #pragma unroll
  for (int k_r = 0; k_r < 2; ++k_r) {
    copy_async(tile_6 + ((k0_2 + k_r * 16) * 72 + (n0_2 - n_start)), w + ((k0_2 + k_r * 16) * 256 + n0_2), true);
  }
  copy_commit();
  const int m0_3 = m_start + ((tid >> 2u) & 31);
  const int k0_3 = (tid & 3) * 8 + 32;
  #pragma unroll
  for (int m_r_4 = 0; m_r_4 < 2; ++m_r_4) {
    copy_async(tile_4 + (((m0_3 + m_r_4 * 32) - m_start) * 40 + 2560 + (k0_3 - 32)), x + (k0_3 + (m0_3 + m_r_4 * 32) * 512), true);
  }
  const int k0_4 = ((tid >> 3u) & 15) + 32;
  const int n0_3 = n_start + (tid & 7) * 8;
  #pragma unroll
  for (int k_r_2 = 0; k_r_2 < 2; ++k_r_2) {
    copy_async(tile_6 + (((k0_4 + k_r_2 * 16) - 32) * 72 + 2304 + (n0_3 - n_start)), w + ((k0_4 + k_r_2 * 16) * 256 + n0_3), true);
  }
  copy_commit();
  for (int k_start = 0; k_start < 512; k_start += 32) {
    copy_wait_1();
    __syncthreads();
    const int slot = ((k_start >> 5u) + 2) % 3;
    const int slot_2 = (k_start >> 5u) % 3;
    if ((k_start + 64) < 512) {
      const int m0_4 = m_start + ((tid >> 2u) & 31);
      const int k0_5 = k_start + 64 + (tid & 3) * 8;
      #pragma unroll
      for (int m_r_5 = 0; m_r_5 < 2; ++m_r_5) {
        copy_async(tile_4 + (slot * 2560 + ((m0_4 + m_r_5 * 32) - m_start) * 40 + (k0_5 - (k_start + 64))), x + (k0_5 + (m0_4 + m_r_5 * 32) * 512), true);
      }
      const int k0_6 = k_start + 64 + ((tid >> 3u) & 15);
      const int n0_4 = n_start + (tid & 7) * 8;
      #pragma unroll
      for (int k_r_3 = 0; k_r_3 < 2; ++k_r_3) {
        copy_async(tile_6 + (slot * 2304 + ((k0_6 + k_r_3 * 16) - (k_start + 64)) * 72 + (n0_4 - n_start)), w + ((k0_6 + k_r_3 * 16) * 256 + n0_4), true);
      }
    }
    copy_commit();
    float dot_7[32];
    #pragma unroll
    for (int m_r_6 = 0; m_r_6 < 4; ++m_r_6) {
      #pragma unroll
      for (int n_r_3 = 0; n_r_3 < 4; ++n_r_3) {
        #pragma unroll
        for (int n_v_3 = 0; n_v_3 < 2; ++n_v_3) {
          dot_7[m_r_6 * 8 + (n_r_3 * 2 + n_v_3)] = carry_2[m_r_6 * 8 + (n_r_3 * 2 + n_v_3)];
        }
      }
    }
    // dot %7 on tensor cores: 2 x 4 tiles of 16 x 8 a warp
    #pragma unroll
    for (int k_step = 0; k_step < 2; ++k_step) {
      unsigned a_7[8];
      unsigned b_7[8];
      #pragma unroll
      for (int row_tile = 0; row_tile < 2; ++row_tile) {
        load_matrices(a_7[row_tile * 4], a_7[row_tile * 4 + 1], a_7[row_tile * 4 + 2], a_7[row_tile * 4 + 3], tile_4 + ((((row_tile * 2 + ((tid >> 3u) & 1)) * 2 + ((tid >> 6u) & 1)) * 8 + (tid & 7)) * 40 + (k_step * 16 + ((tid >> 4u) & 1) * 8) + slot_2 * 2560));
      }
      #pragma unroll
      for (int column_pair = 0; column_pair < 2; ++column_pair) {
        load_matrices_transposed(b_7[column_pair * 4], b_7[column_pair * 4 + 1], b_7[column_pair * 4 + 2], b_7[column_pair * 4 + 3], tile_6 + ((k_step * 16 + ((tid >> 3u) & 1) * 8 + (tid & 7)) * 72 + ((column_pair * 2 + ((tid >> 4u) & 1)) * 2 + ((tid >> 5u) & 1)) * 8 + slot_2 * 2304));
      }
      #pragma unroll
      for (int row_tile_2 = 0; row_tile_2 < 2; ++row_tile_2) {
        #pragma unroll
        for (int column_tile = 0; column_tile < 4; ++column_tile) {
          multiply_bf16(dot_7[row_tile_2 * 2 * 8 + column_tile * 2], dot_7[row_tile_2 * 2 * 8 + (column_tile * 2 + 1)], dot_7[(row_tile_2 * 2 + 1) * 8 + column_tile * 2], dot_7[(row_tile_2 * 2 + 1) * 8 + (column_tile * 2 + 1)], a_7[row_tile_2 * 4], a_7[row_tile_2 * 4 + 1], a_7[row_tile_2 * 4 + 2], a_7[row_tile_2 * 4 + 3], b_7[column_tile * 2], b_7[column_tile * 2 + 1]);
        }
      }
    }
    #pragma unroll
    for (int m_r_7 = 0; m_r_7 < 4; ++m_r_7) {
      #pragma unroll
      for (int n_r_4 = 0; n_r_4 < 4; ++n_r_4) {
        #pragma unroll
        for (int n_v_4 = 0; n_v_4 < 2; ++n_v_4) {
          carry_2[m_r_7 * 8 + (n_r_4 * 2 + n_v_4)] = dot_7[m_r_7 * 8 + (n_r_4 * 2 + n_v_4)];
        }
      }
    }
  }
  float cast_8[32];
  #pragma unroll
  for (int m_r_8 = 0; m_r_8 < 4; ++m_r_8) {
    #pragma unroll
    for (int n_r_5 = 0; n_r_5 < 4; ++n_r_5) {
      #pragma unroll
      for (int n_v_5 = 0; n_v_5 < 2; ++n_v_5) {
        const float cast_8_2 = carry_2[m_r_8 * 8 + (n_r_5 * 2 + n_v_5)];
        cast_8[m_r_8 * 8 + (n_r_5 * 2 + n_v_5)] = cast_8_2;
      }
    }
  }
  #pragma unroll
  for (int m_r_9 = 0; m_r_9 < 4; ++m_r_9) {
    const int lane = tid & 3;
    const unsigned word = bf16_pair(cast_8[m_r_9 * 8], cast_8[m_r_9 * 8 + 1]);
    const unsigned word_2 = bf16_pair(cast_8[m_r_9 * 8 + 2], cast_8[m_r_9 * 8 + 3]);
    const unsigned word_3 = bf16_pair(cast_8[m_r_9 * 8 + 4], cast_8[m_r_9 * 8 + 5]);
    const unsigned word_4 = bf16_pair(cast_8[m_r_9 * 8 + 6], cast_8[m_r_9 * 8 + 7]);
    const bool upper = (lane & 1) != 0;
    const unsigned got = __shfl_xor_sync(0xffffffffu, (upper ? word : word_2), 1);
    const unsigned got_2 = __shfl_xor_sync(0xffffffffu, (upper ? word_3 : word_4), 1);
    const unsigned word_5 = (upper ? got : word);
    const unsigned word_6 = (upper ? word_2 : got);
    const unsigned word_7 = (upper ? got_2 : word_3);
    const unsigned word_8 = (upper ? word_4 : got_2);
    const bool upper_2 = (lane & 2) != 0;
    const unsigned got_3 = __shfl_xor_sync(0xffffffffu, (upper_2 ? word_5 : word_7), 2);
    const unsigned got_4 = __shfl_xor_sync(0xffffffffu, (upper_2 ? word_6 : word_8), 2);
    const unsigned word_9 = (upper_2 ? got_3 : word_5);
    const unsigned word_10 = (upper_2 ? got_4 : word_6);
    const unsigned word_11 = (upper_2 ? word_7 : got_3);
    const unsigned word_12 = (upper_2 ? word_8 : got_4);
    *(uint4*)(y + ((m0 + m_r_9 * 16) * 256 + (n0 + (lane * 16 + (0 - (lane * 2)))))) = make_uint4(word_9, word_10, word_11, word_12);
  }
}
