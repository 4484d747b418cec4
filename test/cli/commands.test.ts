/** The commands, called as the shell would: results, exit codes, and errors as text and as data. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { main } from '../../src/cli/commands.ts'
import { consoleOn } from '../../src/cli/console.ts'
import { readNpy, writeNpy } from '../../src/cli/npy.ts'
import { encodeModel } from '../onnx/encode.ts'
import { sinter, temporaryFolder, vector, writeCase } from './support.ts'

const dir = temporaryFolder()
const file = (name: string, content: string | Uint8Array): string => {
  const path = join(dir, name)
  writeFileSync(path, content)
  return path
}
const npy = (name: string, ...values: number[]): string =>
  file(name, writeNpy({ data: Float32Array.from(values), shape: [values.length], dtype: 'f32' }))

const affine = file(
  'affine.ts',
  `import { program, tanh, tensor, type Tensor } from 'sinter'
const shift = tensor([1, 2, 3])
const scaled = (x: Tensor, by: number): Tensor => x.mul(by)
export default program(({ x, y }) => ({ sum: scaled(x, 2).add(y).add(shift), bent: tanh(x) }), {
  x: { shape: [3] },
  y: { shape: [3] },
})
`,
)

const open = file(
  'open.onnx',
  encodeModel({
    nodes: [{ op: 'Neg', in: ['x'], out: ['y'] }],
    inputs: [{ name: 'x', type: 1, dims: ['n', 2] }],
    outputs: [{ name: 'y', type: 1, dims: ['n', 2] }],
  }),
)

/** No shape of s is enough: its value fixes a shape. */
const unfixed = file(
  'unfixed.onnx',
  encodeModel({
    nodes: [{ op: 'Reshape', in: ['x', 's'], out: ['y'] }],
    inputs: [
      { name: 'x', type: 1, dims: [4] },
      { name: 's', type: 7, dims: ['k'] },
    ],
    outputs: [{ name: 'y', type: 1 }],
  }),
)

describe.each(['wasm', 'reference'])('run on %s', (device) => {
  it('a program module, values given, outputs written', async () => {
    const inputs = ['--input', `x=${npy('x.npy', 1, 2, 3)}`, '--input', `y=${npy('y.npy', 10, 20, 30)}`]
    const out = join(dir, `out-${device}`)
    const r = await sinter('run', affine, '--device', device, ...inputs, '--out', out)
    expect(r.err).toBe('')
    expect(r.code).toBe(0)
    const sum = readNpy(readFileSync(join(out, 'sum.npy')), 'sum.npy')
    expect([...sum.data]).toEqual([13, 26, 39])
    const bent = readNpy(readFileSync(join(out, 'bent.npy')), 'bent.npy')
    expect(bent.data[0]).toBeCloseTo(Math.tanh(1), 6)
    expect(r.out).toContain('sum  f32[3]  min 13  mean 26  max 39')
  })

  it('missing inputs are drawn, and it says so', async () => {
    const r = await sinter('run', affine, '--device', device, '--seed', '5')
    expect(r.code).toBe(0)
    expect(r.err).toContain('input x f32[3] is drawn at random (seed 5)')
    expect(r.err).toContain('input y f32[3] is drawn at random (seed 5)')
    const again = JSON.parse((await sinter('run', affine, '--device', device, '--seed', '5', '--json')).out)
    const other = JSON.parse((await sinter('run', affine, '--device', device, '--seed', '6', '--json')).out)
    expect(again.drawn).toEqual(['x', 'y'])
    expect(r.out).toContain(`max ${again.outputs[0].statistics.max.toPrecision(4).replace(/\.?0+$/, '')}`)
    expect(again.outputs[0].statistics).not.toEqual(other.outputs[0].statistics)
  })

  it('an ONNX model with an open extent', async () => {
    const r = await sinter('run', open, '--device', device, '--shape', 'x=4,2', '--json')
    expect(r.code).toBe(0)
    expect(JSON.parse(r.out)).toMatchObject({ device, outputs: [{ name: 'y', shape: [4, 2], dtype: 'f32' }] })
  })
})

