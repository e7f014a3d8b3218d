import { type Cancel, type Clock, type Random, systemClock, systemRandom } from "../../core/base/clock.js";
import { CachedError, describeSetting } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { throwIfAllFailed, throwIfAnyFailed } from "../../core/store/answers.js";
import { areSameBytes } from "../../core/store/bytes.js";
import { laterHead } from "../../core/store/clock-copies.js";
import { type ClockHead, readHead } from "../../core/store/clock-log.js";
import { TOO_LARGE_MARK } from "../../core/store/entry.js";
import { newTokens } from "../../core/store/lease-token.js";
import type {
  AcquireRequest,
  ClockOrigin,
  Grant,
  Hold,
  LeaseTimes,
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRead,
  StoreReport,
  StoreRequest,
} from "../../core/store/store.js";
import { type StoredEntry, transitions } from "../../core/store/transitions.js";
import { type Content, NEVER, storedEntryOf, writeContent } from "./content.js";
import { hasSeveralServers, type MemcachedClient } from "./memcached-client.js";
import { headOf, MemcachedClock } from "./memcached-clock.js";
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
  // The first one has the log of the clock and the settings: the same one for all processes.
  const serversByName = new Map(
    clients
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, each]) => [name, new Server(each, clock, random)]),
  );
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
  readonly clockNode: Store["clockNode"];
  readonly #servers: Servers;
  readonly #clock: Clock;
  readonly #maxEntryBytes: number;
  #settings = "";
  readonly #invalidations: MemcachedClock;
  #clockName = "";

  constructor(servers: Servers, clock: Clock, maxEntryBytes: number) {
    this.nodeOf = servers.isOne ? undefined : (name) => servers.idOf(name);
    this.nodes = servers.isOne ? undefined : () => servers.ids;
    this.clockNode = servers.isOne ? undefined : () => servers.idOf(this.#settings);
    this.#servers = servers;
    this.#clock = clock;
    this.#maxEntryBytes = maxEntryBytes;
    this.#invalidations = new MemcachedClock(servers);
  }

  async read(keys: readonly string[]): Promise<StoreRead> {
    let clock: Buffer | undefined;
    // Without keys, one server is asked.
    const asked = keys.length > 0 ? keys : [this.#settings];
    const items = await this.#servers.forEachServer(asked, async (server, names) => {
      // It is known from when the store is opened for a cache.
      const copy = this.#invalidations.on(server);
      const { contents, now } = await server.read(copy === undefined ? names : [...names, copy]);
      clock = laterHead(clock, headOf(contents[names.length]));
      return names.map((_, index) => ({ content: contents[index], now }));
    });
    throwIfAllFailed(items);
    return {
      clock,
      readings: items.slice(0, keys.length).map((item): Reading => {
        if (item instanceof Error) return { kind: "failed", error: item };
        return { kind: "read", entry: storedEntryOf(item.content), now: item.now };
      }),
    };
  }

  inspect(node: string): Promise<StoreReport> {
    return this.#servers.inspect(node);
  }

  async readSettings(): Promise<Uint8Array | undefined> {
    const [content] = await this.#servers.forEachServer([this.#settings], async (server, names) => {
      const { contents } = await server.read(names);
      return contents.map((one) => ({ one }));
    });
    throwIfAnyFailed([content]);
    return settingsOf((content as { readonly one: Content | undefined }).one);
  }

  async replaceSettings(expected: Uint8Array | undefined, content: Uint8Array): Promise<boolean> {
    const replace: Decide<boolean> = (_, held) => {
      const current = settingsOf(held);
      if (areSameBytes(current, content)) return { kind: "keep", result: true };
      if (!areSameBytes(current, expected)) return { kind: "keep", result: false };
      return { kind: "put", to: { kind: "settings", content, dropAt: NEVER }, result: true };
    };
    const [isReplaced] = await this.#servers.change([this.#settings], replace, true);
    throwIfAnyFailed([isReplaced]);
    return isReplaced as boolean;
  }

  appendClock(records: readonly Buffer[]): Promise<Buffer> {
    return this.#invalidations.append(records);
  }

  readClock(from: number): Promise<Buffer | undefined> {
    return this.#invalidations.read(from);
  }

  async acquire(
    requests: readonly AcquireRequest[],
    times: LeaseTimes,
    origin: ClockOrigin,
    holder?: string,
  ): Promise<Grant[]> {
    const startedAt = this.#clock.now();
    const copyOf = ({ key }: AcquireRequest): string | undefined => this.#invalidations.copyBeside(key);
    const copies = [...new Set(requests.map(copyOf))].filter((copy) => copy !== undefined);
    const heads = new Map<string, ClockHead | undefined>();
    // Each copy of the head comes before the keys of its server, so it is known when they are decided.
    const names = [...copies, ...requests.map(({ key }) => key)];
    const expired: Change<Grant> = { kind: "keep", result: { kind: "expired" } };
    const results = await this.#servers.change<Grant>(names, (index, content, { now, slackMs }) => {
      const name = copies[index];
      if (name !== undefined) {
        heads.set(name, readHead(headOf(content)));
        return expired;
      }
      const request = requests[index - copies.length] as AcquireRequest;
      const copy = copyOf(request);
      const granted = copy === undefined ? origin : this.#invalidations.originOfGrant(origin, heads.get(copy));
      if (granted === undefined || this.#clock.now() - startedAt > times.patienceMs) return expired;
      if (isUnknownFormat(content)) return { kind: "keep", result: { kind: "unknown-format" } };
      const { stored, grant } = transitions.acquire(
        storedEntryOf(content),
        request,
        newTokens(1, holder).toString("latin1"),
        withSlack(times, slackMs),
        granted,
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
    const grants = results.slice(copies.length);
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

  async remove(keys: readonly string[]): Promise<void> {
    const results = await this.#servers.change<void>(keys, (_, content) =>
      content === undefined ? { kind: "keep", result: undefined } : put(undefined, undefined),
    );
    throwIfAnyFailed(results);
  }

  async softInvalidate(keys: readonly string[]): Promise<void> {
    const results = await this.#servers.change<void>(keys, (_, content) => {
      const stored = storedEntryOf(content);
      return stored === undefined
        ? { kind: "keep", result: undefined }
        : put(transitions.softInvalidate(stored), undefined);
    });
    throwIfAnyFailed(results);
  }

  open(names: StoreNames): Cancel {
    if (this.#clockName !== "" && this.#clockName !== names.clock)
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        "createCache: `store`: expected a store that no cache with another `prefix` uses, got one in use; create a memcachedStore for each prefix",
      );
    this.#clockName = names.clock;
    [this.#settings = ""] = this.#servers.pinToEach(names.settings).values();
    this.#invalidations.open(names.clock);
    return () => undefined;
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

const settingsOf = (content: Content | undefined): Uint8Array | undefined =>
  content?.kind === "settings" ? content.content : undefined;

const isUnknownFormat = (content: Content | undefined): boolean => content !== undefined && content.kind !== "entry";
