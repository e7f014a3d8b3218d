import { deepStrictEqual, notStrictEqual, ok, strictEqual } from "node:assert";
import {
  type ClockHead,
  type ClockLog,
  type ClockRecord,
  LOG_HEAD_BYTES,
  readHead,
  readLog,
  readRecords,
  writeRecord,
} from "../../core/store/clock-log.js";
import type { Entry } from "../../core/store/entry.js";
import { HISTORY_OVERHEAD_BYTES, type HistoryLimits } from "../../core/store/history.js";
import type { ReportStore } from "../../core/store/report-store.js";
import type {
  AcquireRequest,
  ClockOrigin,
  Grant,
  LeaseTimes,
  Release,
  Store,
  StoreReport,
  StoreRequest,
} from "../../core/store/store.js";

/** A store under test. */
export interface ConformanceSubject {
  /** The store, already opened with `store.open`. */
  readonly store: Store;
  /** All calls of the `wake` function that was passed to `store.open`, in order. */
  readonly woken: { key: string | undefined; entry: Entry | undefined; gen?: string | undefined }[];
  /** Resolves when at least `ms` milliseconds have passed on the store's clock. */
  elapse(ms: number): Promise<void>;
}

/**
 * A feature that a store may lack. `wakes`: the store has messages; without them waiters poll. `reports`: it keeps
 * reports of processes; without it the inspection shows one process only. `history`: it keeps the history of
 * invalidations; without it each process knows its own.
 */
export type StoreFeature = "wakes" | "reports" | "history";

/** One rule that every store must keep. */
export interface ConformanceCase {
  /** The rule as a sentence, to be used as the title of the test. */
  readonly title: string;
  /** A store without this feature cannot keep the rule and may skip the case. */
  readonly needs?: StoreFeature;
  /**
   * Rejects with an AssertionError if the store breaks the rule. All names used begin with `name`;
   * give each case a unique one, so that all cases can share a server.
   */
  run(subject: ConformanceSubject, name: string): Promise<void>;
}

const TIMES: LeaseTimes = { leaseMs: 5_000, graceMs: 5_000, patienceMs: 5_000 };
/** A lease short enough to wait for on a real server. */
const BRIEF: LeaseTimes = { leaseMs: 40, graceMs: 5_000, patienceMs: 5_000 };
const BODY = Buffer.from("body");

type Granted = Extract<Grant, { kind: "granted" }>;

const leaseRequestOf = (key: string, more: Partial<AcquireRequest> = {}): AcquireRequest => ({
  key,
  oldestPosition: 0,
  supersededAt: 0,
  ...more,
});

/** A lease request, with what its caller knows of the clock in the place of what the store has now. */
interface LeaseOptions extends Partial<AcquireRequest> {
  readonly origin?: ClockOrigin;
}

async function acquire(
  store: Store,
  key: string,
  { origin, ...more }: LeaseOptions = {},
  times: LeaseTimes = TIMES,
): Promise<Grant> {
  const [grant] = await store.acquire([leaseRequestOf(key, more)], times, origin ?? (await headOf(store)));
  return grant as Grant;
}

async function grantOf(
  store: Store,
  key: string,
  options: LeaseOptions = {},
  times: LeaseTimes = TIMES,
): Promise<Granted> {
  const grant = await acquire(store, key, options, times);
  strictEqual(grant.kind, "granted");
  return grant as Granted;
}

/** Returns the head of the clock, which begins if there is none. */
async function headOf(store: Store): Promise<ClockHead> {
  const head = readHead(await store.appendClock([]));
  ok(head, "expected the head of a clock, got something else");
  return head;
}

/** Invalidates subjects of no entry, and returns the head that shows it. */
async function invalidateOther(store: Store, record: Partial<ClockRecord> = {}): Promise<ClockHead> {
  const head = readHead(await store.appendClock([writeRecord({ kind: "hard", subjects: [1], ...record })]));
  ok(head, "expected the head of a clock, got something else");
  return head;
}

async function logOf(store: Store): Promise<ClockLog> {
  const log = readLog(await store.readClock(0));
  ok(log, "expected a log, got something else");
  return log;
}

const storeRequestOf = (key: string, { gen, grantedAt }: Granted, more: Partial<StoreRequest> = {}): StoreRequest => ({
  key,
  gen,
  grantedAt,
  loadMs: 7,
  isNegative: false,
  freshMs: 10_000,
  ttlMs: 60_000,
  body: BODY,
  ...more,
});

const releaseOf = (key: string, { token }: Granted, outcome: Release["outcome"], holdMs = 5_000): Release => ({
  key,
  token,
  outcome,
  holdMs,
  body: BODY,
});

async function acquireAndStore(store: Store, key: string, more: Partial<StoreRequest> = {}): Promise<Granted> {
  const grant = await grantOf(store, key);
  deepStrictEqual(await store.storeValues([storeRequestOf(key, grant, more)]), ["stored"]);
  return grant;
}

async function entryAt(store: Store, key: string): Promise<Entry | undefined> {
  const [reading] = (await store.read([key])).readings;
  ok(reading?.kind === "read");
  return reading.entry;
}

