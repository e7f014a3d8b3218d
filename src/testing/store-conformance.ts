import { deepStrictEqual, notStrictEqual, ok, strictEqual } from "node:assert";
import { type Entry, NO_SIGNATURE } from "../store/entry.js";
import {
  type AcquireRequest,
  type Grant,
  isWriteInProgress,
  type LeaseTimes,
  type Release,
  type Store,
  type StoreRequest,
} from "../store/store.js";

/** A store under test, taken into use, and a way to let its time pass. */
export interface ConformanceSubject {
  readonly store: Store;
  /** What the store's wakes have said so far. */
  readonly woken: { key: string | undefined; entry: Entry | undefined }[];
  elapse(ms: number): Promise<void>;
}

/** What a store may lack without breaking a promise of the cache: `wakes`, messages to those who wait. */
export type StoreFeature = "wakes";

/** One rule that every store keeps. `run` throws where it is broken. Names it uses begin with `name`, so that cases can share a server. */
export interface ConformanceCase {
  /** A sentence of the manual. */
  readonly title: string;
  /** A store without this feature cannot keep the rule. Whoever leaves the case out says why. */
  readonly needs?: StoreFeature;
  run(subject: ConformanceSubject, name: string): Promise<void>;
}

const TIMES: LeaseTimes = { leaseMs: 5_000, graceMs: 5_000, patienceMs: 5_000 };
/** Short enough to wait for on a real server. */
const BRIEF: LeaseTimes = { leaseMs: 40, graceMs: 5_000, patienceMs: 5_000 };
const BODY = Buffer.from("body");
const LOG_RETENTION_MS = 60_000;

type Granted = Extract<Grant, { kind: "granted" }>;

const leaseRequest = (key: string, more: Partial<AcquireRequest> = {}): AcquireRequest => ({
  key,
  signature: NO_SIGNATURE,
  supersededAt: 0,
  ...more,
});

async function acquire(
  store: Store,
  key: string,
  more: Partial<AcquireRequest> = {},
  times: LeaseTimes = TIMES,
): Promise<Grant> {
  const [grant] = await store.acquire([leaseRequest(key, more)], times);
  return grant as Grant;
}

async function grantOf(
  store: Store,
  key: string,
  more: Partial<AcquireRequest> = {},
  times: LeaseTimes = TIMES,
): Promise<Granted> {
  const grant = await acquire(store, key, more, times);
  strictEqual(grant.kind, "granted");
  return grant as Granted;
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

async function store(subject: Store, key: string, more: Partial<StoreRequest> = {}): Promise<Granted> {
  const grant = await grantOf(subject, key);
  deepStrictEqual(await subject.storeValues([storeRequestOf(key, grant, more)]), ["stored"]);
  return grant;
}

async function entryAt(subject: Store, key: string): Promise<Entry | undefined> {
  const [reading] = (await subject.read([key], [])).readings;
  ok(reading?.kind === "read");
  return reading.entry;
}

const leaseCases: readonly ConformanceCase[] = [
  {
    title: "an absent key grants its lease to the first who asks, and is pending",
    async run({ store: subject }, key) {
      const grant = await grantOf(subject, key);
      strictEqual(grant.isTakenOver, false);
      const entry = await entryAt(subject, key);
      strictEqual(entry?.state, "pending");
      strictEqual(entry.gen, grant.gen);
    },
  },
  {
    title: "a leased key is busy for everybody else, who learns the lease chain and the time left",
    async run({ store: subject }, key) {
      const { gen } = await grantOf(subject, key);
      const second = await acquire(subject, key);
      ok(second.kind === "busy");
      strictEqual(second.gen, gen);
      ok(second.remainingMs > 0 && second.remainingMs <= TIMES.leaseMs);
    },
  },
  {
    title: "a lease that ran out is taken over, keeps its chain, and the previous one may still fill",
    async run({ store: subject, elapse }, key) {
      const previous = await grantOf(subject, key, {}, BRIEF);
      await elapse(BRIEF.leaseMs + 20);
      const taker = await grantOf(subject, key);
      ok(taker.isTakenOver);
      strictEqual(taker.gen, previous.gen);
      notStrictEqual(taker.token, previous.token);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, previous)]), ["stored"]);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, taker)]), ["refused"]);
    },
  },
  {
    title: "every lease has a token of its own",
    async run({ store: subject }, key) {
      const grants = await subject.acquire(
        [leaseRequest(`${key}:1`), leaseRequest(`${key}:2`), leaseRequest(`${key}:3`)],
        TIMES,
      );
      strictEqual(new Set(grants.map((grant) => (grant as Granted).token)).size, 3);
    },
  },
  {
    title: "renewing prolongs a lease for its holder and for nobody else",
    async run({ store: subject, elapse }, key) {
      const grant = await grantOf(subject, key, {}, BRIEF);
      const foreign = { key, token: "x".repeat(16) };
      deepStrictEqual(await subject.renew([{ key, token: grant.token }, foreign], TIMES), [true, false]);
      await elapse(BRIEF.leaseMs + 20);
      strictEqual((await acquire(subject, key)).kind, "busy");
    },
  },
  {
    title: "an entry made under other tag tagVersions is as good as absent",
    async run({ store: subject }, key) {
      const old = await grantOf(subject, key);
      const grant = await grantOf(subject, key, { signature: "other123" });
      notStrictEqual(grant.gen, old.gen);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, old)]), ["refused"]);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, grant)]), ["stored"]);
      strictEqual((await entryAt(subject, key))?.signature, "other123");
    },
  },
];

