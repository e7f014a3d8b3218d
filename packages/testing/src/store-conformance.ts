/**
 * The rules that every store keeps. Longer than other files: it is a list, and a rule is found by
 * its title.
 */
import { deepStrictEqual, notStrictEqual, ok, strictEqual } from "node:assert";
import {
  type AcquireRequest,
  type ClockHead,
  type ClockLog,
  type ClockOrigin,
  type ClockRecord,
  type Entry,
  type Grant,
  type LeaseTimes,
  LOG_HEAD_BYTES,
  type Release,
  readHead,
  readLog,
  readRecords,
  type Store,
  type StoreRequest,
  writeRecord,
} from "graphql-cached/store";

/** A store under test. */
export interface ConformanceSubject {
  /** The store, already opened with `store.open`. */
  readonly store: Store;
  /** All calls of `wake` of the listener that was passed to `store.open`, in order. */
  readonly woken: { key: string | undefined; entry: Entry | undefined; gen?: string | undefined }[];
  /** The arguments of all calls of its `clockChanged`, in order. */
  readonly heard: (Buffer | undefined)[];
  /** Resolves when at least `ms` milliseconds have passed on the store's clock. */
  elapse(ms: number): Promise<void>;
}

/**
 * A feature that a store may lack. `wakes`: the store has messages for waiters; without them they
 * poll. `heads`: it tells of changes of the clock; without that the memory asks. `reports`: it
 * keeps reports of processes; without it the inspection shows one process only.
 */
export type StoreFeature = "wakes" | "heads" | "reports";

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

/**
 * A lease request, with what its caller knows of the clock in the place of what the store has now.
 */
interface LeaseOptions extends Partial<AcquireRequest> {
  readonly origin?: ClockOrigin;
}

/** One key of the store under test. */
class TestedKey {
  readonly subject: ConformanceSubject;
  readonly store: Store;
  readonly key: string;

  constructor(subject: ConformanceSubject, key: string) {
    this.subject = subject;
    this.store = subject.store;
    this.key = key;
  }

  /** Returns another key. */
  at(suffix: string): TestedKey {
    return new TestedKey(this.subject, `${this.key}:${suffix}`);
  }

  leaseRequest(more: Partial<AcquireRequest> = {}): AcquireRequest {
    return { key: this.key, oldestPosition: 0, supersededAt: 0, ...more };
  }

  async acquire({ origin, ...more }: LeaseOptions = {}, times: LeaseTimes = TIMES): Promise<Grant> {
    const [grant] = await this.store.acquire([this.leaseRequest(more)], times, origin ?? (await this.head()));
    return grant as Grant;
  }

  async grant(options: LeaseOptions = {}, times: LeaseTimes = TIMES): Promise<Granted> {
    const grant = await this.acquire(options, times);
    strictEqual(grant.kind, "granted");
    return grant as Granted;
  }

  storeRequest({ gen, grantedAt }: Granted, more: Partial<StoreRequest> = {}): StoreRequest {
    const { key } = this;
    return { key, gen, grantedAt, loadMs: 7, isNegative: false, freshMs: 10_000, ttlMs: 60_000, body: BODY, ...more };
  }

  /** Stores a value under a lease. Returns what became of it. */
  async storeValue(grant: Granted, more: Partial<StoreRequest> = {}): Promise<string> {
    const outcomes = await this.store.storeValues([this.storeRequest(grant, more)]);
    strictEqual(outcomes.length, 1);
    return outcomes[0] as string;
  }

  async acquireAndStore(more: Partial<StoreRequest> = {}): Promise<Granted> {
    const grant = await this.grant();
    strictEqual(await this.storeValue(grant, more), "stored");
    return grant;
  }

  /** Releases a lease. Returns whether it was that of the holder. */
  async release({ token }: Granted, outcome: Release["outcome"], holdMs = 5_000): Promise<boolean> {
    const released = await this.store.release([{ key: this.key, token, outcome, holdMs, body: BODY }]);
    strictEqual(released.length, 1);
    return released[0] as boolean;
  }

  async entry(): Promise<Entry | undefined> {
    const [reading] = (await this.store.read([this.key])).readings;
    ok(reading?.kind === "read");
    return reading.entry;
  }

  /** Returns the head of the clock, which begins if there is none. */
  async head(): Promise<ClockHead> {
    return headIn(await this.store.appendClock([]));
  }

  /** Invalidates subjects of no entry, and returns the head that shows it. */
  async invalidate(record: Partial<ClockRecord> = {}): Promise<ClockHead> {
    return headIn(await this.store.appendClock([writeRecord({ kind: "hard", subjects: [1], ...record })]));
  }

  async log(): Promise<ClockLog> {
    const log = readLog(await this.store.readClock(0));
    ok(log, "expected a log, got something else");
    return log;
  }