const leaseCases: readonly ConformanceCase[] = [
  {
    title: "grants the lease on an absent key to the first caller and makes the key pending",
    async run({ store }, key) {
      const grant = await grantOf(store, key);
      strictEqual(grant.isTakenOver, false);
      const entry = await entryAt(store, key);
      strictEqual(entry?.state, "pending");
      strictEqual(entry.gen, grant.gen);
    },
  },
  {
    title: "answers busy to all other callers of a leased key, with the lease chain and the remaining time",
    async run({ store }, key) {
      const { gen } = await grantOf(store, key);
      const second = await acquire(store, key);
      ok(second.kind === "busy");
      strictEqual(second.gen, gen);
      ok(second.remainingMs > 0 && second.remainingMs <= TIMES.leaseMs);
    },
  },
  {
    title:
      "lets another caller take over an expired lease, keeping its chain, so that the previous holder may still store its value",
    async run({ store, elapse }, key) {
      const previous = await grantOf(store, key, {}, BRIEF);
      await elapse(BRIEF.leaseMs + 20);
      const next = await grantOf(store, key);
      ok(next.isTakenOver);
      strictEqual(next.gen, previous.gen);
      notStrictEqual(next.token, previous.token);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, previous)]), ["stored"]);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, next)]), ["refused"]);
    },
  },
  {
    title: "gives every lease a unique token",
    async run({ store }, key) {
      const grants = await store.acquire(
        [leaseRequestOf(`${key}:1`), leaseRequestOf(`${key}:2`), leaseRequestOf(`${key}:3`)],
        TIMES,
        await headOf(store),
      );
      strictEqual(new Set(grants.map((grant) => (grant as Granted).token)).size, 3);
    },
  },
  {
    title: "extends a lease only for its holder",
    async run({ store, elapse }, key) {
      const grant = await grantOf(store, key, {}, BRIEF);
      const otherHold = { key, token: "x".repeat(16) };
      deepStrictEqual(await store.renew([{ key, token: grant.token }, otherHold], TIMES), [true, false]);
      await elapse(BRIEF.leaseMs + 20);
      strictEqual((await acquire(store, key)).kind, "busy");
    },
  },
];

