import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { nextControlVersion } from "../../../src/store/control-version.js";
import type { Store, VersionedControl } from "../../../src/store/store.js";
import { ControlRecord } from "../../../src/tier/control-record.js";
import { Variants } from "../../../src/tier/variants.js";

/** A store with two copies of the control record, of which the first can be lost. */
class TwoCopies {
  readonly copies: (VersionedControl | undefined)[] = [undefined, undefined];
  /** Called once, before a record is written to all copies. */
  beforeRaise: () => Promise<void> = async () => undefined;
  #made = 0;

  get store(): Store {
    const names = ["0", "1"];
    return {
      controlCopies: () => names,
      readControl: async (wanted: readonly string[]) =>
        wanted.map((name) => ({ kind: "read", record: this.copies[Number(name)] })),
      replaceControl: async (expected: string | undefined, content: Uint8Array) => {
        if (this.copies[0]?.version !== expected) return undefined;
        this.#made++;
        const version = nextControlVersion(1_000 * this.#made, Buffer.alloc(8, this.#made), expected);
        this.copies[0] = { version, content };
        return version;
      },
      raiseControl: async (wanted: readonly string[], record: VersionedControl) => {
        const before = this.beforeRaise;
        this.beforeRaise = async () => undefined;
        await before();
        for (const name of wanted) {
          const held = this.copies[Number(name)];
          if (held === undefined || held.version < record.version) this.copies[Number(name)] = record;
        }
      },
    } as unknown as Store;
  }
}

describe("the control record", () => {
  it("waits for as long as the read of a large tick has taken", async () => {
    const shared = new TwoCopies();
    const clock = new FakeClock();
    const { store } = shared;
    const readControl = store.readControl.bind(store);
    const slow: Store = {
      ...store,
      readControl: async (names) => {
        await new Promise<void>((resolve) => void clock.after(150, resolve));
        return readControl(names);
      },
    };
    const create = () =>
      new ControlRecord(slow, clock, { nameUnder: () => "" }, new Variants(), { storeTimeoutMs: 100 });
    const sentAt = clock.now();
    await clock.advance(180);
    const late = create().prepare(undefined, [], sentAt + 100);
    const inTime = create().prepare(undefined, [], sentAt);
    await clock.advance(2_000);
    expect([await late, await inTime]).toEqual([false, true]);
  });

  it("repeats a change that was lost with the first copy before the others had it", async () => {
    const shared = new TwoCopies();
    const clock = new FakeClock();
    const create = () =>
      new ControlRecord(shared.store, clock, { nameUnder: () => "" }, new Variants(), { storeTimeoutMs: 1_000 });
    const [clearing, other] = [create(), create()];
    await clearing.invalidateCoordinates(["Query.before"]);
    const epochOf = (): string =>
      (JSON.parse(Buffer.from(shared.copies[0]?.content ?? "").toString()) as { epoch: string }).epoch;
    const before = epochOf();
    shared.beforeRaise = async () => {
      shared.copies[0] = undefined;
      await other.invalidateCoordinates(["Query.other"]);
    };
    await clearing.clear();
    expect(shared.copies[1]).toEqual(shared.copies[0]);
    expect(epochOf()).not.toBe(before);
  });

  it("reports the invalidation of a coordinate that the store has lost, unless something later makes up for it", async () => {
    const shared = new TwoCopies();
    const lost: unknown[] = [];
    const variants = new Variants();
    variants.declare("Query.a", { id: "v", keyForm: "k" }, 1_000);
    const create = () =>
      new ControlRecord(
        shared.store,
        new FakeClock(),
        { nameUnder: () => "" },
        variants,
        { storeTimeoutMs: 1_000 },
        (names) => lost.push(names),
      );
    const [own, other] = [create(), create()];
    await own.list();
    const before = [...shared.copies];
    await own.invalidateCoordinates(["Query.a"]);
    await other.clear();
    await own.restore();
    expect(lost).toEqual([]);
    await own.invalidateCoordinates(["Query.a", "Query.b"]);
    // A failover loses both changes, and another process continues from there before this one looks.
    shared.copies.splice(0, 2, ...before);
    await create().invalidateCoordinates(["Query.b"]);
    await own.restore();
    expect(lost).toEqual([{ coordinates: ["Query.a"], isClear: false }]);
    await own.invalidateCoordinates(["Query.a"]);
    expect(lost).toHaveLength(1);
    await own.clear();
    shared.copies.splice(0, 2, ...before);
    // Nobody has changed the earlier record, so the later one is restored.
    await own.restore();
    expect([lost.length, shared.copies[0]?.version === before[0]?.version]).toEqual([1, false]);
  });
});
