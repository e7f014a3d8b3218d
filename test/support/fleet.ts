import { randomUUID } from "node:crypto";
import type { CacheOptions, Store } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { type Cluster, Redis } from "ioredis";
import { expect } from "vitest";
import { keyOfCoordinate } from "../../src/directive/coordinate-key.js";
import { PARTS } from "../../src/parts.js";
import { type Address, until } from "./redis-lab.js";
import { afterCaches, dataOf, memoryWorld, type Process } from "./world.js";

const typeDefs = `type Query {
  value(id: ID!): Int @cached(maxAge: 60, tags: ["Value:{$args.id}"])
}`;

export interface FleetOptions {
  /** A client of one process. It belongs to the fleet. */
  readonly connect: () => Redis | Cluster;
  /** The servers that hold the entries at the end. */
  readonly servers: () => readonly Address[];
  readonly prefix?: string;
  readonly size?: number;
  readonly cache?: CacheOptions<never>;
  readonly wrap?: (store: Store) => Store;
}

/**
 * Processes on one Redis, each a cache with a client of its own, before one source that counts its loads. Every request is watched: it has to end
 * with a value, and with none that was loaded before an invalidation that was acknowledged when the request began.
 */
export class Fleet {
  readonly prefix: string;
  readonly clients: readonly (Redis | Cluster)[];
  readonly processes: readonly Process[];
  /** Loads that begin wait for this. */
  door: Promise<void> | undefined;
  readonly #versions = new Map<string, number>();
  readonly #acknowledged = new Map<string, number>();
  readonly #loads = new Map<string, number>();
  readonly #requests: Promise<unknown>[] = [];
  readonly #mistakes: string[] = [];
  #ended = 0;

  constructor({
    connect,
    servers,
    prefix = `fleet-${randomUUID()}`,
    size = 2,
    cache = {},
    wrap = (store) => store,
  }: FleetOptions) {
    this.prefix = prefix;
    // What the store does not hear any more once it is closed, nobody has to.
    this.clients = Array.from({ length: size }, () => connect().on("error", () => undefined));
    this.processes = this.clients.map((client) => this.#process(wrap(redisStore({ client })), cache));
    afterCaches(() => expectNothingLeft(servers(), this.prefix));
    for (const client of this.clients) afterCaches(async () => client.disconnect());
  }

  /** One request of the process `nth`; what it answers is checked whether or not somebody waits for it. */
  read(nth: number, id: string): Promise<number> {
    const least = this.#acknowledged.get(id) ?? 1;
    const answer = dataOf(this.#at(nth).ask(`{ value(id: "${id}") }`)).then(
      (data) => (data as { value: number }).value,
    );
    const watched = answer
      .then((version) => {
        if (version < least) this.#mistakes.push(`${id} was read as version ${version}, ${least} was acknowledged`);
      })
      .catch((error: unknown) => void this.#mistakes.push(`a request for ${id} failed: ${error}`))
      .finally(() => this.#ended++);
    this.#requests.push(watched);
    return answer;
  }

  /** Writes at the source, and invalidates from the process `nth`. Answers whether that was acknowledged. */
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
    this.#acknowledged.set(id, Math.max(version, this.#acknowledged.get(id) ?? 1));
    return true;
  }

  /** The name of the entry of `id` in the store. */
  keyOf(id: string): string {
    return keyOfCoordinate(this.#at(0).cache[PARTS], { coordinate: "Query.value", args: { id } }).key.name;
  }

  /** The name of the tag of `id` in the store. */
  tagOf(id: string): string {
    return this.#at(0).cache[PARTS].keys.tag(`Value:${id}`);
  }

  loads(id: string): number {
    return this.#loads.get(id) ?? 0;
  }

  /** How often a value of `id` was stored, as far as the processes have heard. */
  stored(id: string): number {
    const key = this.keyOf(id);
    return this.processes
      .flatMap(({ events }) => events)
      .filter((event) => event.name === "write.finished" && event.isStored && key.endsWith(`:${event.digest}`)).length;
  }

  /** Resolves once so many loads of `id` have begun. */
  loading(id: string, count = 1): Promise<void> {
    return until(`load ${count} of ${id} has begun`, () => this.loads(id) >= count);
  }

  /** Resolves once the store has refused a value that the process `nth` has loaded. */
  refused(nth: number): Promise<void> {
    const { events } = this.#at(nth);
    return until(`a fill of process ${nth} is refused`, () =>
      events.some((event) => event.name === "write.finished" && !event.isStored),
    );
  }

  /** Every request has ended, with a value that it may have. */
  async ended(): Promise<void> {
    await until("every request has ended", () => this.#ended === this.#requests.length);
    expect(this.#mistakes).toEqual([]);
  }

  /** Reads `id` at process `nth` until it is a hit: the cache is in use again. */
  recovered(nth: number, id: string): Promise<void> {
    const hits = (): number => this.#at(nth).outcomes().hit ?? 0;
    const before = hits();
    return until(`process ${nth} hits ${id}`, async () => (await this.read(nth, id), hits() > before));
  }

  /** Reads these at every process, again and again, while `happen` happens. */
  async underLoad(ids: readonly string[], happen: () => Promise<void>): Promise<void> {
    let isOver = false;
    const happening = happen().finally(() => {
      isOver = true;
    });
    while (!isOver) await Promise.all(this.processes.flatMap((_, nth) => ids.map((id) => this.read(nth, id))));
    await happening;
  }

  #at(nth: number): Process {
    return this.processes[nth] as Process;
  }

  #process(store: Store, options: CacheOptions<never>): Process {
    const value = async (_: unknown, { id }: { id: string }): Promise<number> => {
      const version = this.#versions.get(id) ?? 1;
      this.#loads.set(id, this.loads(id) + 1);
      await this.door;
      return version;
    };
    const settings = { leaseMs: 300, storeTimeoutMs: 1_000, prefix: this.prefix, ...options };
    return memoryWorld(() => store).process(typeDefs, { Query: { value } }, settings);
  }
}

/** No lease is left, and whatever is kept has a ttl. */
async function expectNothingLeft(servers: readonly Address[], prefix: string): Promise<void> {
  for (const { host, port } of servers) {
    const server = new Redis(port, host);
    try {
      await until("no lease is left", async () => {
        const keys = await server.keys(`${prefix}:*`);
        const now = Number((await server.time())[0]) * 1000;
        const heads = await Promise.all(
          keys.map(async (key) =>
            (await server.type(key)) === "string" ? server.getrangeBuffer(key, 0, 71) : NOTHING,
          ),
        );
        return heads.every((head) => head.length < 72 || head[0] !== 0x67 || head.readDoubleLE(40) < now);
      });
      for (const key of await server.keys(`${prefix}:*`))
        expect(await server.pttl(key), `the ttl of ${key}`).not.toBe(-1);
    } finally {
      server.disconnect();
    }
  }
}

const NOTHING = Buffer.alloc(0);
