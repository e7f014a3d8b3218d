import { randomBytes } from "node:crypto";
import { type Cancel, type Clock, type Random, systemClock, systemRandom } from "../clock.js";
import { CachedError, describeSetting } from "../errors.js";
import { throwIfAllFailed, throwIfAnyFailed } from "../store/answers.js";
import type {
  AcquireRequest,
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
} from "../store/store.js";
import { type StoredEntry, transitions } from "../store/transitions.js";
import { type Content, storedEntryOf, versionOf, writeContent } from "./content.js";
import { areUnchanged, beginLog, type InvalidationLog, logTags, readLog, writeLog } from "./invalidation-log.js";
import { hasSeveralServers, type MemcachedClient } from "./memcached-client.js";
import { type Change, Server } from "./server.js";
import { Servers } from "./servers.js";

/** What a memcached store needs: `client`, or for several servers `servers`. */
export interface MemcachedStoreOptions {
  /** A client of memcache-client 1.x for one server. It stays yours: the store never closes it. */
  readonly client?: MemcachedClient;
  /** One client for each server, by names that are the same in all processes: the names say which keys rest where. */
  readonly servers?: Readonly<Record<string, MemcachedClient>>;
  /** The largest entry that the servers take, in bytes; a larger value is not stored, and is loaded without waiting. Default 1,000,000. */
  readonly maxEntryBytes?: number;
  readonly clock?: Clock;
  readonly random?: Random;
}

/** What memcached takes at most unless told otherwise is 1 MiB, its own head and the name included. */
const MAX_ENTRY_BYTES = 1_000_000;
/** For so long, everybody loads a value that is too large, without a lease. */
const UNCACHEABLE_MS = 1_000;
/** How many times `logRetentionMs` the record outlives its last change. */
const LOG_LIFETIMES = 10;
const METHODS = ["gets", "add", "cas", "cmd"] as const;

/**
 * A store on memcached 1.5 or newer, shared by all processes: each transition of the state table is a read, and a write that is refused if
 * another came first. Waiters poll, as memcached sends no messages.
 * Errors: `CACHED_OPTION_INVALID`.
 */
export function memcachedStore(options: MemcachedStoreOptions): Store {
  const {
    client,
    servers,
    maxEntryBytes = MAX_ENTRY_BYTES,
    clock = systemClock,
    random = systemRandom,
  } = options ?? {};
  if ((client === undefined) === (servers === undefined))
    throw invalid("either `client` or `servers` was expected", client === undefined ? "neither came" : "both came");
  const clients = Object.entries(servers ?? { "": client as MemcachedClient });
  if (clients.length === 0) throw invalid("`servers` must name at least one server", "none came");
  for (const [name, each] of clients) {
    const option = servers === undefined ? "`client`" : `\`servers.${name}\``;
    if (METHODS.some((method) => typeof (each as Partial<MemcachedClient> | undefined)?.[method] !== "function"))
      throw invalid(
        `${option} must be a client of memcache-client`,
        `${describeSetting(each)} came; write new MemcacheClient({ server: "host:11211" })`,
      );
    if (hasSeveralServers(each))
      throw invalid(`${option} must be a client of one server`, "one of several came; give each a client in `servers`");
  }
  if (!Number.isInteger(maxEntryBytes) || maxEntryBytes < 1024)
    throw invalid(
      "`maxEntryBytes` must be a whole number of bytes, 1024 or more",
      `${describeSetting(maxEntryBytes)} came`,
    );
  const named = new Map(clients.map(([name, each]) => [name, new Server(each, clock, random)]));
  return new MemcachedStore(new Servers(named), clock, maxEntryBytes);
}

const invalid = (expected: string, came: string): CachedError =>
  new CachedError("CACHED_OPTION_INVALID", `memcachedStore: ${expected}, ${came}`);

class MemcachedStore implements Store {
  readonly name = "memcached";
  readonly nodeOf: Store["nodeOf"];
  readonly #servers: Servers;
  readonly #clock: Clock;
  readonly #maxEntryBytes: number;
  #record = "";

  constructor(servers: Servers, clock: Clock, maxEntryBytes: number) {
    this.nodeOf = servers.isOne ? undefined : (name) => servers.idOf(name);
    this.#servers = servers;
    this.#clock = clock;
    this.#maxEntryBytes = maxEntryBytes;
  }

