import { randomBytes } from "node:crypto";
import {
  type AcquireRequest,
  type Cancel,
  type ControlReading,
  type Grant,
  type Hold,
  isWriteInProgress,
  type LeaseTimes,
  type LogPosition,
  type Reading,
  type Release,
  readStoredEntry,
  type Store,
  type StoredEntry,
  type StoreNames,
  type StoreOutcome,
  type StoreRead,
  type StoreRequest,
  type TagVersion,
  transitions,
  type VersionedControl,
  type Wake,
  writeStoredEntry,
} from "graphql-cached/store";
import type { Item, MapServer } from "./map-server.js";

/** The decision about one name: its new item, or no change, and the result for the caller. */
type Change<Result> = { readonly result: Result; readonly next?: Item | undefined; readonly isWrite: boolean };

interface InvalidationLog {
  /** A log that was lost and started again has another id. */
  readonly logId: string;
  /** The time of the last invalidation. It never decreases. */
  readonly at: number;
  /** Invalidations up to this instant may be missing from `tags`. */
  readonly forgottenAt: number;
  /** The longest retention that any process has requested. */
  readonly retentionMs: number;
  readonly tags: Readonly<Record<string, number>>;
}

const VERSION_BYTES = 16;
const MAX_RACES = 100;

/** A store on a MapServer. Every operation is a read, a decision by `transitions`, and a compare-and-set. */
export function mapStore(server: MapServer): Store {
  return new MapStore(server);
}

class MapStore implements Store {
  readonly name = "map";
  readonly isShared = false;
  readonly #server: MapServer;
  #logName = "";
  #controlName = "";

  constructor(server: MapServer) {
    this.#server = server;
  }

