/**
 * The command line of the packed package, installed in a project: `sinter demo` ends with commands that work as printed there (their paths
 * led nowhere outside the repository). Sites: the demonstration's closing commands and first line; README's are typed in the
 * repository. And what packing and its page on a registry need of package.json. Skipped where there is no build.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { typedPath } from '../../src/cli/files.ts'
import { nightly, some } from '../support/nightly.ts'
import { lendDependencies, manifestIn, noBuild, packedProject, root } from './packed.ts'

const project = noBuild() === undefined ? packedProject() : undefined
if (project !== undefined) lendDependencies(project.folder, project.installed)
afterAll(() => {
  if (project !== undefined) rmSync(project.folder, { recursive: true, force: true })
})

/** What a command line prints, run in a shell of the project as npx runs it there. */
function shell(
  folder: string,
  line: string,
): { readonly status: number | null; readonly out: string; readonly err: string } {
  const PATH = `${join(folder, 'node_modules', '.bin')}${delimiter}${process.env.PATH}`
  const done = spawnSync(line, { cwd: folder, shell: true, encoding: 'utf8', env: { ...process.env, PATH } })
  return { status: done.status, out: done.stdout, err: done.stderr }
}

it("the demonstration's closing commands work where the package is installed", ({ skip }) => {
  if (project === undefined) return skip(noBuild())
  const { folder } = project
  const demo = shell(folder, 'sinter demo --seconds 0.01')
  expect(demo).toMatchObject({ status: 0, err: '' })
  expect(demo.out).toContain('node_modules/sinter/examples/digits/digits.onnx')

  const [, next = ''] = demo.out.split('\nNext\n')
  const commands = next
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/ {2,}/)[0] ?? '')
  expect(commands.map((c) => /^npx (sinter \w+) node_modules\/sinter\//.exec(c)?.[1])).toEqual([
    'sinter explain',
    'sinter bench',
    'sinter explain',
  ])
  // By day the first.
  for (const command of some(commands, 3)) {
    const quick = command.includes(' bench ') ? ' --seconds 0.01' : ''
    const done = shell(folder, command.replace(/^npx /, '') + quick)
    expect(done.err.replace('wrote report.html\n', ''), command).toBe('')
    expect(done.status, command).toBe(0)
    expect(done.out.length, command).toBeGreaterThan(200)
  }
  if (nightly) expect(readFileSync(join(folder, 'report.html'), 'utf8')).toContain('<svg')
})

it.skipIf(process.platform === 'win32')('paths are printed as a shell reads them', () => {
  const shown: readonly [path: string, from: string, shown: string][] = [
    ['/a/b/c.ts', '/a', 'b/c.ts'],
    ['/a/b/c.ts', '/a/b', 'c.ts'],
    ['/a/b/c.ts', '/a/bb', '/a/b/c.ts'],
    ['/a/b c/d.ts', '/a', "'b c/d.ts'"],
    ["/a/it's $HOME/d.ts", '/b', "'/a/it'\\''s $HOME/d.ts'"],
  ]
  for (const [path, from, text] of shown) {
    expect(typedPath(path, from)).toBe(text)
    const read = execFileSync('/bin/sh', ['-c', `printf %s ${text}`], { encoding: 'utf8' })
    expect(join('/', path)).toBe(read.startsWith('/') ? read : join(from, read))
  }
})

it('package.json: packing builds, and the package says where it lives', () => {
  const { scripts, repository, bugs } = manifestIn(root)
  expect(scripts.prepack).toMatch(/\bnpm run\b.* build$/)
  expect(scripts.build).toBe('node scripts/build.mjs')
  expect(existsSync(join(root, 'scripts', 'build.mjs'))).toBe(true)
  expect(repository.type).toBe('git')
  expect(bugs.url).toBe(`${repository.url.replace(/^git\+/, '').replace(/\.git$/, '')}/issues`)
})

it('what sources, examples, tests, scripts and benchmarks import is declared (scripts took a bundler that only came along)', () => {
  const { dependencies, devDependencies, optionalDependencies, peerDependencies } = manifestIn(root)
  const own = { ...dependencies, ...optionalDependencies, ...peerDependencies }
  // `sinter-build` is what the bundle of a benchmark calls the build it measures.
  const undeclared = (folder: string, declared: Readonly<Record<string, string>>): string[] => {
    const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter(
      (f) => /\.(ts|mjs)$/.test(f) && !f.includes('node_modules'),
    )
    return files.flatMap((f) => {
      const text = readFileSync(join(root, folder, f), 'utf8')
      const packages = [...text.matchAll(/^(?:import|export|\}).* from '((?:@[\w-]+\/)?[\w-]+)[^':]*'$/gm)].map(
        (m) => m[1] ?? '',
      )
      return packages
        .filter((p) => p !== 'sinter' && p !== 'sinter-build' && !Object.hasOwn(declared, p))
        .map((p) => `${folder}/${f}: ${p}`)
    })
  }
  expect(undeclared('src', own)).toEqual([])
  const all = { ...own, ...devDependencies }
  for (const folder of ['examples', 'test', 'scripts']) expect(undeclared(folder, all)).toEqual([])
  expect(undeclared('bench', { ...all, ...manifestIn(join(root, 'bench')).dependencies })).toEqual([])
})
