import { describe, expect, it } from "vitest";
import {
  appendToClock,
  appendToCopies,
  type ClockHead,
  type CopiedClock,
  laterHead,
  readHead,
  readLog,
  type StoredClock,
  writeRecord,
} from "../../../src/core/store/clock-log.js";

const hard = (subject: number): Buffer => writeRecord({ kind: "hard", subjects: [subject] });
const headOf = (bytes: Buffer | undefined): ClockHead => readHead(bytes) as ClockHead;

/** A log, and copies of its head on three nodes. */
function subject() {
  const state = {
    clock: undefined as StoredClock | undefined,
    copies: [undefined, undefined, undefined] as (Buffer | undefined)[],
    /** The number of a node that does not reply. */
    away: undefined as number | undefined,
    /** Called between the append of a call and the raise of its copies. */
    between: async (): Promise<void> => undefined,
  };
  const clock: CopiedClock = {
    async append(records, after) {
      state.clock = appendToClock(state.clock, records, Math.max(1_000, after + 1), 10_000);
      return state.clock.head;
    },
    async raise(head) {
      const { between } = state;
      state.between = async () => undefined;
      await between();
      for (const [nth, shown] of state.copies.entries())
        if (nth !== state.away && !((readHead(shown)?.position ?? 0) >= headOf(head).position))
          state.copies[nth] = head;
      if (state.away !== undefined) throw new Error("a node is away");
      return state.copies as Buffer[];
    },
    async read(from) {
      return state.clock?.log.subarray(from);
    },
  };
  const append = (...records: readonly Buffer[]): Promise<Buffer> => appendToCopies(clock, records);
  const subjects = () => readLog(state.clock?.log)?.records.flatMap((record) => record.subjects);
  return { state, clock, append, subjects };
}

describe("appendToCopies", () => {
  it("resolves when every copy shows the head of the log", async () => {
    const { state, append, subjects } = subject();
    const begun = await append();
    expect(state.copies).toEqual([begun, begun, begun]);
    const head = await append(hard(1), hard(2));
    expect(headOf(head).position).toBeGreaterThan(headOf(begun).position);
    expect(state.copies).toEqual([head, head, head]);
    expect(subjects()).toEqual([1, 2]);
  });

  it("gives a copy that was lost the head that is there, without another record", async () => {
    const { state, append } = subject();
    const head = await append(hard(1));
    state.copies[1] = undefined;
    expect(await append()).toEqual(head);
    expect(state.copies).toEqual([head, head, head]);
  });

  it("rejects if one copy is not known to show the invalidation, which the others do show", async () => {
    const { state, append, subjects } = subject();
    await append();
    state.away = 1;
    await expect(append(hard(1))).rejects.toThrow("a node is away");
    expect(subjects()).toEqual([1]);
    expect(state.copies[0]).toEqual(state.clock?.head);
    expect(headOf(state.copies[1]).position).toBeLessThan(headOf(state.copies[0]).position);
  });

  it("never lowers a copy that shows what another process has appended to the same log, and appends nothing again", async () => {
    const { state, append, subjects } = subject();
    await append();
    let later: Buffer | undefined;
    state.between = async () => {
      later = await append(hard(2));
    };
    const head = await append(hard(1));
    expect(headOf(head).position).toBeLessThan(headOf(later).position);
    expect(state.copies).toEqual([later, later, later]);
    expect(subjects()).toEqual([1, 2]);
  });

  it("appends again above a copy that shows a later position than the log, which has gone back", async () => {
    const { state, append, subjects } = subject();
    await append(hard(1));
    const older = state.clock;
    for (let nth = 2; nth < 6; nth++) await append(hard(nth));
    const shown = headOf(state.copies[0]);
    state.clock = older;
    const head = await append(hard(9));
    expect(headOf(head).position).toBeGreaterThan(shown.position);
    expect(state.copies).toEqual([head, head, head]);
    expect(subjects()).toEqual([1, 9, 9]);
  });

  it("appends again above a copy that shows another record at the same position", async () => {
    const { state, append, subjects } = subject();
    await append(hard(1));
    const older = state.clock;
    await append(hard(2));
    const shown = headOf(state.copies[0]);
    state.clock = older;
    const head = await append(hard(9));
    expect(headOf(head).position).toBeGreaterThan(shown.position);
    expect(state.copies).toEqual([head, head, head]);
    expect(subjects()).toEqual([1, 9, 9]);
  });

  it("appends again above a copy that has gone ahead although the log has later records of another process by then", async () => {
    const { state, append, subjects } = subject();
    await append(hard(1));
    const older = state.clock;
    for (let nth = 2; nth < 4; nth++) await append(hard(nth));
    const shown = headOf(state.copies[0]);
    state.clock = older;
    state.between = async () => {
      for (let nth = 4; nth < 8; nth++) state.clock = appendToClock(state.clock, [hard(nth)], 1_000, 10_000);
    };
    const head = await append(hard(9));
    expect(headOf(head).position).toBeGreaterThan(shown.position);
    expect(subjects()).toEqual([1, 9, 4, 5, 6, 7, 9]);
  });

  it("raises the log above a copy that has gone ahead even without an invalidation, so that readers find what the copies show", async () => {
    const { state, append, subjects } = subject();
    await append(hard(1));
    const older = state.clock;
    await append(hard(2));
    state.clock = older;
    const head = await append();
    expect(state.copies).toEqual([head, head, head]);
    expect(subjects()).toEqual([1]);
  });

  it("appends again in the new epoch if the log is lost before the copies are raised", async () => {
    const { state, append, subjects } = subject();
    await append(hard(1));
    state.between = async () => {
      state.clock = undefined;
      await append(hard(2));
    };
    const head = await append(hard(3));
    expect(headOf(head).epoch).toBe(headOf(state.clock?.head).epoch);
    expect(new Set(subjects())).toEqual(new Set([2, 3]));
    expect(state.copies).toEqual([head, head, head]);
  });

  it("rejects if a copy always shows a later position", async () => {
    const { clock } = subject();
    const raise = async (head: Buffer): Promise<Buffer[]> => [
      appendToClock(undefined, [], headOf(head).position + 1_000, 10_000).head,
    ];
    await expect(appendToCopies({ ...clock, raise }, [hard(1)])).rejects.toThrow("check the clocks of the servers");
  });
});

describe("laterHead", () => {
  it("returns the head with the later position, and a head rather than anything else", () => {
    const earlier = appendToClock(undefined, [], 1_000, 10_000).head;
    const later = appendToClock(undefined, [], 2_000, 10_000).head;
    for (const pair of [
      [earlier, later],
      [later, earlier],
    ] as const)
      expect(laterHead(...pair)).toBe(later);
    for (const none of [undefined, Buffer.from("garbage")]) {
      expect(laterHead(none, earlier)).toBe(earlier);
      expect(laterHead(earlier, none)).toBe(earlier);
    }
    for (const none of [undefined, Buffer.alloc(0)]) expect(laterHead(none, Buffer.from("garbage"))).toBeUndefined();
  });
});