describe('open extents', () => {
  it('are bound by name, once for all inputs', async () => {
    const r = await sinter('run', open, '--length', 'n=5', '--json')
    expect(r.err).toBe('')
    expect(JSON.parse(r.out)).toMatchObject({ inferred: {}, outputs: [{ name: 'y', shape: [5, 2] }] })
    const explained = await sinter('explain', open, '--length', 'n=5', '--json')
    expect(JSON.parse(explained.out).kernels[0].bytesRead).toBe(40)
  })

  it('are inferred where nobody says them, and it says so', async () => {
    const r = await sinter('run', open)
    expect(r.code).toBe(0)
    expect(r.err).toContain('input x is taken as [1, 2], which the model leaves open: say --shape x=1,2')
    expect(JSON.parse((await sinter('run', open, '--json')).out).inferred).toEqual({ x: [1, 2] })
  })

  it('of cases have to be as told', async () => {
    const spec = {
      model: {
        nodes: [{ op: 'Neg', in: ['x'], out: ['y'] }],
        inputs: [{ name: 'x', type: 1, dims: ['n'] }],
        outputs: [{ name: 'y', type: 1, dims: ['n'] }],
      },
      inputs: [vector('x', 1, 2)],
      outputs: [vector('y', -1, -2)],
    }
    const made = writeCase(dir, 'named', spec)
    expect((await sinter('verify', made, '--length', 'n=2')).out).toBe('1 passed, 0 failed, 0 skipped')
    const other = await sinter('verify', made, '--length', 'n=3')
    expect(other.code).toBe(1)
    expect(other.out).toContain('where "n" is 3')
    expect((await sinter('verify', made, '--length', 'm=3')).out).toContain('no open extent named "m"')
  })
})

describe('progress', () => {
  it('is one line on a terminal, and gone in the end; nothing elsewhere', async () => {
    const [out, err]: [string[], string[]] = [[], []]
    const sink = (to: string[]) => ({ write: (text: string) => void to.push(text), colour: false })
    const code = await main(['run', open, '--length', 'n=5'], consoleOn(sink(out), { ...sink(err), columns: 80 }))
    expect(code).toBe(0)
    expect(err.join('')).toMatch(/compiling open/)
    expect(err.join('').split('\r\u001b[K').at(-1)).not.toContain('compiling')
    expect(out.join('')).not.toContain('compiling')
    expect((await sinter('run', open, '--length', 'n=5')).err).not.toContain('compiling')
  })
})

