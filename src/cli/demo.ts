/** `sinter demo`. */
import type { Console } from './console.ts'
import type { DeviceName } from './devices.ts'
export const demoCommand = async (_o: { device: DeviceName }, _c: Console): Promise<number> => 0
