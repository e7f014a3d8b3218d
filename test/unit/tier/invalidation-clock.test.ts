import { memoryUsage } from "node:process";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import type { Subjects } from "../../../src/core/keys/key.js";
import { appendToClock, readHead, readLog, type StoredClock, writeRecord } from "../../../src/core/store/clock-log.js";
import type { ClockOrigin, Store } from "../../../src/core/store/store.js";
import { InvalidationClock } from "../../../src/core/tier/shared/invalidation-clock.js";
import type { EntryKey } from "../../../src/core/tier/shared/known-positions.js";
import { collectGarbage } from "../../support/collect-garbage.js";

/** Subjects. */
const [A, B, C] = [1, 2, 3] as const;
const WRITER = "writer 1";
/** The subjects of everything, of the coordinate and of the entry that most tests evaluate, and of others. */
const [EVERYTHING, WHOLE, OWN, OTHER] = [1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3] as const;
const KEY: EntryKey = { coordinate: "Query.a", form: 7, digest: "own" };
const SUBJECTS: Subjects = {
  entry: ({ digest }) => (digest === KEY.digest ? OWN : OTHER),
  coordinate: (coordinate) => (coordinate === KEY.coordinate ? WHOLE : OTHER),
  everything: EVERYTHING,
  anyOf: () => OTHER,
  formOf: (coordinate, form) => 1e7 * form + coordinate,
};

type ClockRecord = Parameters<typeof writeRecord>[0];

/** A store with an invalidation clock and nothing else, which can go back, lose it, fail, and hold its replies. */
function createServer(maxBytes = 1024 * 1024) {
  const clock = new FakeClock();
  const server = {
    stored: undefined as StoredClock | undefined,
    /** How far its clock is behind. */
    behindMs: 0,
    hasFailed: false,
    hasLogFailed: false,
    /** Replies to reads of the log wait for this. */
    held: undefined as Promise<void> | undefined,
    logReads: 0,
    appended: 0,
  };
  const append = (records: readonly Buffer[]): Buffer => {
    server.stored = appendToClock(server.stored, records, (clock.now() - server.behindMs) * 1000, maxBytes);
    return server.stored.head;
  };
  const store = {
    appendClock: async (records: readonly Buffer[]) => {
      if (server.hasFailed) throw new Error("down");
      server.appended += records.length;
      return append(records);
    },
    readClock: async (from: number) => {
      server.logReads++;
      if (server.hasFailed || server.hasLogFailed) throw new Error("down");
      const reply = server.stored && Buffer.from(server.stored.log.subarray(from));
      await server.held;
      return reply;
    },
  } as unknown as Store;
  /** Invalidates as a process would that is not part of the test. */
  const invalidate = (...subjects: number[]): Buffer => append([writeRecord({ kind: "hard", subjects })]);
  const snapshot = (): StoredClock | undefined =>
    server.stored && { head: server.stored.head, log: Buffer.from(server.stored.log) };
  /** Whether what is read now can be evaluated by a process. */
  const read = (process: InvalidationClock): Promise<boolean> => process.catchUp(server.stored?.head);
  return {
    clock,
    server,
    invalidate,
    snapshot,
    read,
    /** Goes back to before a record, or an invalidation of a subject, that processes have read. Returns the lost head. */
    lose: async (lost: ClockRecord | number, ...processes: readonly InvalidationClock[]): Promise<Buffer> => {
      const saved = snapshot();
      const head = append([writeRecord(typeof lost === "number" ? { kind: "hard", subjects: [lost] } : lost)]);
      for (const process of processes) await read(process);
      server.stored = saved;
      return head;
    },
    /** Holds the replies to reads of the log until the returned gate is opened. */
    hold: () => {
      const held = gate();
      server.held = held.passed;
      return held;
    },
    start: () => new InvalidationClock(store, SUBJECTS, clock, () => 0.5),
    append: (record: ClockRecord) => append([writeRecord(record)]),
    /** Under what a load begins now: a store grants no position that it has not reached. */
    load: (process: InvalidationClock): ClockOrigin => {
      const { epoch, position } = process.origin as ClockOrigin;
      return { epoch, position: Math.min(position, readHead(server.stored?.head)?.position ?? 0) };
    },
    log: () => readLog(server.stored?.log)?.records.filter(({ kind }) => kind !== "epoch") ?? [],
  };
}

