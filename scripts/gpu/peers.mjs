/** The peers of a comparison: processes of peers.py that measure a row when asked to, in turn with the library. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

export class Peer {
  constructor(name, script) {
    this.name = name
    this.child = spawn(process.env.PYTHON ?? 'python3', [script, name], { stdio: ['pipe', 'pipe', 'ignore'] })
    this.waiting = []
    this.ended = undefined
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      if (line.startsWith('@')) this.waiting.shift()?.(JSON.parse(line.slice(1)))
    })
    const stop = (why) => {
      this.ended = why
      for (const done of this.waiting.splice(0)) done({ error: why })
    }
    this.child.on('error', (e) => stop(e.message))
    this.child.on('exit', (code) => stop(`${name} ended with code ${code}`))
  }

  ask(request) {
    if (this.ended !== undefined) return Promise.resolve({ error: this.ended })
    return new Promise((done) => {
      this.waiting.push(done)
      this.child.stdin.write(`${JSON.stringify(request)}\n`)
    })
  }

  close() {
    this.child.stdin.end()
  }
}
