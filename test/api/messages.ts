/** Errors as snapshots: the message without the parts that move. */
export function messageOf(f: () => unknown): string {
  try {
    f()
  } catch (error) {
    return String(error).replace(/at \S*\/(test\/\S+?):\d+:\d+/g, 'at $1')
  }
  return 'no error'
}