  /** Waits for a wake of this key. */
  async wake(): Promise<ConformanceSubject["woken"][number]> {
    const find = () => this.subject.woken.find(({ key }) => key === this.key);
    for (let turn = 0; turn < 20 && find() === undefined; turn++) await this.subject.elapse(5);
    const wake = find();
    ok(wake, "expected a wake for the key, got none");
    return wake;
  }
}

function headIn(bytes: Parameters<typeof readHead>[0]): ClockHead {
  const head = readHead(bytes);
  ok(head, "expected the head of a clock, got something else");
  return head;
}

function isBody(body: Uint8Array | undefined, expected: Uint8Array = BODY): void {
  deepStrictEqual(Buffer.from(body ?? []), expected);
}

/** Rules by their titles. */
type Rules = Readonly<Record<string, (tested: TestedKey) => Promise<void>>>;

const casesOf = (rules: Rules, needs?: StoreFeature): ConformanceCase[] =>
  Object.entries(rules).map(([title, test]) => ({
    title,
    ...(needs === undefined ? {} : { needs }),
    run: (subject, name) => test(new TestedKey(subject, name)),
  }));

const leaseRules: Rules = {
  "grants the lease on an absent key to the first caller and makes the key pending": async (t) => {
    const grant = await t.grant();
    const entry = await t.entry();
    strictEqual(entry?.state, "pending");
    strictEqual(entry.gen, grant.gen);
  },
  "answers busy to all other callers of a leased key, with the lease chain and the remaining time": async (t) => {
    const { gen } = await t.grant();
    const second = await t.acquire();
    ok(second.kind === "busy");
    strictEqual(second.gen, gen);
    ok(second.remainingMs > 0 && second.remainingMs <= TIMES.leaseMs);
  },
  "lets another caller take over an expired lease, keeping its chain, so that the previous holder may still store its value":
    async (t) => {
      const previous = await t.grant({}, BRIEF);
      await t.subject.elapse(BRIEF.leaseMs + 20);
      const next = await t.grant();
      strictEqual(next.gen, previous.gen);
      notStrictEqual(next.token, previous.token);
      strictEqual(await t.storeValue(previous), "stored");
      strictEqual(await t.storeValue(next), "refused");
    },
  "gives every lease a unique token": async (t) => {
    const requests = ["1", "2", "3"].map((suffix) => t.at(suffix).leaseRequest());
    const grants = await t.store.acquire(requests, TIMES, await t.head());
    strictEqual(new Set(grants.map((grant) => (grant as Granted).token)).size, 3);
  },
  "extends a lease only for its holder": async (t) => {
    const grant = await t.grant({}, BRIEF);
    const holds = [grant.token, "x".repeat(16)].map((token) => ({ key: t.key, token }));
    deepStrictEqual(await t.store.renew(holds, TIMES), [true, false]);
    await t.subject.elapse(BRIEF.leaseMs + 20);
    strictEqual((await t.acquire()).kind, "busy");
  },
  "extends a lease that has ended, unless another caller has taken it over": async (t) => {
    const [own, taken] = [t.at("own"), t.at("taken")];
    const { token } = await own.grant({}, BRIEF);
    const previous = await taken.grant({}, BRIEF);
    await t.subject.elapse(BRIEF.leaseMs + 20);
    await taken.grant();
    const holds = [
      { key: own.key, token },
      { key: taken.key, token: previous.token },
    ];
    deepStrictEqual(await t.store.renew(holds, TIMES), [true, false]);
    strictEqual((await own.acquire()).kind, "busy");
  },
  "extends the lease on a value, which stays": async (t) => {
    await t.acquireAndStore({ freshMs: 0 });
    const { token } = await t.grant({}, BRIEF);
    deepStrictEqual(await t.store.renew([{ key: t.key, token }], TIMES), [true]);
    await t.subject.elapse(BRIEF.leaseMs + 20);
    strictEqual((await t.acquire()).kind, "busy");
    strictEqual((await t.entry())?.state, "value");
  },
  "applies the requests for one key in one call one after the other": async (t) => {
    const request = t.leaseRequest();
    const grants = await t.store.acquire([request, request], TIMES, await t.head());
    deepStrictEqual(grants.map(({ kind }) => kind).sort(), ["busy", "granted"]);
    const value = t.storeRequest(grants.find(({ kind }) => kind === "granted") as Granted);
    deepStrictEqual([...(await t.store.storeValues([value, value]))].sort(), ["refused", "stored"]);
  },
};