const storeCases: readonly ConformanceCase[] = [
  {
    title: "a filled value is read back as it was stored, its age counted from the grant",
    async run({ store: subject }, key) {
      const grant = await store(subject, key, { isNegative: true });
      const entry = await entryAt(subject, key);
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
    title: "a fresh value answers a leaseRequest for its lease",
    async run({ store: subject }, key) {
      const { grantedAt } = await store(subject, key);
      const answer = await acquire(subject, key);
      ok(answer.kind === "value");
      deepStrictEqual(Buffer.from(answer.entry.body), BODY);
      strictEqual((await acquire(subject, key, { supersededAt: grantedAt })).kind, "granted");
    },
  },
  {
    title: "a stale value is kept while its refresh is leased, and replaced by it",
    async run({ store: subject }, key) {
      await store(subject, key, { freshMs: 0 });
      const refresh = await grantOf(subject, key);
      strictEqual((await entryAt(subject, key))?.state, "value");
      strictEqual((await acquire(subject, key)).kind, "busy");
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, refresh, { body: Buffer.from("new") })]), [
        "stored",
      ]);
      deepStrictEqual(Buffer.from((await entryAt(subject, key))?.body ?? []), Buffer.from("new"));
    },
  },
  {
    title: "a fill after an invalidation is refused",
    async run({ store: subject }, key) {
      const grant = await grantOf(subject, key);
      await subject.invalidate([key]);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, grant)]), ["refused"]);
      strictEqual(await entryAt(subject, key), undefined);
    },
  },
  {
    title: "a fill after an invalidation and another's grant is refused",
    async run({ store: subject }, key) {
      const old = await grantOf(subject, key);
      await subject.invalidate([key]);
      const grant = await grantOf(subject, key);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, old)]), ["refused"]);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, grant)]), ["stored"]);
    },
  },
  {
    title: "a fill of a refresh after an invalidation is refused, and the stale value is gone",
    async run({ store: subject }, key) {
      await store(subject, key, { freshMs: 0 });
      const refresh = await grantOf(subject, key);
      await subject.invalidate([key]);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, refresh)]), ["refused"]);
      strictEqual(await entryAt(subject, key), undefined);
    },
  },
  {
    title: "a value that is softly invalidated stays to be served, and the next leaseRequest for it is granted",
    async run({ store: subject }, key) {
      await store(subject, key);
      await subject.softInvalidate([key]);
      const entry = await entryAt(subject, key);
      deepStrictEqual([entry?.state, entry?.freshUntilAt, entry?.gen], ["value", 0, ""]);
      deepStrictEqual(Buffer.from(entry?.body ?? []), BODY);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, await grantOf(subject, key))]), ["stored"]);
      ok(((await entryAt(subject, key))?.freshUntilAt ?? 0) > 0);
    },
  },
  {
    title:
      "a soft invalidation ends the lease on a value and removes what is pending, so late storeRequests are refused",
    async run({ store: subject }, key) {
      const pending = await grantOf(subject, key);
      await subject.softInvalidate([key]);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, pending)]), ["refused"]);
      strictEqual(await entryAt(subject, key), undefined);
      await store(subject, key, { freshMs: 0 });
      const refresh = await grantOf(subject, key);
      await subject.softInvalidate([key]);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, refresh)]), ["refused"]);
      strictEqual((await entryAt(subject, key))?.state, "value");
    },
  },
  {
    title: "a soft invalidation leaves a write bracket alone",
    async run({ store: subject }, key) {
      const writer = "w".repeat(16);
      await subject.beginWrite([key], writer, 5_000);
      await subject.softInvalidate([key]);
      strictEqual((await entryAt(subject, key))?.state, "write-in-progress");
      await subject.endWrite([key], writer);
    },
  },
  {
    title: "one refused fill leaves the others of its batch alone",
    async run({ store: subject }, key) {
      const keys = [`${key}:1`, `${key}:2`, `${key}:3`];
      const grants = (await subject.acquire(
        keys.map((name) => leaseRequest(name)),
        TIMES,
      )) as Granted[];
      await subject.invalidate([`${key}:2`]);
      const storeRequests = keys.map((name, index) => storeRequestOf(name, grants[index] as Granted));
      deepStrictEqual(await subject.storeValues(storeRequests), ["stored", "refused", "stored"]);
    },
  },
  {
    title: "a second fill of the same lease is refused",
    async run({ store: subject }, key) {
      const grant = await store(subject, key);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, grant)]), ["refused"]);
    },
  },
  {
    title: "a value whose whole time is over on arrival is not stored, and its lease is free",
    async run({ store: subject, elapse }, key) {
      const grant = await grantOf(subject, key);
      await elapse(30);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, grant, { freshMs: 10, ttlMs: 10 })]), ["expired"]);
      strictEqual((await acquire(subject, key)).kind, "granted");
    },
  },
  {
    title: "a value is dropped at the end of its ttl",
    async run({ store: subject, elapse }, key) {
      await store(subject, key, { freshMs: 30, ttlMs: 50 });
      await elapse(80);
      strictEqual(await entryAt(subject, key), undefined);
    },
  },
];