/** A store, and a process that knows its clock. `origin`: under what a load begins then. */
async function started(maxBytes?: number) {
  const server = createServer(maxBytes);
  const process = server.start();
  await server.read(process);
  return { ...server, process, origin: server.load(process) };
}

const entryWith = (...subjects: number[]) => ({ key: KEY, tags: { subjects } });

/** Whether a process serves a value. */
const isServed = (process: InvalidationClock, origin: ClockOrigin, ...subjects: number[]): boolean =>
  process.counts(origin, KEY) && process.stateOf(subjects, origin.position) !== "changed";

describe("what a process knows of the invalidation clock", () => {
  it("is never said to be at a head before its maps are", async () => {
    const { hold, read, invalidate, load, process, origin } = await started();
    const head = invalidate(A);
    const held = hold();
    const reading = read(process);
    await settle();
    expect(process.isAt(head)).toBe(false);
    expect(load(process)).toEqual(origin);
    held.open();
    expect(await reading).toBe(true);
    expect(isServed(process, origin, A)).toBe(false);
    await read(process);
    expect(process.isAt(head)).toBe(true);
  });

  it("does not let loads count as later than the invalidations of others that it has not read, after one of its own", async () => {
    const { hold, invalidate, load, process } = await started();
    const before = load(process);
    invalidate(A);
    const held = hold();
    await process.append({ kind: "hard", subjects: [B] });
    expect(load(process)).toEqual(before);
    expect(isServed(process, before, B)).toBe(false);
    held.open();
    await settle();
    expect(load(process).position).toBeGreaterThan(before.position);
    expect(isServed(process, before, A)).toBe(false);
  });

  it("includes what was appended while the log was read for an earlier tick, before a later tick is served", async () => {
    const { hold, server, read, invalidate, process, origin } = await started();
    const held = hold();
    invalidate(A);
    const first = read(process);
    await settle();
    invalidate(B);
    let isSecondServed = false;
    const second = read(process).finally(() => {
      isSecondServed = true;
    });
    await settle();
    expect(isSecondServed).toBe(false);
    held.open();
    expect([await first, await second]).toEqual([true, true]);
    expect([isServed(process, origin, A), isServed(process, origin, B)]).toEqual([false, false]);
    expect(server.logReads).toBe(1 + 2);
  });

  it("is not asked for again by a tick that reads an earlier head than it knows", async () => {
    const { clock, server, start, read, invalidate } = createServer();
    const process = start();
    const earlier = invalidate(A);
    invalidate(B);
    await read(process);
    const { logReads } = server;
    expect(await process.catchUp(earlier)).toBe(true);
    expect(server.logReads).toBe(logReads);
    // Whether the store has gone back is found out a moment later.
    await clock.advance(100);
    expect(server.logReads).toBe(logReads + 1);
    expect(server.appended).toBe(0);
  });

  it("cannot be evaluated while the store fails", async () => {
    const { server, clock, start, read, invalidate } = createServer();
    const process = start();
    const earlier = invalidate(A);
    invalidate(B);
    await read(process);
    // The check of an earlier head that fails is no unhandled rejection.
    for (const fails of ["hasLogFailed", "hasFailed"] as const) {
      server[fails] = true;
      expect(await process.catchUp(earlier)).toBe(true);
      await clock.advance(100);
    }
    server.hasLogFailed = false;
    expect(await process.catchUp(invalidate(C))).toBe(false);
    server.hasFailed = false;
    expect(await read(process)).toBe(true);
  });
});

