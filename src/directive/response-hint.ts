import type { ResponseHint } from "../store/body.js";

/** What Apollo and others give a resolver to say how long its response may be kept: `info.cacheControl`, as far as it is needed here. */
interface HintedInfo {
  readonly cacheControl?: {
    readonly cacheHint: ResponseHint & { restrict?(hint: ResponseHint): void };
    setCacheHint(hint: ResponseHint): void;
  };
}

/**
 * An `info` for one load that notes what the resolver says of its response, so that whoever gets the value from the cache can be told the same;
 * what is said goes on to the server, too. Answers `info` itself where there is nothing to say it to.
 */
export function noteHints<Info extends object>(info: Info): { info: Info; hint(): ResponseHint | undefined } {
  const { cacheControl } = info as HintedInfo;
  if (cacheControl === undefined) return { info, hint: () => undefined };
  let said: ResponseHint | undefined;
  const noting = {
    ...cacheControl,
    setCacheHint(hint: ResponseHint): void {
      said = { ...said, ...hint };
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
        said = { ...said, ...(maxAge === undefined ? {} : { maxAge }), ...(scope === undefined ? {} : { scope }) };
      },
    },
  };
  return { info: { ...info, cacheControl: noting }, hint: () => said };
}