const storeCases: readonly ConformanceCase[] = [
  {
    title: "returns a stored value unchanged, with its age counted from the grant of its lease",
    async run({ store }, key) {
      const grant = await acquireAndStore(store, key, { isNegative: true });
      const entry = await entryAt(store, key);
      ok(entry?.state === "value");
      deepStrictEqual(Buffer.from(entry.body), BODY);
      strictEqual(entry.isNegative, true);
      strictEqual(entry.loadMs, 7);
      strictEqual(entry.grantedAt, grant.grantedAt);
      strictEqual(entry.freshUntilAt, grant.grantedAt + 10_000);
      strictEqual(entry.gen, "");
    },
  },
  {
    title: "returns a fresh value instead of a lease, unless the caller has marked that value as superseded",
    async run({ store }, key) {
      const { grantedAt } = await acquireAndStore(store, key);
      const grant = await acquire(store, key);
      ok(grant.kind === "value");
      deepStrictEqual(Buffer.from(grant.entry.body), BODY);
      strictEqual((await acquire(store, key, { supersededAt: grantedAt })).kind, "granted");
    },
  },
  {
    title: "makes a fresh value stale with the lease of a caller that says so, and only then",
    async run({ store }, key) {
      const { grantedAt } = await acquireAndStore(store, key);
      const refresh = await grantOf(store, key, { supersededAt: grantedAt });
      ok(((await entryAt(store, key))?.freshUntilAt ?? 0) > grantedAt);
      deepStrictEqual(await store.release([releaseOf(key, refresh, "abandoned")]), [true]);
      await grantOf(store, key, { supersededAt: grantedAt, endsFreshness: true });
      strictEqual((await entryAt(store, key))?.freshUntilAt, 0);
    },
  },
  {
    title: "keeps a stale value while its refresh holds the lease, and replaces it when the refresh is stored",
    async run({ store }, key) {
      await acquireAndStore(store, key, { freshMs: 0 });
      const refresh = await grantOf(store, key);
      strictEqual((await entryAt(store, key))?.state, "value");
      strictEqual((await acquire(store, key)).kind, "busy");
      deepStrictEqual(await store.storeValues([storeRequestOf(key, refresh, { body: Buffer.from("new") })]), [
        "stored",
      ]);
      deepStrictEqual(Buffer.from((await entryAt(store, key))?.body ?? []), Buffer.from("new"));
    },
  },
  {
    title: "keeps the stored value if the load found it unchanged, and refuses that for an entry without a value",
    async run({ store }, key) {
      await acquireAndStore(store, key, { freshMs: 0, isNegative: true });
      const refresh = await grantOf(store, key);
      const unchanged = { body: undefined, freshMs: 20_000, loadMs: 9 };
      deepStrictEqual(await store.storeValues([storeRequestOf(key, refresh, unchanged)]), ["stored"]);
      const entry = await entryAt(store, key);
      ok(entry?.state === "value" && entry.gen === "");
      deepStrictEqual(Buffer.from(entry.body), BODY);
      deepStrictEqual(
        [entry.isNegative, entry.hasRefreshFailed, entry.loadMs, entry.grantedAt, entry.freshUntilAt],
        [true, false, 9, refresh.grantedAt, refresh.grantedAt + 20_000],
      );
      strictEqual((await acquire(store, key)).kind, "value");
      await store.remove([key]);
      const pending = await grantOf(store, key);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, pending, unchanged)]), ["refused"]);
      strictEqual((await entryAt(store, key))?.state, "pending");
    },
  },
  {
    title: "stores nothing for a value whose ttl is 0: it ends the lease and removes the value that it replaces",
    async run({ store }, key) {
      const none = { freshMs: 0, ttlMs: 0 };
      deepStrictEqual(await store.storeValues([storeRequestOf(key, await grantOf(store, key), none)]), ["expired"]);
      strictEqual(await entryAt(store, key), undefined);
      await acquireAndStore(store, key, { freshMs: 0 });
      deepStrictEqual(await store.storeValues([storeRequestOf(key, await grantOf(store, key), none)]), ["expired"]);
      strictEqual(await entryAt(store, key), undefined);
      strictEqual((await acquire(store, key)).kind, "granted");
    },
  },
  {
    title: "stores a value without a ttl until it is removed",
    async run({ store }, key) {
      await acquireAndStore(store, key, { freshMs: 0, ttlMs: undefined });
      strictEqual((await entryAt(store, key))?.state, "value");
      await store.remove([key]);
      strictEqual(await entryAt(store, key), undefined);
    },
  },
  {
    title: "refuses a late store after its key was removed",
    async run({ store }, key) {
      const grant = await grantOf(store, key);
      await store.remove([key]);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, grant)]), ["refused"]);
      strictEqual(await entryAt(store, key), undefined);
    },
  },
  {
    title: "refuses a late store after its key was removed, when another caller has been granted the lease since",
    async run({ store }, key) {
      const old = await grantOf(store, key);
      await store.remove([key]);
      const grant = await grantOf(store, key);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, old)]), ["refused"]);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, grant)]), ["stored"]);
    },
  },
  {
    title: "refuses a late refresh after its key was removed with the stale value",
    async run({ store }, key) {
      await acquireAndStore(store, key, { freshMs: 0 });
      const refresh = await grantOf(store, key);
      await store.remove([key]);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, refresh)]), ["refused"]);
      strictEqual(await entryAt(store, key), undefined);
    },
  },
  {
    title: "keeps a value after a soft invalidation, marked as stale, and grants the next lease request for it",
    async run({ store }, key) {
      await acquireAndStore(store, key);
      await store.softInvalidate([key]);
      const entry = await entryAt(store, key);
      deepStrictEqual([entry?.state, entry?.freshUntilAt, entry?.gen], ["value", 0, ""]);
      deepStrictEqual(Buffer.from(entry?.body ?? []), BODY);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, await grantOf(store, key))]), ["stored"]);
      ok(((await entryAt(store, key))?.freshUntilAt ?? 0) > 0);
    },
  },
  {
    title: "refuses late stores after a soft invalidation, which ends the lease on a value and removes a pending entry",
    async run({ store }, key) {
      const pending = await grantOf(store, key);
      await store.softInvalidate([key]);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, pending)]), ["refused"]);
      strictEqual(await entryAt(store, key), undefined);
      await acquireAndStore(store, key, { freshMs: 0 });
      const refresh = await grantOf(store, key);
      await store.softInvalidate([key]);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, refresh)]), ["refused"]);
      strictEqual((await entryAt(store, key))?.state, "value");
    },
  },
  {
    title: "stores the other values of a batch when one of them is refused",
    async run({ store }, key) {
      const keys = [`${key}:1`, `${key}:2`, `${key}:3`];
      const grants = (await store.acquire(
        keys.map((name) => leaseRequestOf(name)),
        TIMES,
        await headOf(store),
      )) as Granted[];
      await store.remove([`${key}:2`]);
      const requests = keys.map((name, index) => storeRequestOf(name, grants[index] as Granted));
      deepStrictEqual(await store.storeValues(requests), ["stored", "refused", "stored"]);
    },
  },
  {
    title: "refuses a second store under the same lease",
    async run({ store }, key) {
      const grant = await acquireAndStore(store, key);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, grant)]), ["refused"]);
    },
  },
  {
    title: "does not store a value whose ttl is over on arrival, and frees its lease",
    async run({ store, elapse }, key) {
      const grant = await grantOf(store, key);
      await elapse(30);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, grant, { freshMs: 10, ttlMs: 10 })]), ["expired"]);
      strictEqual((await acquire(store, key)).kind, "granted");
    },
  },
  {
    title: "drops a value at the end of its ttl",
    async run({ store, elapse }, key) {
      await acquireAndStore(store, key, { freshMs: 30, ttlMs: 50 });
      await elapse(80);
      strictEqual(await entryAt(store, key), undefined);
    },
  },
];