const storeRules: Rules = {
  "returns a stored value unchanged, with its age counted from the grant of its lease": async (t) => {
    const grant = await t.acquireAndStore({ isNegative: true });
    const entry = await t.entry();
    ok(entry?.state === "value");
    isBody(entry.body);
    strictEqual(entry.isNegative, true);
    strictEqual(entry.loadMs, 7);
    strictEqual(entry.grantedAt, grant.grantedAt);
    strictEqual(entry.freshUntilAt, grant.grantedAt + 10_000);
    strictEqual(entry.gen, "");
  },
  "returns a fresh value instead of a lease, unless the caller has marked that value as superseded": async (t) => {
    const { grantedAt } = await t.acquireAndStore();
    const grant = await t.acquire();
    ok(grant.kind === "value");
    isBody(grant.entry.body);
    strictEqual((await t.acquire({ supersededAt: grantedAt })).kind, "granted");
  },
  "grants the lease on a value later than that value was granted, even within one instant": async (t) => {
    const { grantedAt } = await t.acquireAndStore();
    const refresh = await t.grant({ supersededAt: grantedAt });
    ok(refresh.grantedAt > grantedAt);
    strictEqual(await t.release(refresh, "abandoned"), true);
    const [outdated] = await t.store.acquire(
      [t.leaseRequest({ supersededAt: grantedAt, oldestPosition: Number.MAX_SAFE_INTEGER })],
      TIMES,
      await t.head(),
    );
    ok(outdated?.kind === "granted" && outdated.grantedAt > grantedAt);
  },
  "dates no grant ahead of its time, however often a value is replaced within one instant": async (t) => {
    let grant = await t.acquireAndStore();
    for (let nth = 0; nth < 100; nth++) {
      grant = await t.grant({ supersededAt: grant.grantedAt });
      strictEqual(await t.storeValue(grant), "stored");
    }
    const [reading] = (await t.store.read([t.key])).readings;
    ok(reading?.kind === "read" && reading.entry?.grantedAt === grant.grantedAt);
    ok(grant.grantedAt <= reading.now + 1);
  },
  "makes a fresh value stale with the lease of a caller that says so, and only then": async (t) => {
    const { grantedAt } = await t.acquireAndStore();
    const refresh = await t.grant({ supersededAt: grantedAt });
    ok(((await t.entry())?.freshUntilAt ?? 0) > grantedAt);
    strictEqual(await t.release(refresh, "abandoned"), true);
    await t.grant({ supersededAt: grantedAt, endsFreshness: true });
    strictEqual((await t.entry())?.freshUntilAt, 0);
  },
  "makes a fresh value stale with a takeover as well, if its caller says so": async (t) => {
    const { grantedAt } = await t.acquireAndStore();
    const previous = await t.grant({ supersededAt: grantedAt }, BRIEF);
    await t.subject.elapse(BRIEF.leaseMs + 20);
    const next = await t.grant({ supersededAt: grantedAt, endsFreshness: true });
    strictEqual(next.gen, previous.gen);
    strictEqual((await t.entry())?.freshUntilAt, 0);
  },
  "keeps a stale value whose ttl ends during its refresh, which can still be stored": async (t) => {
    await t.acquireAndStore({ freshMs: 0, ttlMs: 1_000 });
    const refresh = await t.grant();
    await t.subject.elapse(1_100);
    strictEqual((await t.entry())?.state, "value");
    strictEqual(await t.storeValue(refresh), "stored");
  },
  "treats a value that is only for those who wait for it as none": async (t) => {
    const [failed, soft] = [t.at("failed"), t.at("soft")];
    for (const one of [failed, soft]) {
      const grant = await one.grant();
      strictEqual(await one.storeValue(grant, { freshMs: -grant.grantedAt - 1 }), "stored");
      const entry = await one.entry();
      ok(entry?.state === "value" && entry.freshUntilAt < 0);
      isBody(entry.body);
    }
    strictEqual(await failed.release(await failed.grant(), "failed"), true);
    strictEqual((await failed.acquire()).kind, "failed");
    await t.store.remove([soft.key], { soft: true });
    strictEqual(await soft.entry(), undefined);
  },
  "keeps a stale value while its refresh holds the lease, and replaces it when the refresh is stored": async (t) => {
    await t.acquireAndStore({ freshMs: 0 });
    const refresh = await t.grant();
    strictEqual((await t.entry())?.state, "value");
    strictEqual((await t.acquire()).kind, "busy");
    strictEqual(await t.storeValue(refresh, { body: Buffer.from("new") }), "stored");
    isBody((await t.entry())?.body, Buffer.from("new"));
  },
  "stores nothing for a value whose ttl is 0: it ends the lease and removes the value that it replaces": async (t) => {
    const none = { freshMs: 0, ttlMs: 0 };
    strictEqual(await t.storeValue(await t.grant(), none), "expired");
    strictEqual(await t.entry(), undefined);
    await t.acquireAndStore({ freshMs: 0 });
    strictEqual(await t.storeValue(await t.grant(), none), "expired");
    strictEqual(await t.entry(), undefined);
    strictEqual((await t.acquire()).kind, "granted");
  },
  "stores a value without a ttl until it is removed": async (t) => {
    await t.acquireAndStore({ freshMs: 0, ttlMs: undefined });
    strictEqual((await t.entry())?.state, "value");
    await t.store.remove([t.key]);
    strictEqual(await t.entry(), undefined);
  },
  "refuses a late store after its key was removed": async (t) => {
    const grant = await t.grant();
    await t.store.remove([t.key]);
    strictEqual(await t.storeValue(grant), "refused");
    strictEqual(await t.entry(), undefined);
  },
  "refuses a late store after its key was removed, when another caller has been granted the lease since": async (t) => {
    const old = await t.grant();
    await t.store.remove([t.key]);
    const grant = await t.grant();
    strictEqual(await t.storeValue(old), "refused");
    strictEqual(await t.storeValue(grant), "stored");
  },
  "refuses a late refresh after its key was removed with the stale value": async (t) => {
    await t.acquireAndStore({ freshMs: 0 });
    const refresh = await t.grant();
    await t.store.remove([t.key]);
    strictEqual(await t.storeValue(refresh), "refused");
    strictEqual(await t.entry(), undefined);
  },
  "keeps a value after a soft invalidation, marked as stale, and grants the next lease request for it": async (t) => {
    await t.acquireAndStore();
    await t.store.remove([t.key], { soft: true });
    const entry = await t.entry();
    deepStrictEqual([entry?.state, entry?.freshUntilAt, entry?.gen], ["value", 0, ""]);
    isBody(entry?.body);
    strictEqual(await t.storeValue(await t.grant()), "stored");
    ok(((await t.entry())?.freshUntilAt ?? 0) > 0);
  },
  "refuses late stores after a soft invalidation, which ends the lease on a value and removes a pending entry": async (
    t,
  ) => {
    const pending = await t.grant();
    await t.store.remove([t.key], { soft: true });
    strictEqual(await t.storeValue(pending), "refused");
    strictEqual(await t.entry(), undefined);
    await t.acquireAndStore({ freshMs: 0 });
    const refresh = await t.grant();
    await t.store.remove([t.key], { soft: true });
    strictEqual(await t.storeValue(refresh), "refused");
    strictEqual((await t.entry())?.state, "value");
  },
  "stores the other values of a batch when one of them is refused": async (t) => {
    const all = ["1", "2", "3"].map((suffix) => t.at(suffix));
    const leases = all.map((one) => one.leaseRequest());
    const grants = (await t.store.acquire(leases, TIMES, await t.head())) as Granted[];
    await t.store.remove([t.at("2").key]);
    const requests = all.map((one, nth) => one.storeRequest(grants[nth] as Granted));
    deepStrictEqual(await t.store.storeValues(requests), ["stored", "refused", "stored"]);
  },
  "stores values, and shares failures, of any length in one call": async (t) => {
    const lengths = [0, 9_000, 1, 512, 513, 20_000];
    const bodyOf = (length: number): Buffer => Buffer.alloc(length, `a body of ${length} bytes, `);
    const [values, ends]: [StoreRequest[], Release[]] = [[], []];
    for (const length of lengths) {
      const one = t.at(String(length));
      values.push(one.storeRequest(await one.grant(), { freshMs: 0, body: bodyOf(length) }));
    }
    deepStrictEqual(new Set(await t.store.storeValues(values)), new Set(["stored"]));
    for (const { key, body } of values) {
      const one = new TestedKey(t.subject, key);
      isBody((await one.entry())?.body, Buffer.from(body));
      const { token } = await one.grant();
      ends.push({ key, token, outcome: "gone", holdMs: 5_000, body: Buffer.from(body).reverse() });
    }
    deepStrictEqual(new Set(await t.store.release(ends)), new Set([true]));
    for (const { key, body } of ends) isBody((await new TestedKey(t.subject, key).entry())?.body, Buffer.from(body));
  },
  "refuses a second store under the same lease": async (t) => {
    const grant = await t.acquireAndStore();
    strictEqual(await t.storeValue(grant), "refused");
  },
  "does not store a value whose ttl is over on arrival, and frees its lease": async (t) => {
    const grant = await t.grant();
    await t.subject.elapse(30);
    strictEqual(await t.storeValue(grant, { freshMs: 10, ttlMs: 10 }), "expired");
    strictEqual((await t.acquire()).kind, "granted");
  },
  "drops a value at the end of its ttl": async (t) => {
    await t.acquireAndStore({ freshMs: 30, ttlMs: 50 });
    await t.subject.elapse(80);
    strictEqual(await t.entry(), undefined);
  },
};

