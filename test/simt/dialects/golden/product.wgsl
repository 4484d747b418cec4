// Kernel product: 16 workgroups of 256 threads.
// read bf16[256, 512]
@group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
// read bf16[512, 256]
@group(0) @binding(1) var<storage, read> w: array<vec4<u32>>;
// write bf16[256, 256]
@group(0) @binding(2) var<storage, read_write> y: array<vec4<u32>>;
var<workgroup> tile_4: array<f32, 2048>;
var<workgroup> tile_6: array<f32, 2048>;

// The upper half is a to the nearest, ties to even: half a unit of it is added, less the last bit of f32 unless it is odd.
fn bf16_rounded(a: f32) -> u32 {
  let power = bitcast<f32>(bitcast<u32>(a) & 0xff800000u);
  let odd = bitcast<f32>(bitcast<u32>(a) & 0xff810000u);
  return bitcast<u32>(fma(odd, 1.52587890625e-5, fma(power, 0.00389087200164794921875, a)));
}

fn bf16_pair(low: f32, high: f32) -> u32 {
  return (bf16_rounded(low) >> 16u) | (bf16_rounded(high) & 0xffff0000u);
}

@compute @workgroup_size(256)
fn product(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) blocks: vec3<u32>) {
  let tid = i32(thread);
  let program = i32(block.x + block.y * blocks.x);
  // axis m: 64 of 256 a program = 2 repeats x 32 threads
  // axis n: 64 of 256 a program = 8 threads x 8 side by side
  // axis k: 32 of 512 a program = 32 chunks
  if (program >= 16) {
    return;
  }
  let n_start = (program % 4) * 64;
  let rest = program / 4;
  let m_start = rest * 64;
  let m0 = m_start + ((tid >> 3u) & 31);
  let n0 = n_start + (tid & 7) * 8;
  var const_0: array<f32, 16>;
  const_0[0] = 0.0;
  const_0[1] = 0.0;
  const_0[2] = 0.0;
  const_0[3] = 0.0;
  const_0[4] = 0.0;
  const_0[5] = 0.0;
  const_0[6] = 0.0;
  const_0[7] = 0.0;
  const_0[8] = 0.0;
  const_0[9] = 0.0;
  const_0[10] = 0.0;
  const_0[11] = 0.0;
  const_0[12] = 0.0;
  const_0[13] = 0.0;
  const_0[14] = 0.0;
  const_0[15] = 0.0;
  var carry_2: array<f32, 16>;
  carry_2[0] = const_0[0];
  carry_2[1] = const_0[1];
  carry_2[2] = const_0[2];
  carry_2[3] = const_0[3];
  carry_2[4] = const_0[4];
  carry_2[5] = const_0[5];
  carry_2[6] = const_0[6];
  carry_2[7] = const_0[7];
  carry_2[8] = const_0[8];
  carry_2[9] = const_0[9];
  carry_2[10] = const_0[10];
  carry_2[11] = const_0[11];
  carry_2[12] = const_0[12];
  carry_2[13] = const_0[13];
  carry_2[14] = const_0[14];
  carry_2[15] = const_0[15];
  for (var k_start = 0; k_start < 512; k_start += 32) {
    workgroupBarrier();
    // stage %4 {m, k}
    let m0_2 = m_start + ((tid >> 2u) & 63);
    let k0 = k_start + (tid & 3) * 8;
    var x_3: array<f32, 8>;
    let x_w = x[((k0 >> 1u) >> 2u) + m0_2 * 64];
    x_3[0] = bitcast<f32>(x_w.x << 16u);
    x_3[1] = bitcast<f32>(x_w.x & 4294901760u);
    x_3[2] = bitcast<f32>(x_w.y << 16u);
    x_3[3] = bitcast<f32>(x_w.y & 4294901760u);
    x_3[4] = bitcast<f32>(x_w.z << 16u);
    x_3[5] = bitcast<f32>(x_w.z & 4294901760u);
    x_3[6] = bitcast<f32>(x_w.w << 16u);
    x_3[7] = bitcast<f32>(x_w.w & 4294901760u);
    tile_4[(m0_2 - m_start) * 32 + (k0 - k_start)] = x_3[0];
    tile_4[(m0_2 - m_start) * 32 + ((k0 + 1) - k_start)] = x_3[1];
    tile_4[(m0_2 - m_start) * 32 + ((k0 + 2) - k_start)] = x_3[2];
    tile_4[(m0_2 - m_start) * 32 + ((k0 + 3) - k_start)] = x_3[3];
    tile_4[(m0_2 - m_start) * 32 + ((k0 + 4) - k_start)] = x_3[4];
    tile_4[(m0_2 - m_start) * 32 + ((k0 + 5) - k_start)] = x_3[5];
    tile_4[(m0_2 - m_start) * 32 + ((k0 + 6) - k_start)] = x_3[6];
    tile_4[(m0_2 - m_start) * 32 + ((k0 + 7) - k_start)] = x_3[7];
    workgroupBarrier();
    // stage %6 {k, n}
    let k0_2 = k_start + ((tid >> 3u) & 31);
    let n0_2 = n_start + (tid & 7) * 8;
    var w_5: array<f32, 8>;
    let w_w = w[k0_2 * 32 + ((n0_2 >> 1u) >> 2u)];
    w_5[0] = bitcast<f32>(w_w.x << 16u);
    w_5[1] = bitcast<f32>(w_w.x & 4294901760u);
    w_5[2] = bitcast<f32>(w_w.y << 16u);
    w_5[3] = bitcast<f32>(w_w.y & 4294901760u);
    w_5[4] = bitcast<f32>(w_w.z << 16u);
    w_5[5] = bitcast<f32>(w_w.z & 4294901760u);
    w_5[6] = bitcast<f32>(w_w.w << 16u);
    w_5[7] = bitcast<f32>(w_w.w & 4294901760u);
    tile_6[(k0_2 - k_start) * 64 + (n0_2 - n_start)] = w_5[0];
    tile_6[(k0_2 - k_start) * 64 + ((n0_2 + 1) - n_start)] = w_5[1];
    tile_6[(k0_2 - k_start) * 64 + ((n0_2 + 2) - n_start)] = w_5[2];
    tile_6[(k0_2 - k_start) * 64 + ((n0_2 + 3) - n_start)] = w_5[3];
    tile_6[(k0_2 - k_start) * 64 + ((n0_2 + 4) - n_start)] = w_5[4];
    tile_6[(k0_2 - k_start) * 64 + ((n0_2 + 5) - n_start)] = w_5[5];
    tile_6[(k0_2 - k_start) * 64 + ((n0_2 + 6) - n_start)] = w_5[6];
    tile_6[(k0_2 - k_start) * 64 + ((n0_2 + 7) - n_start)] = w_5[7];
    workgroupBarrier();
    var dot_7: array<f32, 16>;
    dot_7[0] = carry_2[0];
    dot_7[1] = carry_2[1];
    dot_7[2] = carry_2[2];
    dot_7[3] = carry_2[3];
    dot_7[4] = carry_2[4];
    dot_7[5] = carry_2[5];
    dot_7[6] = carry_2[6];
    dot_7[7] = carry_2[7];
    dot_7[8] = carry_2[8];
    dot_7[9] = carry_2[9];
    dot_7[10] = carry_2[10];
    dot_7[11] = carry_2[11];
    dot_7[12] = carry_2[12];
    dot_7[13] = carry_2[13];
    dot_7[14] = carry_2[14];
    dot_7[15] = carry_2[15];
    for (var k_at = k_start; k_at < k_start + 32; k_at += 1) {
      let k0_3 = k_at;
      dot_7[0] = dot_7[0] + tile_4[(m0 - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + (n0 - n_start)];
      dot_7[1] = dot_7[1] + tile_4[(m0 - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 1) - n_start)];
      dot_7[2] = dot_7[2] + tile_4[(m0 - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 2) - n_start)];
      dot_7[3] = dot_7[3] + tile_4[(m0 - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 3) - n_start)];
      dot_7[4] = dot_7[4] + tile_4[(m0 - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 4) - n_start)];
      dot_7[5] = dot_7[5] + tile_4[(m0 - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 5) - n_start)];
      dot_7[6] = dot_7[6] + tile_4[(m0 - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 6) - n_start)];
      dot_7[7] = dot_7[7] + tile_4[(m0 - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 7) - n_start)];
      dot_7[8] = dot_7[8] + tile_4[((m0 + 32) - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + (n0 - n_start)];
      dot_7[9] = dot_7[9] + tile_4[((m0 + 32) - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 1) - n_start)];
      dot_7[10] = dot_7[10] + tile_4[((m0 + 32) - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 2) - n_start)];
      dot_7[11] = dot_7[11] + tile_4[((m0 + 32) - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 3) - n_start)];
      dot_7[12] = dot_7[12] + tile_4[((m0 + 32) - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 4) - n_start)];
      dot_7[13] = dot_7[13] + tile_4[((m0 + 32) - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 5) - n_start)];
      dot_7[14] = dot_7[14] + tile_4[((m0 + 32) - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 6) - n_start)];
      dot_7[15] = dot_7[15] + tile_4[((m0 + 32) - m_start) * 32 + (k0_3 - k_start)] * tile_6[(k0_3 - k_start) * 64 + ((n0 + 7) - n_start)];
    }
    carry_2[0] = dot_7[0];
    carry_2[1] = dot_7[1];
    carry_2[2] = dot_7[2];
    carry_2[3] = dot_7[3];
    carry_2[4] = dot_7[4];
    carry_2[5] = dot_7[5];
    carry_2[6] = dot_7[6];
    carry_2[7] = dot_7[7];
    carry_2[8] = dot_7[8];
    carry_2[9] = dot_7[9];
    carry_2[10] = dot_7[10];
    carry_2[11] = dot_7[11];
    carry_2[12] = dot_7[12];
    carry_2[13] = dot_7[13];
    carry_2[14] = dot_7[14];
    carry_2[15] = dot_7[15];
  }
  var cast_8: array<f32, 16>;
  {
    let cast_8_2 = carry_2[0];
    cast_8[0] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[1];
    cast_8[1] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[2];
    cast_8[2] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[3];
    cast_8[3] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[4];
    cast_8[4] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[5];
    cast_8[5] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[6];
    cast_8[6] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[7];
    cast_8[7] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[8];
    cast_8[8] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[9];
    cast_8[9] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[10];
    cast_8[10] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[11];
    cast_8[11] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[12];
    cast_8[12] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[13];
    cast_8[13] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[14];
    cast_8[14] = cast_8_2;
  }
  {
    let cast_8_2 = carry_2[15];
    cast_8[15] = cast_8_2;
  }
  y[m0 * 32 + ((n0 >> 1u) >> 2u)] = vec4<u32>(bf16_pair(cast_8[0], cast_8[1]), bf16_pair(cast_8[2], cast_8[3]), bf16_pair(cast_8[4], cast_8[5]), bf16_pair(cast_8[6], cast_8[7]));
  y[(m0 + 32) * 32 + ((n0 >> 1u) >> 2u)] = vec4<u32>(bf16_pair(cast_8[8], cast_8[9]), bf16_pair(cast_8[10], cast_8[11]), bf16_pair(cast_8[12], cast_8[13]), bf16_pair(cast_8[14], cast_8[15]));
}
