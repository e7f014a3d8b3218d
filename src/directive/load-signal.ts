/**
 * Returns an `info` whose `getAbortSignal` returns the signal of the load instead of the caller's:
 * others may wait for the load as well. graphql 16 has no such method, so there it is added.
 */
export function withLoadSignal<Info extends object>(info: Info, load: { readonly signal: AbortSignal }): Info {
  return { ...info, getAbortSignal: () => load.signal };
}