describe('run', () => {
  it('strict mode', async () => {
    expect((await sinter('run', affine, '--mode', 'strict')).code).toBe(0)
  })

  it.each<[string, string[], number, string, string]>([
    ['an open extent that nothing fixes', ['run', unfixed], 1, 'E_ONNX_INPUT', '--shape s=k'],
    ['a name that no extent has', ['run', open, '--length', 'm=3'], 1, 'E_ONNX_INPUT', 'its inputs name n'],
    ['an extent given twice', ['run', open, '--length', 'n=3', '--length', 'n=3'], 2, 'E_ARGUMENT', 'given twice'],
    ['an extent that is none', ['run', open, '--length', 'n=-3'], 2, 'E_ARGUMENT', '--length n'],
    [
      'a shape against a name',
      ['run', open, '--length', 'n=3', '--shape', 'x=4,2'],
      1,
      'E_ONNX_INPUT',
      'has extent 4 on axis 0, where "n" is 3',
    ],
    ['a name in a program module', ['run', affine, '--length', 'n=3'], 1, 'E_ARGUMENT', 'states its own shapes'],
    ['no such file', ['run', join(dir, 'nowhere.onnx')], 1, 'E_FILE', 'there is no such file'],
    ['a folder', ['run', `${dir}/`], 1, 'E_FILE', 'is no model'],
    [
      'bytes that are no model',
      ['run', file('bad.onnx', Uint8Array.of(9, 9, 9, 9))],
      1,
      'E_ONNX_MALFORMED',
      'malformed',
    ],
    ['a module without program', ['run', file('none.mjs', 'export default 3')], 1, 'E_FILE', 'not a program'],
    ['a module that throws', ['run', file('throws.mjs', 'throw new Error("boom")')], 1, 'E_CALLBACK', 'boom'],
    ['an input that is not there', ['run', affine, '--shape', 'z=1'], 1, 'E_ARGUMENT', 'no input "z"'],
    ['a value of another shape', ['run', affine, '--input', `x=${npy('two.npy', 1, 2)}`], 1, 'E_SHAPE', 'f32[2]'],
    ['a device that is not there', ['run', affine, '--device', 'abacus'], 2, 'E_ARGUMENT', 'abacus'],
    ['a mode that is not there', ['run', affine, '--mode', 'loose'], 2, 'E_ARGUMENT', 'loose'],
    ['a seed that is none', ['run', affine, '--seed', '-1'], 2, 'E_ARGUMENT', '--seed'],
  ])('refuses %s, as text and as data', async (_, args, code, error, message) => {
    const text = await sinter(...args)
    expect(text.code).toBe(code)
    expect(text.err).toContain(`error [${error}]`)
    expect(text.err).toContain(message)
    expect(text.err).not.toMatch(/\n\s+at .*\.ts:\d+/)
    const data = await sinter(...args, '--json')
    expect(data.code).toBe(code)
    expect(JSON.parse(data.out).error.code).toBe(error)
  })

  it('errors inside the program name their place', async () => {
    const bad = file(
      'shapes.ts',
      `import { program } from 'sinter'\nexport default program(({ x, y }) => x.add(y), { x: { shape: [2] }, y: { shape: [3] } })\n`,
    )
    const r = await sinter('run', bad)
    expect(r.code).toBe(1)
    expect(r.err).toContain('error [E_SHAPE] add:')
    expect(r.err).toContain('shapes.ts:2')
  })
})

describe('usage', () => {
  it('help and version end well', async () => {
    const help = await sinter('--help')
    expect(help.code).toBe(0)
    for (const name of ['run', 'explain', 'bench', 'verify', 'devices', 'demo']) expect(help.out).toContain(name)
    expect((await sinter('--version')).out).toMatch(/^\d+\.\d+\.\d+$/)
  })
  it.each([[['frobnicate']], [['run']], [['run', 'x.onnx', '--nonsense']]])('%j is bad usage', async (args) => {
    const text = await sinter(...args)
    expect(text.code).toBe(2)
    expect(text.err).toContain('error:')
    const data = await sinter(...args, '--json')
    expect(data.code).toBe(2)
    expect(JSON.parse(data.out).error.code).toBe('E_ARGUMENT')
  })
})

