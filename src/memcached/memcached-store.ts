import { randomBytes } from "node:crypto";
import { type Cancel, type Clock, type Random, systemClock, systemRandom } from "../clock.js";
import { CachedError, describeSetting } from "../errors.js";
import { checkOptionNames } from "../option-names.js";
import { asError, throwIfAllFailed, throwIfAnyFailed } from "../store/answers.js";
import { largerVersion } from "../store/control-version.js";
import { TOO_LARGE_MARK } from "../store/entry.js";
import { newTokens } from "../store/lease-token.js";
import type {
  AcquireRequest,
  ControlReading,
  Grant,
  Hold,
  LeaseTimes,
  LogPosition,
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRead,
  StoreReport,
  StoreRequest,
  VersionedControl,
} from "../store/store.js";
import { hardPartOf } from "../store/store.js";
import { type StoredEntry, transitions } from "../store/transitions.js";
import { type Content, storedEntryOf, versionOf, writeContent } from "./content.js";
import { ControlCopies, controlVersionOf } from "./control-copies.js";
import { areUnchanged, beginLog, endOf, type InvalidationLog, logTags, readLog, writeLog } from "./invalidation-log.js";
import { hasSeveralServers, type MemcachedClient } from "./memcached-client.js";
import { type Change, type Decide, Server } from "./server.js";
import { Servers } from "./servers.js";

/** Options of `memcachedStore`: either `client`, or `servers` for several servers. */
export interface MemcachedStoreOptions {
  /** A client of memcache-client 1.x for one server. It is never closed. */
  readonly client?: MemcachedClient;
  /**
   * One client per server, by name. The names decide which server stores which key, so they must be
   * the same in all processes. The clients are never closed.
   */
  readonly servers?: Readonly<Record<string, MemcachedClient>>;
  /**
   * Maximum size of an entry in bytes, at least 1,024. Larger values are not stored, and are loaded
   * without waiting for other processes. Default: 1,000,000.
   */
  readonly maxEntryBytes?: number;
  /** Source of time and timers. Default: the system clock. */
  readonly clock?: Clock;
  /** Source of random numbers for jitter. Default: the system generator. */
  readonly random?: Random;
}

/** The server's default limit is 1 MiB, which includes its own header and the key. */
const MAX_ENTRY_BYTES = 1_000_000;
/** How long a value that is too large is loaded by every process without a lease. */
const UNCACHEABLE_MS = 1_000;
/**
 * How long the version lasts that replaces an unrecognised value at the key of a tag; its next use
 * extends that.
 */
const REPLACEMENT_TTL_MS = 60_000;
/** Lifetime of the invalidation log after its last change, as a multiple of its retention. */
const LOG_LIFETIMES = 10;
/** An instant at which a version that does not expire is dropped. */
const NEVER = Number.MAX_SAFE_INTEGER;
const METHODS = ["gets", "add", "cas", "cmd"] as const;

/**
 * Creates a store on memcached 1.5 or newer, shared by all processes that use the same prefix. Each
 * transition of the lease protocol is a read followed by a write that is refused if another write
 * was first. Waiters poll, since memcached has no messages. The clients are never closed.
 * Throws `CACHED_OPTION_INVALID` if an option is invalid.
 */
export function memcachedStore(options: MemcachedStoreOptions): Store {
  const known = ["client", "servers", "maxEntryBytes", "clock", "random"] satisfies (keyof MemcachedStoreOptions)[];
  checkOptionNames(options ?? {}, "memcachedStore", known);
  const {
    client,
    servers,
    maxEntryBytes = MAX_ENTRY_BYTES,
    clock = systemClock,
    random = systemRandom,
  } = options ?? {};
  if ((client === undefined) === (servers === undefined))
    throw invalid(
      "options",
      "either `client` or `servers`",
      client === undefined ? "neither" : "both",
      "pass `client` for one server, `servers` for several",
    );
  const clients = Object.entries(servers ?? { "": client as MemcachedClient });
  if (clients.length === 0)
    throw invalid("`servers`", "at least one server", "none", "pass { name: new MemcacheClient({ server }) }");
  for (const [name, each] of clients) {
    const option = servers === undefined ? "`client`" : `\`servers.${name}\``;
    if (METHODS.some((method) => typeof (each as Partial<MemcachedClient> | undefined)?.[method] !== "function"))
      throw invalid(
        option,
        "a client of memcache-client",
        describeSetting(each),
        'pass new MemcacheClient({ server: "host:11211" })',
      );
    if (hasSeveralServers(each))
      throw invalid(
        option,
        "a client of one server",
        "one of several servers",
        "pass one client per server in `servers`",
      );
  }
  if (!Number.isInteger(maxEntryBytes) || maxEntryBytes < 1024)
    throw invalid(
      "`maxEntryBytes`",
      "an integer of at least 1024",
      describeSetting(maxEntryBytes),
      "pass the server's item size limit (-I) less the key and header, or omit it",
    );
  const serversByName = new Map(clients.map(([name, each]) => [name, new Server(each, clock, random)]));
  return new MemcachedStore(new Servers(serversByName), clock, maxEntryBytes);
}

