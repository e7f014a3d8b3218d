import { randomUUID } from "node:crypto";
import type { CacheOptions } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { type Cluster, Redis } from "ioredis";
import { expect } from "vitest";
import { keyOfCoordinate } from "../../src/core/directive/invalidation/invalidation-target.js";
import { partsOf } from "../../src/core/parts.js";
import { readEntry } from "../../src/core/store/entry-layout.js";
import type { StoreClient } from "./redis-clients.js";
import { type Address, until } from "./redis-lab.js";
import { afterCaches, dataOf, memoryWorld, type Process } from "./world.js";

const typeDefs = `type Query {
  value(id: ID!): Int @cached(maxAge: 60, tags: ["Value:{$args.id}"])
}`;

export interface FleetOptions<Client extends StoreClient> {
  /** Creates the client of one process. The fleet disconnects it. */
  readonly connect: () => Client;
  /** Returns the servers that hold the entries when the test ends. */
  readonly servers: () => readonly Address[];
  readonly prefix?: string;
  readonly size?: number;
  readonly cache?: CacheOptions<never>;
  readonly wrap?: (store: Store) => Store;
}

/**
 * Simulated processes on one Redis, each a cache with its own client, and one source that counts
 * its loads. Every request is checked: it must end with a value, and not with one that was loaded
 * before an invalidation that had been confirmed when the request began.
 */
export class Fleet<Client extends StoreClient = Redis | Cluster> {
  readonly prefix: string;
  readonly clients: readonly Client[];
  readonly processes: readonly Process[];
  /** Loads that begin wait for this promise. */
  loadGate: Promise<void> | undefined;
  readonly #versions = new Map<string, number>();
  readonly #confirmed = new Map<string, number>();
  readonly #loads = new Map<string, number>();
  readonly #requests: Promise<unknown>[] = [];
  readonly #violations: string[] = [];
  #endedRequests = 0;

  constructor({
    connect,
    servers,
    prefix = `fleet-${randomUUID()}`,
    size = 2,
    cache = {},
    wrap = (store) => store,
  }: FleetOptions<Client>) {
    this.prefix = prefix;
    // A closed store no longer listens for errors, and ioredis would log them.
    this.clients = Array.from({ length: size }, () => connect());
    for (const client of this.clients) client.on("error", () => undefined);
    this.processes = this.clients.map((client) => this.#process(wrap(redisStore({ client })), cache));
    afterCaches(() => expectNothingLeft(servers(), this.prefix));
    for (const client of this.clients) afterCaches(async () => client.disconnect());
  }

  /**
   * Sends one request to process `nth`. Its result is checked even if the test does not await it.
   */
  read(nth: number, id: string): Promise<number> {
    const minVersion = this.#confirmed.get(id) ?? 1;
    const result = dataOf(this.#at(nth).ask(`{ value(id: "${id}") }`)).then(
      (data) => (data as { value: number }).value,
    );
    const checked = result
      .then((version) => {
        if (version < minVersion)
          this.#violations.push(`${id}: read version ${version} after version ${minVersion} was confirmed`);
      })
      .catch((error: unknown) => void this.#violations.push(`${id}: the request failed: ${error}`))
      .finally(() => this.#endedRequests++);
    this.#requests.push(checked);
    return result;
  }

  /**
   * Writes to the source and invalidates from process `nth`. Returns whether the invalidation was
   * confirmed.
   */
  async write(nth: number, id: string, by: "tag" | "key" = "tag"): Promise<boolean> {
    const version = (this.#versions.get(id) ?? 1) + 1;
    this.#versions.set(id, version);
    const { cache } = this.#at(nth);
    try {
      if (by === "tag") await cache.invalidateTags([`Value:${id}`]);
      else await cache.invalidate({ coordinate: "Query.value", args: { id } });
    } catch {
      return false;
    }
    this.#confirmed.set(id, Math.max(version, this.#confirmed.get(id) ?? 1));
    return true;
  }

  /** Returns the key of the entry of `id` in the store. */
  keyOf(id: string): string {
    return keyOfCoordinate(partsOf(this.#at(0).cache, "test"), { coordinate: "Query.value", args: { id } }).key.name;
  }

  /** Returns how many loads of `id` have begun. */
  loads(id: string): number {
    return this.#loads.get(id) ?? 0;
  }

  /** Returns how often a value of `id` was stored, according to the events of the processes. */
  stored(id: string): number {
    const key = this.keyOf(id);
    return this.processes
      .flatMap(({ events }) => events)
      .filter((event) => event.name === "write.finished" && event.isStored && key.endsWith(`:${event.digest}`)).length;
  }

  /** Resolves once `count` loads of `id` have begun. */
  waitForLoad(id: string, count = 1): Promise<void> {
    return until(`load ${count} of ${id} has begun`, () => this.loads(id) >= count);
  }

  /** Resolves once the store has refused a value that process `nth` has loaded. */
  waitForRefusal(nth: number): Promise<void> {
    const { events } = this.#at(nth);
    return until(`a value of process ${nth} is refused`, () =>
      events.some((event) => event.name === "write.finished" && !event.isStored),
    );
  }

  /** Waits until every request has ended, and fails if any returned an error or a stale value. */
  async verify(): Promise<void> {
    await until("every request has ended", () => this.#endedRequests === this.#requests.length);
    expect(this.#violations).toEqual([]);
  }

  /** Reads `id` at process `nth` until the read is a hit. */
  waitForHit(nth: number, id: string): Promise<void> {
    const hits = (): number => this.#at(nth).outcomes().hit ?? 0;
    const before = hits();
    return until(`process ${nth} hits ${id}`, async () => (await this.read(nth, id), hits() > before));
  }

  /** Reads `ids` at every process continuously while `action` runs. */
  async readDuring(ids: readonly string[], action: () => Promise<void>): Promise<void> {
    let isDone = false;
    const done = action().finally(() => {
      isDone = true;
    });
    while (!isDone) await Promise.all(this.processes.flatMap((_, nth) => ids.map((id) => this.read(nth, id))));
    await done;
  }

  #at(nth: number): Process {
    return this.processes[nth] as Process;
  }

  #process(store: Store, options: CacheOptions<never>): Process {
    const value = async (_: unknown, { id }: { id: string }): Promise<number> => {
      const version = this.#versions.get(id) ?? 1;
      this.#loads.set(id, this.loads(id) + 1);
      await this.loadGate;
      return version;
    };
    const settings = { leases: { leaseMs: 300 }, storage: { storeTimeoutMs: 1_000 }, prefix: this.prefix, ...options };
    return memoryWorld(() => store).process(typeDefs, { Query: { value } }, settings);
  }
}

/** Checks that no lease is left and that every key but the settings and the clock has a ttl. */
async function expectNothingLeft(servers: readonly Address[], prefix: string): Promise<void> {
  for (const { host, port } of servers) {
    const server = new Redis(port, host);
    try {
      await until("no lease is left", async () => {
        const keys = await server.keys(`${prefix}:*`);
        const now = Number((await server.time())[0]) * 1000;
        const entries = await Promise.all(
          keys.map(async (key) =>
            (await server.type(key)) === "string" ? readEntry((await server.getBuffer(key)) ?? EMPTY) : undefined,
          ),
        );
        return entries.every((entry) => entry === undefined || entry.untilAt < now);
      });
      for (const key of await server.keys(`${prefix}:*`))
        if (!key.startsWith(`${prefix}:#clock`)) expect(await server.pttl(key), `the ttl of ${key}`).not.toBe(-1);
    } finally {
      server.disconnect();
    }
  }
}

const EMPTY = Buffer.alloc(0);
