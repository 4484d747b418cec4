// Kernel softmax: 512 workgroups of 64 threads.
// read f32[512, 1024]
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
// write f32[512, 1024]
@group(0) @binding(1) var<storage, read_write> y: array<vec4<f32>>;
var<workgroup> partial_i32: array<i32, 64>;
var<workgroup> partial_other_f32: array<f32, 64>;

// What keeps the reciprocal of a divisor from being subnormal.
fn divisor_scale(b: f32) -> f32 {
  return select(1.0, 0.25, abs(b) > 4.2535296e37);
}

// a / b with r = 1 / b: the residual corrects the product, unless it is infinite or NaN.
fn f32_div_by(a: f32, b: f32, r: f32) -> f32 {
  let q = a * r;
  let rest = fma(-q, b, a);
  return select(q, fma(rest, r, q), (bitcast<u32>(rest) & 0x7fffffffu) < 0x7f800000u);
}

fn f32_isnan(a: f32) -> bool {
  return (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;
}

fn f32_exp(x: f32) -> f32 {
  let t = saturate(fma(x, 0.00572498025, 0.496031746));
  let s = bitcast<u32>(fma(t, 252.0, 49154.5)) & 0xffffff00u;
  let n = bitcast<f32>(s) - 49279.0;
  let r = fma(n, 2.1219444e-4, fma(n, -0.693359375, x));
  return select(exp2(r * 1.44269502) * bitcast<f32>(s << 15u), x, f32_isnan(x));
}

// Integers in the order of floats; NaN is above all.
fn f32_max_key(a: f32) -> i32 {
  let b = bitcast<i32>(a);
  return select(b ^ ((b >> 31u) & 0x7fffffff), 0x7fffffff, f32_isnan(a));
}

fn f32_of_key(k: i32) -> f32 {
  return bitcast<f32>(k ^ ((k >> 31u) & 0x7fffffff));
}

fn special_max(a: f32, b: f32) -> f32 {
  let zero = bitcast<f32>(bitcast<u32>(a) & bitcast<u32>(b));
  let m = select(max(a, b), zero, (a == 0.0) & (b == 0.0));
  return select(select(m, b, f32_isnan(b)), a, f32_isnan(a));
}

var<private> infinity_bits: u32 = 0x7f800000u;
var<private> minus_infinity_bits: u32 = 0xff800000u;
var<private> nan_bits: u32 = 0x7fc00000u;

@compute @workgroup_size(64)
fn softmax(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) blocks: vec3<u32>) {
  let tid = i32(thread);
  let program = i32(block.x + block.y * blocks.x);
  // axis c: 1024 of 1024 a program = 4 repeats x 64 threads x 4 side by side
  if (program >= 512) {
    return;
  }
  let r = program;
  let c0 = (tid & 63) * 4;
  var x_0: array<f32, 16>;
  {
    let x_w = x[(c0 >> 2u) + r * 256];
    x_0[0] = x_w.x;
    x_0[1] = x_w.y;
    x_0[2] = x_w.z;
    x_0[3] = x_w.w;
  }
  {
    let x_w = x[(c0 >> 2u) + 64 + r * 256];
    x_0[4] = x_w.x;
    x_0[5] = x_w.y;
    x_0[6] = x_w.z;
    x_0[7] = x_w.w;
  }
  {
    let x_w = x[(c0 >> 2u) + 128 + r * 256];
    x_0[8] = x_w.x;
    x_0[9] = x_w.y;
    x_0[10] = x_w.z;
    x_0[11] = x_w.w;
  }
  {
    let x_w = x[(c0 >> 2u) + 192 + r * 256];
    x_0[12] = x_w.x;
    x_0[13] = x_w.y;
    x_0[14] = x_w.z;
    x_0[15] = x_w.w;
  }
  var max_1: f32;
  max_1 = bitcast<f32>(minus_infinity_bits);
  {
    var best = max_1;
    var total = max_1;
    best = max(best, max(max(x_0[0], x_0[1]), max(x_0[2], x_0[3])));
    total = total + ((x_0[0] + x_0[1]) + (x_0[2] + x_0[3]));
    best = max(best, max(max(x_0[4], x_0[5]), max(x_0[6], x_0[7])));
    total = total + ((x_0[4] + x_0[5]) + (x_0[6] + x_0[7]));
    best = max(best, max(max(x_0[8], x_0[9]), max(x_0[10], x_0[11])));
    total = total + ((x_0[8] + x_0[9]) + (x_0[10] + x_0[11]));
    best = max(best, max(max(x_0[12], x_0[13]), max(x_0[14], x_0[15])));
    total = total + ((x_0[12] + x_0[13]) + (x_0[14] + x_0[15]));
    if (f32_isnan(total) | (best == 0.0)) {
      best = max_1;
      best = special_max(best, x_0[0]);
      best = special_max(best, x_0[1]);
      best = special_max(best, x_0[2]);
      best = special_max(best, x_0[3]);
      best = special_max(best, x_0[4]);
      best = special_max(best, x_0[5]);
      best = special_max(best, x_0[6]);
      best = special_max(best, x_0[7]);
      best = special_max(best, x_0[8]);
      best = special_max(best, x_0[9]);
      best = special_max(best, x_0[10]);
      best = special_max(best, x_0[11]);
      best = special_max(best, x_0[12]);
      best = special_max(best, x_0[13]);
      best = special_max(best, x_0[14]);
      best = special_max(best, x_0[15]);
    }
    max_1 = best;
  }
  var sum_4: f32;
  sum_4 = 0.0;
  var key_1: i32;
  key_1 = f32_max_key(max_1);
  partial_i32[tid & 63] = key_1;
  workgroupBarrier();
  if ((tid & 63) < 32) {
    partial_i32[tid & 63] = max(partial_i32[tid & 63], partial_i32[(tid & 63) + 32]);
  }
  workgroupBarrier();
  if ((tid & 63) < 16) {
    partial_i32[tid & 63] = max(partial_i32[tid & 63], partial_i32[(tid & 63) + 16]);
  }
  workgroupBarrier();
  if ((tid & 63) < 8) {
    partial_i32[tid & 63] = max(partial_i32[tid & 63], partial_i32[(tid & 63) + 8]);
  }
  workgroupBarrier();
  key_1 = partial_i32[0];
  key_1 = max(key_1, partial_i32[1]);
  key_1 = max(key_1, partial_i32[2]);
  key_1 = max(key_1, partial_i32[3]);
  key_1 = max(key_1, partial_i32[4]);
  key_1 = max(key_1, partial_i32[5]);
  key_1 = max(key_1, partial_i32[6]);
  key_1 = max(key_1, partial_i32[7]);
  max_1 = f32_of_key(key_1);
  var exp_3: array<f32, 16>;
  {
    let sub_2 = x_0[0] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[0] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[1] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[1] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[2] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[2] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[3] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[3] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[4] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[4] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[5] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[5] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[6] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[6] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[7] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[7] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[8] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[8] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[9] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[9] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[10] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[10] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[11] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[11] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[12] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[12] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[13] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[13] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[14] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[14] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  {
    let sub_2 = x_0[15] - max_1;
    let exp_3_2 = f32_exp(sub_2);
    exp_3[15] = exp_3_2;
    sum_4 = sum_4 + exp_3_2;
  }
  partial_other_f32[tid & 63] = sum_4;
  workgroupBarrier();
  if ((tid & 63) < 32) {
    partial_other_f32[tid & 63] = partial_other_f32[tid & 63] + partial_other_f32[(tid & 63) + 32];
  }
  workgroupBarrier();
  if ((tid & 63) < 16) {
    partial_other_f32[tid & 63] = partial_other_f32[tid & 63] + partial_other_f32[(tid & 63) + 16];
  }
  workgroupBarrier();
  if ((tid & 63) < 8) {
    partial_other_f32[tid & 63] = partial_other_f32[tid & 63] + partial_other_f32[(tid & 63) + 8];
  }
  workgroupBarrier();
  sum_4 = partial_other_f32[0];
  sum_4 = sum_4 + partial_other_f32[1];
  sum_4 = sum_4 + partial_other_f32[2];
  sum_4 = sum_4 + partial_other_f32[3];
  sum_4 = sum_4 + partial_other_f32[4];
  sum_4 = sum_4 + partial_other_f32[5];
  sum_4 = sum_4 + partial_other_f32[6];
  sum_4 = sum_4 + partial_other_f32[7];
  var div_5: array<f32, 16>;
  let reciprocal_scale_0 = divisor_scale(sum_4);
  let reciprocal_divisor_0 = sum_4 * reciprocal_scale_0;
  let reciprocal_0 = 1.0 / reciprocal_divisor_0;
  {
    let div_5_2 = f32_div_by(exp_3[0] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[0] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[1] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[1] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[2] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[2] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[3] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[3] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[4] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[4] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[5] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[5] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[6] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[6] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[7] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[7] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[8] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[8] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[9] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[9] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[10] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[10] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[11] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[11] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[12] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[12] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[13] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[13] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[14] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[14] = div_5_2;
  }
  {
    let div_5_2 = f32_div_by(exp_3[15] * reciprocal_scale_0, reciprocal_divisor_0, reciprocal_0);
    div_5[15] = div_5_2;
  }
  y[(c0 >> 2u) + r * 256] = vec4<f32>(div_5[0], div_5[1], div_5[2], div_5[3]);
  y[(c0 >> 2u) + 64 + r * 256] = vec4<f32>(div_5[4], div_5[5], div_5[6], div_5[7]);
  y[(c0 >> 2u) + 128 + r * 256] = vec4<f32>(div_5[8], div_5[9], div_5[10], div_5[11]);
  y[(c0 >> 2u) + 192 + r * 256] = vec4<f32>(div_5[12], div_5[13], div_5[14], div_5[15]);
}
