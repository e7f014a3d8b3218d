/**
 * The few methods of a client that the store calls, as a shape: `MemcacheClient` of memcache-client 1.x fits it. Nothing of it is imported.
 * One client is one server.
 */
export interface MemcachedClient {
  readonly options?: object;
  /** Answers what is at `keys`, by key: `{ value, casUniq }`, a Buffer where a Buffer was written. */
  gets(keys: string[]): Promise<unknown>;
  /** Rejects with `NOT_STORED` where something is at `key`. */
  add(key: string, value: Buffer, options: { lifetime: number }): Promise<unknown>;
  /** Rejects with `EXISTS` or `NOT_FOUND` where what was read is no longer at `key`. */
  cas(key: string, value: Buffer, options: { lifetime: number; casUniq: string | number }): Promise<unknown>;
  /** Sends one command line. */
  cmd(line: string): Promise<unknown>;
}

/** Whether the client sends each command to any of several servers, which it takes for copies of one another. */
export function hasSeveralServers({ options }: MemcachedClient): boolean {
  const { server } = (options ?? {}) as { server?: { servers?: readonly unknown[] } };
  return (server?.servers?.length ?? 0) > 1;
}

/** What a client read at one key. */
export interface StoredItem {
  readonly bytes: Buffer;
  readonly casUniq: string | number;
}

/** Reads the answer to `gets`. A value that another program wrote as text is bytes all the same. */
export function readItems(answer: unknown): ReadonlyMap<string, StoredItem> {
  const items = new Map<string, StoredItem>();
  for (const [key, found] of Object.entries((answer ?? {}) as Record<string, { value: unknown; casUniq: string }>)) {
    const bytes = Buffer.isBuffer(found.value) ? found.value : Buffer.from(String(found.value));
    items.set(key, { bytes, casUniq: found.casUniq });
  }
  return items;
}

/** The server's time in seconds, from the answer to `stats`. Throws where there is none. */
export function readServerSeconds(answer: unknown): number {
  const lines = (answer as { STAT?: readonly (readonly string[])[] } | undefined)?.STAT ?? [];
  const seconds = Number(lines.find(([name]) => name === "time")?.[1]);
  if (!Number.isFinite(seconds)) throw new Error("the server did not say its time");
  return seconds;
}

const LOST = /^(NOT_STORED|EXISTS|NOT_FOUND)\b/;

/** Whether a write was refused since somebody else's came first. */
export const isLostRace = (error: unknown): boolean => error instanceof Error && LOST.test(error.message);
