import type { Cache, FunctionCall, LoaderOptions } from "graphql-cached";

export interface Viewer {
  readonly userId?: string;
  readonly request?: { readonly signal: AbortSignal };
}

/** One source behind a cache: a loader, or a function. What they promise is the same. */
export interface CachedSource {
  read(id: string, context?: Viewer): Promise<unknown>;
  /** Invalidates the entry of an id; without one, all. */
  invalidate(id?: string, identity?: string): Promise<void>;
}

type Load = (id: string, context: Viewer | undefined, call: FunctionCall) => unknown;
type Policy = Omit<LoaderOptions<string, unknown, Viewer>, "name" | "batch">;
type Make = (cache: Cache<Viewer>, load: Load, policy?: Policy) => CachedSource;

const NAME = "Source";
const tags = (id: string): readonly string[] => [`Source:${id}`];

/** Each makes a source that is fresh for a minute, with a tag for each id. */
export const SOURCES: Readonly<Record<"loader" | "function", Make>> = {
  loader(cache, load, policy = {}) {
    const loader = cache.loader<string, unknown, Viewer>({
      name: NAME,
      maxAge: 60,
      tags,
      // Each id as a call of its own, as for a function.
      maxBatchSize: 1,
      async batch([id = ""], context, { signal, results: [result] }) {
        return [await load(id, context, { signal, result: result as FunctionCall["result"] })];
      },
      ...policy,
    });
    return {
      // A request of its own for each read, as calls of a function remember nothing.
      read: (id, context = {}) => loader({ ...context }).load(id),
      invalidate: (id, identity) =>
        cache.invalidate({
          loader: NAME,
          ...(id === undefined ? {} : { id }),
          ...(identity === undefined ? {} : { private: identity }),
        }),
    };
  },
  function(cache, load, policy = {}) {
    const read = cache.wrap({
      name: NAME,
      maxAge: 60,
      tags,
      context: (_id: string, context?: Viewer) => context,
      load(id: string, context?: Viewer) {
        return load(id, context, this);
      },
      ...(policy as object),
    });
    return {
      read,
      invalidate: (id, identity) =>
        cache.invalidate({
          function: NAME,
          ...(id === undefined ? {} : { args: [id] }),
          ...(identity === undefined ? {} : { private: identity }),
        }),
    };
  },
};
