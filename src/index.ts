/** Sinter's main entry: the library of src/api. */
export * from './api/index.ts'
