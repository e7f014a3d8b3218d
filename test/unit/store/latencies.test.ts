import { describe, expect, it } from "vitest";
import { Latencies } from "../../../src/core/store/node-state.js";

describe("the latencies of recent operations", () => {
  it("have no summary before the first operation", () => {
    expect(new Latencies().summary()).toBeUndefined();
  });

  it("have percentiles by the nearest rank, whatever the order in which they came", () => {
    const latencies = new Latencies();
    for (let nth = 0; nth < 100; nth++) latencies.add(((nth * 37) % 100) + 1);
    expect(latencies.summary()).toEqual({ operations: 100, p50Ms: 50, p95Ms: 95, p99Ms: 99, maxMs: 100 });
  });

  it("count the last 256 operations only, and the number of all", () => {
    const latencies = new Latencies();
    latencies.add(9_000);
    for (let nth = 0; nth < 255; nth++) latencies.add(1);
    expect(latencies.summary()).toMatchObject({ operations: 256, p50Ms: 1, maxMs: 9_000 });
    latencies.add(2);
    expect(latencies.summary()).toMatchObject({ operations: 256, maxMs: 2 });
    expect(latencies.count).toBe(257);
  });
});
