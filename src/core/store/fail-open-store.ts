import { attempt } from "../base/built-in.js";
import type { Cancel, Clock } from "../base/clock.js";
import { groupBy } from "../base/multimap.js";
import { HASH_TAGS } from "../keys/hash-tags.js";
import type { Channel } from "../telemetry/channel.js";
import { isHeadAfter, laterHead } from "./clock-log.js";
import { type NodeState, OwnConnections, type Refusal } from "./node-state.js";
import {
  ABANDONED,
  type AcquireRequest,
  type ConnectionFailure,
  type Grant,
  type Reading,
  type Release,
  type Store,
  type StoreListener,
  type StoreNames,
  type StoreRead,
} from "./store.js";
import {
  BACKGROUND_BUDGETS,
  BYTES_PER_BATCH,
  budgetsOf,
  CHECK_STORE,
  INCOMPLETE,
  KEYS_PER_BUDGET,
  promised,
  StoreCalls,
} from "./store-calls.js";

/**
 * Wraps a store so that its failures become misses. An operation fails if it exceeds its time
 * budget, if the store rejects it, or if the breaker is open, and then is not called.
 *
 * `read`, `acquire`, `storeValues`, `renew` and `release` never reject. All other operations reject
 * with `CACHED_STORE_UNAVAILABLE`. Each node of the store has a breaker of its own, so that a
 * failing node affects only its own keys.
 */
export class FailOpenStore implements Store {
  readonly isShared: Store["isShared"];
  readonly nodeOf: Store["nodeOf"];
  readonly writeReport: Store["writeReport"];
  readonly readReports: Store["readReports"];
  readonly #calls: StoreCalls;
  readonly #own: OwnConnections;
  readonly #bytesPerKey = new Map<string, number>();
  readonly #maxEntryBytes: number;
  /** Until when keys that had more than an entry can have are not read. */
  readonly #oversized = new Map<string, number>();
  #probedName = "";