const releaseRules: Rules = {
  "returns the failure of a load to all callers until its hold time is over, and then grants the lease again": async (
    t,
  ) => {
    const grant = await t.grant();
    strictEqual(await t.release(grant, "failed", 600), true);
    const shared = await t.acquire();
    ok(shared.kind === "failed");
    isBody(shared.body);
    await t.subject.elapse(660);
    strictEqual((await t.acquire()).kind, "granted");
  },
  "returns a stale value for the hold time after its refresh has failed": async (t) => {
    await t.acquireAndStore({ freshMs: 0 });
    strictEqual(await t.release(await t.grant(), "failed"), true);
    const entry = await t.entry();
    ok(entry?.state === "value" && entry.hasRefreshFailed && entry.gen === "");
    isBody(entry.body);
    strictEqual((await t.acquire()).kind, "value");
  },
  "replaces a stale value by a failure that says that it is gone, and keeps one that is still fresh": async (t) => {
    const { grantedAt } = await t.acquireAndStore();
    const early = await t.grant({ supersededAt: grantedAt });
    strictEqual(await t.release(early, "gone"), true);
    strictEqual((await t.acquire()).kind, "value");
    await t.store.remove([t.key], { soft: true });
    strictEqual(await t.release(await t.grant(), "gone"), true);
    const shared = await t.acquire();
    ok(shared.kind === "failed");
    isBody(shared.body);
  },
  "keeps a value that is still fresh as it was when its early refresh fails": async (t) => {
    const { grantedAt } = await t.acquireAndStore();
    const before = await t.entry();
    strictEqual(await t.release(await t.grant({ supersededAt: grantedAt }), "failed"), true);
    const after = await t.entry();
    deepStrictEqual([after?.state, after?.hasRefreshFailed, after?.gen], ["value", false, ""]);
    strictEqual(after?.freshUntilAt, before?.freshUntilAt);
  },
  "replaces a stale value by an uncacheable mark, and removes marks and failures by a soft invalidation": async (t) => {
    await t.acquireAndStore({ freshMs: 0 });
    for (const outcome of ["uncacheable", "failed"] as const) {
      strictEqual(await t.release(await t.grant(), outcome), true);
      strictEqual((await t.entry())?.state, outcome);
      await t.store.remove([t.key], { soft: true });
      strictEqual(await t.entry(), undefined);
    }
  },
  "grants no lease on an uncacheable key until its hold time is over": async (t) => {
    await t.release(await t.grant(), "uncacheable", 600);
    strictEqual((await t.acquire()).kind, "uncacheable");
    isBody((await t.entry())?.body);
    await t.subject.elapse(660);
    strictEqual((await t.acquire()).kind, "granted");
  },
  "frees an abandoned lease at once, and lets only its holder abandon it": async (t) => {
    const grant = await t.grant();
    strictEqual(await t.release({ ...grant, token: "x".repeat(16) }, "abandoned"), false);
    strictEqual(await t.release(grant, "abandoned"), true);
    strictEqual((await t.acquire()).kind, "granted");
  },
};

