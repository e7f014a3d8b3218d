import { randomBytes } from "node:crypto";
import { type Cancel, type Clock, systemClock } from "../clock.js";
import { CachedError, describeSetting } from "../errors.js";
import { throwIfAnyFailed } from "../store/answers.js";
import { readEntry } from "../store/entry-layout.js";
import type {
  AcquireRequest,
  ChangeListener,
  Grant,
  Hold,
  LeaseTimes,
  LogPosition,
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRequest,
  TagVersion,
  Wake,
} from "../store/store.js";
import { ClientTracking } from "./client-tracking.js";
import { watchFailovers } from "./failover-watcher.js";
import { InvalidationLog } from "./invalidation-log.js";
import { type Command, groupByNode, nodeOf, send } from "./pipeline.js";
import { readGrant } from "./read-grant.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import { type ReplicaWait, ReplicaWaitWriter } from "./replica-wait-writer.js";
import { type RunArguments, runScript } from "./run-script.js";
import { acquire } from "./scripts/acquire.js";
import { beginWrite } from "./scripts/begin-write.js";
import { changeTags } from "./scripts/change-tags.js";
import { endWrite } from "./scripts/end-write.js";
import { ensureTags } from "./scripts/ensure-tags.js";
import { invalidate } from "./scripts/invalidate.js";
import { release } from "./scripts/release.js";
import { renew } from "./scripts/renew.js";
import { softInvalidate } from "./scripts/soft-invalidate.js";
import { storeValues } from "./scripts/store-values.js";
import { ServerTimes } from "./server-times.js";
import { WakeupSubscriber } from "./wakeup-subscriber.js";

/** What a Redis store needs. */
export interface RedisStoreOptions {
  /** An ioredis client (5.4 or newer), standalone, behind Sentinel or a Cluster. It stays yours: the store never closes it. */
  readonly client: RedisClient;
  /**
   * Has each invalidation wait until so many replicas have it, for `timeoutMs` at most, on a connection of its own. It makes it less likely that a
   * failover loses one. Not said: it does not wait.
   */
  readonly waitForReplicas?: ReplicaWait;
  readonly clock?: Clock;
}

/**
 * A store on Redis 6.2 or newer, shared by all processes. Every entry is one string, so it works on a Cluster as it does on one server.
 * Errors: `CACHED_OPTION_INVALID` where `client` is no such client, or has a `keyPrefix`.
 */
export function redisStore(options: RedisStoreOptions): Store {
  const { client, clock = systemClock, waitForReplicas } = options;
  if (
    typeof (client as Partial<RedisClient> | undefined)?.pipeline !== "function" ||
    typeof client.duplicate !== "function"
  )
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `redisStore: \`client\` must be an ioredis client, ${describeSetting(client)} came; write redisStore({ client: new Redis(url) })`,
    );
  if ((client.options as { keyPrefix?: string }).keyPrefix)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      "redisStore: `client` has a `keyPrefix`, which would be applied to keys and not to messages; use createCache({ prefix }) instead",
    );
  return new RedisStore(client, clock, new ReplicaWaitWriter(client, waitForReplicas));
}

class RedisStore implements Store {
  readonly name: string;
  readonly nodeOf: Store["nodeOf"];
  readonly #client: RedisClient;
  #wakeChannel = "";
  readonly #record: InvalidationLog;
  readonly #clock: Clock;
  readonly #wakes: WakeupSubscriber;
  readonly #writer: ReplicaWaitWriter;
  readonly #times: ServerTimes;

  constructor(client: RedisClient, clock: Clock, writer: ReplicaWaitWriter) {
    this.#writer = writer;
    this.#record = new InvalidationLog(client, writer);
    this.name = isCluster(client) ? "redis cluster" : "redis";
    this.nodeOf = isCluster(client) ? (key) => nodeOf(client, key) : undefined;
    this.#client = client;
    this.#clock = clock;
    this.#times = new ServerTimes(clock);
    this.#wakes = new WakeupSubscriber(client);
  }

