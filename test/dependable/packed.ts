/** The package as npm packs it, unpacked in a project of its own. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'

export const root = resolve(import.meta.dirname, '../..')

export interface Manifest {
  readonly scripts: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly optionalDependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly repository: { readonly type: string; readonly url: string }
  readonly bugs: { readonly url: string }
}

export const manifestIn = (folder: string): Manifest => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))

/** Why the package cannot be packed here, if it cannot. */
export const noBuild = (): string | undefined =>
  existsSync(join(root, 'dist', 'index.d.ts')) ? undefined : 'no build of the package: npm run build'

/** A project with the packed package alone in its `node_modules`; the build is packed as it stands. */
export function packedProject(): { readonly folder: string; readonly installed: string } {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'sinter-packed-')))
  const installed = join(folder, 'node_modules', 'sinter')
  mkdirSync(installed, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder], {
    cwd: root,
    stdio: 'pipe',
  })
  const [packed = ''] = readdirSync(folder).filter((f) => f.endsWith('.tgz'))
  execFileSync('tar', ['-xzf', packed, '-C', installed, '--strip-components=1'], { cwd: folder })
  return { folder, installed }
}

/** Lends the project what the package depends on, and its command. */
export function lendDependencies(folder: string, installed: string): void {
  const modules = join(folder, 'node_modules')
  for (const name of Object.keys(manifestIn(installed).dependencies)) {
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), join(modules, name))
  }
  mkdirSync(join(modules, '.bin'))
  symlinkSync('../sinter/dist/cli/main.js', join(modules, '.bin', 'sinter'))
}
