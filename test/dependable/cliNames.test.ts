/**
 * Names that others chose. Control characters, overrides of direction, and newlines in names of models, inputs, outputs, operations,
 * files and devices, and in messages, do not reach a terminal. Sites: `consoleOn` (every line of every command), `formatReport` and
 * `escapeMarkup` (reports), `printGraph`, `reportError`, the library's `UserError`. Outputs have a file each; inputs named as members
 * of every object are inputs; an input, output or option given twice is refused.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { consoleOn, reportError } from '../../src/cli/console.ts'
import { readNpy, writeNpy } from '../../src/cli/npy.ts'
import { fileNames } from '../../src/cli/run.ts'
import { bold, rendered, wantsColour } from '../../src/cli/style.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { printable, printableJson } from '../../src/diagnostics/text.ts'
import { importOnnx } from '../../src/onnx.ts'
import { sinter, temporaryFolder } from '../cli/support.ts'
import { encodeModel } from '../onnx/encode.ts'

const dir = temporaryFolder()
const hostile = 'a\u001b[31mred\u202e\nerror [E_FAKE]\u009b2J\r'
const steers = /[^\P{Cc}\n]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff]/u

const vector = (name: string) => ({ name, type: 1, dims: [2] })
const save = (name: string, bytes: Uint8Array): string => {
  const path = join(dir, name)
  writeFileSync(path, bytes)
  return path
}
const npy = save('v.npy', writeNpy({ data: Float32Array.of(3, 4), shape: [2], dtype: 'f32' }))

describe('text of others', () => {
  const strange = fc.string({ unit: 'binary', maxLength: 40 })
  const steering = fc.array(fc.constantFrom(...'a\u0000\u001b\u007f\u0090\u202e\u2066\ufeff\n\ud800\u200f'), {
    maxLength: 12,
  })
  it('is printable in one line, and what is printable stays', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          strange,
          steering.map((x) => x.join('')),
        ),
        (name) => {
          const shown = printable(name)
          expect(shown).not.toMatch(steers)
          expect(shown).not.toContain('\n')
          expect(printable(shown)).toBe(shown)
          expect(JSON.parse(printableJson({ [name]: name }))).toEqual(Object.fromEntries([[name, name]]))
          expect(printableJson({ [name]: name })).not.toMatch(steers)
          expect(rendered(`${bold(name)} ${name}`, true)).toBe(`\u001b[1m${shown}\u001b[22m ${shown}`)
          expect(rendered(bold(name), false)).toBe(shown)
        },
      ),
      { numRuns: 1000, seed: 1 },
    )
    expect(printable('naïve 日本語 👩‍💻 é')).toBe('naïve 日本語 👩‍💻 é')
  })

  it('in an ONNX model reaches no stream, by any command', async () => {
    const model = save(
      'hostile.onnx',
      encodeModel({
        nodes: [
          { op: 'Exp', name: hostile, in: [hostile], out: [`${hostile}1`] },
          { op: 'ReduceSum', name: hostile, in: [`${hostile}1`], out: [`${hostile}2`] },
        ],
        inputs: [vector(hostile)],
        outputs: [{ name: `${hostile}2`, type: 1, dims: [1] }],
      }),
    )
    const wrong = save(
      'wrong.onnx',
      encodeModel({
        nodes: [{ op: `No${hostile}`, name: hostile, in: [hostile], out: ['y'] }],
        inputs: [vector(hostile)],
        outputs: [vector('y')],
      }),
    )
    const commands = [
      ['run', model],
      ['run', model, '--json'],
      ['run', model, '--out', join(dir, 'out')],
      ['explain', model, '--graph', '--kernels', '--html', join(dir, 'r.html'), '--svg', join(dir, 'r.svg')],
      ['explain', model, '--json'],
      ['emit', model, '--target', 'cuda', '--out', join(dir, 'emitted')],
      ['bench', model, '--seconds', '0.01'],
      ['run', wrong],
      ['run', wrong, '--json'],
      ['run', model, '--shape', `${hostile}=3`],
      ['run', model, '--shape', `x${hostile}=3`],
      ['run', `${hostile}.onnx`],
      ['run', model, '--device', hostile],
      ['run', model, '--seed', hostile],
      [hostile],
      ['run', model, `--${hostile}`],
      ['verify', hostile],
    ]
    for (const args of commands) {
      const { out, err } = await sinter(...args)
      expect(`${out}${err}`, args.join(' ')).not.toMatch(steers)
      expect(`${out}${err}`, args.join(' ')).not.toMatch(/^error \[E_FAKE\]/m)
    }
    for (const file of ['r.html', 'r.svg']) expect(readFileSync(join(dir, file), 'utf8')).not.toMatch(steers)
    for (const file of readdirSync(join(dir, 'emitted')))
      if (file.endsWith('.cu')) expect(readFileSync(join(dir, 'emitted', file), 'utf8')).not.toMatch(steers)
  })

  it('does not stand in what a caught error of the library prints', () => {
    const bytes = encodeModel({ nodes: [], inputs: [{ name: hostile, type: 1, dims: ['n'] }], outputs: [vector('y')] })
    try {
      importOnnx(bytes)
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(UserError)
      if (error instanceof UserError) expect(`${error.message}${error.summary}${error.help}`).not.toMatch(steers)
    }
  })

  it('further lines of a message are indented', () => {
    const err: string[] = []
    const sink = (write: (t: string) => void) => ({ write, colour: false })
    reportError(
      new UserError('E_FILE', 'one\nerror [E_FAKE] two'),
      false,
      consoleOn(
        sink(() => {}),
        sink((t) => err.push(t)),
      ),
    )
    expect(err.join('')).toBe('error [E_FILE] one\n  error [E_FAKE] two\n')
  })
})

describe('files of outputs', () => {
  it('are one an output, whatever the names', () => {
    expect(fileNames(['a/b', 'a_b', 'A_b', 'a_b_2', 'y'])).toEqual([
      'a_b.npy',
      'a_b_3.npy',
      'A_b_4.npy',
      'a_b_2.npy',
      'y.npy',
    ])
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: fc.constantFrom(...'aAbB_/2. \u0000'), maxLength: 5 }), { maxLength: 20 }),
        (names) => {
          const files = fileNames(names)
          expect(new Set(files.map((f) => f.toLowerCase())).size).toBe(names.length)
          for (const f of files) expect(f).toMatch(/^[A-Za-z0-9._-]*\.npy$/)
        },
      ),
      { numRuns: 1000, seed: 1 },
    )
    for (const name of fileNames(['x'.repeat(1000), 'x'.repeat(1001)])) expect(name.length).toBeLessThan(255)
  })

  it('hold their own values', async () => {
    const model = save(
      'twins.onnx',
      encodeModel({
        nodes: [
          { op: 'Neg', in: ['x'], out: ['a/b'] },
          { op: 'Abs', in: ['x'], out: ['a_b'] },
        ],
        inputs: [vector('x')],
        outputs: [vector('a/b'), vector('a_b')],
      }),
    )
    const out = join(dir, 'twins')
    const r = JSON.parse((await sinter('run', model, '--input', `x=${npy}`, '--out', out, '--json')).out)
    const read = (file: string) => [...readNpy(readFileSync(file), file).data]
    expect(r.outputs.map((o: { file: string }) => read(o.file))).toEqual([
      [-3, -4],
      [3, 4],
    ])
  })

  it('of explain are not one', async () => {
    const both = join(dir, 'both')
    const r = await sinter('explain', join(dir, 'twins.onnx'), '--html', both, '--svg', both)
    expect(r.code).toBe(2)
    expect(r.err).toContain('--html and --svg name one file')
  })
})

describe('inputs', () => {
  it.each(['__proto__', 'constructor', 'toString'])('may be called %s', async (name) => {
    const model = save(
      'proto.onnx',
      encodeModel({
        nodes: [{ op: 'Neg', in: [name], out: ['y'] }],
        inputs: [vector(name)],
        outputs: [vector('y')],
      }),
    )
    expect((await sinter('run', model, '--reference', '--json')).code).toBe(2)
    expect((await sinter('run', model, '--json')).code).toBe(0)
    expect((await sinter('run', model, '--input', `${name}=${npy}`)).out).toContain('[-3, -4]')
    const program = save(
      'proto.mjs',
      Buffer.from(
        `import { program } from 'sinter'\nexport default program((o) => o['${name}'].neg(), { ['${name}']: { shape: [2] } })\n`,
      ),
    )
    expect((await sinter('run', program, '--input', `${name}=${npy}`)).out).toContain('[-3, -4]')
  })

  it.each([
    [['--input', `x=${npy}`, '--input', `x=${npy}`], '--input x is given twice'],
    [['--shape', 'x=2', '--shape', 'x=2'], '--shape x is given twice'],
    [['--shape', 'x=2', '--input', `x=${npy}`], 'x has a value and a shape'],
  ])('%j is refused', async (args, message) => {
    const r = await sinter('run', join(dir, 'twins.onnx'), ...args)
    expect(r.code).toBe(2)
    expect(r.err).toContain(message)
  })

  it.each([
    ['inputs', ['x', 'x'], ['y']],
    ['outputs', ['x'], ['y', 'y']],
  ] as const)('and outputs of a model have names of their own: two %s', async (what, inputs, outputs) => {
    const model = save(
      'same.onnx',
      encodeModel({
        nodes: [{ op: 'Neg', in: ['x'], out: ['y'] }],
        inputs: inputs.map(vector),
        outputs: outputs.map(vector),
      }),
    )
    const r = await sinter('run', model)
    expect(r.code).toBe(1)
    expect(r.err).toContain('error [E_ONNX_MALFORMED]')
    expect(r.err).toContain(`two ${what} named`)
  })
})

describe('colours', () => {
  it.each([
    [true, { isTTY: true }, [], {}],
    [false, {}, [], {}],
    [false, {}, [], { CI: '1' }],
    [false, { isTTY: true }, [], { TERM: 'dumb' }],
    [false, { isTTY: true }, [], { NO_COLOR: '1' }],
    [true, { isTTY: true }, [], { NO_COLOR: '' }],
    [true, {}, [], { FORCE_COLOR: '1' }],
    [true, {}, [], { FORCE_COLOR: '', NO_COLOR: '1' }],
    [false, { isTTY: true }, [], { FORCE_COLOR: '0' }],
    [false, { isTTY: true }, ['run', '--no-color'], { FORCE_COLOR: '1' }],
  ])('%j for %j with %j and %j', (wanted, stream, args, env) => {
    expect(wantsColour(stream, args, env)).toBe(wanted)
  })

  it('go to one stream and not the other', () => {
    const [out, err]: [string[], string[]] = [[], []]
    const console = consoleOn(
      { write: (t) => void out.push(t), colour: false },
      { write: (t) => void err.push(t), colour: true },
    )
    console.line(bold('x'))
    console.note(bold('x'))
    expect([out, err]).toEqual([['x\n'], ['\u001b[1mx\u001b[22m\n']])
  })

  it('are refused by an option before and after the command', async () => {
    for (const args of [
      ['--no-color', 'devices', '--json'],
      ['devices', '--json', '--no-color'],
    ])
      expect((await sinter(...args)).code).toBe(0)
  })
})