describe("a message that tells of an invalidation", () => {
  it("makes it known without a read, but only a read says that it is certain to stay", async () => {
    const { server, read, invalidate, load, process, origin } = await started();
    const head = invalidate(A);
    await process.hear(head);
    expect([isServed(process, origin, A), isServed(process, origin, B)]).toEqual([false, true]);
    expect([process.isAt(head), load(process)]).toEqual([false, origin]);
    const { logReads } = server;
    await read(process);
    expect([process.isAt(head), server.logReads]).toEqual([true, logReads]);
    expect(load(process).position).toBeGreaterThan(origin.position);
  });

  it("shares a read of the log with others, and has another one follow if it came during one", async () => {
    const { hold, server, invalidate, process, origin } = await started();
    const { logReads } = server;
    const held = hold();
    const heard = [process.hear(invalidate(A))];
    for (const subject of [B, C]) heard.push(process.hear(invalidate(subject)));
    await settle();
    expect(server.logReads).toBe(logReads + 1);
    held.open();
    await Promise.all(heard);
    expect(server.logReads).toBe(logReads + 2);
    expect([A, B, C].map((subject) => isServed(process, origin, subject))).toEqual([false, false, false]);
  });

  it("makes a process read nothing if it is late, of another epoch or no head, or if the process knows nothing yet", async () => {
    const { server, start, read, invalidate } = createServer();
    const process = start();
    const first = invalidate(A);
    await process.hear(first);
    expect(server.logReads).toBe(0);
    const second = invalidate(A);
    await read(process);
    const { logReads } = server;
    const otherEpoch = Buffer.from(second);
    otherEpoch.write("epoch 02", 8);
    otherEpoch.writeDoubleLE(1e15, 16);
    for (const bytes of [first, second, otherEpoch, Buffer.from("garbage"), Buffer.alloc(56)])
      await process.hear(bytes);
    expect(server.logReads).toBe(logReads);
  });

  it("changes nothing if the log cannot be read", async () => {
    const { server, read, invalidate, process, origin } = await started();
    server.hasLogFailed = true;
    await process.hear(invalidate(A));
    expect(isServed(process, origin, A)).toBe(true);
    server.hasLogFailed = false;
    await read(process);
    expect(isServed(process, origin, A)).toBe(false);
  });
});

describe("what a process says of itself", () => {
  it("is as of the latest read that it has confirmed, in whatever order they end", () => {
    const process = createServer().start();
    expect(process.asOf).toBe(Number.NEGATIVE_INFINITY);
    for (const sentAt of [5, 9, 7]) process.confirm(sentAt);
    expect(process.asOf).toBe(9);
  });

  it("is when it last had to replace what it knew, which it compares everything with again", async () => {
    const { clock, server, start, read, invalidate, snapshot } = createServer();
    const process = start();
    invalidate(A);
    await read(process);
    const saved = snapshot();
    invalidate(B);
    await read(process);
    expect(process.restartedAt).toBe(Number.NEGATIVE_INFINITY);
    await clock.advance(1_000);
    const { changes } = process;
    server.stored = saved;
    invalidate(C);
    await read(process);
    expect([process.restartedAt, process.restarts]).toEqual([clock.now(), 1]);
    expect(process.changes).toBeGreaterThan(changes);
    await clock.advance(1_000);
    server.stored = undefined;
    await read(process);
    expect([process.restartedAt, process.restarts]).toEqual([clock.now(), 2]);
  });
});