/** More than any log may hold before it drops its older records. */
const MAX_LOG_BYTES = 32 * 1024 * 1024;

/** The cases share the clock of the store, so each goes on from what it finds. */
const clockRules: Rules = {
  "begins the invalidation clock if there is none, and changes nothing without records": async (t) => {
    const bytes = await t.store.appendClock([]);
    ok(readHead(bytes));
    deepStrictEqual(await t.store.appendClock([]), bytes);
    const log = await t.log();
    const head = await t.head();
    deepStrictEqual([log.epoch, log.floor, log.beginsAt], [head.epoch, head.floor, head.beginsAt]);
    deepStrictEqual([log.records.at(-1)?.position, log.records.at(-1)?.nonce], [head.position, head.nonce]);
  },
  "begins another epoch in the place of one whose log could not be read, and of no other": async (t) => {
    const before = await t.invalidate();
    const after = readHead(await t.store.appendClock([], before.epoch));
    ok(after && after.epoch !== before.epoch && after.position >= before.position);
    deepStrictEqual(readHead(await t.store.appendClock([], before.epoch)), after);
    deepStrictEqual(readHead((await t.store.read([t.key])).clock), after);
    strictEqual((await t.log()).epoch, after.epoch);
  },
  "shows the head of the last invalidation in every read, whatever is read": async (t) => {
    const names = Array.from({ length: 20 }, (_, nth) => `${t.key}:${nth}`);
    for (let nth = 1; nth <= 2; nth++) {
      const head = await t.invalidate();
      for (const name of names) deepStrictEqual(readHead((await t.store.read([name])).clock), head);
      deepStrictEqual(readHead((await t.store.read([])).clock), head);
      deepStrictEqual(readHead((await t.store.read(names)).clock), head);
    }
  },
  "gives every invalidation a later position than all before, in the same epoch": async (t) => {
    const heads = [await t.head()];
    for (let nth = 1; nth <= 5; nth++) heads.push(await t.invalidate());
    strictEqual(new Set(heads.map(({ epoch }) => epoch)).size, 1);
    for (const [nth, { position }] of heads.entries())
      ok(position > (heads[nth - 1]?.position ?? 0), `position ${nth} is not later`);
  },
  "appends the records of one call in their order, with all that they contain": async (t) => {
    const before = await t.head();
    const writer = "writer 1";
    const records: readonly ClockRecord[] = [
      { kind: "hard", subjects: [1, 2 ** 52 - 1] },
      { kind: "soft", subjects: [] },
      { kind: "begin", subjects: [3], writer, guardMs: 1_234 },
      { kind: "end", subjects: [3], writer },
    ];
    const head = readHead(await t.store.appendClock(records.map(writeRecord)));
    const appended = (await t.log()).records.filter(({ position }) => position > before.position);
    deepStrictEqual(
      appended.map(({ kind, subjects, writer, guardMs }) => [kind, subjects, writer, guardMs]),
      records.map(({ kind, subjects, writer = "", guardMs = 0 }) => [kind, subjects, writer, guardMs]),
    );
    for (const [nth, { position }] of appended.entries())
      ok(position > (appended[nth - 1]?.position ?? before.position), `position ${nth} is not later`);
    deepStrictEqual([appended.at(-1)?.position, appended.at(-1)?.nonce], [head?.position, head?.nonce]);
  },
  "returns what was appended to the log after the end that an earlier head shows": async (t) => {
    const before = await t.head();
    const after = await t.invalidate({ subjects: [7] });
    strictEqual(after.beginsAt, before.beginsAt);
    const bytes = await t.store.readClock(LOG_HEAD_BYTES + before.endsAt - before.beginsAt);
    deepStrictEqual(
      readRecords(bytes ?? Buffer.alloc(0))?.map(({ position, nonce, subjects }) => [position, nonce, subjects]),
      [[after.position, after.nonce, [7]]],
    );
    strictEqual(bytes?.length, after.endsAt - before.endsAt);
    const beyond = await t.store.readClock(LOG_HEAD_BYTES + after.endsAt - after.beginsAt);
    strictEqual(beyond?.length ?? 0, 0);
  },
  "keeps the invalidations of concurrent calls, each at a position of its own": async (t) => {
    const subjects = [11, 12, 13, 14, 15];
    const before = await t.head();
    let isPending = true;
    const calls = Promise.all(subjects.map((subject) => t.invalidate({ subjects: [subject] }))).finally(() => {
      isPending = false;
    });
    // A store may pause before it tries again.
    while (isPending) await t.subject.elapse(5);
    const heads = await calls;
    const { records } = await t.log();
    const appended = records.filter(({ position }) => position > before.position);
    deepStrictEqual(appended.flatMap((record) => record.subjects).toSorted(), subjects);
    strictEqual(new Set(appended.map(({ position }) => position)).size, subjects.length);
    for (const [nth, { position, nonce }] of heads.entries())
      deepStrictEqual(appended.find((record) => record.nonce === nonce)?.position, position, String(subjects[nth]));
    deepStrictEqual((await t.head()).position, Math.max(...heads.map(({ position }) => position)));
  },
  "drops the older records of a log that becomes too large, and shows the position of the last of them": async (t) => {
    const before = await t.head();
    const subjects = Array.from({ length: 10_000 }, (_, nth) => nth);
    let head = before;
    for (let bytes = 0; head.floor === before.floor && bytes < MAX_LOG_BYTES; bytes += 80_000)
      head = await t.invalidate({ subjects });
    ok(head.floor > before.floor, `the log still has all records after ${MAX_LOG_BYTES} bytes`);
    strictEqual(head.epoch, before.epoch);
    ok(head.beginsAt > before.beginsAt && head.floor < head.position);
    deepStrictEqual(readHead((await t.store.read([])).clock), head);
    const { epoch, floor, beginsAt, records } = await t.log();
    deepStrictEqual([epoch, floor, beginsAt], [head.epoch, head.floor, head.beginsAt]);
    ok((records[0]?.position ?? 0) > floor);
    strictEqual(records.at(-1)?.nonce, head.nonce);
    strictEqual(
      records.reduce((sum, { bytes }) => sum + bytes, 0),
      head.endsAt - head.beginsAt,
    );
  },
};

