import DataLoader from "dataloader";
import type { PageContender } from "./contender.js";
import { type FieldName, ITEM_FIELDS, loadersOf, MAX_AGE_S, shopSchema } from "./shop.js";

/** Returns the values that were found, and loaded ones in the place of the others. `store` gets what was loaded. */
async function loadMissing(
  ids: readonly string[],
  found: readonly unknown[],
  load: (ids: readonly string[]) => Promise<unknown[]>,
  store: (ids: readonly string[], values: readonly unknown[]) => void,
): Promise<unknown[]> {
  const missing = ids.filter((_, nth) => found[nth] === undefined);
  if (missing.length === 0) return [...found];
  const loaded = await load(missing);
  store(missing, loaded);
  let next = 0;
  return found.map((value) => (value === undefined ? loaded[next++] : value));
}

/**
 * What a team that knows how to do it writes in an afternoon: DataLoader with MGET, JSON, and one pipeline for what was loaded;
 * GET and SET for fields of which a request has one; DEL after a mutation. No leases, no protection, no tags.
 */
export const byHand: PageContender = {
  name: "by hand",
  open: async ({ client, prefix, source }) => {
    const keyOf = (name: FieldName, id: string): string => `${prefix}:${name}:${id}`;
    const batchOf = (name: FieldName) => async (ids: readonly string[]) => {
      const texts = await client.mget(ids.map((id) => keyOf(name, id)));
      const found = texts.map((text): unknown => (text === null ? undefined : JSON.parse(text)));
      const store = (missing: readonly string[], values: readonly unknown[]): void => {
        const writes = client.pipeline();
        for (const [nth, id] of missing.entries())
          writes.set(keyOf(name, id), JSON.stringify(values[nth]), "EX", MAX_AGE_S);
        writes.exec().catch(() => undefined);
      };
      return loadMissing(ids, found, (missing) => source.load(name, missing), store);
    };
    const one = (name: FieldName) => ({
      load: async (id: string): Promise<unknown> => {
        const key = keyOf(name, id);
        const text = await client.get(key);
        if (text !== null) return JSON.parse(text);
        const [value] = await source.load(name, [id]);
        client.set(key, JSON.stringify(value), "EX", MAX_AGE_S).catch(() => undefined);
        return value;
      },
    });
    const ofQuery = { category: one("category"), recommendations: one("recommendations") };
    return {
      schema: shopSchema(),
      loaders: () =>
        loadersOf((name) => (name in ofQuery ? ofQuery[name as keyof typeof ofQuery] : new DataLoader(batchOf(name)))),
      invalidate: (id) => client.del(ITEM_FIELDS.map((name) => keyOf(name, id))),
    };
  },
};

const FOUND_LIFETIME_MS = 60_000;

/** What a wrapper around a store writes: the JSON of a value as a text in the JSON of its own. */
interface Envelope {
  readonly value: string;
  readonly expires: number;
}

/**
 * What caches of servers look like that were not written for a benchmark: one GET and one SET a key through a wrapper such as
 * keyv, one DataLoader for each loader and request, and a short lifetime in the place of invalidation.
 */
export const byHandAsFound: PageContender = {
  name: "by hand as found",
  open: async ({ client, prefix, source, now }) => {
    const keyOf = (name: FieldName, id: string): string => `${prefix}:${name}:${id}`;
    const get = async (key: string): Promise<unknown> => {
      const text = await client.get(key);
      if (text === null) return undefined;
      const { value, expires } = JSON.parse(text) as Envelope;
      return expires <= now() ? undefined : JSON.parse(value);
    };
    const set = async (key: string, value: unknown): Promise<void> => {
      const envelope: Envelope = { value: JSON.stringify(value), expires: now() + FOUND_LIFETIME_MS };
      // The envelope expires by the time in which this process is measured, which Redis does not know.
      await client.set(key, JSON.stringify(envelope), "EX", MAX_AGE_S);
    };
    const batchOf = (name: FieldName) => async (ids: readonly string[]) => {
      const found = await Promise.all(ids.map((id) => get(keyOf(name, id))));
      const store = (missing: readonly string[], values: readonly unknown[]): void => {
        for (const [nth, id] of missing.entries()) set(keyOf(name, id), values[nth]).catch(() => undefined);
      };
      return loadMissing(ids, found, (missing) => source.load(name, missing), store);
    };
    return { schema: shopSchema(), loaders: () => loadersOf((name) => new DataLoader(batchOf(name))) };
  },
};