const releaseCases: readonly ConformanceCase[] = [
  {
    title: "returns the failure of a load to all callers until its hold time is over, and then grants the lease again",
    async run({ store, elapse }, key) {
      const grant = await grantOf(store, key);
      deepStrictEqual(await store.release([releaseOf(key, grant, "failed", 60)]), [true]);
      const shared = await acquire(store, key);
      ok(shared.kind === "failed");
      deepStrictEqual(Buffer.from(shared.body), BODY);
      await elapse(90);
      strictEqual((await acquire(store, key)).kind, "granted");
    },
  },
  {
    title: "returns a stale value for the hold time after its refresh has failed",
    async run({ store }, key) {
      await acquireAndStore(store, key, { freshMs: 0 });
      deepStrictEqual(await store.release([releaseOf(key, await grantOf(store, key), "failed")]), [true]);
      const entry = await entryAt(store, key);
      ok(entry?.state === "value" && entry.hasRefreshFailed && entry.gen === "");
      deepStrictEqual(Buffer.from(entry.body), BODY);
      strictEqual((await acquire(store, key)).kind, "value");
    },
  },
  {
    title: "replaces a stale value by a failure that says that it is gone, and keeps one that is still fresh",
    async run({ store }, key) {
      const { grantedAt } = await acquireAndStore(store, key);
      const early = await grantOf(store, key, { supersededAt: grantedAt });
      deepStrictEqual(await store.release([releaseOf(key, early, "gone")]), [true]);
      strictEqual((await acquire(store, key)).kind, "value");
      await store.softInvalidate([key]);
      deepStrictEqual(await store.release([releaseOf(key, await grantOf(store, key), "gone")]), [true]);
      const shared = await acquire(store, key);
      ok(shared.kind === "failed");
      deepStrictEqual(Buffer.from(shared.body), BODY);
    },
  },
  {
    title: "grants no lease on an uncacheable key until its hold time is over",
    async run({ store, elapse }, key) {
      const release = releaseOf(key, await grantOf(store, key), "uncacheable", 300);
      await store.release([release]);
      strictEqual((await acquire(store, key)).kind, "uncacheable");
      const body = (await entryAt(store, key))?.body;
      deepStrictEqual(body === undefined ? undefined : Buffer.from(body), Buffer.from(release.body));
      await elapse(330);
      strictEqual((await acquire(store, key)).kind, "granted");
    },
  },
  {
    title: "frees an abandoned lease at once, and lets only its holder abandon it",
    async run({ store }, key) {
      const grant = await grantOf(store, key);
      deepStrictEqual(await store.release([releaseOf(key, { ...grant, token: "x".repeat(16) }, "abandoned")]), [false]);
      deepStrictEqual(await store.release([releaseOf(key, grant, "abandoned")]), [true]);
      strictEqual((await acquire(store, key)).kind, "granted");
    },
  },
];

/** More than any log may hold before it drops its older records. */
const MAX_LOG_BYTES = 32 * 1024 * 1024;

/** The cases share the clock of the store, so each goes on from what it finds. */
const clockCases: readonly ConformanceCase[] = [
  {
    title: "begins the invalidation clock if there is none, and changes nothing without records",
    async run({ store }) {
      const bytes = await store.appendClock([]);
      ok(readHead(bytes));
      deepStrictEqual(await store.appendClock([]), bytes);
      const log = await logOf(store);
      const head = await headOf(store);
      deepStrictEqual([log.epoch, log.floor, log.beginsAt], [head.epoch, head.floor, head.beginsAt]);
      deepStrictEqual([log.records.at(-1)?.position, log.records.at(-1)?.nonce], [head.position, head.nonce]);
    },
  },
  {
    title: "shows the head of the last invalidation in every read, whatever is read",
    async run({ store }, key) {
      const names = Array.from({ length: 20 }, (_, nth) => `${key}:${nth}`);
      for (let nth = 1; nth <= 2; nth++) {
        const head = await invalidateOther(store);
        for (const name of names) deepStrictEqual(readHead((await store.read([name])).clock), head);
        deepStrictEqual(readHead((await store.read([])).clock), head);
        deepStrictEqual(readHead((await store.read(names)).clock), head);
      }
    },
  },
  {
    title: "tells who watches the clock of the heads of invalidations, if it can, until that is ended",
    needs: "wakes",
    async run({ store, elapse }) {
      if (store.watchClock === undefined) return;
      const heard: (ClockHead | undefined)[] = [];
      const stop = store.watchClock((head) => void heard.push(readHead(head)));
      // Messages are hints, and the first may come before it is known who listens.
      let head = await invalidateOther(store);
      const found = (): ClockHead | undefined => heard.find((one) => one?.nonce === head.nonce);
      for (let nth = 0; nth < 100 && found() === undefined; nth++) {
        head = await invalidateOther(store);
        await elapse(20);
      }
      deepStrictEqual(found(), head);
      stop();
      await elapse(100);
      heard.length = 0;
      await invalidateOther(store);
      await elapse(100);
      deepStrictEqual(heard, []);
    },
  },
  {
    title: "gives every invalidation a later position than all before, in the same epoch",
    async run({ store }) {
      const heads = [await headOf(store)];
      for (let nth = 1; nth <= 5; nth++) heads.push(await invalidateOther(store));
      strictEqual(new Set(heads.map(({ epoch }) => epoch)).size, 1);
      for (const [nth, { position }] of heads.entries())
        ok(position > (heads[nth - 1]?.position ?? 0), `position ${nth} is not later`);
    },
  },
  {
    title: "appends the records of one call in their order, with all that they contain",
    async run({ store }) {
      const before = await headOf(store);
      const writer = "writer 1";
      const records: readonly ClockRecord[] = [
        { kind: "hard", subjects: [1, 2 ** 52 - 1] },
        { kind: "soft", subjects: [] },
        { kind: "begin", subjects: [3], writer, guardMs: 1_234 },
        { kind: "end", subjects: [3], writer },
      ];
      const head = readHead(await store.appendClock(records.map(writeRecord)));
      const appended = (await logOf(store)).records.filter(({ position }) => position > before.position);
      deepStrictEqual(
        appended.map(({ kind, subjects, writer, guardMs }) => [kind, subjects, writer, guardMs]),
        records.map(({ kind, subjects, writer = "", guardMs = 0 }) => [kind, subjects, writer, guardMs]),
      );
      for (const [nth, { position }] of appended.entries())
        ok(position > (appended[nth - 1]?.position ?? before.position), `position ${nth} is not later`);
      deepStrictEqual([appended.at(-1)?.position, appended.at(-1)?.nonce], [head?.position, head?.nonce]);
    },
  },
  {
    title: "returns what was appended to the log after the end that an earlier head shows",
    async run({ store }) {
      const before = await headOf(store);
      const after = await invalidateOther(store, { subjects: [7] });
      strictEqual(after.beginsAt, before.beginsAt);
      const bytes = await store.readClock(LOG_HEAD_BYTES + before.endsAt - before.beginsAt);
      deepStrictEqual(
        readRecords(bytes ?? Buffer.alloc(0))?.map(({ position, nonce, subjects }) => [position, nonce, subjects]),
        [[after.position, after.nonce, [7]]],
      );
      strictEqual(bytes?.length, after.endsAt - before.endsAt);
      const beyond = await store.readClock(LOG_HEAD_BYTES + after.endsAt - after.beginsAt);
      strictEqual(beyond?.length ?? 0, 0);
    },
  },
  {
    title: "keeps the invalidations of concurrent calls, each at a position of its own",
    async run({ store, elapse }) {
      const subjects = [11, 12, 13, 14, 15];
      const before = await headOf(store);
      let isPending = true;
      const calls = Promise.all(subjects.map((subject) => invalidateOther(store, { subjects: [subject] }))).finally(
        () => {
          isPending = false;
        },
      );
      // A store may pause before it tries again.
      while (isPending) await elapse(5);
      const heads = await calls;
      const { records } = await logOf(store);
      const appended = records.filter(({ position }) => position > before.position);
      deepStrictEqual(appended.flatMap((record) => record.subjects).toSorted(), subjects);
      strictEqual(new Set(appended.map(({ position }) => position)).size, subjects.length);
      for (const [nth, { position, nonce }] of heads.entries())
        deepStrictEqual(appended.find((record) => record.nonce === nonce)?.position, position, String(subjects[nth]));
      deepStrictEqual((await headOf(store)).position, Math.max(...heads.map(({ position }) => position)));
    },
  },
  {
    title: "drops the older records of a log that becomes too large, and shows the position of the last of them",
    async run({ store }) {
      const before = await headOf(store);
      const subjects = Array.from({ length: 10_000 }, (_, nth) => nth);
      let head = before;
      for (let bytes = 0; head.floor === before.floor && bytes < MAX_LOG_BYTES; bytes += 80_000)
        head = await invalidateOther(store, { subjects });
      ok(head.floor > before.floor, `the log still has all records after ${MAX_LOG_BYTES} bytes`);
      strictEqual(head.epoch, before.epoch);
      ok(head.beginsAt > before.beginsAt && head.floor < head.position);
      deepStrictEqual(readHead((await store.read([])).clock), head);
      const { epoch, floor, beginsAt, records } = await logOf(store);
      deepStrictEqual([epoch, floor, beginsAt], [head.epoch, head.floor, head.beginsAt]);
      ok((records[0]?.position ?? 0) > floor);
      strictEqual(records.at(-1)?.nonce, head.nonce);
      strictEqual(
        records.reduce((sum, { bytes }) => sum + bytes, 0),
        head.endsAt - head.beginsAt,
      );
    },
  },
];