const releaseCases: readonly ConformanceCase[] = [
  {
    title: "a failure is shared with whoever asks within its time, and then forgotten",
    async run({ store: subject, elapse }, key) {
      const grant = await grantOf(subject, key);
      deepStrictEqual(await subject.release([releaseOf(key, grant, "failed", 60)]), [true]);
      const answer = await acquire(subject, key);
      ok(answer.kind === "failed");
      deepStrictEqual(Buffer.from(answer.body), BODY);
      await elapse(90);
      strictEqual((await acquire(subject, key)).kind, "granted");
    },
  },
  {
    title: "the failure of a refresh puts the stale value back into service for its time",
    async run({ store: subject }, key) {
      await store(subject, key, { freshMs: 0 });
      deepStrictEqual(await subject.release([releaseOf(key, await grantOf(subject, key), "failed")]), [true]);
      const entry = await entryAt(subject, key);
      ok(entry?.state === "value" && entry.hasRefreshFailed && entry.gen === "");
      strictEqual((await acquire(subject, key)).kind, "value");
    },
  },
  {
    title: "a value that cannot be stored lets everybody pass for its time",
    async run({ store: subject, elapse }, key) {
      await subject.release([releaseOf(key, await grantOf(subject, key), "uncacheable", 60)]);
      strictEqual((await acquire(subject, key)).kind, "uncacheable");
      await elapse(90);
      strictEqual((await acquire(subject, key)).kind, "granted");
    },
  },
  {
    title: "an abandoned lease is free at once, and only its holder can abandon it",
    async run({ store: subject }, key) {
      const grant = await grantOf(subject, key);
      deepStrictEqual(await subject.release([releaseOf(key, { ...grant, token: "x".repeat(16) }, "abandoned")]), [
        false,
      ]);
      deepStrictEqual(await subject.release([releaseOf(key, grant, "abandoned")]), [true]);
      strictEqual((await acquire(subject, key)).kind, "granted");
    },
  },
];

