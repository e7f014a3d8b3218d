import type { MemcachedClient } from "@graphql-cached/memcached";

/** An item of the fake server. */
interface FakeItem {
  value: Buffer;
  casUniq: string;
}

/**
 * A fake memcached server that keeps items in a table and records the keys of each `gets`. Like a
 * real one, it removes an item at once that is written with a lifetime in the past. `beforeWrite` is
 * called before every write, `seconds` returns the server's time.
 */
export function fakeServer(
  beforeWrite: (table: Map<string, FakeItem>) => void = () => undefined,
  seconds: () => number = () => 1_000,
) {
  const table = new Map<string, FakeItem>();
  const reads: string[][] = [];
  let casUniq = 0;
  const write = (key: string, value: Buffer, lifetime: number | undefined): string[] => {
    if (lifetime === -1) table.delete(key);
    else table.set(key, { value, casUniq: String(++casUniq) });
    return ["STORED"];
  };
  const client: MemcachedClient = {
    async gets(keys) {
      reads.push(keys);
      return Object.fromEntries(keys.flatMap((key) => (table.has(key) ? [[key, table.get(key)]] : [])));
    },
    async add(key, value, options) {
      beforeWrite(table);
      if (table.has(key)) throw new Error("NOT_STORED");
      return write(key, value, options?.lifetime);
    },
    async cas(key, value, options) {
      beforeWrite(table);
      if (table.get(key)?.casUniq !== options.casUniq) throw new Error(table.has(key) ? "EXISTS" : "NOT_FOUND");
      return write(key, value, options.lifetime);
    },
    async cmd() {
      return { STAT: [["time", String(seconds())]] };
    },
  };
  return { client, table, reads };
}
