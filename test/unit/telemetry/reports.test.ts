import { createHash } from "node:crypto";
import { inflateRawSync } from "node:zlib";
import { FakeClock } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { Counters } from "../../../src/core/telemetry/counters.js";
import { RecentEvents } from "../../../src/tools/inspection/recent-events.js";
import type { ProcessReport } from "../../../src/tools/inspection/report-format.js";
import { Reports } from "../../../src/tools/inspection/reports.js";

/** Text that cannot be compressed below half of its length. */
const textOf = (seed: number): string =>
  [1, 2, 3, 4].map((part) => createHash("sha256").update(`${seed} ${part}`).digest("hex")).join("");

it("a report that is too large is written without its minutes and older events, and the log says so once", async () => {
  const clock = new FakeClock();
  const counters = new Counters();
  const events = new RecentEvents(clock);
  const written: ProcessReport[] = [];
  const warnings: string[] = [];
  const reports = new Reports({
    clock,
    counters,
    events,
    identity: { id: "1", host: "", pid: 1, version: "", nodeVersion: "" },
    logger: { info: () => undefined, warn: (line) => warnings.push(line) },
    settings: { report: undefined },
    store: {
      writeReport: async (_process, bytes) => {
        expect(bytes.byteLength).toBeLessThan(1_000_000);
        written.push(JSON.parse(inflateRawSync(bytes).toString()));
        return true;
      },
    },
  });
  reports.start();
  await clock.advance(1);
  for (let nth = 0; nth < 4_000; nth++) counters.countServed(textOf(nth), "hit");
  for (let nth = 0; nth < 10; nth++)
    events.record({ name: "lease.lost", coordinate: `Query.a${nth}`, digest: "" } as never);
  await clock.advance(11_000);
  const { details } = written.at(-1) as ProcessReport;
  expect(details?.total).toHaveLength(4_000);
  expect(details?.minutes).toEqual([]);
  expect(details?.events.map(({ coordinates: [coordinate] }) => coordinate)).toEqual(
    [9, 8, 7, 6, 5].map((nth) => `Query.a${nth}`),
  );
  expect(warnings).toEqual([expect.stringContaining("too large")]);
});
