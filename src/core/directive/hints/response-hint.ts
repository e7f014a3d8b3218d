import { type ResponseHint, validHint } from "../../store/entry-layout.js";

/** Records the cache hints of a resolver, if the server has any. */
export function collectHints(info: object): CollectedHints {
  const { cacheControl } = info as HintedInfo;
  if (cacheControl === undefined) return NO_HINTS;
  // Other servers than Apollo can have none.
  const cacheHint: CacheHint = (cacheControl as Partial<CacheControl>).cacheHint ?? {};
  let recorded: ResponseHint | undefined;
  const record = (hint: ResponseHint): void => {
    recorded = { ...recorded, ...validHint(hint) };
  };
  const recording: CacheControl = {
    ...cacheControl,
    setCacheHint(hint) {
      record(hint);
      cacheControl.setCacheHint(hint);
    },
    cacheHint: new Proxy(
      { ...cacheHint },
      {
        get(_hint, name) {
          const value = Reflect.get(cacheHint, name) as unknown;
          if (typeof value !== "function") return value;
          return (...args: readonly unknown[]) => {
            const { maxAge, scope } = cacheHint;
            const returned: unknown = Reflect.apply(value, cacheHint, args);
            const isChanged = maxAge !== cacheHint.maxAge || scope !== cacheHint.scope;
            if (isChanged || name === "restrict" || name === "replace") record(cacheHint as ResponseHint);
            return returned;
          };
        },
        set(_hint, name, value) {
          const isSet = Reflect.set(cacheHint, name, value);
          record(cacheHint as ResponseHint);
          return isSet;
        },
      },
    ),
  };
  return { own: { cacheControl: recording }, hint: () => recorded };
}

/** Tells whether a resolver that has ended has set the hint PRIVATE, if the server has hints. */
export function privateHintIn(info: object): (() => boolean) | undefined {
  const { cacheControl } = info as HintedInfo;
  return cacheControl && (() => (cacheControl as Partial<CacheControl>).cacheHint?.scope === "PRIVATE");
}

/** The part of `info.cacheControl` that is used here, as in `@apollo/cache-control-types`. */
export interface HintedInfo {
  readonly cacheControl?: CacheControl;
}

interface CacheControl {
  readonly cacheHint: CacheHint;
  setCacheHint(hint: ResponseHint): void;
}

export interface CacheHint {
  maxAge?: number | undefined;
  scope?: ResponseHint["scope"] | undefined;
  restrict?(hint: ResponseHint): void;
  replace?(hint: ResponseHint): void;
  policyIfCacheable?(): unknown;
}

export interface CollectedHints {
  /** What the `info` of the load has of it. */
  readonly own: HintedInfo;
  hint(): ResponseHint | undefined;
}

const NO_HINTS: CollectedHints = { own: {}, hint: () => undefined };

/** Returns the cache control of a load that has no response: a refresh job. */
export function detachedCacheControl(): CacheControl {
  const cacheHint: CacheHint = {
    restrict({ maxAge, scope }) {
      if (maxAge !== undefined) cacheHint.maxAge = Math.min(maxAge, cacheHint.maxAge ?? maxAge);
      if (scope !== undefined && cacheHint.scope !== "PRIVATE") cacheHint.scope = scope;
    },
    replace({ maxAge, scope }) {
      if (maxAge !== undefined) cacheHint.maxAge = maxAge;
      if (scope !== undefined) cacheHint.scope = scope;
    },
    policyIfCacheable: () => null,
  };
  return { cacheHint, setCacheHint: (hint) => cacheHint.replace?.(hint) };
}
