/** Emission of the sources by a TypeScript project: as tsc does it, with loops over lists by index inside the compiler (`lists.mjs`). */
import { join, relative, resolve } from 'node:path'
import ts from 'typescript'
import { listsByIndex } from './lists.mjs'

/** What compilation is made of. Elsewhere lists may come from callers, who may give anything that can be iterated. */
const inside = ['affine', 'codegen', 'kernel', 'lower', 'plan', 'rewrite', 'schedule']

const shown = (root, diagnostics) =>
  ts.formatDiagnostics(diagnostics, {
    getCurrentDirectory: () => root,
    getCanonicalFileName: (path) => path,
    getNewLine: () => '\n',
  })

/** A project as its file says it. */
export function optionsIn(project) {
  const host = { ...ts.sys, onUnRecoverableConfigFileDiagnostic: (d) => ts.sys.write(shown('', [d])) }
  const config = ts.getParsedCommandLineOfConfigFile(project, {}, host)
  if (config === undefined) throw new Error(`no project in ${project}`)
  return config
}

/** Emits a project of the checkout at `root`: the paths that were written, and what there is to say of the sources (with `noCheck` of their grammar alone). */
export function emit(root, { fileNames, options, errors }) {
  const program = ts.createProgram(fileNames, { ...options, listEmittedFiles: true })
  const isInside = (path) => inside.includes(relative(join(root, 'src'), path).split(/[\\/]/)[0])
  const before = [listsByIndex(program, isInside)]
  const { diagnostics, emittedFiles = [] } = program.emit(undefined, undefined, undefined, false, { before })
  const found = [...errors, ...ts.getPreEmitDiagnostics(program), ...diagnostics]
  const messages = shown(root, ts.sortAndDeduplicateDiagnostics(found))
  return { written: new Set(emittedFiles.map((path) => resolve(root, path))), messages }
}
