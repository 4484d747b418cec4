/**
 * The parts of pages that the compiler itself makes: the picture of a fusion report and numbers of kernels (README.md), a softmax in
 * all its forms (docs/architecture.md), an attention's (docs/attention.md), the importer's operators (docs/onnx.md). Between the comments `generated: NAME` and `end` of a page stands what `generators` gives for
 * NAME; docs/images/fusion-report.svg is drawn anew.
 *   node scripts/generated-docs.mjs            says what is out of date, and exits with 1
 *   node scripts/generated-docs.mjs --write    writes it
 * The sources are compiled for this (their types are checked elsewhere), so no build is needed.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { attentionForms } from './attention-forms.mjs'
import { emitted } from './emitted.mjs'
import { onnxOperators } from './onnx-operators.mjs'
import { softmaxForms } from './softmax-forms.mjs'

const script = fileURLToPath(import.meta.url)
const root = resolve(script, '../..')
const picture = join(root, 'docs', 'images', 'fusion-report.svg')

const words = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven', 'twelve']
const counted = (n, noun) => `${words[n] ?? n} ${noun}${n === 1 ? '' : 's'}`

/** Compares what the compiler in `compiled` (`emitted`) makes with what stands there, or writes it; the number of files out of date. */
export async function generatedDocs(compiled, write) {
  const part = (path) => import(pathToFileURL(join(compiled, 'src', path)).href)
  const { loadModel } = await part('cli/load.js')
  const { compile } = await part('cli/session.js')
  const { reportPicture } = await part('report/svg.js')

  const model = await loadModel(join(root, 'examples', 'attention.ts'))
  const { report } = compile(model.graph, { name: model.name, mode: 'fast', fuse: true })
  const { operations, kernels } = report.totals

  // What stands in each page under each name.
  const generators = {
    'README.md': {
      picture: `\n![The fusion report of causal attention: ${counted(operations, 'operation')} in ${counted(kernels, 'kernel')}, the traffic of each, and why they are not fewer](docs/images/fusion-report.svg)\n`,
      'attention-kernels': counted(kernels, 'kernel'),
    },
    'docs/architecture.md': await softmaxForms(root, part),
    'docs/attention.md': await attentionForms(root, part),
    'docs/onnx.md': await onnxOperators(root, part),
  }

  const files = new Map([[picture, reportPicture(report, { alone: true })]])
  for (const [page, blocks] of Object.entries(generators)) {
    const path = join(root, page)
    const unused = new Set(Object.keys(blocks))
    const marks = /(<!-- generated: ([\w-]+) -->)[\s\S]*?(<!-- end -->)/g
    const text = readFileSync(path, 'utf8').replace(marks, (_, open, name, close) => {
      if (!(name in blocks)) throw new Error(`${page}: nothing generates "${name}"`)
      unused.delete(name)
      return `${open}${blocks[name]}${close}`
    })
    if (unused.size > 0) throw new Error(`${page} does not hold what is generated: ${[...unused].join(', ')}`)
    files.set(path, text)
  }
  let stale = 0
  for (const [path, text] of files) {
    if (readFileSync(path, 'utf8') === text) continue
    if (write) writeFileSync(path, text)
    else {
      stale++
      console.error(`error: ${path.slice(root.length + 1)} is out of date: npm run docs -- --write`)
    }
  }
  if (stale === 0) console.log('docs: the picture, figures and code that pages show are what the compiler says')
  return stale
}

if (resolve(process.argv[1] ?? '') === script) {
  const compiled = emitted(root)
  const stale = await generatedDocs(compiled, process.argv.includes('--write'))
  rmSync(compiled, { recursive: true, force: true })
  process.exit(stale > 0 ? 1 : 0)
}
