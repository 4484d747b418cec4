/**
 * The parts of README.md that the compiler itself makes: the picture of a fusion report, and numbers of kernels. Between the comments
 * `generated: NAME` and `end` of README stands what `generators` gives for NAME; docs/images/fusion-report.svg is drawn anew.
 *   node scripts/generated-docs.mjs            says what is out of date, and exits with 1
 *   node scripts/generated-docs.mjs --write    writes it
 * The sources are compiled for this (their types are checked elsewhere), so no build is needed.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = resolve(fileURLToPath(import.meta.url), '../..')
const compiled = join(root, 'node_modules', '.cache', 'generated-docs')
const picture = join(root, 'docs', 'images', 'fusion-report.svg')
const readme = join(root, 'README.md')

const options = ['--noCheck', '--declaration', 'false', '--declarationMap', 'false', '--sourceMap', 'false']
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
const made = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', ...options, '--outDir', compiled], {
  cwd: root,
  encoding: 'utf8',
})
if (made.status !== 0) {
  console.error(made.stdout + made.stderr)
  process.exit(1)
}
const part = (path) => import(pathToFileURL(join(compiled, path)).href)
const { loadModel } = await part('cli/load.js')
const { compile } = await part('cli/session.js')
const { reportPicture } = await part('report/svg.js')

const words = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven', 'twelve']
const counted = (n, noun) => `${words[n] ?? n} ${noun}${n === 1 ? '' : 's'}`

const model = await loadModel(join(root, 'examples', 'attention.ts'))
const { report } = compile(model.graph, { name: model.name, mode: 'fast', fuse: true })
const { operations, kernels } = report.totals

/** What stands in README under each name. */
const generators = {
  picture: `\n![The fusion report of causal attention: ${counted(operations, 'operation')} in ${counted(kernels, 'kernel')}, the traffic of each, and why they are not fewer](docs/images/fusion-report.svg)\n`,
  'attention-kernels': counted(kernels, 'kernel'),
}

const files = new Map([[picture, reportPicture(report, { alone: true })]])
const used = new Set()
files.set(
  readme,
  readFileSync(readme, 'utf8').replace(
    /(<!-- generated: ([\w-]+) -->)[\s\S]*?(<!-- end -->)/g,
    (_, open, name, close) => {
      if (!(name in generators)) throw new Error(`README.md: nothing generates "${name}"`)
      used.add(name)
      return `${open}${generators[name]}${close}`
    },
  ),
)
rmSync(compiled, { recursive: true, force: true })

const unused = Object.keys(generators).filter((name) => !used.has(name))
if (unused.length > 0) throw new Error(`README.md does not hold what is generated: ${unused.join(', ')}`)
let stale = 0
for (const [path, text] of files) {
  if (readFileSync(path, 'utf8') === text) continue
  if (process.argv.includes('--write')) writeFileSync(path, text)
  else {
    stale++
    console.error(`error: ${path.slice(root.length + 1)} is out of date: npm run docs -- --write`)
  }
}
if (stale > 0) process.exit(1)
console.log('docs: the picture and figures of README.md are what the compiler says')
