/** A page of a test in headless Chromium: a local server answers it, and it posts its results to /done. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join, normalize, resolve } from 'node:path'
import { absent } from '../support/softwareDriver.ts'

const root = resolve(import.meta.dirname, '../..')
const chromium = process.env.SINTER_CHROMIUM ?? '/usr/bin/chromium'

/** Why such a test cannot run here, if it cannot. */
export function missing(): string | undefined {
  if (!existsSync(chromium)) return absent(`no Chromium at ${chromium}`)
  return existsSync(join(root, 'dist', 'webgpu.js')) ? undefined : absent('no build of the package: npm run build')
}

const imports = {
  sinter: '/dist/index.js',
  'sinter/onnx': '/dist/onnx.js',
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

/** What a page is made of. */
export interface Page {
  /** Its module. */
  readonly code: string
  /** Other files by path. */
  readonly files?: Readonly<Record<string, Uint8Array>>
  /** Headers besides those that isolate the page. */
  readonly headers?: Readonly<Record<string, string>>
  readonly seconds: number
}

const types: Readonly<Record<string, string>> = { '.js': 'text/javascript', '.mjs': 'text/javascript' }

function answer(page: Page, path: string, response: ServerResponse): void {
  const send = (body: string | Uint8Array, type: string): void => {
    response.writeHead(200, {
      'content-type': type,
      // Isolated, so that threads of the WASM backend may share memory.
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-embedder-policy': 'require-corp',
      ...page.headers,
    })
    response.end(body)
  }
  const file = join(root, normalize(path))
  const isServed = path.startsWith('/dist/') || path.startsWith('/node_modules/@bufbuild/')
  const own = page.files?.[path]
  if (path === '/') send(html, 'text/html')
  else if (path === '/page.mjs') send(page.code, 'text/javascript')
  else if (own !== undefined) send(own, 'application/octet-stream')
  else if (isServed && existsSync(file)) send(readFileSync(file), types[extname(file)] ?? 'application/octet-stream')
  else response.writeHead(404).end()
}

/** What a page posts. */
export interface Report {
  readonly results: readonly { readonly name: string; readonly error?: string }[]
  readonly isolated?: boolean
}

let server: Server | undefined
let browser: ChildProcess | undefined
const profile = mkdtempSync(join(tmpdir(), 'sinter-chromium-'))

/** Ends the browser and the server. */
export async function closePage(): Promise<void> {
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
}

/** Opens a page and waits for what it posts; one page a process. */
export function openPage(page: Page): Promise<Report> {
  const { seconds } = page
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
        answer(page, path, response)
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