  async read(
    keys: readonly string[],
    tags: readonly string[],
  ): Promise<{ readings: Reading[]; tagVersions: TagVersion[] }> {
    const found = await this.#servers.ask([...keys, ...tags], async (server, names) => {
      const { contents, now } = await server.read(names);
      return contents.map((content) => ({ content, now }));
    });
    throwIfAllFailed(found);
    return {
      readings: found.slice(0, keys.length).map((one): Reading => {
        if (one instanceof Error) return { kind: "failed", error: one };
        return { kind: "read", entry: storedEntryOf(one.content), now: one.now };
      }),
      tagVersions: found.slice(keys.length).map((one) => (one instanceof Error ? undefined : versionOf(one.content))),
    };
  }

  async ensureTags(tags: readonly string[], ttlMs: number): Promise<string[]> {
    const tagVersions = await this.#servers.change<string>(tags, (_, content, { now }) => {
      const version = versionOf(content);
      if (content?.kind === "version" && content.dropAt < now + ttlMs)
        return putVersion(content.version, now + 2 * ttlMs);
      if (version !== undefined) return { kind: "keep", answer: version };
      // Twice as long as asked for, so that a tag in use is seldom written for its ttl alone.
      return putVersion(randomId(), now + 2 * ttlMs);
    });
    throwIfAnyFailed(tagVersions);
    return tagVersions as string[];
  }

  async acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<Grant[]> {
    const askedAt = this.#clock.now();
    const keys = requests.map(({ key }) => key);
    const grants = await this.#servers.change<Grant>(keys, (index, content, { now, slackMs }) => {
      if (this.#clock.now() - askedAt > times.patienceMs) return { kind: "keep", answer: { kind: "expired" } };
      if (isUnknownFormat(content)) return { kind: "keep", answer: { kind: "unknown-format" } };
      const { stored, grant } = transitions.acquire(
        storedEntryOf(content),
        requests[index] as AcquireRequest,
        randomId(),
        lengthened(times, slackMs),
        now,
      );
      if (grant.kind === "granted") return put(stored, grant);
      // That somebody waits need not be noted where nobody is told of the end.
      const { leaseMs } = times;
      return {
        kind: "keep",
        answer: grant.kind === "busy" ? { ...grant, remainingMs: Math.min(grant.remainingMs, leaseMs) } : grant,
      };
    });
    throwIfAllFailed(grants);
    return grants.map((grant) => (grant instanceof Error ? { kind: "unavailable", error: grant } : grant));
  }

  async storeValues(storeRequests: readonly StoreRequest[]): Promise<StoreOutcome[]> {
    const keys = storeRequests.map(({ key }) => key);
    const outcomes = await this.#servers.change<StoreOutcome>(keys, (index, content, { now, slackMs }) => {
      const before = storedEntryOf(content);
      const one = storeRequests[index] as StoreRequest;
      const { stored, outcome } = transitions.storeValue(before, one, now);
      if (outcome === "refused" || before === undefined) return { kind: "keep", answer: outcome };
      if (stored === undefined || writeContent({ kind: "entry", stored }).length <= this.#maxEntryBytes)
        return put(stored, outcome);
      const { key, body } = one;
      const pass: Release = {
        key,
        token: before.token,
        outcome: "uncacheable",
        holdMs: UNCACHEABLE_MS + slackMs,
        body,
      };
      return put(transitions.release(before, pass, now).stored, "unavailable");
    });
    throwIfAllFailed(outcomes);
    return outcomes.map((outcome) => (outcome instanceof Error ? "unavailable" : outcome));
  }

  async renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    const keys = holds.map(({ key }) => key);
    const answers = await this.#servers.change<boolean>(keys, (index, content, { now, slackMs }) => {
      const stored = transitions.renew(storedEntryOf(content), holds[index] as Hold, lengthened(times, slackMs), now);
      return stored === undefined ? { kind: "keep", answer: false } : put(stored, true);
    });
    throwIfAllFailed(answers);
    return answers.map((answer) => answer === true);
  }

  async release(releases: readonly Release[]): Promise<boolean[]> {
    const keys = releases.map(({ key }) => key);
    const answers = await this.#servers.change<boolean>(keys, (index, content, { now, slackMs }) => {
      const one = releases[index] as Release;
      const { isHeld, stored } = transitions.release(
        storedEntryOf(content),
        { ...one, holdMs: one.holdMs + slackMs },
        now,
      );
      return isHeld ? put(stored, true) : { kind: "keep", answer: false };
    });
    throwIfAllFailed(answers);
    return answers.map((answer) => answer === true);
  }

  async invalidate(keys: readonly string[]): Promise<void> {
    const answers = await this.#servers.change<void>(keys, (_, content) =>
      content === undefined || storedEntryOf(content)?.state === "write-in-progress"
        ? { kind: "keep", answer: undefined }
        : put(undefined, undefined),
    );
    throwIfAnyFailed(answers);
  }

  async softInvalidate(keys: readonly string[]): Promise<void> {
    const answers = await this.#servers.change<void>(keys, (_, content) => {
      const stored = storedEntryOf(content);
      return stored === undefined || stored.state === "write-in-progress"
        ? { kind: "keep", answer: undefined }
        : put(transitions.softInvalidate(stored), undefined);
    });
    throwIfAnyFailed(answers);
  }

  async invalidateTags(tags: readonly string[], logRetentionMs: number): Promise<void> {
    // The record first: a loader reads tagVersions, then the record, so whichever of the two he saw too early, the other stops him.
    await this.#note(tags, logRetentionMs);
    const answers = await this.#servers.change<unknown>(tags, (_, content) =>
      content?.kind === "version" ? putVersion(randomId(), content.dropAt) : { kind: "keep", answer: undefined },
    );
    throwIfAnyFailed(answers);
  }

  readLogPosition(logRetentionMs: number): Promise<LogPosition> {
    return this.#note([], logRetentionMs);
  }

  async areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    const [found] = await this.#servers.ask(
      [this.#record],
      async (server, names) => (await server.read(names)).contents,
    );
    throwIfAnyFailed([found]);
    const record = logOf(found as Content | undefined);
    return record !== undefined && areUnchanged(record, position, tags);
  }

  async beginWrite(names: readonly string[], writer: string, writeGuardMs: number): Promise<void> {
    const answers = await this.#servers.change<void>(names, (_, content, { now, slackMs }) =>
      put(transitions.beginWrite(storedEntryOf(content), writer, writeGuardMs + slackMs, now), undefined),
    );
    throwIfAnyFailed(answers);
  }

  async endWrite(names: readonly string[], writer: string): Promise<void> {
    const answers = await this.#servers.change<void>(names, (_, content) => {
      const stored = storedEntryOf(content);
      return stored?.state === "write-in-progress"
        ? put(transitions.endWrite(stored, writer), undefined)
        : { kind: "keep", answer: undefined };
    });
    throwIfAnyFailed(answers);
  }

  open(names: StoreNames): Cancel {
    if (this.#record !== "" && this.#record !== names.invalidationLog)
      throw invalid(
        "`store` is in use by a cache with another `prefix`",
        "give each prefix a memcachedStore of its own",
      );
    this.#record = names.invalidationLog;
    return () => undefined;
  }

  async #note(tags: readonly string[], logRetentionMs: number): Promise<LogPosition> {
    const [position] = await this.#servers.change<LogPosition>([this.#record], (_, content, { now }) => {
      const known = logOf(content);
      if (tags.length === 0 && known !== undefined && content?.kind === "log" && content.dropAt > now + logRetentionMs)
        return { kind: "keep", answer: { logId: known.logId, at: known.at } };
      const begun = known ?? beginLog();
      const record = tags.length === 0 ? begun : logTags(begun, tags, logRetentionMs, now);
      const to = { kind: "log", bytes: writeLog(record), dropAt: now + LOG_LIFETIMES * logRetentionMs } as const;
      return { kind: "put", to, answer: { logId: record.logId, at: record.at } };
    });
    throwIfAnyFailed([position]);
    return position as LogPosition;
  }
}

const put = <Answer>(stored: StoredEntry | undefined, answer: Answer): Change<Answer> => ({
  kind: "put",
  to: stored === undefined ? undefined : { kind: "entry", stored },
  answer,
});

/** What is to last for a while lasts longer by what this process does not know: one that knows the time better must not find it over too early. */
const lengthened = (times: LeaseTimes, slackMs: number): LeaseTimes => ({ ...times, leaseMs: times.leaseMs + slackMs });

const putVersion = (version: string, dropAt: number): Change<string> => ({
  kind: "put",
  to: { kind: "version", version, dropAt },
  answer: version,
});

const isUnknownFormat = (content: Content | undefined): boolean => content !== undefined && content.kind !== "entry";

const logOf = (content: Content | undefined): InvalidationLog | undefined =>
  content?.kind === "log" ? readLog(content.bytes) : undefined;

const randomId = (): string => randomBytes(16).toString("latin1");
