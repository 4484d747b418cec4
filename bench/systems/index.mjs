/** The systems by name, and whether they run on two threads in Node. `baseline` is another build of Sinter. */
export const systems = {
  sinter: { title: 'Sinter', threads: true },
  baseline: { title: 'baseline', threads: true },
  'jax-js': { title: 'jax-js', threads: true },
  'ort-node': { title: 'ORT-node', threads: true },
  'ort-web': { title: 'ORT-web', threads: true },
  tfjs: { title: 'tfjs-wasm', threads: false },
}

/** A system ready to prepare rows: `{ has(row), prepare(row, inputs) }`. `build` is the folder of a build of Sinter. */
export async function openSystem(name, threads, build) {
  if (name === 'sinter' || name === 'baseline') return (await import('./sinter.mjs')).open({ threads, build })
  if (name === 'jax-js') return (await import('./jax.mjs')).open({ threads })
  if (name === 'tfjs') return (await import('./tfjs.mjs')).open({ threads })
  return (await import('./ort.mjs')).open({ threads, web: name === 'ort-web' })
}
