/** Where calibrations are kept: a file of the user's cache folder, in Node alone. */
import { type Calibration, calibrated, parseCalibration, printCalibration } from '../../target/calibration.ts'
import type { Machine } from '../../target/machine.ts'
import { wasmTarget } from '../../target/wasm.ts'
import { cacheFolderOf } from '../cacheFolder.ts'
import { type Files, files, processorName } from './host.ts'

/** The file; undefined outside Node, or where SINTER_CACHE is `off`. */
export function calibrationPath(host: Files | undefined = files()): string | undefined {
  if (host === undefined) return undefined
  const folder = cacheFolderOf(host, 'machines')
  return folder === undefined ? undefined : host.join(folder, 'wasm.json')
}

/** What was kept, whatever it was measured on. */
export function keptCalibration(): Calibration | undefined {
  const host = files()
  const path = calibrationPath(host)
  const text = path === undefined ? undefined : host?.read(path)
  return text === undefined ? undefined : parseCalibration(text)
}

/** Keeps a calibration; gives the path, or undefined where there is no place for it. Throws the error of the file system. */
export function keepCalibration(calibration: Calibration): string | undefined {
  const host = files()
  const path = calibrationPath(host)
  if (host !== undefined && path !== undefined) host.write(path, printCalibration(calibration))
  return path
}

/** This machine: with the rates that were measured on it, unless SINTER_MACHINE is `shipped`. */
export function thisMachine(): Machine {
  if (files()?.env.SINTER_MACHINE === 'shipped') return wasmTarget
  const kept = keptCalibration()
  return kept !== undefined && kept.on === processorName() ? calibrated(wasmTarget, kept) : wasmTarget
}