/**
 * What a later invalidation has to know of an entry: under which state of the clock its load began.
 */
const positionRules: Rules = {
  "grants a lease at the position of the call, although the clock has gone on": async (t) => {
    const origin = await t.head();
    await t.invalidate();
    const grant = await t.grant({ origin });
    strictEqual(grant.position, origin.position);
    const entry = await t.entry();
    deepStrictEqual([entry?.epoch, entry?.position], [origin.epoch, origin.position]);
  },
  "stores a value at the position of its lease, whatever has been invalidated during the load": async (t) => {
    const origin = await t.head();
    const grant = await t.grant({ origin });
    await t.invalidate();
    strictEqual(await t.storeValue(grant), "stored");
    const entry = await t.entry();
    deepStrictEqual([entry?.epoch, entry?.position], [origin.epoch, origin.position]);
  },
  "keeps the position of a stale value until its refresh is stored, which has the position of its lease": async (t) => {
    const first = await t.acquireAndStore({ freshMs: 0 });
    const origin = await t.invalidate();
    const refresh = await t.grant({ origin });
    strictEqual(refresh.position, origin.position);
    strictEqual((await t.entry())?.position, first.position);
    await t.storeValue(refresh, { freshMs: 0 });
    strictEqual((await t.entry())?.position, origin.position);
  },
  "keeps the position of a stale value whose refresh is abandoned or fails": async (t) => {
    const { position } = await t.acquireAndStore({ freshMs: 0 });
    for (const outcome of ["abandoned", "failed"] as const) {
      const refresh = await t.grant({ origin: await t.invalidate() });
      notStrictEqual(refresh.position, position);
      strictEqual(await t.release(refresh, outcome), true);
      strictEqual((await t.entry())?.position, position);
    }
  },
  "gives a failure and an uncacheable mark the position of their lease": async (t) => {
    for (const outcome of ["failed", "uncacheable"] as const) {
      const one = t.at(outcome);
      const origin = await t.head();
      const grant = await one.grant({ origin });
      await t.invalidate();
      await one.release(grant, outcome);
      const entry = await one.entry();
      deepStrictEqual([entry?.state, entry?.epoch, entry?.position], [outcome, origin.epoch, origin.position]);
    }
  },
  "keeps the position of an expired lease that is taken over, whose previous holder may still store its value": async (
    t,
  ) => {
    const previous = await t.grant({}, BRIEF);
    const origin = await t.invalidate();
    await t.subject.elapse(BRIEF.leaseMs + 20);
    const next = await t.grant({ origin });
    strictEqual(next.gen, previous.gen);
    strictEqual(next.position, previous.position);
    strictEqual(await t.storeValue(previous), "stored");
    strictEqual((await t.entry())?.position, previous.position);
  },
  "keeps the position of an expired lease for a refresh that is taken over": async (t) => {
    await t.acquireAndStore({ freshMs: 0 });
    const previous = await t.grant({ origin: await t.invalidate() }, BRIEF);
    const origin = await t.invalidate();
    await t.subject.elapse(BRIEF.leaseMs + 20);
    const next = await t.grant({ origin });
    strictEqual(next.gen, previous.gen);
    strictEqual(next.position, previous.position);
    strictEqual(await t.storeValue(next), "stored");
    strictEqual((await t.entry())?.position, previous.position);
  },
  "treats a value from before the oldest position of the request as absent, and refuses its late store": async (t) => {
    const { position } = await t.acquireAndStore();
    strictEqual((await t.acquire({ oldestPosition: position })).kind, "value");
    const head = await t.invalidate();
    const grant = await t.grant({ oldestPosition: head.position });
    strictEqual((await t.entry())?.state, "pending");
    const refused = await t.invalidate();
    const next = await t.grant({ oldestPosition: refused.position });
    notStrictEqual(next.gen, grant.gen);
    strictEqual(await t.storeValue(grant), "refused");
    strictEqual(await t.storeValue(next), "stored");
  },
  "keeps a lease that is not older than the oldest position of another request": async (t) => {
    const origin = await t.invalidate();
    const { gen } = await t.grant({ origin });
    const other = await t.acquire({ oldestPosition: origin.position });
    ok(other.kind === "busy");
    strictEqual(other.gen, gen);
  },
  "treats failures and uncacheable marks from before the oldest position of the request as absent": async (t) => {
    for (const outcome of ["failed", "uncacheable"] as const) {
      const one = t.at(outcome);
      const grant = await one.grant();
      await one.release(grant, outcome);
      strictEqual((await one.acquire({ oldestPosition: grant.position })).kind, outcome);
      const { position } = await t.invalidate();
      strictEqual((await one.acquire({ oldestPosition: position })).kind, "granted");
    }
  },
  "returns no value and no lease of another epoch": async (t) => {
    const origin = { ...(await t.head()), epoch: "no epoch" };
    await t.at("value").acquireAndStore();
    await t.at("pending").grant();
    for (const one of ["value", "pending", "absent"].map((suffix) => t.at(suffix))) {
      const grant = await one.acquire({ origin });
      // Only a store that reads its clock in the same step knows that the caller's is another one.
      if (grant.kind === "expired") continue;
      ok(grant.kind === "granted", `${one.key}: ${grant.kind}`);
      strictEqual((await one.entry())?.epoch, origin.epoch);
      strictEqual((await one.acquire()).kind, "granted");
    }
  },
  "returns no value and no lease of an epoch that has ended, and refuses the late store of its load": async (t) => {
    const [value, pending] = [t.at("value"), t.at("pending")];
    await value.acquireAndStore();
    const late = await pending.grant();
    const origin = headIn(await t.store.appendClock([], (await t.head()).epoch));
    for (const one of [value, pending]) {
      await one.grant({ origin });
      strictEqual((await one.entry())?.epoch, origin.epoch);
    }
    strictEqual(await pending.storeValue(late), "refused");
  },
};