  async read(keys: readonly string[], tags: readonly string[]): Promise<StoreRead> {
    const [entries, versions, control] = await Promise.all(
      [keys, tags, [this.#controlName]].map((names) => Promise.all(names.map((name) => this.#server.get(name)))),
    );
    const now = this.#server.now();
    return {
      readings: (entries ?? []).map((item): Reading => ({ kind: "read", entry: entryOf(item), now })),
      tagVersions: (versions ?? []).map(versionOf),
      controlVersion: controlOf(control?.[0])?.version,
    };
  }

  controlCopies(): readonly string[] {
    return [this.#controlName];
  }

  async readControl(copies: readonly string[]): Promise<ControlReading[]> {
    const items = await Promise.all(copies.map((copy) => this.#server.get(copy)));
    return items.map((item) => ({ kind: "read", record: controlOf(item) }));
  }

  /** The version is the time, so that a later one is larger, and bytes that never come back. */
  async replaceControl(expected: string | undefined, content: Uint8Array): Promise<string | undefined> {
    const unique = randomBytes(8);
    const [version] = await this.#change<string | undefined>([this.#controlName], (_, item, now) => {
      const current = controlOf(item)?.version;
      if (current !== expected) return keep(undefined);
      const last = current === undefined ? 0n : Buffer.from(current, "latin1").readBigUInt64BE();
      const at = Buffer.alloc(8);
      at.writeBigUInt64BE(BigInt(Math.floor(now * 1000)) > last ? BigInt(Math.floor(now * 1000)) : last + 1n);
      const next = Buffer.concat([at, unique]).toString("latin1");
      return write(next, controlItem({ version: next, content }));
    });
    return version;
  }

  async raiseControl(copies: readonly string[], record: VersionedControl): Promise<void> {
    await this.#change(copies, (_, item) => {
      const current = controlOf(item);
      return current !== undefined && current.version >= record.version
        ? keep(undefined)
        : write(undefined, controlItem(record));
    });
  }

  ensureTags(tags: readonly string[], ttlMs = Number.POSITIVE_INFINITY): Promise<string[]> {
    return this.#change(tags, (_, item, now) => {
      const version = versionOf(item);
      const isKept = item !== undefined && item.dropAt >= now + ttlMs;
      if (version !== undefined && (isKept || isWriteInProgress(version))) return keep(version);
      const bytes = version === undefined ? randomBytes(VERSION_BYTES) : Buffer.from(version, "latin1");
      return write(bytes.toString("latin1"), { bytes, dropAt: now + 2 * ttlMs });
    });
  }

  acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<Grant[]> {
    const notAfter = this.#server.now() + times.patienceMs;
    const keys = requests.map(({ key }) => key);
    return this.#change(keys, (index, item, now): Change<Grant> => {
      if (now > notAfter) return keep({ kind: "expired" });
      const before = entryOf(item);
      if (item !== undefined && before === undefined) return keep({ kind: "unknown-format" });
      const request = requests[index] as AcquireRequest;
      const { stored, grant } = transitions.acquire(before, request, randomId(), times, now);
      return stored === before ? keep(grant) : write(grant, itemOf(stored));
    });
  }

  storeValues(storeRequests: readonly StoreRequest[]): Promise<StoreOutcome[]> {
    const keys = storeRequests.map(({ key }) => key);
    return this.#change(keys, (index, item, now) => {
      const request = storeRequests[index] as StoreRequest;
      const { stored, outcome } = transitions.storeValue(entryOf(item), request, now);
      return outcome === "refused" ? keep(outcome) : write(outcome, itemOf(stored));
    });
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    const keys = holds.map(({ key }) => key);
    return this.#change(keys, (index, item, now) => {
      const stored = transitions.renew(entryOf(item), holds[index] as Hold, times, now);
      return stored === undefined ? keep(false) : write(true, itemOf(stored));
    });
  }

  release(releases: readonly Release[]): Promise<boolean[]> {
    const keys = releases.map(({ key }) => key);
    return this.#change(keys, (index, item, now) => {
      const { isHeld, stored } = transitions.release(entryOf(item), releases[index] as Release, now);
      return isHeld ? write(true, itemOf(stored)) : keep(false);
    });
  }

  async invalidate(keys: readonly string[]): Promise<void> {
    await this.#change(keys, (_, item) => (isMark(item) ? keep(undefined) : write(undefined, undefined)));
  }

  async softInvalidate(keys: readonly string[]): Promise<void> {
    await this.#change(keys, (_, item) => {
      const before = entryOf(item);
      if (before === undefined || isMark(item)) return keep(undefined);
      return write(undefined, itemOf(transitions.softInvalidate(before)));
    });
  }

  /** The log first: a load reads versions, then the log, so it misses at most one of the two changes. */
  async invalidateTags(tags: readonly string[], logRetentionMs: number, isSoft = false): Promise<void> {
    await this.#log(tags, logRetentionMs);
    await this.#change(tags, (_, item) => {
      if (item === undefined || isMark(item)) return keep(undefined);
      const hard = isSoft ? item.bytes.subarray(0, VERSION_BYTES) : Buffer.alloc(0);
      return write(undefined, { bytes: Buffer.concat([hard, randomBytes(VERSION_BYTES)]), dropAt: item.dropAt });
    });
  }

  invalidationLogs(): readonly string[] {
    return [this.#logName];
  }

  async readLogPosition([log]: readonly string[], logRetentionMs: number): Promise<LogPosition> {
    return log === undefined ? {} : { [log]: await this.#log([], logRetentionMs) };
  }

  async areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    const log = logOf(await this.#server.get(this.#logName));
    const [logId, at] = position[this.#logName]?.split(" ") ?? [];
    return (
      log !== undefined &&
      log.logId === logId &&
      log.forgottenAt <= Number(at) &&
      tags.every((tag) => (log.tags[tag] ?? Number.NEGATIVE_INFINITY) <= Number(at))
    );
  }

  async beginWrite(names: readonly string[], writer: string, writeGuardMs: number): Promise<void> {
    await this.#change(names, (_, item, now) =>
      write(undefined, itemOf(transitions.beginWrite(entryOf(item), writer, writeGuardMs, now))),
    );
  }

  async endWrite(names: readonly string[], writer: string): Promise<void> {
    await this.#change(names, (_, item) => {
      const mark = isMark(item) ? entryOf(item) : undefined;
      return mark === undefined ? keep(undefined) : write(undefined, itemOf(transitions.endWrite(mark, writer)));
    });
  }

  open({ invalidationLog, controlRecord }: StoreNames, wake: Wake): Cancel {
    this.#logName = invalidationLog;
    this.#controlName = controlRecord;
    return this.#server.subscribe((name) => wake(name, undefined));
  }

  /** Adds `tags` to the log, starts one if there is none, and returns its end. */
  async #log(tags: readonly string[], logRetentionMs: number): Promise<string> {
    const [end] = await this.#change<string>([this.#logName], (_, item, now) => {
      const log = logOf(item) ?? {
        logId: randomBytes(8).toString("hex"),
        at: 0,
        forgottenAt: 0,
        retentionMs: 0,
        tags: {},
      };
      const retentionMs = Math.max(log.retentionMs, logRetentionMs);
      const at = tags.length === 0 ? log.at : Math.max(now, log.at + 1);
      const known = Object.entries(log.tags);
      const isRecent = ([, changedAt]: [string, number]): boolean => changedAt >= at - retentionMs;
      const dropped = known.filter((one) => !isRecent(one)).map(([, changedAt]) => changedAt);
      const next: InvalidationLog = {
        logId: log.logId,
        at,
        forgottenAt: Math.max(log.forgottenAt, ...dropped),
        retentionMs,
        tags: Object.fromEntries([...known.filter(isRecent), ...tags.map((tag) => [tag, at] as const)]),
      };
      return write(`${log.logId} ${at}`, { bytes: Buffer.from(JSON.stringify(next)), dropAt: now + 10 * retentionMs });
    });
    return end as string;
  }

  /** Decides about every name by itself, and again if it was written in between. */
  #change<Result>(
    names: readonly string[],
    decide: (index: number, item: Item | undefined, now: number) => Change<Result>,
  ): Promise<Result[]> {
    return Promise.all(
      names.map(async (name, index) => {
        for (let race = 0; race < MAX_RACES; race++) {
          const item = await this.#server.get(name);
          const { result, next, isWrite } = decide(index, item, this.#server.now());
          if (!isWrite) return result;
          if (!(await this.#server.compareAndSet(name, item, next))) continue;
          if (entryOf(item)?.hasWaiters && !entryOf(next)?.hasWaiters) this.#server.publish(name);
          return result;
        }
        throw new Error("the item changes faster than it can be written");
      }),
    );
  }
}

const keep = <Result>(result: Result): Change<Result> => ({ result, isWrite: false });
const write = <Result>(result: Result, next: Item | undefined): Change<Result> => ({ result, next, isWrite: true });
const randomId = (): string => randomBytes(16).toString("latin1");

const entryOf = (item: Item | undefined): StoredEntry | undefined =>
  item === undefined ? undefined : readStoredEntry(item.bytes, item.dropAt);
const itemOf = (stored: StoredEntry | undefined): Item | undefined =>
  stored === undefined ? undefined : { bytes: writeStoredEntry(stored), dropAt: stored.dropAt };
const isMark = (item: Item | undefined): boolean => entryOf(item)?.state === "write-in-progress";

/** A version has 16 characters, or 32 after a soft invalidation. Any other length says that a write is in progress. */
function versionOf(item: Item | undefined): TagVersion {
  const version = item?.bytes.toString("latin1");
  if (version !== undefined && !isWriteInProgress(version)) return version;
  return isMark(item) ? "write in progress" : undefined;
}

/** The control record is its version, then its content. It never expires. */
const controlItem = ({ version, content }: VersionedControl): Item => ({
  bytes: Buffer.concat([Buffer.from(version, "latin1"), content]),
  dropAt: Number.POSITIVE_INFINITY,
});
const controlOf = (item: Item | undefined): VersionedControl | undefined =>
  item === undefined
    ? undefined
    : {
        version: item.bytes.toString("latin1", 0, VERSION_BYTES),
        content: item.bytes.subarray(VERSION_BYTES),
      };

const logOf = (item: Item | undefined): InvalidationLog | undefined =>
  item === undefined ? undefined : (JSON.parse(item.bytes.toString()) as InvalidationLog);
