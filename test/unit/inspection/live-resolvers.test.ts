import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { createCache } from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";
import { type CacheParts, partsOf } from "../../../src/core/parts.js";
import {
  breakersOf,
  bulkheadsOf,
  eventsOf,
  leasesOf,
  processStatesOf,
  storeOf,
} from "../../../src/tools/inspection/live-resolvers.js";
import { isProcessState, type ProcessState, processStateOf } from "../../../src/tools/inspection/process-state.js";

/** A process that began a load of `Film` at `startedAt`, and in which a load of `Broken` has failed. */
async function processWith(startedAt: number): Promise<{ readonly parts: CacheParts; readonly clock: FakeClock }> {
  const clock = new FakeClock(startedAt);
  const hold = gate();
  const logger = { info: () => undefined, warn: () => undefined };
  const cache = createCache({ testing: { clock }, logger, loads: { breakerThreshold: 1 } });
  const films = cache.loader({
    name: "Film",
    maxAge: 60,
    batch: (ids: readonly number[]) => hold.passed.then(() => ids),
  });
  const broken = cache.loader({ name: "Broken", maxAge: 60, batch: () => Promise.reject(new Error("down")) });
  const load = films({}).load(1);
  await settle();
  await expect(broken({}).load(1)).rejects.toThrow("down");
  onTestFinished(async () => {
    hold.open();
    await load;
    await cache.close();
  });
  return { parts: partsOf(cache, "test"), clock };
}

/** What another process would have sent. */
const sent = (state: ProcessState): ProcessState => JSON.parse(JSON.stringify(state)) as ProcessState;

async function twoProcesses() {
  const early = await processWith(1_000);
  const late = await processWith(4_000);
  await early.clock.advance(9_000);
  await late.clock.advance(6_000);
  const states = [processStateOf(late.parts), sent(processStateOf(early.parts))];
  const [thisId, otherId] = states.map(({ process }) => process) as [string, string];
  return { states, view: { states: async () => states }, thisId, otherId, parts: late.parts };
}

describe("the states of several processes", () => {
  it("are one list of leases, the oldest first, and one of events, the newest first", async () => {
    const { view, thisId, otherId } = await twoProcesses();
    const ordered = (list: readonly { readonly process: string }[]) => list.map(({ process }) => process);
    expect(await leasesOf(view, { first: 9 })).toMatchObject([
      { process: otherId, coordinate: "Film", since: "1970-01-01T00:00:01.000Z", forMs: 9_000 },
      { process: thisId, coordinate: "Film", since: "1970-01-01T00:00:04.000Z", forMs: 6_000 },
    ]);
    expect(ordered(await leasesOf(view, { first: 1 }))).toEqual([otherId]);
    expect(ordered(await eventsOf(view, { first: 9 }))).toEqual([thisId, otherId]);
    expect(ordered(await eventsOf(view, { first: 1 }))).toEqual([thisId]);
    expect(ordered(processStatesOf(await view.states()))).toEqual([thisId, otherId]);
  });

  it("show the breaker and bulkhead of a field or loader in each, also where it is idle", async () => {
    const { states, thisId, otherId } = await twoProcesses();
    const idle = states.map((state) => ({ ...state, sources: [] }));
    const shown = [states[0] as ProcessState, idle[1] as ProcessState];
    expect(bulkheadsOf(shown, "Film")).toMatchObject([
      { process: thisId, running: 1, maxRunning: 100 },
      { process: otherId, running: 0, maxRunning: 100 },
    ]);
    expect(breakersOf(shown, "Film").map(({ process, state }) => [process, state])).toEqual([
      [thisId, "CLOSED"],
      [otherId, "CLOSED"],
    ]);
    expect(breakersOf(states, "Broken")).toMatchObject([{ since: "1970-01-01T00:00:04.000Z" }, { process: otherId }]);
  });

  it("show how each process reaches a node, and nodes that only another one knows", async () => {
    const { states, thisId, otherId, parts } = await twoProcesses();
    const [own, other] = states as [ProcessState, ProcessState];
    const elsewhere = {
      ...other,
      nodes: [...other.nodes, { ...other.nodes[0], node: "b" } as ProcessState["nodes"][0]],
    };
    const { name, nodes } = storeOf(parts.store, [own, elsewhere]);
    expect(name).toBe("memory");
    expect(nodes.map(({ node, connections }) => [node, connections.map(({ process }) => process)])).toEqual([
      ["", [thisId, otherId]],
      ["b", [otherId]],
    ]);
    expect(await nodes[0]?.server()).toMatchObject({ evictionPolicy: "lru" });
    expect(await nodes[1]?.server()).toBeNull();
    expect(await nodes[1]?.serverMissing()).toBe("this process does not know the node");
  });

  it("are distinguished from what another release may send", async () => {
    const { states } = await twoProcesses();
    expect(states.map(isProcessState)).toEqual([true, true]);
    for (const other of [undefined, null, "state", {}, { ...states[0], format: 2 }])
      expect(isProcessState(other)).toBe(false);
  });
});