const wakeRules: Rules = {
  "wakes the waiters of a key when it changes, and may send the new entry along": async (t) => {
    const grant = await t.grant();
    await t.acquire();
    await t.storeValue(grant);
    const wake = await t.wake();
    if (wake.entry === undefined) return;
    isBody(wake.entry.body);
    strictEqual(wake.gen, grant.gen);
  },
  "sends no entry along with a wake unless the load of the ended lease chain has produced it": async (t) => {
    await t.acquireAndStore({ freshMs: 0 });
    const refresh = await t.grant();
    strictEqual((await t.acquire()).kind, "busy");
    await t.release(refresh, "abandoned");
    strictEqual((await t.wake()).entry, undefined);
  },
  "wakes the waiters of a key that is removed, and sends no entry along": async (t) => {
    await t.grant();
    strictEqual((await t.acquire()).kind, "busy");
    await t.store.remove([t.key]);
    strictEqual((await t.wake()).entry, undefined);
  },
};

/** Returns the id of a process that no other case uses. */
const processOf = (name: string, nth: number): string => `${name.replaceAll(/[^A-Za-z0-9]/g, "")}n${nth}`;

const writeReport = ({ store }: TestedKey, process: string, text: string, ttlMs = 60_000): Promise<boolean> => {
  ok(store.writeReport !== undefined, "the store keeps no reports");
  return store.writeReport(process, Buffer.from(`${process} ${text}`), ttlMs);
};

