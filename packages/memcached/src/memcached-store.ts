import { CachedError } from "graphql-cached";
import {
  type AcquireRequest,
  appendToCopies,
  type Clock,
  type ClockHead,
  checkOptionNames,
  checkPrefix,
  type Decision,
  decisions,
  describeSetting,
  type Grant,
  type Hold,
  type LeaseTimes,
  laterHead,
  newTokens,
  type Random,
  REPORTS_WANTED_MS,
  type Reading,
  type Release,
  readHead,
  type Store,
  type StoredEntry,
  type StoreOutcome,
  type StoreRequest,
  systemClock,
  systemRandom,
  throwIfAllFailed,
  throwIfAnyFailed,
  transitions,
} from "graphql-cached/store";
import { type Content, headOf, storedEntryOf, writeContent } from "./content.js";
import { hasSeveralServers, type MemcachedClient } from "./memcached-client.js";
import { type Change, keep, put, Server, type ServerTime } from "./server.js";
import { MemcachedClock, Servers } from "./servers.js";

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
  // The first one has the log of the clock: the same one for all processes.
  const serversByName = new Map(
    clients
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, each]) => [name, new Server(each, clock, random)]),
  );
  return storeOn(new Servers(serversByName), clock, maxEntryBytes);
}

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
const METHODS = ["gets", "add", "cas", "cmd"] as const;

function invalid(where: string, expected: string, got: string, remedy: string): CachedError {
  return new CachedError(
    "CACHED_OPTION_INVALID",
    `memcachedStore: ${where}: expected ${expected}, got ${got}; ${remedy}`,
  );
}

function storeOn(servers: Servers, clock: Clock, maxEntryBytes: number): Store {
  const invalidations = new MemcachedClock(servers);
  let reportsName = "";
  let opened: string | undefined;

  const isTooLarge = (stored: StoredEntry): boolean => writeContent({ kind: "entry", stored }).length > maxEntryBytes;

  /**
   * Changes the entries at keys. What failed has the result `otherwise` returns; throws if all did.
   */
  async function changeEach<Item extends { readonly key: string }, Result>(
    items: readonly Item[],
    otherwise: (error: Error) => Result,
    decide: (item: Item, stored: StoredEntry | undefined, time: ServerTime) => Decision<Result>,
  ): Promise<Result[]> {
    const keys = items.map(({ key }) => key);
    const results = await servers.change<Result>(keys, (index, content, time) =>
      changeOf(decide(items[index] as Item, storedEntryOf(content), time)),
    );
    throwIfAllFailed(results);
    return results.map((result) => (result instanceof Error ? otherwise(result) : result));
  }

  /** Replaces a report, or the index of reports, unless `decide` returns undefined. */
  async function swapReport(
    name: string,
    decide: (time: ServerTime, held: Content) => { readonly dropAt: number; readonly content: Uint8Array } | undefined,
  ): Promise<void> {
    const results = await servers.change<void>([name], (_, held, time) => {
      const report = decide(time, held);
      return report === undefined ? keep(undefined) : put({ kind: "report", ...report }, undefined);
    });
    throwIfAnyFailed(results);
  }

  return {
    name: "memcached",
    nodeOf: servers.isOne ? undefined : (name) => servers.idOf(name),
    clockNode: servers.isOne ? undefined : () => servers.idOf(invalidations.logName),
    async read(keys) {
      if (keys.length === 0) return { clock: await invalidations.shown(), readings: [] };
      let head: Buffer | undefined;
      const items = await servers.forEachServer(keys, async (server, names) => {
        // It is known from when the store is opened for a cache.
        const copy = invalidations.on(server);
        const { contents, now } = await server.read(copy === undefined ? names : [...names, copy]);
        head = laterHead(head, headOf(contents[names.length]));
        return names.map((_, index) => ({ content: contents[index], now }));
      });
      throwIfAllFailed(items);
      const readings = items.map((item): Reading => {
        if (item instanceof Error) return { kind: "failed", error: item };
        return { kind: "read", entry: storedEntryOf(item.content), now: item.now };
      });
      return { clock: head, readings };
    },
    appendClock: (records, lostEpoch) => appendToCopies(invalidations, records, lostEpoch),
    readClock: (from) => invalidations.read(from),
    async acquire(requests, times, origin, holder) {
      const startedAt = clock.now();
      const copies = [...new Set(requests.map(({ key }) => invalidations.copyBeside(key)))].filter(
        (copy) => copy !== undefined,
      );
      const heads = new Map<string, ClockHead | undefined>();
      // Each copy of the head comes before the keys of its server, so it is known when they are
      // decided.
      const names = [...copies, ...requests.map(({ key }) => key)];
      const results = await servers.change<Grant>(names, (index, content, { now, slackMs }) => {
        const name = copies[index];
        if (name !== undefined) {
          heads.set(name, readHead(headOf(content)));
          return keep({ kind: "expired" });
        }
        const request = requests[index - copies.length] as AcquireRequest;
        const copy = invalidations.copyBeside(request.key);
        const granted = copy === undefined ? origin : invalidations.originOfGrant(origin, heads.get(copy));
        if (granted === undefined || clock.now() - startedAt > times.patienceMs) return keep({ kind: "expired" });
        if (content !== undefined && content.kind !== "entry") return keep({ kind: "unknown-format" });
        const token = newTokens(1, holder)[0] as string;
        const { stored, grant } = transitions.acquire(
          storedEntryOf(content),
          request,
          token,
          withSlack(times, slackMs),
          granted,
          now,
        );
        if (grant.kind === "granted") return changeOf({ result: grant, change: { to: stored } });
        // The flag that processes wait is not stored, since there is no message to send when the
        // lease ends.
        if (grant.kind !== "busy") return keep(grant);
        return keep({ ...grant, remainingMs: Math.min(grant.remainingMs, times.leaseMs) });
      });
      const grants = results.slice(copies.length);
      throwIfAllFailed(grants);
      return grants.map((grant) => (grant instanceof Error ? { kind: "unavailable", error: grant } : grant));
    },
    storeValues: (requests) =>
      changeEach<StoreRequest, StoreOutcome>(
        requests,
        () => "unavailable",
        (request, before, { now, slackMs }) => decisions.storeValue(before, request, now, isTooLarge, slackMs),
      ),
    renew: (holds, times) =>
      changeEach<Hold, boolean>(
        holds,
        // A lease whose state is unknown counts as held; the next renewal tries again.
        () => true,
        (hold, before, { now, slackMs }) => decisions.renew(before, hold, withSlack(times, slackMs), now),
      ),
    release: (releases) =>
      changeEach<Release, boolean>(
        releases,
        () => false,
        (end, before, { now, slackMs }) => decisions.release(before, { ...end, holdMs: end.holdMs + slackMs }, now),
      ),
    async remove(keys, { soft = false } = {}) {
      throwIfAnyFailed(
        await servers.change<void>(keys, (_, content) => {
          if (soft) return changeOf(decisions.softInvalidate(storedEntryOf(content)));
          return content === undefined ? keep(undefined) : put(undefined, undefined);
        }),
      );
    },
    async writeReport(process, report, ttlMs) {
      let isWanted = false;
      await swapReport(`${reportsName}:${process}`, ({ now }) => ({ dropAt: now + ttlMs, content: report }));
      await swapReport(reportsName, ({ now }, held) => {
        const { wantedUntil, processes } = readIndex(held);
        isWanted = now < wantedUntil;
        // Written anew only from time to time: all processes share it.
        const [, knownUntil = 0] = processes.find(([known]) => known === process) ?? [];
        if (knownUntil > now + ttlMs / 2) return undefined;
        const others = processes.filter(([known, dropAt]) => known !== process && dropAt > now);
        return indexOf(now, { wantedUntil, processes: [...others.slice(1 - MAX_REPORTS), [process, now + ttlMs]] });
      });
      return isWanted;
    },
    async readReports() {
      let index = NO_REPORTS;
      await swapReport(reportsName, ({ now }, held) => {
        index = readIndex(held);
        return index.wantedUntil > now + REPORTS_WANTED_MS / 2
          ? undefined
          : indexOf(now, { ...index, wantedUntil: now + REPORTS_WANTED_MS });
      });
      const names = index.processes.map(([process]) => `${reportsName}:${process}`);
      const found = await servers.forEachServer(names, async (server, own) => (await server.read(own)).contents);
      return found.flatMap((report) => (report instanceof Error || report?.kind !== "report" ? [] : [report.content]));
    },
    open(names) {
      checkPrefix(opened, names.clock, "memcachedStore");
      opened = names.clock;
      reportsName = names.reports;
      invalidations.open(names.clock);
      return () => undefined;
    },
  };
}

