/**
 * The built package in headless Chromium: a page of this test loads `dist` as ES modules and compares WebGPU (on the software
 * adapter) with WebAssembly. Skipped where there is no Chromium or no build.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join, normalize, resolve } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { encodeModel } from '../onnx/encode.ts'
import { absent } from '../support/softwareDriver.ts'

const root = resolve(import.meta.dirname, '../..')
const chromium = process.env.SINTER_CHROMIUM ?? '/usr/bin/chromium'
const seconds = 150

const imports = {
  sinter: '/dist/index.js',
  'sinter/onnx': '/dist/models/index.js',
  'sinter/webgpu': '/dist/webgpu.js',
  '@bufbuild/protobuf/wire': '/node_modules/@bufbuild/protobuf/dist/esm/wire/index.js',
}

const html = `<!doctype html><meta charset="utf-8"><title>sinter</title>
<script type="importmap">${JSON.stringify({ imports })}</script>
<script>
  const report = (e) => fetch('/done', { method: 'POST', body: JSON.stringify({ results: [{ name: 'the page', error: String(e) }] }) })
  addEventListener('error', (e) => report(e.message))
  addEventListener('unhandledrejection', (e) => report(e.reason?.stack ?? e.reason))
</script>
<script type="module" src="/page.mjs"></script>`

/** softmax(relu(x w + b)). */
const model = encodeModel({
  nodes: [
    { op: 'MatMul', in: ['x', 'w'], out: ['product'] },
    { op: 'Add', in: ['product', 'b'], out: ['sum'] },
    { op: 'Relu', in: ['sum'], out: ['hidden'] },
    { op: 'Softmax', in: ['hidden'], out: ['y'] },
  ],
  inputs: [{ name: 'x', type: 1, dims: [2, 8] }],
  outputs: [{ name: 'y', type: 1, dims: [2, 5] }],
  initializers: [
    { name: 'w', type: 1, dims: [8, 5], floats: Array.from({ length: 40 }, (_, i) => Math.cos(i)) },
    { name: 'b', type: 1, dims: [5], floats: [0.1, -0.2, 0.3, -0.4, 0.5] },
  ],
})

const types: Readonly<Record<string, string>> = { '.js': 'text/javascript', '.mjs': 'text/javascript' }

function answer(path: string, response: ServerResponse): void {
  const send = (body: string | Uint8Array, type: string): void => {
    response.writeHead(200, {
      'content-type': type,
      // Isolated, so that threads of the WASM backend may share memory.
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
    })
    response.end(body)
  }
  const file = join(root, normalize(path))
  const isServed = path.startsWith('/dist/') || path.startsWith('/node_modules/@bufbuild/')
  if (path === '/') send(html, 'text/html')
  else if (path === '/page.mjs') send(readFileSync(join(import.meta.dirname, 'page.mjs')), 'text/javascript')
  else if (path === '/model.onnx') send(model, 'application/octet-stream')
  else if (isServed && existsSync(file)) send(readFileSync(file), types[extname(file)] ?? 'application/octet-stream')
  else response.writeHead(404).end()
}

interface Report {
  readonly results: readonly { readonly name: string; readonly error?: string }[]
  readonly isolated?: boolean
}

let server: Server | undefined
let browser: ChildProcess | undefined
const profile = mkdtempSync(join(tmpdir(), 'sinter-chromium-'))
afterAll(async () => {
  const running = browser?.pid !== undefined && browser.exitCode === null && browser.signalCode === null
  if (running && browser?.pid !== undefined) {
    const ended = new Promise((done) => browser?.once('exit', done))
    // With the processes it started, which write into the profile.
    process.kill(-browser.pid, 'SIGKILL')
    await ended
  }
  server?.close()
  server?.closeAllConnections()
  rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
})

/** Opens the page and waits for what it posts. */
function openPage(): Promise<Report> {
  return new Promise((done, fail) => {
    let log = ''
    const timer = setTimeout(() => fail(new Error(`no report after ${seconds} s\n${log.slice(-4000)}`)), seconds * 1e3)
    const finish = (report: Report): void => {
      clearTimeout(timer)
      done(report)
    }
    server = createServer((request, response) => {
      const path = new URL(request.url ?? '/', 'http://localhost').pathname
      if (path !== '/done') {
        answer(path, response)
        return
      }
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        response.end()
        finish(JSON.parse(Buffer.concat(chunks).toString()) as Report)
      })
    })
    server.listen(0, '127.0.0.1', () => {
      const address = server?.address()
      const port = typeof address === 'object' ? address?.port : undefined
      browser = spawn(
        chromium,
        [
          '--headless=new',
          '--no-sandbox',
          '--no-first-run',
          '--disable-background-networking',
          '--disable-component-update',
          '--enable-unsafe-webgpu',
          '--use-webgpu-adapter=swiftshader',
          '--enable-logging=stderr',
          `--user-data-dir=${profile}`,
          `http://127.0.0.1:${port}/`,
        ],
        { stdio: ['ignore', 'ignore', 'pipe'], detached: true },
      )
      browser.stderr?.on('data', (text: Buffer) => {
        log += text.toString()
      })
      browser.on('error', fail)
      browser.on('exit', (code) => fail(new Error(`chromium ended with ${code}\n${log.slice(-4000)}`)))
    })
  })
}

test(
  'programs on WebGPU in Chromium equal those on WebAssembly',
  async ({ skip }) => {
    if (!existsSync(chromium)) skip(absent(`no Chromium at ${chromium}`))
    if (!existsSync(join(root, 'dist', 'webgpu.js'))) skip(absent('no build of the package: npm run build'))
    const { results, isolated } = await openPage()
    expect(results.flatMap((r) => (r.error === undefined ? [] : [`${r.name}: ${r.error}`]))).toEqual([])
    expect(isolated).toBe(true)
    expect(results.length).toBeGreaterThanOrEqual(14)
  },
  (seconds + 20) * 1e3,
)
