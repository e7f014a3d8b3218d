import { mock } from "node:test";
import { chaosStore, FakeClock, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { afterEach, describe, expect, it, vi } from "vitest";
import { dataOf, memoryWorld, onEachStore, type Process } from "../../support/world.js";

const typeDefs = "type Query { film(id: ID!): Film @cached(maxAge: 60) } type Film { id: ID stars: Int }";

/** What a test under fake timers does first: a field, a loader, and a plain DataLoader, each twice. */
function startReads({ cache, ask }: Process): () => Promise<unknown[]> {
  const batch = async (ids: readonly number[]): Promise<number[]> => ids.map((id) => id * 2);
  const cached = cache.loader({ name: "Cached", maxAge: 60, batch });
  const uncached = cache.loader({ name: "Uncached", maxAge: 0, batch });
  return async () => {
    const reads: unknown[] = [];
    for (let round = 0; round < 2; round++) {
      reads.push(await dataOf(ask("{ film(id: 7) { stars } }")));
      reads.push(await cached({}).load(7), await uncached({}).load(7));
    }
    await cache.invalidate({ loader: "Cached", id: 7 });
    reads.push(await cached({}).loadMany([7, 8]));
    return reads;
  };
}
const READS = [{ film: { stars: 3 } }, 14, 14, { film: { stars: 3 } }, 14, 14, [14, 16]];
const resolvers = { Query: { film: (_: unknown, { id }: { id: string }) => ({ id, stars: 3 }) } };

afterEach(() => {
  vi.useRealTimers();
  mock.timers.reset();
});

describe("under fake timers", () => {
  it("reads, loads and invalidates, whatever of them is faked", async () => {
    const reads = startReads(memoryWorld().process(typeDefs, resolvers));
    vi.useFakeTimers();
    // Faked by Jest. What others wait for, such as the messages of the test runner, is called afterwards.
    const held: (() => void)[] = [];
    const hold = (fn: (...args: unknown[]) => void, ...args: unknown[]): void => void held.push(() => fn(...args));
    const others = [
      vi.spyOn(process, "nextTick").mockImplementation(hold as never),
      vi.spyOn(globalThis, "queueMicrotask").mockImplementation(hold),
    ];
    const restore = (): void => {
      for (const other of others) other.mockRestore();
      for (const run of held) process.nextTick(run);
    };
    expect(await reads().finally(restore)).toEqual(READS);
  });

  it("reads, loads and invalidates under the mock timers of Node.js", async () => {
    const reads = startReads(memoryWorld().process(typeDefs, resolvers));
    mock.timers.enable();
    expect(await reads()).toEqual(READS);
  });

  it("waits for a store that hangs no longer than its time budget", async () => {
    const store = chaosStore(memoryStore());
    const reads = startReads(
      memoryWorld(() => store).process(typeDefs, resolvers, { storage: { storeTimeoutMs: 20 } }),
    );
    store.chaos.mode = "hangs";
    vi.useFakeTimers();
    await expect(reads()).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
  });

  it("settles, and moves a FakeClock", async () => {
    vi.useFakeTimers();
    const clock = new FakeClock();
    let isDue = false;
    clock.after(10, () => {
      isDue = true;
    });
    await clock.advance(10);
    await settle();
    expect(isDue).toBe(true);
  });
});

onEachStore("with the timers faked that its client does not need", (world) => {
  it("reads, loads and invalidates", async () => {
    const reads = startReads(world().process(typeDefs, resolvers));
    // Connects.
    await reads();
    vi.useFakeTimers();
    expect(await reads()).toEqual(READS);
  });
});
