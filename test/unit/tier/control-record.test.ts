import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { nextControlVersion } from "../../../src/store/control-version.js";
import type { Store, VersionedControl } from "../../../src/store/store.js";
import { ControlRecord } from "../../../src/tier/control-record.js";
import { Modes } from "../../../src/tier/modes.js";
import { Variants } from "../../../src/tier/variants.js";

/** A store with two copies of the control record, of which the first can be lost. */
class TwoCopies {
  readonly copies: (VersionedControl | undefined)[] = [undefined, undefined];
  /** Called once, before a record is written to all copies. */
  beforeRaise: () => Promise<void> = async () => undefined;
  /** Called once, before the first copy is replaced. */
  beforeReplace: () => Promise<void> = async () => undefined;
  /** By how much the clock of the store is ahead. */
  aheadMs = 0;
  #made = 0;

  get store(): Store {
    const names = ["0", "1"];
    return {
      controlCopies: () => names,
      readControl: async (wanted: readonly string[]) =>
        wanted.map((name) => ({ kind: "read", record: this.copies[Number(name)] })),
      replaceControl: async (expected: string | undefined, content: Uint8Array) => {
        const before = this.beforeReplace;
        this.beforeReplace = async () => undefined;
        await before();
        if (this.copies[0]?.version !== expected) return undefined;
        this.#made++;
        const version = nextControlVersion(this.aheadMs + 1_000 * this.#made, Buffer.alloc(8, this.#made), expected);
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

  it("counts a new record although the clock of the store, which has lost the earlier one, has gone back", async () => {
    const shared = new TwoCopies();
    const clock = new FakeClock();
    const record = recordOn(shared, clock);
    shared.aheadMs = 60_000;
    await record.prepare(undefined, [], clock.now());
    const lost = shared.copies[0]?.version as string;
    shared.copies.fill(undefined);
    shared.aheadMs = 0;
    expect(await record.prepare(undefined, [], clock.now())).toBe(true);
    const created = shared.copies[0]?.version as string;
    expect([created < lost, record.isReady(created)]).toEqual([true, true]);
    await clock.advance(2_000);
    expect(shared.copies[0]?.version).toBe(created);
  });

  it("confirms a mode while a reader finds that the store was flushed, and creates another record", async () => {
    const shared = new TwoCopies();
    const clock = new FakeClock();
    const record = recordOn(shared, clock);
    await record.prepare(undefined, [], clock.now());
    const created = gate();
    let reading: Promise<boolean> | undefined;
    shared.beforeRaise = async () => {
      shared.copies.fill(undefined);
      shared.beforeReplace = () => created.passed;
      reading = record.prepare(undefined, [], clock.now());
      await settle();
    };
    await record.setMode({ mode: "off", coordinate: "Query.a", by: "test" });
    created.open();
    expect(await reading).toBe(true);
  });

  it("repeats a mode that was lost with the first copy before the others had it, and no other change with it", async () => {
    const shared = new TwoCopies();
    const [setting, other] = [recordOn(shared), recordOn(shared)];
    await other.setMode({ mode: "off", coordinate: "Query.before", by: "test" });
    shared.beforeRaise = async () => {
      shared.copies[0] = undefined;
      await other.setMode({ mode: "off", coordinate: "Query.other", by: "test" });
    };
    await setting.setMode({ mode: "observe", coordinate: "Query.a", by: "test" });
    expect(shared.copies[1]).toEqual(shared.copies[0]);
    const expected = { "Query.a": "observe", "Query.before": "off", "Query.other": "off" };
    expect(modesIn(shared)).toEqual(expected);
    for (const [coordinate, mode] of Object.entries(expected)) expect(setting.modes.of(coordinate)).toBe(mode);
  });

  it("does not take back a later mode that has replaced its own before all copies had it", async () => {
    const shared = new TwoCopies();
    const [setting, other] = [recordOn(shared), recordOn(shared)];
    shared.beforeRaise = () => other.setMode({ mode: "on", coordinate: "Query.a", by: "test" });
    await setting.setMode({ mode: "off", coordinate: "Query.a", by: "test" });
    expect([modesIn(shared), setting.modes.of("Query.a")]).toEqual([{ "Query.a": "on" }, "on"]);
  });

  it("has every mode in the end that a process has seen, also if the store was lost and its clock has gone back", async () => {
    const shared = new TwoCopies();
    const clock = new FakeClock();
    const [one, other] = [recordOn(shared, clock), recordOn(shared, clock)];
    const later = { version: nextControlVersion(9e9, Buffer.alloc(8, 9), undefined), content: Buffer.from(LATER) };
    shared.copies.splice(0, 2, later, later);
    await one.prepare(later.version, [], clock.now());
    expect(one.modes.of("Query.a")).toBe("off");
    shared.copies.splice(0, 2, undefined, undefined);
    await other.setMode({ mode: "observe", coordinate: "Query.b", by: "test" });
    // Its own record is the later one by its version, and replaces the other.
    const { version } = shared.copies[0] as VersionedControl;
    await one.prepare(version, [], clock.now());
    await clock.advance(2_000);
    expect(modesIn(shared)).toEqual({ "Query.a": "off" });
    await other.prepare(later.version, [], clock.now());
    await settle();
    expect(modesIn(shared)).toEqual({ "Query.a": "off", "Query.b": "observe" });
    await other.setMode({ mode: "on", coordinate: "Query.a", by: "test" });
    expect([modesIn(shared), other.modes.of("Query.a")]).toEqual([{ "Query.a": "on", "Query.b": "observe" }, "on"]);
  });

  it("keeps what it does not know, takes a mode of a later release for off, and ignores what is no mode", async () => {
    const shared = new TwoCopies();
    const listed = { sequence: 1, version: "A".repeat(22) };
    const modes = {
      "Query.new": { ...listed, mode: "shadow", more: 1 },
      "Query.none": { mode: "off" },
      "Query.text": "off",
    };
    const content = { coordinates: {}, modes, later: { anything: true } };
    const record = {
      version: nextControlVersion(1, Buffer.alloc(8), undefined),
      content: Buffer.from(JSON.stringify(content)),
    };
    shared.copies.splice(0, 2, record, record);
    const own = recordOn(shared);
    await own.setMode({ mode: "off", coordinate: "Query.a", by: "test" });
    const coordinates = ["Query.a", "Query.new", "Query.none", "Query.text"];
    expect(coordinates.map((name) => own.modes.of(name))).toEqual(["off", "off", "on", "on"]);
    expect(JSON.parse(Buffer.from(shared.copies[0]?.content ?? "").toString())).toMatchObject(content);
  });
});

const recordOn = (shared: TwoCopies, clock = new FakeClock()): ControlRecord => {
  const settings = { storeTimeoutMs: 1_000 };
  const modes = new Modes();
  return new ControlRecord(shared.store, clock, { nameUnder: () => "" }, new Variants(), settings, modes);
};

/** A record with a mode that was set at a time that is still to come. */
const LATER = JSON.stringify({
  coordinates: {},
  modes: { "Query.a": { mode: "off", sequence: 9e12, version: "A".repeat(22) } },
});

function modesIn({ copies }: TwoCopies): Record<string, string> {
  const { modes } = JSON.parse(Buffer.from(copies[0]?.content ?? "").toString()) as {
    modes: Record<string, { mode: string }>;
  };
  return Object.fromEntries(Object.entries(modes).map(([name, { mode }]) => [name, mode]));
}