/** What a later invalidation has to know of an entry: under which state of the clock its load began. */
const positionCases: readonly ConformanceCase[] = [
  {
    title: "grants a lease at the position of the call, although the clock has gone on",
    async run({ store }, key) {
      const origin = await headOf(store);
      await invalidateOther(store);
      const grant = await grantOf(store, key, { origin });
      strictEqual(grant.position, origin.position);
      const entry = await entryAt(store, key);
      deepStrictEqual([entry?.epoch, entry?.position], [origin.epoch, origin.position]);
    },
  },
  {
    title: "stores a value at the position of its lease, whatever has been invalidated during the load",
    async run({ store }, key) {
      const origin = await headOf(store);
      const grant = await grantOf(store, key, { origin });
      await invalidateOther(store);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, grant)]), ["stored"]);
      const entry = await entryAt(store, key);
      deepStrictEqual([entry?.epoch, entry?.position], [origin.epoch, origin.position]);
    },
  },
  {
    title: "keeps the position of a stale value until its refresh is stored, which has the position of its lease",
    async run({ store }, key) {
      const first = await acquireAndStore(store, key, { freshMs: 0 });
      const origin = await invalidateOther(store);
      const refresh = await grantOf(store, key, { origin });
      strictEqual(refresh.position, origin.position);
      strictEqual((await entryAt(store, key))?.position, first.position);
      await store.storeValues([storeRequestOf(key, refresh, { freshMs: 0 })]);
      strictEqual((await entryAt(store, key))?.position, origin.position);
      const unchanged = await grantOf(store, key, { origin: await invalidateOther(store) });
      deepStrictEqual(await store.storeValues([storeRequestOf(key, unchanged, { body: undefined })]), ["stored"]);
      strictEqual((await entryAt(store, key))?.position, unchanged.position);
    },
  },
  {
    title: "keeps the position of a stale value whose refresh is abandoned or fails",
    async run({ store }, key) {
      const { position } = await acquireAndStore(store, key, { freshMs: 0 });
      for (const outcome of ["abandoned", "failed"] as const) {
        const refresh = await grantOf(store, key, { origin: await invalidateOther(store) });
        notStrictEqual(refresh.position, position);
        deepStrictEqual(await store.release([releaseOf(key, refresh, outcome)]), [true]);
        strictEqual((await entryAt(store, key))?.position, position);
      }
    },
  },
  {
    title: "gives a failure and an uncacheable mark the position of their lease",
    async run({ store }, name) {
      for (const outcome of ["failed", "uncacheable"] as const) {
        const key = `${name}:${outcome}`;
        const origin = await headOf(store);
        const grant = await grantOf(store, key, { origin });
        await invalidateOther(store);
        await store.release([releaseOf(key, grant, outcome)]);
        const entry = await entryAt(store, key);
        deepStrictEqual([entry?.state, entry?.epoch, entry?.position], [outcome, origin.epoch, origin.position]);
      }
    },
  },
  {
    title: "keeps the position of an expired lease that is taken over, whose previous holder may still store its value",
    async run({ store, elapse }, key) {
      const previous = await grantOf(store, key, {}, BRIEF);
      const origin = await invalidateOther(store);
      await elapse(BRIEF.leaseMs + 20);
      const next = await grantOf(store, key, { origin });
      ok(next.isTakenOver);
      strictEqual(next.position, previous.position);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, previous)]), ["stored"]);
      strictEqual((await entryAt(store, key))?.position, previous.position);
    },
  },
  {
    title: "keeps the position of an expired lease for a refresh that is taken over",
    async run({ store, elapse }, key) {
      await acquireAndStore(store, key, { freshMs: 0 });
      const previous = await grantOf(store, key, { origin: await invalidateOther(store) }, BRIEF);
      const origin = await invalidateOther(store);
      await elapse(BRIEF.leaseMs + 20);
      const next = await grantOf(store, key, { origin });
      ok(next.isTakenOver);
      strictEqual(next.position, previous.position);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, next)]), ["stored"]);
      strictEqual((await entryAt(store, key))?.position, previous.position);
    },
  },
  {
    title: "treats a value from before the oldest position of the request as absent, and refuses its late store",
    async run({ store }, key) {
      const { position } = await acquireAndStore(store, key);
      strictEqual((await acquire(store, key, { oldestPosition: position })).kind, "value");
      const head = await invalidateOther(store);
      const grant = await grantOf(store, key, { oldestPosition: head.position });
      strictEqual(grant.isTakenOver, false);
      strictEqual((await entryAt(store, key))?.state, "pending");
      const refused = await invalidateOther(store);
      const next = await grantOf(store, key, { oldestPosition: refused.position });
      notStrictEqual(next.gen, grant.gen);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, grant)]), ["refused"]);
      deepStrictEqual(await store.storeValues([storeRequestOf(key, next)]), ["stored"]);
    },
  },
  {
    title: "keeps a lease that is not older than the oldest position of another request",
    async run({ store }, key) {
      const origin = await invalidateOther(store);
      const { gen } = await grantOf(store, key, { origin });
      const other = await acquire(store, key, { oldestPosition: origin.position });
      ok(other.kind === "busy");
      strictEqual(other.gen, gen);
    },
  },
  {
    title: "treats failures and uncacheable marks from before the oldest position of the request as absent",
    async run({ store }, name) {
      for (const outcome of ["failed", "uncacheable"] as const) {
        const key = `${name}:${outcome}`;
        const grant = await grantOf(store, key);
        await store.release([releaseOf(key, grant, outcome)]);
        strictEqual((await acquire(store, key, { oldestPosition: grant.position })).kind, outcome);
        const { position } = await invalidateOther(store);
        strictEqual((await acquire(store, key, { oldestPosition: position })).kind, "granted");
      }
    },
  },
  {
    title: "returns no value and no lease of another epoch",
    async run({ store }, name) {
      const origin = { ...(await headOf(store)), epoch: "no epoch" };
      await acquireAndStore(store, `${name}:value`);
      await grantOf(store, `${name}:pending`);
      for (const key of [`${name}:value`, `${name}:pending`, `${name}:absent`]) {
        const grant = await acquire(store, key, { origin });
        // Only a store that reads its clock in the same step knows that the caller's is another one.
        if (grant.kind === "expired") continue;
        ok(grant.kind === "granted" && !grant.isTakenOver, `${key}: ${grant.kind}`);
        strictEqual((await entryAt(store, key))?.epoch, origin.epoch);
        strictEqual((await acquire(store, key)).kind, "granted");
      }
    },
  },
];

