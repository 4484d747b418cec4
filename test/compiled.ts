/**
 * Sources compiled once for a whole run of the tests, instead of module by module in each of its processes, most of whose files would take
 * longer to load the compiler than to test it. Positions in stack traces are then those of the compiled files.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { type Plugin, transformWithOxc } from 'vite'

/** Compiles `src` of a checkout into a folder that stands as `src` does: beside the package's file and the examples, below its packages. */
async function compileInto(out: string, root: string): Promise<void> {
  for (const name of ['package.json', 'examples']) symlinkSync(join(root, name), join(out, name))
  const names = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((n) => n.endsWith('.ts'))
  for (const name of names) {
    const source = join(root, 'src', name)
    const { code } = await transformWithOxc(readFileSync(source, 'utf8'), source, {
      target: 'es2022',
      sourcemap: false,
      typescript: { onlyRemoveTypeImports: true, rewriteImportExtensions: 'rewrite' },
    })
    const path = join(out, 'src', name.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, code)
  }
}

/** Where a process keeps its folder: the settings of the tests are read once for each project. */
const kept = Symbol.for('sinter.compiledSources')
const here = globalThis as typeof globalThis & { [kept]?: Promise<string> }

async function makeFolder(root: string): Promise<string> {
  const cache = join(root, 'node_modules', '.cache')
  mkdirSync(cache, { recursive: true })
  const out = mkdtempSync(join(cache, 'tests-'))
  process.once('exit', () => rmSync(out, { recursive: true, force: true }))
  await compileInto(out, root)
  return out
}

/** Imports of a module in `src` of the checkout at `root` are those of the compiled one, which Node loads by itself. */
export async function compiledSources(root: string): Promise<Plugin> {
  const src = join(root, 'src')
  here[kept] ??= makeFolder(root)
  const out = join(await here[kept], 'src')
  return {
    name: 'sinter:compiled-sources',
    enforce: 'pre',
    resolveId(id, importer) {
      const path =
        id === 'sinter' ? join(src, 'index.ts') : importer === undefined ? id : resolve(dirname(importer), id)
      const name = relative(src, path)
      return name.startsWith('..') || !name.endsWith('.ts') ? undefined : join(out, name.replace(/\.ts$/, '.js'))
    },
  }
}
