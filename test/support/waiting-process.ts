/**
 * A program without a socket that waits for something, and says what it got. WAITS_FOR: what that is, with SQLITE_PATH and SQLITE_MODULE. Nothing but the cache keeps it alive.
 */
import { sqliteStore } from "@graphql-cached/sqlite";
import { type CacheOptions, createCache } from "graphql-cached";
import { opensWith } from "./sqlite-files.js";

const { SQLITE_PATH = "", SQLITE_MODULE = "", WAITS_FOR = "" } = process.env;
const openStore = () => sqliteStore({ path: SQLITE_PATH, database: opensWith(SQLITE_MODULE) });
const never = new Promise<never>(() => undefined);
const silent = { info: () => undefined, warn: () => undefined };

/** A loader with a cache of its own: that of another process. */
function loaderOf(batch: (ids: readonly number[]) => Promise<readonly number[]>, options: CacheOptions<never>) {
  const cache = createCache({ defaultScope: "PUBLIC", prefix: "waiting", logger: silent, ...options } as CacheOptions);
  return cache.loader<number, number, object>({ name: "N", maxAge: 60, batch });
}

const load = async (ids: readonly number[]): Promise<readonly number[]> => ids;
const sqlite = (): CacheOptions<never> => ({ store: openStore(), leases: { leaseMs: 1_000 } }) as never;

const WAITS: Readonly<Record<string, () => Promise<unknown>>> = {
  "the end of the test": () => {
    const holding = (): Promise<never> => {
      console.log("loading");
      return never;
    };
    return loaderOf(holding, sqlite())({}).load(7);
  },
  "the load of another process": () => loaderOf(load, sqlite())({}).load(7),
  "a load that never ends": () =>
    loaderOf(() => never, { loads: { loadTimeoutMs: 300 } })({})
      .load(7)
      .catch((error: Error) => error.name),
  "a store that never answers": () => {
    const store = new Proxy(openStore(), {
      get: (target, name) => (name === "read" || name === "appendClock" ? () => never : Reflect.get(target, name)),
    });
    return loaderOf(load, { store, storage: { storeTimeoutMs: 300 } } as never)({}).load(7);
  },
};

console.log("got", await WAITS[WAITS_FOR]?.());
