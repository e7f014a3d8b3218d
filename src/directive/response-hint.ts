import type { ResponseHint } from "../store/body.js";

/**
 * The part of `info.cacheControl` used here. Apollo and other servers provide it for resolvers to
 * set cache hints.
 */
interface HintedInfo {
  readonly cacheControl?: {
    readonly cacheHint: ResponseHint & { restrict?(hint: ResponseHint): void };
    setCacheHint(hint: ResponseHint): void;
  };
}

/**
 * Returns an `info` for one load that records the cache hints set by the resolver, so that a later
 * hit can set the same hints. The hints are also forwarded to the server. Returns `info` itself if
 * the server has no cache control.
 */
export function recordHints<Info extends object>(info: Info): { info: Info; hint(): ResponseHint | undefined } {
  const { cacheControl } = info as HintedInfo;
  if (cacheControl === undefined) return { info, hint: () => undefined };
  let recorded: ResponseHint | undefined;
  const recording = {
    ...cacheControl,
    setCacheHint(hint: ResponseHint): void {
      recorded = { ...recorded, ...hint };
      cacheControl.setCacheHint(hint);
    },
    cacheHint: {
      ...cacheControl.cacheHint,
      get maxAge() {
        return cacheControl.cacheHint.maxAge;
      },
      get scope() {
        return cacheControl.cacheHint.scope;
      },
      restrict(hint: ResponseHint): void {
        cacheControl.cacheHint.restrict?.(hint);
        const { maxAge, scope } = cacheControl.cacheHint;
        recorded = {
          ...recorded,
          ...(maxAge === undefined ? {} : { maxAge }),
          ...(scope === undefined ? {} : { scope }),
        };
      },
    },
  };
  return { info: { ...info, cacheControl: recording }, hint: () => recorded };
}