const wakeCases: readonly ConformanceCase[] = [
  {
    title: "wakes the waiters of a key when it changes, and may send the new entry along",
    needs: "wakes",
    async run({ store, woken, elapse }, key) {
      const grant = await grantOf(store, key);
      await acquire(store, key);
      await store.storeValues([storeRequestOf(key, grant)]);
      for (let turn = 0; turn < 20 && !woken.some((wake) => wake.key === key); turn++) await elapse(5);
      const wake = woken.find((received) => received.key === key);
      ok(wake, "expected a wake for the key, got none");
      if (wake.entry === undefined) return;
      deepStrictEqual(Buffer.from(wake.entry.body), BODY);
      strictEqual(wake.gen, grant.gen);
    },
  },
  {
    title: "sends no entry along with a wake unless the load of the ended lease chain has produced it",
    needs: "wakes",
    async run({ store, woken, elapse }, key) {
      await acquireAndStore(store, key, { freshMs: 0 });
      const refresh = await grantOf(store, key);
      strictEqual((await acquire(store, key)).kind, "busy");
      await store.release([releaseOf(key, refresh, "abandoned")]);
      for (let turn = 0; turn < 20 && !woken.some((wake) => wake.key === key); turn++) await elapse(5);
      const wake = woken.find((received) => received.key === key);
      ok(wake, "expected a wake for the key, got none");
      strictEqual(wake.entry, undefined);
    },
  },
];

