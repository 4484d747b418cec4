/** Copies of bytes that are no whole words, as a kernel: what queues of WebGPU cannot copy. */

const threads = 64

/** A word of the target a thread, from the word that holds the first byte to the one that holds the last. */
export const byteCopy = {
  entry: 'copy_bytes',
  threads,
  source: `// Copies span.z bytes from byte span.x of one buffer to byte span.y of another.
@group(0) @binding(0) var<storage, read> from_words: array<u32>;
@group(0) @binding(1) var<storage, read_write> to_words: array<u32>;
@group(0) @binding(2) var<storage, read> span: vec4<u32>;

@compute @workgroup_size(${threads})
fn copy_bytes(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) block: vec3<u32>, @builtin(num_workgroups) blocks: vec3<u32>) {
  let word = span.y / 4u + (block.x + block.y * blocks.x) * ${threads}u + thread;
  let end = span.y + span.z;
  if (word * 4u >= end) {
    return;
  }
  var value = to_words[word];
  for (var lane = 0u; lane < 4u; lane++) {
    let at = word * 4u + lane;
    if (at >= span.y && at < end) {
      let source = at - span.y + span.x;
      let byte = (from_words[source / 4u] >> (8u * (source % 4u))) & 0xffu;
      value = (value & ~(0xffu << (8u * lane))) | (byte << (8u * lane));
    }
  }
  to_words[word] = value;
}
`,
} as const
