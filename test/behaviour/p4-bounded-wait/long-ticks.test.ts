import { gate, settle } from "@graphql-cached/testing";
import { expect, it, onTestFinished } from "vitest";
import { memoryWorld, waitForStores } from "../../support/world.js";

const COUNT = 2_000;
const IDS: readonly number[] = Array.from({ length: COUNT }, (_, index) => index);

/** The limit of `long-tick.ts`. */
const PER_TURN = 500;

/** A process with a loader, and the largest number of reads that ended in one turn of the event loop. */
function countingProcess() {
  let inTurn = 0;
  let most = 0;
  let isOver = false;
  const endTurn = (): void => {
    inTurn = 0;
    if (!isOver) setImmediate(endTurn);
  };
  setImmediate(endTurn);
  onTestFinished(() => {
    isOver = true;
  });
  const events: { readonly name: string }[] = [];
  const { cache } = memoryWorld().process(
    "type Query { unused: Int }",
    {},
    {
      onEvent: (event) => {
        if (event.name === "entry.served") most = Math.max(most, ++inTurn);
        events.push(event);
      },
    },
  );
  return {
    cache,
    events: events as never[],
    takeMost: () => {
      const taken = most;
      most = 0;
      return taken;
    },
  };
}

it("loads thousands of ids in one call of the batch function, and answers a limited number of them in each turn of the event loop", async () => {
  const { cache, events, takeMost } = countingProcess();
  const sizes: number[] = [];
  const numbers = cache.loader({
    name: "Number",
    maxAge: 60,
    batch: async (ids: readonly number[]) => {
      sizes.push(ids.length);
      return ids.map((id) => (id === COUNT - 1 ? new Error("no such number") : id));
    },
  });
  const expected = [...IDS.slice(0, -1), new Error("no such number")];
  expect(await numbers({}).loadMany(IDS)).toEqual(expected);
  expect(sizes).toEqual([COUNT]);
  expect(takeMost()).toBeLessThanOrEqual(PER_TURN);
  await waitForStores({ events }, COUNT - 1);
  expect(await numbers({}).loadMany(IDS.slice(0, -1))).toEqual(IDS.slice(0, -1));
  expect(takeMost()).toBeLessThanOrEqual(PER_TURN);
  expect(sizes).toEqual([COUNT]);
});

it("answers thousands of callers that wait for one load in several turns of the event loop", async () => {
  const { cache, takeMost } = countingProcess();
  const { passed, open } = gate();
  let loads = 0;
  const numbers = cache.loader({
    name: "Number",
    maxAge: 60,
    batch: async (ids: readonly number[]) => {
      loads += ids.length;
      await passed;
      return ids.map((id) => ({ seenBy: [id] }));
    },
  });
  // Those of the first turn change what they get before those of the next one get theirs.
  const waiting = IDS.map(async (caller) => (await numbers({}).load(1)).seenBy.push(caller));
  await settle();
  open();
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([2]));
  expect(loads).toBe(1);
  expect(takeMost()).toBeLessThanOrEqual(PER_TURN);
});
