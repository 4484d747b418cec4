/** `sinter devices --calibrate`: measures this machine's rates and keeps them for planning. */
import { calibrationPath, keepCalibration } from '../../backends/wasm/calibration.ts'
import { processorName } from '../../backends/wasm/host.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { type Calibration, calibrated, digestOf } from '../../target/calibration.ts'
import { farBandwidth } from '../../target/machine.ts'
import { inAdditions, priceOf } from '../../target/prices.ts'
import { wasmTarget } from '../../target/wasm.ts'
import { type Console, printData } from '../console.ts'
import { measureProduct } from '../machine.ts'
import { Session } from '../session.ts'
import { measureLoops } from './loops.ts'
import { measureMemories } from './memories.ts'
import { measurePrices } from './prices.ts'

/** Measures WebAssembly on one thread: about half a minute. */
export async function calibrate(console: Console): Promise<Calibration> {
  const session = await Session.open('wasm', { threads: 1 })
  try {
    const prices = await measurePrices(session, (what) => console.progress(`measuring ${what}`))
    console.progress('measuring memories')
    const memories = await measureMemories(session, prices, 'wasm')
    console.progress('measuring a matrix product')
    const matrixRate = await measureProduct(session)
    console.progress('measuring loops')
    const loops = await measureLoops(session, { ...wasmTarget, ...memories, prices, matrixRate })
    return { on: processorName(), rates: { ...memories, prices, matrixRate, loops } }
  } finally {
    console.progress(undefined)
    session.close()
  }
}

/** Calibrates, keeps the rates, and shows the most telling of them. */
export async function calibrateCommand(options: { readonly json: boolean }, console: Console): Promise<number> {
  if (calibrationPath() === undefined)
    throw new UserError('E_ARGUMENT', 'there is no folder to keep rates in: SINTER_CACHE is off', {
      help: 'set SINTER_CACHE to a folder, or unset it',
    })
  const calibration = await calibrate(console)
  const path = keepCalibration(calibration)
  const machine = calibrated(wasmTarget, calibration)
  const digest = digestOf(machine)
  if (options.json) {
    printData({ path, digest, ...calibration }, console)
    return 0
  }
  const { prices } = machine
  const giga = (x: number): string => (x / 1e9).toPrecision(3)
  const of = (op: 'div' | 'exp' | 'tanh'): string =>
    `${op} ${Math.round(inAdditions(priceOf(op, 'f32', prices), prices))}`
  console.line(`wasm, one thread, on ${calibration.on}`)
  for (const m of machine.memories)
    console.line(`  ${giga(m.bandwidth)} GB/s ${Number.isFinite(m.bytes) ? `up to ${m.bytes / 1024} KiB` : 'beyond'}`)
  console.line(
    `  ${giga(1 / priceOf('add', 'f32', prices))} G additions of f32 a second; in additions: ${of('div')}, ${of('exp')}, ${of('tanh')}`,
  )
  console.line(`  matrix product ${giga(machine.matrixRate)} GFLOP/s, launch ${(1e6 * machine.launch).toFixed(2)} us`)
  const { loops } = calibration.rates
  const nano = (s: number): string => `${(1e9 * s).toPrecision(2)} ns`
  console.line(
    `  loops: a round ${nano(loops.round)}, an entry ${nano(loops.entry)}, a vector ${nano(loops.whole)}, a lane at a stride ${nano(loops.strided)}`,
  )
  console.line(
    `  an addition takes as long as ${(farBandwidth(machine) * priceOf('add', 'f32', prices)).toFixed(2)} bytes from far memory`,
  )
  console.line(`kept in ${path ?? ''} (${digest}); SINTER_MACHINE=shipped plans without it`)
  return 0
}
