/** What registers hold values of each dtype as: half precision in f32, narrow integers in 32 bits. */
import type { DType } from '../../../types/dtype.ts'

export type RegisterType = 'bool' | 'i32' | 'u32' | 'f32' | 'f64' | 'i64' | 'u64'

export function registerType(d: DType): RegisterType {
  switch (d) {
    case 'f16':
    case 'bf16':
      return 'f32'
    case 'i8':
    case 'i16':
      return 'i32'
    case 'u8':
    case 'u16':
      return 'u32'
    default:
      return d
  }
}

export const registerBytes = (t: RegisterType): number => (t === 'f64' || t === 'i64' || t === 'u64' ? 8 : 4)