describe("a store that goes back to an earlier snapshot", () => {
  it("has what it has lost appended again, once, by two processes that have seen it, and is not believed until then", async () => {
    const { lose, clock, start, read, log, load } = createServer();
    const processes = [start(), start()] as const;
    for (const process of processes) await read(process);
    const origin = load(processes[0]);
    await lose(A, ...processes);
    for (const process of processes) {
      await read(process);
      expect(isServed(process, origin, A)).toBe(false);
    }
    await clock.advance(300);
    expect(log().map(({ subjects }) => subjects)).toEqual([[A]]);
    const third = start();
    await read(third);
    for (const process of [...processes, third]) {
      await read(process);
      expect(isServed(process, origin, A)).toBe(false);
      expect(isServed(process, load(third), A)).toBe(true);
    }
  });

  it("shows what others have invalidated since, also if its clock is behind as well", async () => {
    const { lose, clock, server, start, read, invalidate, load } = createServer();
    const process = start();
    await clock.advance(10_000);
    await read(process);
    const origin = load(process);
    await clock.advance(10_000);
    await lose(A, process);
    server.behindMs = 5_000;
    // At an earlier position than that of the invalidation that was lost.
    invalidate(B);
    expect(await read(process)).toBe(true);
    expect([isServed(process, origin, A), isServed(process, origin, B)]).toEqual([false, false]);
  });

  it("shows what others have invalidated since, although the log is as long as it was", async () => {
    const { lose, read, invalidate, process, origin } = await started();
    await lose(A, process);
    invalidate(B);
    await process.append({ kind: "hard", subjects: [C] });
    expect(await read(process)).toBe(true);
    expect([A, B, C].map((subject) => isServed(process, origin, subject))).toEqual([false, false, false]);
  });

  it("serves what was loaded after an invalidation that was appended again, although its clock is far behind", async () => {
    const { lose, clock, server, start, read, load } = createServer();
    const process = start();
    await clock.advance(3_600_000);
    await read(process);
    await clock.advance(3_600_000);
    await lose(A, process);
    server.behindMs = 3_600_000;
    await read(process);
    const during = load(process);
    await clock.advance(300);
    await read(process);
    expect(isServed(process, during, A)).toBe(false);
    expect(isServed(process, load(process), A)).toBe(true);
    const { appended } = server;
    await clock.advance(10_000);
    expect(server.appended).toBe(appended);
  });

  it("has nothing else appended if its log cannot be read at first", async () => {
    const { lose, clock, server, start, read, invalidate, log } = createServer();
    const process = start();
    invalidate(B);
    await read(process);
    await lose(A, process);
    await read(process);
    // By then it has found out what is lost.
    await clock.advance(100);
    server.hasFailed = true;
    await clock.advance(1_000);
    server.hasFailed = false;
    await clock.advance(300);
    expect(log().map(({ subjects }) => subjects)).toEqual([[B], [A]]);
  });

  it.each([
    ["", 2, 0],
    [", also if its clock is behind as well", 1, 3_600_000],
  ])(
    "is not believed about what processes have known and forgotten, so that everything is invalidated, once%s",
    async (_, count, behindMs) => {
      const { clock, server, start, read, invalidate, snapshot, log, load } = createServer(1_000);
      const processes = Array.from({ length: count }, start) as [InvalidationClock, ...InvalidationClock[]];
      invalidate(C);
      for (const process of processes) await read(process);
      const origin = load(processes[0]);
      const saved = snapshot();
      await clock.advance(1_000);
      invalidate(A);
      for (let nth = 0; nth < 100; nth++) invalidate(100 + nth);
      for (const process of processes) await read(process);
      server.stored = saved;
      server.behindMs = behindMs;
      for (const process of processes) {
        await read(process);
        expect(isServed(process, origin, A)).toBe(false);
      }
      await clock.advance(300);
      expect(log().filter(({ subjects }) => subjects.includes(EVERYTHING))).toHaveLength(1);
      const third = start();
      for (const process of [...processes, third]) {
        await read(process);
        expect([isServed(process, origin, A), isServed(process, load(process), A)]).toEqual([false, true]);
      }
    },
  );

  it("is left alone by a process that is closed", async () => {
    const { lose, clock, server, read, process } = await started();
    await lose(A, process);
    await read(process);
    process.close();
    const { logReads } = server;
    await clock.advance(1_000);
    expect([server.appended, server.logReads]).toEqual([0, logReads]);
  });

  it("keeps the mark of a write that it has lost until the mark ends by itself", async () => {
    const { lose, clock, read, process } = await started();
    await lose({ kind: "begin", subjects: [A], writer: WRITER, guardMs: 3_000 }, process);
    await read(process);
    expect(process.isWritten(entryWith(A), clock.now() + 2_999)).toBe(true);
    expect(process.isWritten(entryWith(A), clock.now() + 3_000)).toBe(false);
  });
});

