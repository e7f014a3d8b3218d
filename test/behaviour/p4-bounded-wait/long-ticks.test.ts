import { gate, settle } from "@graphql-cached/testing";
import type { CacheEvent } from "graphql-cached";
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
  const events: CacheEvent[] = [];
  const onEvent = (event: CacheEvent): void => {
    if (event.name === "entry.served") most = Math.max(most, ++inTurn);
    events.push(event);
  };
  const { cache } = memoryWorld().bare({ onEvent });
  const takeMost = (): number => {
    const taken = most;
    most = 0;
    return taken;
  };
  return { cache, events, takeMost };
}

it("loads thousands of ids in one call of the batch function, and answers a limited number of them in each turn of the event loop", async () => {
  const { cache, events, takeMost } = countingProcess();
  const sizes: number[] = [];
  const failure = new Error("no such number");
  const batch = async (ids: readonly number[]) => (
    sizes.push(ids.length), ids.map((id) => (id === COUNT - 1 ? failure : id))
  );
  const numbers = cache.loader({ name: "Number", maxAge: 60, batch });
  expect(await numbers({}).loadMany(IDS)).toEqual([...IDS.slice(0, -1), failure]);
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
  const batch = async (ids: readonly number[]) => (loads++, await passed, ids.map((id) => ({ seenBy: [id] })));
  const numbers = cache.loader({ name: "Number", maxAge: 60, batch });
  // Those of the first turn change what they get before those of the next one get theirs.
  const waiting = IDS.map(async (caller) => (await numbers({}).load(1)).seenBy.push(caller));
  await settle();
  open();
  expect([new Set(await Promise.all(waiting)), loads]).toEqual([new Set([2]), 1]);
  expect(takeMost()).toBeLessThanOrEqual(PER_TURN);
});
