// Kernel softmax: 512 blocks of 64 threads.
//   read x: f32[512, 1024]
//   write y: f32[512, 1024]

__device__ __forceinline__ float f32_div(float a, float b) {
  const float q = __fdiv_rn(a == 0.0f ? 2.3841858e-7f : a, b);
  return a == 0.0f ? a * q : q;
}

__device__ __forceinline__ float f32_max(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

__device__ __forceinline__ int f32_max_key(float a) {
  const int b = __float_as_int(a);
  return a != a ? 0x7fffffff : b ^ ((b >> 31) & 0x7fffffff);
}

__device__ __forceinline__ float f32_of_key(int k) {
  return __int_as_float(k ^ ((k >> 31) & 0x7fffffff));
}

__device__ __forceinline__ int i32_max(int a, int b) {
  return a > b ? a : b;
}

extern "C" __global__ void __launch_bounds__(64) softmax(
  const float* __restrict__ x,
  float* __restrict__ y) {
  __shared__ __align__(16) int partial_i32[2];
  __shared__ __align__(16) float partial_other_f32[2];
  const int tid = threadIdx.x;
  const int program = blockIdx.x;
  // axis c: 1024 of 1024 a program = 4 repeats x 64 threads x 4 side by side
  const int r = program;
  const int c0 = (tid & 63) * 4;
  float x_0[16];
  #pragma unroll
  for (int c_r = 0; c_r < 4; ++c_r) {
    const float4 x_w = *(const float4*)(x + (c0 + c_r * 256 + r * 1024));
    x_0[c_r * 4] = x_w.x;
    x_0[c_r * 4 + 1] = x_w.y;
    x_0[c_r * 4 + 2] = x_w.z;
    x_0[c_r * 4 + 3] = x_w.w;
  }
  float max_1;
  max_1 = -__int_as_float(0x7f800000);
  float sum_4;
  sum_4 = 0.0f;
  #pragma unroll
  for (int c_r_2 = 0; c_r_2 < 4; ++c_r_2) {
    #pragma unroll
    for (int c_v = 0; c_v < 4; ++c_v) {
      max_1 = f32_max(max_1, x_0[c_r_2 * 4 + c_v]);
    }
  }
  int key_1;
  key_1 = f32_max_key(max_1);
  key_1 = __reduce_max_sync(0xffffffffu, key_1);
  if ((tid & 31) == 0) {
    partial_i32[(tid >> 5u) & 1] = key_1;
  }
  __syncthreads();
  key_1 = partial_i32[0];
  key_1 = i32_max(key_1, partial_i32[1]);
  max_1 = f32_of_key(key_1);
  float exp_3[16];
  #pragma unroll
  for (int c_r_3 = 0; c_r_3 < 4; ++c_r_3) {
    #pragma unroll
    for (int c_v_2 = 0; c_v_2 < 4; ++c_v_2) {
      const float sub_2 = x_0[c_r_3 * 4 + c_v_2] - max_1;
      const float exp_3_2 = expf(sub_2);
      exp_3[c_r_3 * 4 + c_v_2] = exp_3_2;
      sum_4 = sum_4 + exp_3_2;
    }
  }
  sum_4 = sum_4 + __shfl_xor_sync(0xffffffffu, sum_4, 16);
  sum_4 = sum_4 + __shfl_xor_sync(0xffffffffu, sum_4, 8);
  sum_4 = sum_4 + __shfl_xor_sync(0xffffffffu, sum_4, 4);
  sum_4 = sum_4 + __shfl_xor_sync(0xffffffffu, sum_4, 2);
  sum_4 = sum_4 + __shfl_xor_sync(0xffffffffu, sum_4, 1);
  if ((tid & 31) == 0) {
    partial_other_f32[(tid >> 5u) & 1] = sum_4;
  }
  __syncthreads();
  sum_4 = partial_other_f32[0];
  sum_4 = sum_4 + partial_other_f32[1];
  float div_5[16];
  #pragma unroll
  for (int c_r_4 = 0; c_r_4 < 4; ++c_r_4) {
    #pragma unroll
    for (int c_v_3 = 0; c_v_3 < 4; ++c_v_3) {
      const float div_5_2 = f32_div(exp_3[c_r_4 * 4 + c_v_3], sum_4);
      div_5[c_r_4 * 4 + c_v_3] = div_5_2;
    }
  }
  #pragma unroll
  for (int c_r_5 = 0; c_r_5 < 4; ++c_r_5) {
    *(float4*)(y + (c0 + c_r_5 * 256 + r * 1024)) = make_float4(div_5[c_r_5 * 4], div_5[c_r_5 * 4 + 1], div_5[c_r_5 * 4 + 2], div_5[c_r_5 * 4 + 3]);
  }
}