describe('explain', () => {
  it('prints the report, the graphs and the kernels', async () => {
    const r = await sinter('explain', affine, '--graph', '--kernels')
    expect(r.code).toBe(0)
    expect(r.out).toContain('operations in 1 kernel for wasm')
    expect(r.out).toContain('graph before the passes')
    expect(r.out).toMatch(/= tanh %\d/)
    expect(r.out).toMatch(/kernel "?k0/)
  })
  it('fused and unfused as data', async () => {
    const fused = JSON.parse((await sinter('explain', affine, '--json')).out)
    const unfused = JSON.parse((await sinter('explain', affine, '--json', '--unfused')).out)
    expect(fused.totals.kernels).toBe(1)
    expect(unfused.totals.kernels).toBeGreaterThan(1)
    expect(unfused.totals.bytes).toBeGreaterThan(fused.totals.bytes)
  })
  it('writes a page and a picture that load nothing', async () => {
    const [html, svg] = [join(dir, 'deep', 'report.html'), join(dir, 'report.svg')]
    expect((await sinter('explain', affine, '--html', html, '--svg', svg)).code).toBe(0)
    const page = readFileSync(html, 'utf8')
    expect(page).toContain('<svg')
    expect(page).toContain('tanh')
    expect(page.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:|<script|<link/)
    expect(readFileSync(svg, 'utf8')).toMatch(/^<svg xmlns/)
  })
  it('has nothing to say of the reference device', async () => {
    const r = await sinter('explain', affine, '--device', 'reference')
    expect(r.code).toBe(1)
    expect(r.err).toContain('error [E_DEVICE] the device reference compiles nothing')
    expect(r.err).toContain('help: explain for --device wasm')
  })
  it('says where it cannot write', async () => {
    mkdirSync(join(dir, 'taken'))
    const r = await sinter('explain', affine, '--html', join(dir, 'taken'))
    expect(r.code).toBe(1)
    expect(r.err).toContain('it is a folder')
  })
})

describe('folders that cannot be made', () => {
  const blocked = join(file('blocked', ''), 'deep', 'deeper')
  // Node's own recursion never ends there.
  const places = existsSync('/proc/self') ? [blocked, '/proc/nope', '/proc/nope/deeper'] : [blocked]
  it.each(places)('%s is refused at once', async (place) => {
    for (const args of [
      ['emit', affine, '-t', 'wasm', '-o', place],
      ['run', affine, '--out', place],
      ['explain', affine, '--html', join(place, 'report.html')],
    ]) {
      const r = await sinter(...args)
      expect(r.code).toBe(1)
      expect(r.err).toContain('error [E_FILE] cannot write ')
      expect(r.err).toContain(`the folder ${place} cannot be made: `)
      expect(r.err).toContain('help: give a path in a folder that you may write to')
    }
  })
})

describe('the number of a GPU', () => {
  it.each(['run', 'explain', 'bench'])('%s: for devices that have numbers', async (command) => {
    const r = await sinter(command, affine, '--index', '1')
    expect(r.code).toBe(2)
    expect(r.err).toContain('--index 1 on wasm')
    const bad = await sinter(command, affine, '--device', 'cuda', '--index', 'two')
    expect(bad.code).toBe(2)
    expect(bad.err).toContain('--index two is not a whole number')
  })
})

describe('threads', () => {
  it.each(['run', 'bench'])('%s: for the device that runs on them', async (command) => {
    const r = await sinter(command, affine, '--device', 'webgpu', '--threads', '3')
    expect(r.code).toBe(2)
    expect(r.err).toContain('--threads 3 on webgpu')
  })
})

describe('devices', () => {
  it('says what works and what to do', async () => {
    const r = await sinter('devices')
    expect(r.code).toBe(0)
    expect(r.out).toMatch(/works +wasm +SIMD/)
    expect(r.out).toMatch(/missing +cuda/)
    const { devices } = JSON.parse((await sinter('devices', '--json')).out)
    expect(devices.map((d: { name: string }) => d.name)).toEqual(['wasm', 'reference', 'webgpu', 'cuda'])
    for (const d of devices) if (!d.works) expect(d.help).not.toBe('')
  })
})

describe('bench', () => {
  it('measures kernels, totals and the machine', async () => {
    const r = await sinter('bench', affine, '--seconds', '0.1', '--threads', '1', '--json')
    expect(r.err).toBe('')
    const data = JSON.parse(r.out)
    expect(data.machine.bandwidth).toBeGreaterThan(1e8)
    expect(data.machine.flops).toBeGreaterThan(1e8)
    expect(data.kernels).toHaveLength(data.fused.kernels)
    expect(data.unfused.kernels).toBeGreaterThan(data.fused.kernels)
    for (const ms of [data.fused.ms, data.unfused.ms, ...data.kernels.map((k: { ms: number }) => k.ms)])
      expect(ms).toBeGreaterThan(0)
    expect(data.speedup).toBeCloseTo(data.unfused.ms / data.fused.ms, 9)
  })
  it('needs a device with kernels', async () => {
    const r = await sinter('bench', affine, '--device', 'reference')
    expect(r.code).toBe(1)
    expect(r.err).toContain('E_DEVICE')
  })
})