  async read(
    keys: readonly string[],
    tags: readonly string[],
  ): Promise<{ readings: Reading[]; tagVersions: TagVersion[] }> {
    const names = tags.length === 0 ? keys : [...keys, ...tags];
    const readings = new Array<Reading>(keys.length);
    const tagVersions = new Array<TagVersion>(tags.length);
    let failed = 0;
    let failure: Error | undefined;
    const take = (index: number, value: unknown, now: number): void => {
      if (value instanceof Error) {
        failed++;
        failure = value;
      }
      if (index >= keys.length)
        tagVersions[index - keys.length] = Buffer.isBuffer(value) ? value.toString("latin1") : undefined;
      else if (value instanceof Error) readings[index] = { kind: "failed", error: value };
      else readings[index] = { kind: "read", entry: value === null ? undefined : readEntry(value as Buffer), now };
    };
    await Promise.all(
      groupByNode(this.#client, names).map(async ({ node, calls }) => {
        // Without a Cluster all keys share one MGET, however many; the split into calls is for scripts, which stall the server longer.
        const gets = isCluster(this.#client) ? calls : [calls.flat()];
        const reads = gets.map(
          (indexes): Command => ({ name: "MGET", args: indexes.map((index) => names[index] as string) }),
        );
        const known = this.#times.now(node);
        const askedAt = this.#clock.now();
        const replies = await send(this.#client, known !== undefined ? reads : [{ name: "TIME", args: [] }, ...reads]);
        const time = known !== undefined ? undefined : replies[0];
        const now =
          known === undefined ? this.#times.hear(node, time) : Math.floor(known + this.#clock.now() - askedAt);
        const firstGet = known === undefined ? 1 : 0;
        for (const [nth, indexes] of gets.entries()) {
          const reply = time instanceof Error ? time : replies[firstGet + nth];
          for (let at = 0; at < indexes.length; at++)
            take(indexes[at] as number, reply instanceof Error ? reply : (reply as unknown[])[at], now);
        }
      }),
    );
    if (failure !== undefined && failed === names.length) throw failure;
    return { readings, tagVersions };
  }

  async ensureTags(tags: readonly string[], ttlMs: number): Promise<string[]> {
    const replies = await this.#run(ensureTags, tags, () => ({ versionBase: randomBytes(12), ttlMs }));
    throwIfAnyFailed(replies);
    return replies.map((reply) => (reply as Buffer).toString("latin1"));
  }

  async acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<Grant[]> {
    const tokenBase = randomBytes(12);
    const replies = await this.#run(
      acquire,
      requests.map((request) => request.key),
      (node, nth) => {
        const notAfter = this.#times.notAfter(node, times.patienceMs);
        // Calls of one trip must not share tokens, and each call counts its keys from one.
        tokenBase.writeUInt16LE(nth, 0);
        return { leaseMs: times.leaseMs, graceMs: times.graceMs, notAfter, tokenBase: Buffer.from(tokenBase) };
      },
      (index) => {
        const request = requests[index] as AcquireRequest;
        return [Buffer.from(request.signature, "latin1"), request.supersededAt];
      },
    );
    return replies.map(readGrant);
  }