/** Replaces the settings, as the cache does. */
async function changeSettings(store: Store, content: string): Promise<void> {
  ok(
    await store.replaceSettings(await store.readSettings(), Buffer.from(content)),
    "expected a change, got a conflict",
  );
}

const settingsText = async (store: Store): Promise<string> =>
  Buffer.from((await store.readSettings()) ?? []).toString();

/** The cases share the settings of the store, so each goes on from what it finds. */
const settingsCases: readonly ConformanceCase[] = [
  {
    title: "returns the settings that were written last",
    async run({ store }, key) {
      await changeSettings(store, `${key} first`);
      await changeSettings(store, `${key} second`);
      strictEqual(await settingsText(store), `${key} second`);
    },
  },
  {
    title: "replaces the settings only if they are those that the caller expects",
    async run({ store }, key) {
      await changeSettings(store, `${key} before`);
      await changeSettings(store, `${key} current`);
      strictEqual(await store.replaceSettings(Buffer.from(`${key} before`), Buffer.from(`${key} late`)), false);
      strictEqual(await store.replaceSettings(undefined, Buffer.from(`${key} late`)), false);
      strictEqual(await settingsText(store), `${key} current`);
    },
  },
  {
    title: "takes a change of the settings that is sent twice for one",
    async run({ store }, key) {
      await changeSettings(store, `${key} before`);
      const [before, after] = [Buffer.from(`${key} before`), Buffer.from(`${key} after`)];
      strictEqual(await store.replaceSettings(before, after), true);
      strictEqual(await store.replaceSettings(before, after), true);
      await changeSettings(store, `${key} later`);
      strictEqual(await store.replaceSettings(before, after), false);
      strictEqual(await settingsText(store), `${key} later`);
    },
  },
  {
    title: "lets one of several concurrent changes of the settings succeed",
    async run({ store }, key) {
      await changeSettings(store, `${key} before`);
      const contents = ["a", "b", "c", "d", "e"].map((name) => `${key} ${name}`);
      const results = await Promise.all(
        contents.map((content) => store.replaceSettings(Buffer.from(`${key} before`), Buffer.from(content))),
      );
      strictEqual(results.filter((isReplaced) => isReplaced).length, 1);
      strictEqual(await settingsText(store), contents[results.indexOf(true)]);
    },
  },
];

const inspectionCases: readonly ConformanceCase[] = [
  {
    title: "reports the state of each node, if it has `inspect`, without names and values",
    async run({ store }, name) {
      if (store.inspect === undefined) return;
      await acquireAndStore(store, `${name}:secret`, { body: Buffer.from("secret") });
      const nodes = store.nodes?.() ?? [""];
      // Without its nodes, a store with several could not be asked.
      strictEqual(store.nodeOf === undefined, store.nodes === undefined);
      if (store.nodeOf !== undefined) ok(nodes.includes(store.nodeOf(name)));
      const reports: StoreReport[] = [];
      for (const node of nodes) {
        const report = await store.inspect(node);
        reports.push(report);
        for (const [property, value] of Object.entries(report))
          if (value !== undefined) strictEqual(typeof value, REPORT_TYPES[property as keyof StoreReport], property);
        ok(!JSON.stringify(report).includes("secret"));
      }
      // The entry above is one of them.
      if (reports.every(({ entries }) => entries !== undefined)) ok(reports.some(({ entries = 0 }) => entries > 0));
    },
  },
];

const historyCases: readonly ConformanceCase[] = [
  {
    title: "returns what was appended to the history, oldest first, each with a time of its clock",
    needs: "history",
    async run({ store }, name) {
      const { now: before, since } = await historyOf(store);
      ok(since <= before);
      for (const nth of [1, 2]) await appendTo(store, `${name} part ${nth}`);
      const { now, parts } = await historyOf(store);
      const own = parts.filter(({ text }) => text.startsWith(`${name} `));
      deepStrictEqual(
        own.map(({ text }) => text),
        [`${name} part 1`, `${name} part 2`],
      );
      for (const { at } of own) ok(at >= before && at <= now, `${at} is not between ${before} and ${now}`);
    },
  },
  {
    title: "forgets the oldest parts of a history that becomes too large, and says up to when",
    needs: "history",
    async run({ store }, name) {
      const limits = { maxBytes: 3 * (1_000 + HISTORY_OVERHEAD_BYTES), keepMs: 60_000 };
      for (let nth = 0; nth < 10; nth++) await appendTo(store, `${name} ${nth} `.padEnd(1_000, "x"), limits);
      const { since, parts } = await historyOf(store);
      deepStrictEqual(
        parts.map(({ text }) => text.slice(0, name.length + 3)),
        [`${name} 7 `, `${name} 8 `, `${name} 9 `],
      );
      ok(since <= (parts[0]?.at ?? 0));
      await appendTo(store, "x", limits);
      strictEqual((await historyOf(store)).since, parts[0]?.at);
    },
  },
  {
    title: "forgets the parts of a history that are too old, and says up to when",
    needs: "history",
    async run({ store, elapse }, name) {
      await appendTo(store, `${name} old`);
      const old = (await historyOf(store)).parts.at(-1);
      await elapse(1_500);
      await appendTo(store, `${name} new`, { maxBytes: 100_000, keepMs: 1_000 });
      const { since, parts } = await historyOf(store);
      deepStrictEqual(
        parts.map(({ text }) => text),
        [`${name} new`],
      );
      strictEqual(since, old?.at);
    },
  },
];