function invalid(where: string, expected: string, got: string, remedy: string): CachedError {
  return new CachedError(
    "CACHED_OPTION_INVALID",
    `memcachedStore: ${where}: expected ${expected}, got ${got}; ${remedy}`,
  );
}

class MemcachedStore implements Store {
  readonly name = "memcached";
  readonly nodeOf: Store["nodeOf"];
  readonly nodes: Store["nodes"];
  readonly #servers: Servers;
  readonly #clock: Clock;
  readonly #maxEntryBytes: number;
  readonly #control: ControlCopies;
  /** The name of the invalidation log, or the beginning of the names of the logs. */
  #logName = "";
  /** The invalidation log of each server, by the id of the server. */
  #logOf: ReadonlyMap<string, string> = new Map();

  constructor(servers: Servers, clock: Clock, maxEntryBytes: number) {
    this.nodeOf = servers.isOne ? undefined : (name) => servers.idOf(name);
    this.nodes = servers.isOne ? undefined : () => servers.ids;
    this.#servers = servers;
    this.#clock = clock;
    this.#maxEntryBytes = maxEntryBytes;
    this.#control = new ControlCopies(servers);
  }

  async read(keys: readonly string[], tags: readonly string[]): Promise<StoreRead> {
    let controlVersion: string | undefined;
    const [firstCopy] = this.#control.names;
    const wanted = keys.length + tags.length === 0 && firstCopy !== undefined ? [firstCopy] : [...keys, ...tags];
    const items = await this.#servers.forEachServer(wanted, async (server, names) => {
      const copy = this.#control.on(server);
      const { contents, now } = await server.read(copy === undefined ? names : [...names, copy]);
      if (copy !== undefined)
        controlVersion = largerVersion(controlVersion, controlVersionOf({ content: contents[names.length], now }));
      return names.map((_, index) => ({ content: contents[index], now }));
    });
    throwIfAllFailed(items);
    return {
      controlVersion,
      readings: items.slice(0, keys.length).map((item): Reading => {
        if (item instanceof Error) return { kind: "failed", error: item };
        return { kind: "read", entry: storedEntryOf(item.content), now: item.now };
      }),
      tagVersions: items
        .slice(keys.length, keys.length + tags.length)
        .map((item) => (item instanceof Error ? undefined : versionOf(item.content))),
    };
  }

  inspect(node: string): Promise<StoreReport> {
    return this.#servers.inspect(node);
  }

  controlCopies(): readonly string[] {
    return this.#control.names;
  }

  readControl(copies: readonly string[]): Promise<readonly ControlReading[]> {
    return this.#control.read(copies);
  }

  replaceControl(expected: string | undefined, content: Uint8Array): Promise<string | undefined> {
    return this.#control.replace(expected, content);
  }

  raiseControl(copies: readonly string[], record: VersionedControl): Promise<void> {
    return this.#control.raise(copies, record);
  }

  async ensureTags(tags: readonly string[], ttlMs: number | undefined): Promise<string[]> {
    const ensure: Decide<string> = (_, content, { now }) => {
      const version = versionOf(content);
      // Twice the requested ttl, so that a tag in use is rarely rewritten only to extend its ttl.
      const [neededUntil, dropAt] = ttlMs === undefined ? [NEVER, NEVER] : [now + ttlMs, now + 2 * ttlMs];
      if (content?.kind === "version" && content.dropAt < neededUntil) return putVersion(content.version, dropAt);
      return version === undefined ? putVersion(randomId(), dropAt) : { kind: "keep", result: version };
    };
    const tagVersions = await this.#servers.change(tags, ensure, true);
    throwIfAnyFailed(tagVersions);
    return tagVersions as string[];
  }

  async acquire(requests: readonly AcquireRequest[], times: LeaseTimes, holder?: string): Promise<Grant[]> {
    const startedAt = this.#clock.now();
    const keys = requests.map(({ key }) => key);
    const grants = await this.#servers.change<Grant>(keys, (index, content, { now, slackMs }) => {
      if (this.#clock.now() - startedAt > times.patienceMs) return { kind: "keep", result: { kind: "expired" } };
      if (isUnknownFormat(content)) return { kind: "keep", result: { kind: "unknown-format" } };
      const { stored, grant } = transitions.acquire(
        storedEntryOf(content),
        requests[index] as AcquireRequest,
        newTokens(1, holder).toString("latin1"),
        withSlack(times, slackMs),
        now,
      );
      if (grant.kind === "granted") return put(stored, grant);
      // The flag that processes wait is not stored, since there is no message to send when the
      // lease ends.
      const { leaseMs } = times;
      return {
        kind: "keep",
        result: grant.kind === "busy" ? { ...grant, remainingMs: Math.min(grant.remainingMs, leaseMs) } : grant,
      };
    });
    throwIfAllFailed(grants);
    return grants.map((grant) => (grant instanceof Error ? { kind: "unavailable", error: grant } : grant));
  }

  async storeValues(storeRequests: readonly StoreRequest[]): Promise<StoreOutcome[]> {
    const keys = storeRequests.map(({ key }) => key);
    const outcomes = await this.#servers.change<StoreOutcome>(keys, (index, content, { now, slackMs }) => {
      const before = storedEntryOf(content);
      const request = storeRequests[index] as StoreRequest;
      const { stored, outcome } = transitions.storeValue(before, request, now);
      if (outcome === "refused" || before === undefined) return { kind: "keep", result: outcome };
      if (stored === undefined || writeContent({ kind: "entry", stored }).length <= this.#maxEntryBytes)
        return put(stored, outcome);
      const { key } = request;
      const tooLarge: Release = {
        key,
        token: before.token,
        outcome: "uncacheable",
        holdMs: UNCACHEABLE_MS + slackMs,
        body: TOO_LARGE_MARK,
      };
      return put(transitions.release(before, tooLarge, now).stored, "unavailable");
    });
    throwIfAllFailed(outcomes);
    return outcomes.map((outcome) => (outcome instanceof Error ? "unavailable" : outcome));
  }

  async renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    const keys = holds.map(({ key }) => key);
    const results = await this.#servers.change<boolean>(keys, (index, content, { now, slackMs }) => {
      const stored = transitions.renew(storedEntryOf(content), holds[index] as Hold, withSlack(times, slackMs), now);
      return stored === undefined ? { kind: "keep", result: false } : put(stored, true);
    });
    throwIfAllFailed(results);
    return results.map((result) => result === true);
  }

  async release(releases: readonly Release[]): Promise<boolean[]> {
    const keys = releases.map(({ key }) => key);
    const results = await this.#servers.change<boolean>(keys, (index, content, { now, slackMs }) => {
      const release = releases[index] as Release;
      const { isHeld, stored } = transitions.release(
        storedEntryOf(content),
        { ...release, holdMs: release.holdMs + slackMs },
        now,
      );
      return isHeld ? put(stored, true) : { kind: "keep", result: false };
    });
    throwIfAllFailed(results);
    return results.map((result) => result === true);
  }

  async invalidate(keys: readonly string[]): Promise<void> {
    const results = await this.#servers.change<void>(keys, (_, content) =>
      content === undefined || storedEntryOf(content)?.state === "write-in-progress"
        ? { kind: "keep", result: undefined }
        : put(undefined, undefined),
    );
    throwIfAnyFailed(results);
  }

  async softInvalidate(keys: readonly string[]): Promise<void> {
    const results = await this.#servers.change<void>(keys, (_, content) => {
      const stored = storedEntryOf(content);
      return stored === undefined || stored.state === "write-in-progress"
        ? { kind: "keep", result: undefined }
        : put(transitions.softInvalidate(stored), undefined);
    });
    throwIfAnyFailed(results);
  }

  async invalidateTags(tags: readonly string[], logRetentionMs: number, isSoft = false): Promise<void> {
    const changes = [...this.#byLog(tags)].map(async ([log, its]) => {
      // The log comes first. Before a load stores its value, it reads the tag versions and then the
      // log. If it reads a version before the change, its entry carries the old version and is never
      // served. If it reads the new version, the log already contains the invalidation, and the value
      // is not stored.
      await this.#append(log, its, logRetentionMs);
      const results = await this.#servers.change<unknown>(its, (_, content, { now }) => {
        if (content === undefined || storedEntryOf(content)?.state === "write-in-progress")
          return { kind: "keep", result: undefined };
        if (content.kind !== "version") return putVersion(randomId(), now + REPLACEMENT_TTL_MS);
        return putVersion((isSoft ? hardPartOf(content.version) : "") + randomId(), content.dropAt);
      });
      throwIfAnyFailed(results);
    });
    const failed = (await Promise.allSettled(changes)).find((one) => one.status === "rejected");
    if (failed !== undefined) throw failed.reason as Error;
  }

  invalidationLogs(): readonly string[] {
    return [...this.#logOf.values()];
  }

  async readLogPosition(logs: readonly string[], logRetentionMs: number): Promise<LogPosition> {
    const ends = await Promise.all(
      logs.map((log) => this.#append(log, [], logRetentionMs).then((end) => [log, end] as const, asError)),
    );
    throwIfAllFailed(ends);
    return Object.fromEntries(ends.filter((end): end is readonly [string, string] => !(end instanceof Error)));
  }

  async areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    const byLog = this.#byLog(tags);
    const logs = [...byLog.keys()];
    if (logs.some((log) => position[log] === undefined)) return false;
    const contents = await this.#servers.forEachServer(
      logs,
      async (server, names) => (await server.read(names)).contents,
    );
    throwIfAnyFailed(contents);
    return contents.every((content, index) => {
      const name = logs[index] as string;
      const log = logOf(content as Content | undefined);
      return log !== undefined && areUnchanged(log, position[name] as string, byLog.get(name) ?? []);
    });
  }

  async beginWrite(names: readonly string[], writer: string, writeGuardMs: number): Promise<void> {
    const begin: Decide<void> = (_, content, { now, slackMs }) =>
      put(transitions.beginWrite(storedEntryOf(content), writer, writeGuardMs + slackMs, now), undefined);
    throwIfAnyFailed(await this.#servers.change(names, begin, true));
  }

  async endWrite(names: readonly string[], writer: string): Promise<void> {
    const results = await this.#servers.change<void>(names, (_, content) => {
      const stored = storedEntryOf(content);
      return stored?.state === "write-in-progress"
        ? put(transitions.endWrite(stored, writer), undefined)
        : { kind: "keep", result: undefined };
    });
    throwIfAnyFailed(results);
  }

  open(names: StoreNames): Cancel {
    if (this.#logName !== "" && this.#logName !== names.invalidationLog)
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        "createCache: `store`: expected a store that no cache with another `prefix` uses, got one in use; create a memcachedStore for each prefix",
      );
    this.#logName = names.invalidationLog;
    this.#control.open(names.controlRecord);
    const logs = [...this.#servers.pinToEach(names.invalidationLog).values()];
    this.#logOf = new Map(logs.map((log) => [this.#servers.idOf(log), log]));
    return () => undefined;
  }

  /** Groups tags by the log of their server. */
  #byLog(tags: readonly string[]): ReadonlyMap<string, readonly string[]> {
    const byLog = new Map<string, string[]>();
    for (const tag of tags) {
      const log = this.#logOf.get(this.#servers.idOf(tag)) as string;
      const its = byLog.get(log);
      if (its === undefined) byLog.set(log, [tag]);
      else its.push(tag);
    }
    return byLog;
  }

  /**
   * Appends tags to an invalidation log and returns its end. Creates the log if there is none;
   * without tags it appends nothing.
   */
  async #append(name: string, tags: readonly string[], logRetentionMs: number): Promise<string> {
    const append: Decide<string> = (_, content, { now }) => {
      const current = logOf(content);
      const isLongLived = content?.kind === "log" && content.dropAt > now + logRetentionMs;
      if (tags.length === 0 && current !== undefined && isLongLived && current.retentionMs >= logRetentionMs)
        return { kind: "keep", result: endOf(current) };
      const known = current ?? beginLog();
      const before = { ...known, retentionMs: Math.max(known.retentionMs, logRetentionMs) };
      const log = tags.length === 0 ? before : logTags(before, tags, now);
      const to = { kind: "log", bytes: writeLog(log), dropAt: now + LOG_LIFETIMES * log.retentionMs } as const;
      return { kind: "put", to, result: endOf(log) };
    };
    const [end] = await this.#servers.change([name], append, true);
    throwIfAnyFailed([end]);
    return end as string;
  }
}

const put = <Result>(stored: StoredEntry | undefined, result: Result): Change<Result> => ({
  kind: "put",
  to: stored === undefined ? undefined : { kind: "entry", stored },
  result,
});

/**
 * Extends leases by the uncertainty of this process's time estimate, so that a process with a
 * better estimate does not see them end early.
 */
const withSlack = (times: LeaseTimes, slackMs: number): LeaseTimes => ({ ...times, leaseMs: times.leaseMs + slackMs });

const putVersion = (version: string, dropAt: number): Change<string> => ({
  kind: "put",
  to: { kind: "version", version, dropAt },
  result: version,
});

const isUnknownFormat = (content: Content | undefined): boolean => content !== undefined && content.kind !== "entry";

const logOf = (content: Content | undefined): InvalidationLog | undefined =>
  content?.kind === "log" ? readLog(content.bytes) : undefined;

const randomId = (): string => randomBytes(16).toString("latin1");