/** Returns a decision about an entry as one about a name. */
const changeOf = <Result>({ result, change }: Decision<Result>): Change<Result> => ({
  result,
  change: change && { to: change.to && { kind: "entry", stored: change.to } },
});

/**
 * Extends leases by the uncertainty of this process's time, so that one that knows it better does
 * not see them end early.
 */
const withSlack = (times: LeaseTimes, slackMs: number): LeaseTimes => ({ ...times, leaseMs: times.leaseMs + slackMs });

/** The most processes whose reports are listed. */
const MAX_REPORTS = 1_000;

/** Until when reports are wanted, and which processes have left one, and until when. */
interface ReportIndex {
  readonly wantedUntil: number;
  readonly processes: readonly (readonly [process: string, dropAt: number])[];
}

const NO_REPORTS: ReportIndex = { wantedUntil: 0, processes: [] };

function readIndex(held: Content): ReportIndex {
  try {
    const { wantedUntil, processes } = JSON.parse(
      held?.kind === "report" ? Buffer.from(held.content).toString() : "",
    ) as ReportIndex;
    const isValid = ([process, dropAt]: ReportIndex["processes"][number]): boolean =>
      typeof process === "string" && typeof dropAt === "number";
    return { wantedUntil: Number(wantedUntil), processes: processes.filter(isValid) };
  } catch {
    return NO_REPORTS;
  }
}

const indexOf = (now: number, index: ReportIndex): { readonly dropAt: number; readonly content: Uint8Array } => ({
  dropAt: Math.max(now + REPORTS_WANTED_MS, ...index.processes.map(([, dropAt]) => dropAt)),
  content: Buffer.from(JSON.stringify(index)),
});