  constructor(
    private readonly inner: Store,
    private readonly clock: Clock,
    channel: Channel,
    budgetMs: number,
    maxValueBytes = Number.POSITIVE_INFINITY,
  ) {
    this.#maxEntryBytes = maxValueBytes + MAX_PARTS_BYTES;
    this.isShared = inner.isShared;
    const { writeReport, readReports } = inner;
    this.writeReport =
      writeReport && ((...report) => this.#calls.beside("writeReport", () => writeReport.apply(inner, report)));
    this.readReports = readReports && (() => this.#calls.beside("readReports", () => readReports.call(inner)));
    this.#calls = new StoreCalls(inner, clock, channel, budgetMs);
    this.nodeOf = this.#calls.nodeOf;
    this.#own = new OwnConnections(channel);
  }

  get name(): string {
    return this.inner.name;
  }

  read(keys: readonly string[]): Promise<StoreRead> {
    const others = this.#oversized.size === 0 ? keys : this.#withoutOversized(keys);
    if (others.length < keys.length) return this.#readAround(keys, others);
    // The read of most ticks is one batch to the only node. A read without keys is one to any node.
    const isOneBatch = keys.length === 0 || (this.nodeOf === undefined && keys.length <= KEYS_PER_READ);
    const isLarge = keys.length > 1 && keys.length * (this.#bytesPerKey.get("") ?? 0) > BYTES_PER_BATCH;
    if (!isOneBatch || isLarge) return this.#readInBatches(keys);
    const reading = this.#calls.run("", "read", () => this.#readBatch("", keys), {
      nameCount: keys.length,
      budgets: keys.length <= KEYS_PER_BUDGET ? 1 : budgetsOf(keys.length),
      onTimeout: () => this.#expectLarger("", keys.length),
    });
    const failed = (error: unknown): Reading => ({ kind: "failed", error });
    return reading.catch((error) => ({ readings: keys.map(() => failed(error)), clock: undefined }));
  }

  #withoutOversized(keys: readonly string[]): readonly string[] {
    const now = this.clock.now();
    for (const [key, until] of this.#oversized) if (until <= now) this.#oversized.delete(key);
    return keys.filter((key) => !this.#oversized.has(key));
  }

  /** Content that is too large would hold up all replies that come after it. */
  async #readAround(keys: readonly string[], others: readonly string[]): Promise<StoreRead> {
    const { readings, clock } = await this.read(others);
    let nth = 0;
    return { readings: keys.map((key) => (others[nth] === key ? (readings[nth++] as Reading) : OVERSIZED)), clock };
  }

  async #readInBatches(keys: readonly string[]): Promise<StoreRead> {
    let clock: Buffer | undefined;
    const readings = await this.#calls.inBatches<string, Reading>("read", keys, {
      maxItems: KEYS_PER_READ,
      bytesOf: (_key, node) => this.#bytesPerKey.get(node) ?? 0,
      onTimeout: (node, count) => this.#expectLarger(node, count),
      run: async (part, node) => {
        const read = await this.#readBatch(node, part);
        const failed = read.readings.filter((reading) => reading.kind === "failed" && reading !== OVERSIZED);
        if (failed[0]?.kind === "failed") this.#calls.partFailed(node, failed[0].error, failed.length);
        clock = laterHead(clock, read.clock);
        return read.readings;
      },
      onFailure: (error) => ({ kind: "failed", error }),
    });
    return { readings, clock };
  }

  /** Reads, and remembers how large the values are, also from a reply that comes too late. */
  async #readBatch(node: string, keys: readonly string[]): Promise<StoreRead> {
    const read = await promised(this.inner.read(keys));
    // What a store has returned may be anything.
    const readings: readonly Reading[] = Array.isArray(read?.readings) ? read.readings : [];
    let bytes = 0;
    let bounded: Reading[] | undefined;
    for (let nth = 0; nth < readings.length; nth++) {
      const reading = readings[nth];
      if (reading?.kind !== "read") continue;
      const own = reading.entry?.body?.byteLength ?? reading.foreignBytes ?? 0;
      bytes += own;
      if (own <= this.#maxEntryBytes) continue;
      bounded ??= [...readings];
      bounded[nth] = OVERSIZED;
    }
    if (keys.length > 0) this.#bytesPerKey.set(node, bytes / keys.length);
    if (readings.length !== keys.length) throw INCOMPLETE;
    // It is replaced by a new one.
    if ((read.clock?.length ?? 0) > this.#maxEntryBytes) void this.inner.appendClock([]).catch(ignore);
    if (bounded === undefined) return read;
    for (const [nth, reading] of bounded.entries())
      if (reading === OVERSIZED) this.#avoid(node, keys[nth] as string, readings[nth] as never);
    return { ...read, readings: bounded };
  }

  /** Has a key with more than an entry can have not be read for a while, and removes an entry. */
  #avoid(node: string, key: string, { entry, foreignBytes }: Extract<Reading, { kind: "read" }>): void {
    this.#bytesPerKey.delete(node);
    this.#oversized.set(key, this.clock.now() + OVERSIZED_MS);
    for (const oldest of [...this.#oversized.keys()].slice(0, -MAX_OVERSIZED)) this.#oversized.delete(oldest);
    // What is no entry belongs to another program.
    if (entry !== undefined) void this.inner.remove([key]).catch(ignore);
    const error = new Error(
      `expected an entry of at most ${this.#maxEntryBytes} bytes at ${key}, got ${entry?.body?.byteLength ?? foreignBytes}; it is not read for ${OVERSIZED_MS / 1_000} s; use the same \`storage.maxValueBytes\` in all processes, and check what else writes under this prefix`,
    );
    this.#calls.partFailed(node, error, 1);
  }

  /** Halves the next batch after one of `count` keys: perhaps its values are large. */
  #expectLarger(node: string, count: number): void {
    if (count === 0) return;
    const bytesPerKey = this.#bytesPerKey.get(node) ?? 0;
    this.#bytesPerKey.set(node, Math.max(bytesPerKey, Math.floor((2 * BYTES_PER_BATCH) / count)));
  }

  get #clockNode(): string {
    return attempt(() => this.inner.clockNode?.()) ?? "";
  }

  readonly acquire: Store["acquire"] = (requests, times, origin, holder) =>
    this.#calls.inBatches("acquire", requests, {
      run: (part) => this.inner.acquire(part, times, origin, holder),
      onFailure: (error) => ({ kind: "unavailable", error }),
      // A lease that could not be released expires.
      onLate: (granting, part) => void this.#releaseLate(granting, part).catch(ignore),
    });

  readonly storeValues: Store["storeValues"] = (requests) =>
    this.#calls.inBatches("storeValues", requests, {
      budgets: BACKGROUND_BUDGETS,
      bytesOf: ({ body }) => body.byteLength,
      run: (part) => this.inner.storeValues(part),
      onFailure: () => "unavailable",
    });

  readonly release: Store["release"] = (releases) =>
    this.#calls.inBatches("release", releases, {
      budgets: BACKGROUND_BUDGETS,
      run: (part) => this.inner.release(part),
      onFailure: () => false,
    });

  readonly renew: Store["renew"] = (holds, times) =>
    this.#calls.inBatches("renew", holds, {
      run: (part) => this.inner.renew(part, times),
      // Without a reply, it is not known whether leases are held; the next renewal decides.
      onFailure: () => true,
    });

  /** An invalidation needs all nodes, so its failure must not keep the log from being read. */
  appendClock(records: readonly Buffer[], lostEpoch?: string): Promise<Buffer> {
    const append = async (): Promise<Buffer> => {
      const bytes = await promised(this.inner.appendClock(records, lostEpoch));
      if (isHeadAfter(bytes, records)) return bytes;
      throw new TypeError(`expected the head of the clock after the last record, got another value; ${CHECK_STORE}`);
    };
    const isInvalidation = records.length > 0;
    return this.#calls.run(this.#clockNode, "appendClock", append, {
      budgets: isInvalidation ? CONFIRMED_BUDGETS : 1,
      asksBreaker: !isInvalidation || this.nodeOf === undefined,
    });
  }

  readClock(from: number): Promise<Buffer | undefined> {
    const read = async (): Promise<Buffer | undefined> => {
      const bytes = await promised(this.inner.readClock(from));
      if (bytes === undefined || Buffer.isBuffer(bytes)) return bytes;
      throw new TypeError(`expected bytes of the log, or undefined, got another value; ${CHECK_STORE}`);
    };
    return this.#calls.run(this.#clockNode, "readClock", read);
  }

  async remove(keys: readonly string[], options?: { readonly soft?: boolean }): Promise<void> {
    await this.#calls.inBatches("remove", keys, {
      budgets: CONFIRMED_BUDGETS,
      continuesAfterErrors: true,
      run: async (part) => {
        await this.inner.remove(part, options);
        return part.map(() => undefined);
      },
    });
  }

  /** Requests may go on after their cache has been closed, but begin nothing any more. */
  open(names: StoreNames, listener: StoreListener): Cancel {
    this.#probedName = `${names.clock}:probe`;
    const close = this.inner.open(names, {
      ...listener,
      reconnected: () => {
        this.#calls.reconnected();
        listener.reconnected?.();
      },
      connectionChanged: (change) => this.#own.report(change),
    });
    return () => {
      this.#calls.isClosed = true;
      close();
    };
  }

  /** Of the nodes that were asked. */
  get nodes(): readonly NodeState[] {
    return [...this.#calls.states.values()];
  }

  get ownFailures(): readonly ConnectionFailure[] {
    return this.#own.failures;
  }

  get refusals(): readonly Refusal[] {
    return this.nodes.flatMap((state) => state.refusals());
  }

  /** Reads a name that no entry has on each node. Never rejects. Returns one probe at least. */
  probe(): Promise<readonly Probe[]> {
    const names = HASH_TAGS.map((tag) => `${this.#probedName}:{${tag}}`);
    const nodes = groupBy(names, (name) => this.nodeOf?.(name) ?? "");
    return Promise.all(
      [...nodes].map(async ([node, [index = 0]]): Promise<Probe> => {
        const startedAt = this.clock.now();
        const read = async (): Promise<void> => {
          const [reading] = (await this.inner.read([names[index] as string])).readings;
          if (reading?.kind === "failed") throw reading.error;
        };
        return this.#calls.run(node, "read", read).then(
          () => ({ node, replyMs: this.clock.now() - startedAt, error: undefined }),
          (error: unknown) => ({ node, replyMs: undefined, error }),
        );
      }),
    );
  }

  /** Releases leases that were granted after their caller gave up: others would wait for them. */
  async #releaseLate(granting: Promise<readonly Grant[]>, requests: readonly AcquireRequest[]): Promise<void> {
    const grants = await granting;
    const releases = requests.flatMap(({ key }, index): Release[] => {
      const grant = grants[index];
      return grant?.kind === "granted" ? [{ key, token: grant.token, ...ABANDONED }] : [];
    });
    if (releases.length > 0) await this.inner.release(releases);
  }
}

/** Of an invalidation. */
const CONFIRMED_BUDGETS = 10;

/** Of an entry, besides its value: its header, a hint, and the subjects of its tags. */
const MAX_PARTS_BYTES = 1024 * 1024;
const OVERSIZED_MS = 60_000;
const MAX_OVERSIZED = 1_000;

const OVERSIZED: Reading = { kind: "failed", error: new Error("what is at the key is larger than an entry can be") };
const ignore = (): void => undefined;
/** A server does not run a script for each of them. */
const KEYS_PER_READ = 2_000;

export interface Probe {
  readonly node: string;
  readonly replyMs: number | undefined;
  readonly error: unknown;
}
