import { gate } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { dataOf, memoryWorld, type World } from "../../support/world.js";

const MAX_VALUE_BYTES = 10_000;
/** Of each of this many levels, every object has the next one twice. */
const LEVELS = 15;

class Node {
  readonly next: Node | undefined;

  constructor(next: Node | undefined) {
    this.next = next;
  }
}

/** Starts a process whose field returns a graph that would be 2 ** 15 times as large as text, and counts what is encoded. */
function start(shared: World) {
  const counts = { loads: 0, encoded: 0 };
  let hold: Promise<void> | undefined;
  let graph: Node | undefined;
  for (let level = 0; level < LEVELS; level++) graph = new Node(graph);
  const types = {
    Node: {
      is: (value: unknown) => value instanceof Node,
      encode: ({ next }: Node) => (counts.encoded++, next === undefined ? [] : [next, next]),
      decode: () => new Node(undefined),
    },
  };
  const graphOf = async () => {
    counts.loads++;
    await hold;
    return graph;
  };
  const process = shared.process(
    "type Query { graph: Graph @cached(maxAge: 60) } type Graph { next: Graph name: String }",
    { Query: { graph: graphOf } },
    {
      types,
      loads: { errorBackoffMs: 30_000 },
      storage: { maxValueBytes: MAX_VALUE_BYTES, storeTimeoutMs: 5_000 },
    } as never,
  );
  const holdLoads = (until: Promise<void>): void => {
    hold = until;
  };
  return { ...process, counts, holdLoads };
}

const ANSWER = { graph: { next: { name: null } } };
const QUERY = "{ graph { next { name } } }";

describe("a value that is too large", () => {
  it("is not encoded further than to `maxValueBytes`, and not at all while it is known to be too large", async () => {
    const { ask, cache, counts, outcomes } = start(memoryWorld());
    for (let nth = 0; nth < 4; nth++) {
      expect(await dataOf(ask(QUERY))).toEqual(ANSWER);
      await partsOf(cache, "test").drain();
      expect(counts.encoded).toBeLessThanOrEqual(MAX_VALUE_BYTES);
      if (nth > 0) continue;
      expect(counts.encoded).toBeGreaterThan(0);
      counts.encoded = 0;
    }
    expect(counts).toEqual({ loads: 4, encoded: 0 });
    expect(outcomes()).toEqual({ loaded: 1, "bypassed(UNCACHEABLE)": 3 });
  });

  it("is encoded once for others who wait for its load, each of whom gets a copy", async () => {
    const { ask, cache, counts, holdLoads, outcomes } = start(memoryWorld());
    await dataOf(ask(QUERY));
    await partsOf(cache, "test").drain();
    counts.encoded = 0;
    const held = gate();
    holdLoads(held.passed);
    const running = dataOf(ask(QUERY));
    await expect.poll(() => counts.loads).toBe(2);
    const next = [1, 2, 3].map(() => dataOf(ask(QUERY)));
    await expect.poll(() => outcomes()["bypassed(UNCACHEABLE)"]).toBe(4);
    held.open();
    for (const answer of [running, ...next]) expect(await answer).toMatchObject({ graph: {} });
    expect(counts).toEqual({ loads: 3, encoded: 2 ** LEVELS - 1 });
  });
});
