/** Checks that cost time: off unless a test turns them on. */
export const debug: { verify: boolean } = { verify: false }