const tagCases: readonly ConformanceCase[] = [
  {
    title: "a tag gets one version, which stays until the tag is invalidated",
    async run({ store: subject }, tag) {
      deepStrictEqual((await subject.read([], [tag])).tagVersions, [undefined]);
      const [first] = await subject.ensureTags([tag], LOG_RETENTION_MS);
      deepStrictEqual(await subject.ensureTags([tag], LOG_RETENTION_MS), [first]);
      deepStrictEqual((await subject.read([], [tag])).tagVersions, [first]);
      await subject.invalidateTags([tag], LOG_RETENTION_MS);
      notStrictEqual((await subject.ensureTags([tag], LOG_RETENTION_MS))[0], first);
    },
  },
  {
    title: "the record knows which tags were invalidated after a position",
    async run({ store: subject }, tag) {
      await subject.invalidateTags([`${tag}:before`], LOG_RETENTION_MS);
      const position = await subject.readLogPosition(LOG_RETENTION_MS);
      strictEqual(await subject.areUnchangedSince(position, [tag, `${tag}:before`]), true);
      await subject.invalidateTags([tag], LOG_RETENTION_MS);
      strictEqual(await subject.areUnchangedSince(position, [`${tag}:before`, tag]), false);
      strictEqual(await subject.areUnchangedSince(position, [`${tag}:other`]), true);
      strictEqual(await subject.areUnchangedSince({ ...position, logId: "otherone" }, [`${tag}:other`]), false);
    },
  },
  {
    title:
      "a writeMark removes what is there, grants nothing, and outlives invalidations until its last writer has ended",
    async run({ store: subject }, key) {
      const [ann, bob] = ["a".repeat(16), "b".repeat(16)] as const;
      const grant = await grantOf(subject, key);
      await subject.beginWrite([key], ann, 5_000);
      await subject.beginWrite([key], bob, 5_000);
      deepStrictEqual(await subject.storeValues([storeRequestOf(key, grant)]), ["refused"]);
      strictEqual((await acquire(subject, key)).kind, "write-in-progress");
      await subject.endWrite([key], ann);
      await subject.invalidate([key]);
      strictEqual((await acquire(subject, key)).kind, "write-in-progress");
      await subject.endWrite([key], bob);
      strictEqual((await acquire(subject, key)).kind, "granted");
    },
  },
  {
    title: "a writeMark on a tag stands in for its version, and the tag has a new one after it",
    async run({ store: subject }, tag) {
      const writer = "w".repeat(16);
      const [before] = await subject.ensureTags([tag], LOG_RETENTION_MS);
      await subject.beginWrite([tag], writer, 5_000);
      await subject.invalidateTags([tag], LOG_RETENTION_MS);
      ok(isWriteInProgress((await subject.read([], [tag])).tagVersions[0] ?? ""));
      ok(isWriteInProgress((await subject.ensureTags([tag], LOG_RETENTION_MS))[0] as string));
      await subject.endWrite([tag], writer);
      const [after] = await subject.ensureTags([tag], LOG_RETENTION_MS);
      ok(!isWriteInProgress(after as string));
      notStrictEqual(after, before);
    },
  },
  {
    title: "a writeMark whose writer never ends it falls by itself",
    async run({ store: subject, elapse }, key) {
      await subject.beginWrite([key], "w".repeat(16), 50);
      await elapse(80);
      strictEqual((await acquire(subject, key)).kind, "granted");
    },
  },
  {
    title: "a change of a key that others wait for is told with the entry that is there now",
    needs: "wakes",
    async run({ store: subject, woken, elapse }, key) {
      const grant = await grantOf(subject, key);
      await acquire(subject, key);
      await subject.storeValues([storeRequestOf(key, grant)]);
      for (let turn = 0; turn < 20 && !woken.some((wake) => wake.key === key); turn++) await elapse(5);
      const wake = woken.find((one) => one.key === key);
      ok(wake, "a wake was expected");
      if (wake.entry !== undefined) deepStrictEqual(Buffer.from(wake.entry.body), BODY);
    },
  },
];

/** The rules that every store keeps; run each with a subject of its own. */
export const storeConformance: readonly ConformanceCase[] = [
  ...leaseCases,
  ...storeCases,
  ...releaseCases,
  ...tagCases,
];
