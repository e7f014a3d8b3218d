import { FakeClock } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import type { ReportStore } from "../../../src/core/store/report-store.js";
import { Channel } from "../../../src/core/telemetry/channel.js";
import { Counters } from "../../../src/core/telemetry/counters.js";
import { Fleet } from "../../../src/tools/fleet/fleet.js";
import { writeCounted, writeInfo } from "../../../src/tools/fleet/report-format.js";

const PROCESSES = 200;
const KEYS = 100;
/** As many parts of reports may be decoded, or added up, in one turn of the event loop. */
const PER_TURN = 20;

/** A process that answers, and the reports of 200 others, each of which has read 100 keys of its own. */
function createFleet() {
  const clock = new FakeClock(1_000_000);
  let turns = 0;
  const afterTick = clock.afterTick.bind(clock);
  clock.afterTick = (fn) => {
    turns++;
    afterTick(fn);
  };
  const now = clock.now();
  const ids = Array.from({ length: PROCESSES }, (_, nth) => `p${nth}`);
  const identity = { host: "h", pid: 1, version: "1", nodeVersion: "v" };
  const info = writeInfo({ ...identity, startedAt: now, reportEveryMs: 5_000, isClosed: false });
  const totalOf = (id: string): Uint8Array => {
    const keys = Array.from({ length: KEYS }, (_, nth) => {
      const coordinate = nth % 2 === 0 ? "Query.even" : "Query.odd";
      return { coordinate, digest: `${nth}-${id}`, reads: nth + 1, maxError: 0 };
    });
    const hot = { fromAt: now, keys: { reads: 5_050, floor: 0, keys } };
    return writeCounted({ fromAt: now, toAt: now, tallies: new Map([["Query.even", { reads: 3 }]]), hot });
  };
  const reply = { now, askedUntilAt: 0 };
  const reports: ReportStore = {
    write: async () => ({ ...reply, isFirst: false }),
    list: async () => ({ ...reply, processes: ids.map((id) => ({ id, reportedAt: now })) }),
    read: async (wanted) => wanted.map(({ process, part }) => (part === "info" ? info : totalOf(process))),
    ask: async () => undefined,
  };
  const counters = new Counters();
  const fleet = new Fleet({
    clock,
    counters,
    channel: new Channel(counters, "p"),
    store: { reports, isShared: true },
    identity: { id: "own", ...identity },
    settings: { report: true, reportEveryMs: 5_000, storeTimeoutMs: 1_000 },
  });
  return { fleet, turns: () => turns };
}

describe("The statistics of many processes", () => {
  it("are decoded and added up in turns of the event loop, with other work in between", async () => {
    const { fleet, turns } = createFleet();
    const { tallies } = await fleet.counts("SINCE_START");
    expect(tallies.get("Query.even")).toEqual({ reads: 3 * PROCESSES });
    // Each has two parts to decode, and one to add up.
    expect(turns()).toBeGreaterThanOrEqual((3 * PROCESSES) / PER_TURN - 2);
  });

  it("have exact sums of reads by key, which are made and sorted in turns as well", async () => {
    const { fleet, turns } = createFleet();
    const all = await fleet.hotKeys("SINCE_START");
    const before = turns();
    expect(before).toBeGreaterThanOrEqual((3 * PROCESSES) / PER_TURN - 2 + (PROCESSES * KEYS) / 2_000 - 1);
    expect(all).toMatchObject({ reads: 5_050 * PROCESSES, floor: 0 });
    expect(all.keys.map(({ reads }) => reads)).toEqual(Array.from({ length: KEYS }, () => 100));
    const even = await fleet.hotKeys("SINCE_START", "Query.even");
    expect(even.keys.map(({ coordinate, reads }) => `${coordinate} ${reads}`)).toEqual(
      Array.from({ length: KEYS }, () => "Query.even 99"),
    );
  });
});