/** Returns the id of a process that no other case uses. */
const processOf = (name: string, nth: number): string => `${name.replaceAll(/[^A-Za-z0-9]/g, "-")}-${nth}`;

function reportsOf({ reports }: Store): ReportStore {
  ok(reports !== undefined, "the store keeps no reports");
  return reports;
}

const partOf = (name: string, text: string, keepMs = 60_000) => ({ name, bytes: Buffer.from(text), keepMs });

async function textAt(store: Store, process: string, part: string): Promise<string | undefined> {
  const [bytes] = await reportsOf(store).read([{ process, part }]);
  return bytes === undefined ? undefined : Buffer.from(bytes).toString();
}

const reportCases: readonly ConformanceCase[] = [
  {
    title: "keeps the parts of each process' report, and lists the processes with the time of their last report",
    needs: "reports",
    async run({ store, elapse }, name) {
      const reports = reportsOf(store);
      const [first, second] = [processOf(name, 1), processOf(name, 2)];
      const report = { process: first, sequence: 1, parts: [partOf("a", "1"), partOf("b", "2")] };
      strictEqual((await reports.write(report)).isFirst, true);
      const { now, isFirst } = await reports.write(report);
      strictEqual(isFirst, false);
      await elapse(20);
      const later = await reports.write({ process: second, sequence: 1, parts: [partOf("a", "3")] });
      ok(later.now > now);
      const wanted = [first, second].flatMap((process) => ["a", "b"].map((part) => ({ process, part })));
      const texts = (await reports.read(wanted)).map((bytes) => bytes && Buffer.from(bytes).toString());
      deepStrictEqual(texts, ["1", "2", "3", undefined]);
      const { processes } = await reports.list();
      const own = processes.filter(({ id }) => id === first || id === second);
      deepStrictEqual(own, [
        { id: second, reportedAt: later.now },
        { id: first, reportedAt: now },
      ]);
    },
  },
  {
    title: "replaces a part of a report by a later one, and by none that is written again with an earlier sequence",
    needs: "reports",
    async run({ store }, name) {
      const reports = reportsOf(store);
      const process = processOf(name, 1);
      const earlier = { process, sequence: 1, parts: [partOf("a", "earlier")] };
      await reports.write(earlier);
      await reports.write({ process, sequence: 2, parts: [partOf("a", "later")] });
      strictEqual(await textAt(store, process, "a"), "later");
      await reports.write(earlier);
      strictEqual(await textAt(store, process, "a"), "later");
    },
  },
  {
    title: "drops a part of a report when its time is over, and no other",
    needs: "reports",
    async run({ store, elapse }, name) {
      const process = processOf(name, 1);
      const parts = [partOf("brief", "1", 30), partOf("long", "2")];
      await reportsOf(store).write({ process, sequence: 1, parts });
      await elapse(60);
      strictEqual(await textAt(store, process, "brief"), undefined);
      strictEqual(await textAt(store, process, "long"), "2");
    },
  },
  {
    title: "tells every process that reports that more is asked for, and until when",
    needs: "reports",
    async run({ store }, name) {
      const reports = reportsOf(store);
      await reports.ask(50_000);
      await reports.ask(10_000);
      // On a Cluster, they are on different nodes.
      for (let nth = 0; nth < 8; nth++) {
        const { now, askedUntilAt } = await reports.write({ process: processOf(name, nth), sequence: 1, parts: [] });
        ok(askedUntilAt - now > 10_000 && askedUntilAt - now <= 51_000, String(askedUntilAt - now));
      }
      ok((await reports.list()).askedUntilAt > 0);
    },
  },
];

const REPORT_TYPES: { readonly [Name in keyof Required<StoreReport>]: "string" | "number" } = {
  version: "string",
  role: "string",
  entries: "number",
  usedBytes: "number",
  maxBytes: "number",
  evictionPolicy: "string",
  evictions: "number",
};

function appendTo(store: Store, text: string, limits: HistoryLimits = { maxBytes: 100_000, keepMs: 60_000 }) {
  ok(store.appendHistory);
  return store.appendHistory(Buffer.from(text), limits);
}

async function historyOf(store: Store) {
  ok(store.readHistory);
  const { now, since, parts } = await store.readHistory();
  return { now, since, parts: parts.map(({ at, content }) => ({ at, text: Buffer.from(content).toString() })) };
}

/**
 * The rules that every store must keep. Run each case with its own `name`, for example:
 *
 *     for (const [index, { title, run }] of storeConformance.entries())
 *       it(title, () => run(store, `conformance:${index}`));
 */
export const storeConformance: readonly ConformanceCase[] = [
  ...leaseCases,
  ...storeCases,
  ...releaseCases,
  ...clockCases,
  ...positionCases,
  ...wakeCases,
  ...settingsCases,
  ...inspectionCases,
  ...reportCases,
  ...historyCases,
];