/** Checks what the reports of processes are whose ids begin with `process`, in any order. */
async function reportsAre({ store }: TestedKey, process: string, expected: readonly string[]): Promise<void> {
  const reports = (await store.readReports?.()) ?? [];
  const texts = reports.map((report) => Buffer.from(report).toString()).filter((text) => text.startsWith(process));
  deepStrictEqual(texts.sort(), [...expected].sort());
}

const headRules: Rules = {
  "tells of the heads of invalidations": async (t) => {
    // Messages are hints, and the first may come before it is known who listens.
    let head = await t.invalidate();
    const found = (): ClockHead | undefined => t.subject.heard.map(readHead).find((one) => one?.nonce === head.nonce);
    for (let nth = 0; nth < 100 && found() === undefined; nth++) {
      head = await t.invalidate();
      await t.subject.elapse(20);
    }
    deepStrictEqual(found(), head);
  },
};

const reportRules: Rules = {
  "keeps the last report of each process": async (t) => {
    const [first, second] = [processOf(t.key, 1), processOf(t.key, 2)];
    await writeReport(t, first, "earlier");
    await writeReport(t, second, "own");
    await writeReport(t, first, "later");
    await reportsAre(t, processOf(t.key, 0).slice(0, -1), [`${first} later`, `${second} own`]);
  },
  "drops a report when its time is over, and no other": async (t) => {
    const [first, second] = [processOf(t.key, 1), processOf(t.key, 2)];
    await writeReport(t, first, "brief", 1_000);
    await writeReport(t, second, "long");
    await t.subject.elapse(1_500);
    await reportsAre(t, processOf(t.key, 0).slice(0, -1), [`${second} long`]);
  },
  "tells every process that reports that somebody has read them": async (t) => {
    await t.store.readReports?.();
    for (const nth of [1, 2]) strictEqual(await writeReport(t, processOf(t.key, nth), ""), true);
  },
};

/**
 * The rules that every store must keep. Run each case with its own `name`, for example:
 *
 *     for (const [index, { title, run }] of storeConformance.entries())
 *       it(title, () => run(store, `conformance:${index}`));
 */
export const storeConformance: readonly ConformanceCase[] = [
  ...[leaseRules, storeRules, releaseRules, clockRules, positionRules].flatMap((rules) => casesOf(rules)),
  ...casesOf(wakeRules, "wakes"),
  ...casesOf(headRules, "heads"),
  ...casesOf(reportRules, "reports"),
];
