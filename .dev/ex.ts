import { program } from 'sinter'
const w = (x: any) => x.astype('i32')
export default program(function p({ a, b }: any) { return w(a).matmul(w(b)) }, { a: { shape: [8, 100], dtype: 'u8' }, b: { shape: [100, 4096], dtype: 'i8' } })
