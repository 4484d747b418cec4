/** The user's cache folder, told from a host's environment: no module of Node, so that browsers can load what asks. */

export interface CacheHost {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly platform: string
  home(): string
  join(...parts: readonly string[]): string
}

/** The folder of one kind of what is kept; undefined where SINTER_CACHE is `off`. */
export function cacheFolderOf({ env, platform, home, join }: CacheHost, kind: string): string | undefined {
  const { SINTER_CACHE = '', XDG_CACHE_HOME = '', LOCALAPPDATA = '' } = env
  if (SINTER_CACHE === 'off') return undefined
  if (SINTER_CACHE !== '') return join(SINTER_CACHE, kind)
  const base = platform === 'win32' ? LOCALAPPDATA : XDG_CACHE_HOME
  return join(base !== '' ? base : join(home(), '.cache'), 'sinter', kind)
}