describe("an invalidation of keys in another form", () => {
  /** The keys of the coordinate of `KEY`, in another form than that has. */
  const OTHER_FORM = { coordinate: WHOLE, form: 8 };
  const OTHER_COORDINATE = { coordinate: OTHER, form: 8 };

  it("is appended again as what it was if the store has lost it", async () => {
    const { lose, clock, start, read, log, load, process, origin } = await started();
    await lose({ kind: "hard", subjects: [A], forms: [OTHER_FORM, OTHER_COORDINATE] }, process);
    await read(process);
    expect(process.counts(origin, KEY)).toBe(false);
    await clock.advance(300);
    expect(log()).toMatchObject([{ kind: "hard", subjects: [A], forms: [OTHER_FORM, OTHER_COORDINATE] }]);
    const another = start();
    await read(another);
    for (const each of [process, another]) {
      await read(each);
      expect([each.counts(origin, KEY), each.counts(load(another), KEY)]).toEqual([false, true]);
    }
  });

  it("concerns what is loaded from the moment this process begins it", async () => {
    const { load, process } = await started();
    process.preempt({ subjects: [A], forms: [OTHER_FORM] }, "hard");
    expect(process.counts(load(process), KEY)).toBe(false);
    await process.append({ kind: "hard", subjects: [A], forms: [OTHER_FORM] });
    expect(process.counts(load(process), KEY)).toBe(true);
  });

  it("is in the first of several records", async () => {
    const { log, process, origin } = await started();
    const subjects = Array.from({ length: 10_001 }, (_, nth) => 1e9 + nth);
    await process.append({ kind: "hard", subjects, forms: [OTHER_FORM] });
    expect(log().map(({ forms }) => forms)).toEqual([[OTHER_FORM], []]);
    expect(process.counts(origin, KEY)).toBe(false);
  });
});

describe("a clock that is lost", () => {
  it.each(["head and log", "head", "log"])(
    "begins another epoch, in which no earlier value counts: %s",
    async (what) => {
      const { server, start, read, invalidate, load } = createServer();
      const process = start();
      invalidate(A);
      await read(process);
      const origin = load(process);
      const { head, log } = server.stored as StoredClock;
      server.stored =
        what === "head and log"
          ? undefined
          : what === "head"
            ? { head: Buffer.alloc(0), log }
            : { head, log: Buffer.alloc(0) };
      // A process that knows the head needs no log; the next invalidation finds out.
      if (what === "log") await process.append({ kind: "hard", subjects: [B] });
      expect(await process.catchUp(what === "head and log" || what === "head" ? undefined : server.stored?.head)).toBe(
        true,
      );
      expect(isServed(process, origin, A)).toBe(false);
      expect(isServed(process, origin, C)).toBe(false);
      expect(load(process).epoch).not.toBe(origin.epoch);
      expect(isServed(process, load(process), A)).toBe(true);
      const other = start();
      await read(other);
      expect(other.origin).toEqual(process.origin);
    },
  );

  it("has no invalidation of the earlier epoch appended, also if the clock of the store has gone back", async () => {
    const { clock, server, start, read, invalidate, load } = createServer();
    const process = start();
    await clock.advance(10_000);
    invalidate(A);
    await read(process);
    server.stored = undefined;
    server.behindMs = 10_000;
    await read(process);
    expect(isServed(process, load(process), A)).toBe(true);
    await clock.advance(1_000);
    expect(server.appended).toBe(0);
  });
});

describe("a log that has dropped its older half", () => {
  it("makes values absent that are older than what was dropped, and is exact for all others", async () => {
    const { read, invalidate, log, server, load, process } = await started(1_000);
    const oldest = load(process);
    invalidate(A);
    await read(process);
    let younger = oldest;
    for (let nth = 0; readHead(server.stored?.head)?.beginsAt === 0; nth++) {
      invalidate(100 + nth);
      await read(process);
      if (nth === 20) younger = load(process);
    }
    expect(log().some(({ subjects }) => subjects.includes(A))).toBe(false);
    expect([process.counts(oldest, KEY), process.stateOf([A], oldest.position)]).toEqual([false, "changed"]);
    // Even for a tag that was never invalidated, in a value that was read before or is being loaded.
    expect(process.stateOf([B], oldest.position)).toBe("changed");
    expect(process.latestOf([B])).toBe(readHead(server.stored?.head)?.floor);
    expect(isServed(process, younger, B)).toBe(true);
    invalidate(B);
    await read(process);
    expect(isServed(process, younger, B)).toBe(false);
  });

  it("is read again by a process that has slept through it", async () => {
    const { server, read, invalidate, load, process, origin } = await started(1_000);
    for (let nth = 0; nth < 100; nth++) invalidate(100 + nth);
    expect(await read(process)).toBe(true);
    expect([isServed(process, origin, A), isServed(process, load(process), A)]).toEqual([false, true]);
    expect(server.appended).toBe(0);
  });
});

