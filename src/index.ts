/**
 * Sinter's main entry: the library of src/api.
 * @module sinter
 */
export * from './api/index.ts'