  async storeValues(storeRequests: readonly StoreRequest[]): Promise<StoreOutcome[]> {
    const replies = await this.#run(
      storeValues,
      storeRequests.map((one) => one.key),
      () => ({ wakeChannel: this.#wakeChannel }),
      (index) => {
        const one = storeRequests[index] as StoreRequest;
        const gen = Buffer.from(one.gen, "latin1");
        const loadMs = Math.min(Math.round(one.loadMs), 0xffff_ffff);
        return [gen, one.grantedAt, loadMs, one.isNegative ? 1 : 0, one.freshMs, one.ttlMs ?? 0, Buffer.from(one.body)];
      },
    );
    return replies.map((reply) => (reply instanceof Error ? "unavailable" : (String(reply) as StoreOutcome)));
  }

  async renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    const { leaseMs, graceMs } = times;
    const replies = await this.#run(
      renew,
      holds.map((hold) => hold.key),
      () => ({ leaseMs, graceMs }),
      (index) => [Buffer.from((holds[index] as Hold).token, "latin1")],
    );
    // What could not be asked may well be held, and is asked again.
    return replies.map((reply) => reply instanceof Error || reply === 1);
  }

  async release(releases: readonly Release[]): Promise<boolean[]> {
    const replies = await this.#run(
      release,
      releases.map((one) => one.key),
      () => ({ wakeChannel: this.#wakeChannel }),
      (index) => {
        const one = releases[index] as Release;
        return [
          Buffer.from(one.token, "latin1"),
          one.outcome,
          Math.max(1, Math.round(one.holdMs)),
          Buffer.from(one.body),
        ];
      },
    );
    return replies.map((reply) => reply === 1);
  }

  async invalidate(keys: readonly string[]): Promise<void> {
    await this.#runSafely(invalidate, keys, () => ({ wakeChannel: this.#wakeChannel }));
  }

  async softInvalidate(keys: readonly string[]): Promise<void> {
    await this.#runSafely(softInvalidate, keys, () => ({ wakeChannel: this.#wakeChannel }));
  }

  async invalidateTags(tags: readonly string[], logRetentionMs: number): Promise<void> {
    if (await this.#record.invalidateAtOnce(tags, logRetentionMs)) return;
    // The record first: a loader reads tagVersions, then the record, so whichever of the two he saw too early, the other stops him.
    const [noted] = await Promise.allSettled([this.#record.note(logRetentionMs, tags)]);
    // Where the record cannot be reached, the invalidation is not done, and does what it can: its tags may be on other nodes.
    await this.#runSafely(changeTags, tags, () => ({ versionBase: randomBytes(12) }));
    if (noted.status === "rejected") throw noted.reason;
  }

  readLogPosition(logRetentionMs: number): Promise<LogPosition> {
    return this.#record.note(logRetentionMs, []);
  }

  areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    return this.#record.areUnchangedSince(position, tags);
  }

  async beginWrite(keys: readonly string[], writer: string, writeGuardMs: number): Promise<void> {
    const args = { wakeChannel: this.#wakeChannel, writer: Buffer.from(writer, "latin1"), writeGuardMs };
    await this.#runSafely(beginWrite, keys, () => args);
  }

  async endWrite(keys: readonly string[], writer: string): Promise<void> {
    const args = { wakeChannel: this.#wakeChannel, writer: Buffer.from(writer, "latin1") };
    throwIfAnyFailed(await this.#run(endWrite, keys, () => args));
  }

  open(names: StoreNames, wake: Wake, onLoss: () => void = () => undefined): Cancel {
    if (this.#wakeChannel !== "" && this.#wakeChannel !== names.wakeChannel)
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        "createCache: `store` is in use by a cache with another `prefix`; give each prefix a redisStore of its own",
      );
    this.#wakeChannel = names.wakeChannel;
    this.#record.key = names.invalidationLog;
    const endListening = this.#wakes.listen(names.wakeChannel, wake);
    const endWatch = watchFailovers(this.#client, onLoss);
    this.#writer.open();
    return () => {
      this.#writer.close();
      endListening();
      endWatch();
    };
  }

  follow(prefix: string, listener: ChangeListener): Cancel {
    return new ClientTracking(this.#client, this.#clock, prefix, listener).start();
  }

  #run<Args extends readonly string[]>(...run: RunArguments<Args>): Promise<readonly unknown[]> {
    return runScript(this.#client, [], ...run);
  }

  /** For writes that must not get lost: on a connection of their own if replicas are waited for, since that holds up all that comes after. */
  async #runSafely<Args extends readonly string[]>(...run: RunArguments<Args>): Promise<void> {
    throwIfAnyFailed(await runScript(this.#writer.client, this.#writer.trailing, ...run));
  }
}