describe("a write in progress", () => {
  it("lasts no longer because the store's clock was set back before it began", async () => {
    const { clock, server, start, read, invalidate, append } = createServer();
    const process = start();
    invalidate(B);
    server.behindMs = 600_000;
    append({ kind: "begin", subjects: [A], writer: WRITER, guardMs: 3_000 });
    await read(process);
    const isWritten = (): boolean => process.isWritten(entryWith(A), clock.now() - server.behindMs);
    await clock.advance(2_999);
    expect(isWritten()).toBe(true);
    await clock.advance(1);
    expect(isWritten()).toBe(false);
  });

  it("lasts although writes of other subjects begin, and end or do not", async () => {
    const { clock, start, read, append } = createServer();
    const process = start();
    append({ kind: "begin", subjects: [A], writer: WRITER, guardMs: 3_000 });
    append({ kind: "begin", subjects: [B], writer: "dead", guardMs: 1_000 });
    await clock.advance(1_500);
    append({ kind: "begin", subjects: [C], writer: "writer 2", guardMs: 3_000 });
    append({ kind: "end", subjects: [C], writer: "writer 2" });
    await read(process);
    const written = [A, B, C].map((subject) => process.isWritten(entryWith(subject), clock.now()));
    expect(written).toEqual([true, false, false]);
  });

  it("is forgotten once it cannot matter, whether its writer has ended or died", async () => {
    const { clock, start, read, append } = createServer(10_000);
    const process = start();
    const write = async (nth: number): Promise<void> => {
      const mark = { subjects: [nth], writer: `w${String(nth).padStart(7, "0")}` } as const;
      append({ kind: "begin", ...mark, guardMs: 1_000 });
      if (nth % 2 === 0) append({ kind: "end", ...mark });
      await clock.advance(100);
      if (nth % 20 === 0) await read(process);
    };
    const heap = async (): Promise<number> => {
      await settle();
      collectGarbage();
      return memoryUsage().heapUsed;
    };
    let nth = 0;
    while (nth < 2_000) await write(nth++);
    const before = await heap();
    while (nth < 12_000) await write(nth++);
    const grown = (await heap()) - before;
    // Bytes of one write: 35 or more if anything of it is kept.
    expect(grown / 10_000).toBeLessThan(25);
  });

  it("is known to a process that starts later", async () => {
    const { clock, start, read, append } = createServer();
    append({ kind: "begin", subjects: [A], writer: WRITER, guardMs: 3_000 });
    const process = start();
    await read(process);
    expect(process.isWritten(entryWith(A), clock.now())).toBe(true);
  });
});

describe("an invalidation of this process", () => {
  it("rejects if the store fails, and what this process has announced is outdated nevertheless", async () => {
    const { server, load, process, origin } = await started();
    process.preempt({ subjects: [A] }, "hard");
    server.hasFailed = true;
    await expect(process.append({ kind: "hard", subjects: [A] })).rejects.toThrow("down");
    expect([isServed(process, origin, A), isServed(process, origin, B)]).toEqual([false, true]);
    expect(isServed(process, load(process), A)).toBe(false);
    server.hasFailed = false;
    await process.append({ kind: "hard", subjects: [A] });
    await settle();
    expect(isServed(process, load(process), A)).toBe(true);
  });

  it("of many subjects is several records", async () => {
    const { log, process, origin } = await started(64 * 1024 * 1024);
    await process.append({ kind: "hard", subjects: Array.from({ length: 25_000 }, (_, nth) => nth + 1) });
    expect(log().map(({ subjects }) => subjects.length)).toEqual([10_000, 10_000, 5_000]);
    expect([1, 10_000, 25_000].some((subject) => isServed(process, origin, subject))).toBe(false);
    expect(isServed(process, origin, 25_001)).toBe(true);
  });
});

it("a copy of the head that shows what the log has lost is outrun, and nothing read with it is evaluated until then", async () => {
  const { lose, clock, start, read, log, load } = createServer();
  const [ahead, process] = [start(), start()];
  for (const each of [ahead, process]) await read(each);
  const origin = load(process);
  const lost = await lose(A, ahead);
  expect(await process.catchUp(lost)).toBe(false);
  await settle();
  expect(log().map(({ subjects }) => subjects)).toEqual([[]]);
  // The process that knows it finds out by the new head.
  await read(ahead);
  await clock.advance(300);
  expect(await read(process)).toBe(true);
  expect(isServed(process, origin, A)).toBe(false);
});
