import { randomBytes } from "node:crypto";
import {
  type AcquireRequest,
  appendToClock,
  type Cancel,
  type ClockOrigin,
  type Grant,
  HEAD_BYTES,
  type Hold,
  type LeaseTimes,
  type Reading,
  type Release,
  readHead,
  readStoredEntry,
  type Store,
  type StoredClock,
  type StoredEntry,
  type StoreListener,
  type StoreNames,
  type StoreOutcome,
  type StoreRead,
  type StoreRequest,
  transitions,
  writeStoredEntry,
} from "graphql-cached/store";
import type { Item, MapServer } from "./map-server.js";

/** The decision about one name: its new item, or no change, and the result for the caller. */
type Change<Result> = { readonly result: Result; readonly next?: Item | undefined; readonly isWrite: boolean };

/** The size of the log of the clock beyond which it loses its older half. */
const MAX_LOG_BYTES = 256 * 1024;
const MAX_RACES = 100;

/** A store on a MapServer. Every operation is a read, a decision by `transitions`, and a compare-and-set. */
export function mapStore(server: MapServer): Store {
  return new MapStore(server);
}

class MapStore implements Store {
  readonly name = "map";
  readonly #server: MapServer;
  #clockName = "";

  constructor(server: MapServer) {
    this.#server = server;
  }

  async read(keys: readonly string[]): Promise<StoreRead> {
    const [clock, ...entries] = await Promise.all([this.#clockName, ...keys].map((name) => this.#server.get(name)));
    const now = this.#server.now();
    return {
      readings: entries.map((item): Reading => ({ kind: "read", entry: entryOf(item), now })),
      clock: clockOf(clock)?.head,
    };
  }

  /** The head and the log are one item, so they never differ. */
  async appendClock(records: readonly Buffer[], lostEpoch?: string): Promise<Buffer> {
    const [head] = await this.#change<Buffer>([this.#clockName], (_, item, now) => {
      const before = clockOf(item);
      const clock = appendToClock(before, records, Math.floor(now * 1000), MAX_LOG_BYTES, lostEpoch);
      return clock === before ? keep(clock.head) : write(clock.head, clockItem(clock));
    });
    return head as Buffer;
  }

  async readClock(from: number): Promise<Buffer | undefined> {
    return clockOf(await this.#server.get(this.#clockName))?.log.subarray(from);
  }

  async acquire(requests: readonly AcquireRequest[], times: LeaseTimes, origin: ClockOrigin): Promise<Grant[]> {
    const notAfter = this.#server.now() + times.patienceMs;
    const keys = requests.map(({ key }) => key);
    const head = readHead(clockOf(await this.#server.get(this.#clockName))?.head);
    if (head?.epoch !== origin.epoch) return keys.map(() => ({ kind: "expired" }));
    const granted = { epoch: head.epoch, position: Math.min(head.position, origin.position) };
    return this.#change(keys, (index, item, now): Change<Grant> => {
      if (now > notAfter) return keep({ kind: "expired" });
      const before = entryOf(item);
      if (item !== undefined && before === undefined) return keep({ kind: "unknown-format" });
      const request = requests[index] as AcquireRequest;
      const { stored, grant } = transitions.acquire(before, request, randomId(), times, granted, now);
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

  async remove(keys: readonly string[], { soft = false } = {}): Promise<void> {
    await this.#change(keys, (_, item) => {
      const before = entryOf(item);
      if (!soft) return write(undefined, undefined);
      return before === undefined ? keep(undefined) : write(undefined, itemOf(transitions.softInvalidate(before)));
    });
  }

  open({ clock }: StoreNames, { wake }: StoreListener): Cancel {
    this.#clockName = clock;
    return this.#server.subscribe((name) => wake(name, undefined));
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

/** The clock never expires. */
const NEVER = Number.POSITIVE_INFINITY;

/** The clock is its head, then its log. */
const clockItem = ({ head, log }: StoredClock): Item => ({ bytes: Buffer.concat([head, log]), dropAt: NEVER });
const clockOf = (item: Item | undefined): StoredClock | undefined =>
  item === undefined ? undefined : { head: item.bytes.subarray(0, HEAD_BYTES), log: item.bytes.subarray(HEAD_BYTES) };
