/** A process that is driven by messages, one at a time. */
import { fork } from 'node:child_process'

/** Starts a module in a process of its own; `ask` sends a message and resolves with its answer, or with `{ error }` where the process has ended. */
export function startChild(file, { args = [], ...options } = {}) {
  const child = fork(file, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'], ...options })
  let errors = ''
  child.stderr.on('data', (d) => {
    errors = (errors + d).slice(-2000)
  })
  let answer
  child.on('message', (m) => answer?.(m))
  child.on('close', (code) => answer?.({ error: `process ended (${code}) ${errors}` }))
  const ask = (message) =>
    new Promise((done) => {
      answer = done
      if (child.connected) child.send(message)
      else done({ error: `process ended ${errors}` })
    })
  return { ask, stop: () => child.kill() }
}
