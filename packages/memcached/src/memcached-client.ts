/**
 * The part of a client's interface that the store uses. `MemcacheClient` of memcache-client 1.x has
 * it; nothing is imported from that package. Each client connects to one server.
 */
export interface MemcachedClient {
  readonly options?: object;
  /**
   * Resolves with the items at `keys` as an object by key: `{ value, casUniq }`, with a Buffer
   * where a Buffer was written.
   */
  gets(keys: string[]): Promise<unknown>;
  /** Rejects with `NOT_STORED` if `key` exists. */
  add(key: string, value: Buffer, options: { lifetime: number }): Promise<unknown>;
  /** Rejects with `EXISTS` or `NOT_FOUND` if `key` has changed since it was read. */
  cas(key: string, value: Buffer, options: { lifetime: number; casUniq: string | number }): Promise<unknown>;
  /** Sends one command line. */
  cmd(line: string): Promise<unknown>;
}

/** Whether the client would choose one of several servers for each command. */
export function hasSeveralServers({ options }: MemcachedClient): boolean {
  const { server } = (options ?? {}) as { server?: { servers?: readonly unknown[] } };
  return (server?.servers?.length ?? 0) > 1;
}

/** An item as it was read, with the number that `cas` compares. */
export interface StoredItem {
  readonly bytes: Buffer;
  readonly casUniq: string | number;
}

/** Parses the reply to `gets`. Values that another program wrote as text are converted to bytes. */
export function readItems(reply: unknown): ReadonlyMap<string, StoredItem> {
  const items = new Map<string, StoredItem>();
  for (const [key, item] of Object.entries((reply ?? {}) as Record<string, { value: unknown; casUniq: string }>)) {
    const bytes = Buffer.isBuffer(item.value) ? item.value : Buffer.from(String(item.value));
    items.set(key, { bytes, casUniq: item.casUniq });
  }
  return items;
}

const statsOf = (reply: unknown): readonly (readonly [string, string])[] =>
  (reply as { STAT?: readonly (readonly [string, string])[] } | undefined)?.STAT ?? [];

/** Returns the server's time in seconds from the reply to `stats`. Throws if the reply has none. */
export function readServerSeconds(reply: unknown): number {
  const seconds = Number(statsOf(reply).find(([name]) => name === "time")?.[1]);
  if (!Number.isFinite(seconds))
    throw new Error("memcachedStore: expected `time` in the reply to `stats`, got a reply without it");
  return seconds;
}

const LOST_RACE = /^(NOT_STORED|EXISTS|NOT_FOUND)\b/;

export const isLostRace = (error: unknown): boolean => error instanceof Error && LOST_RACE.test(error.message);
