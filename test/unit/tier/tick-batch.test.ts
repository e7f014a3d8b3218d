import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { LongTick, PER_TURN } from "../../../src/tier/long-tick.js";
import { TickBatch } from "../../../src/tier/tick-batch.js";

describe("TickBatch", () => {
  it("runs all items of one tick in one call, each item once", async () => {
    const calls: string[][] = [];
    const batch = new TickBatch<string, string>(
      new FakeClock(),
      async (items) => {
        calls.push([...items]);
        return items.map((item) => item.toUpperCase());
      },
      (item) => item,
    );
    expect(await Promise.all([batch.add("a"), batch.add("b"), batch.add("a")])).toEqual(["A", "B", "A"]);
    expect(await batch.add("a")).toBe("A");
    expect(calls).toEqual([["a", "b"], ["a"]]);
  });

  it("runs an empty list of items as such, and the items that are added together with it", async () => {
    const calls: string[][] = [];
    const batch = new TickBatch<string, string>(new FakeClock(), async (items) => {
      calls.push([...items]);
      return [...items];
    });
    expect(await batch.addAll([])).toEqual([]);
    expect(await Promise.all([batch.addAll([]), batch.add("a"), batch.addAll(["b"])])).toEqual([[], "a", ["b"]]);
    expect(calls).toEqual([[], ["a", "b"]]);
  });

  it("leaves items that are added during a call to the next call", async () => {
    const callGate = gate();
    const calls: string[][] = [];
    const batch = new TickBatch<string, number>(
      new FakeClock(),
      async (items) => {
        const nth = calls.push([...items]);
        await callGate.passed;
        return items.map(() => nth);
      },
      (item) => item,
    );
    const first = batch.add("a");
    await settle();
    const second = batch.add("a");
    callGate.open();
    expect(await Promise.all([first, second])).toEqual([1, 2]);
  });

  it("rejects all items of a batch when its call rejects", async () => {
    const batch = new TickBatch<string, string>(new FakeClock(), () => Promise.reject(new Error("unavailable")));
    expect((await Promise.allSettled([batch.add("a"), batch.add("b")])).map(({ status }) => status)).toEqual([
      "rejected",
      "rejected",
    ]);
  });

  it("does not keep what was used until all callers have had their turn", async () => {
    const clock = new FakeClock();
    const results: string[] = [];
    const given: (readonly number[])[] = [];
    const batch = new TickBatch<number, string>(
      clock,
      async (items) => {
        given.push(items);
        for (const item of items) results.push(`result of ${item}`);
        return results;
      },
      undefined,
      new LongTick(clock),
    );
    const kept: number[] = [];
    const countKept = (_: number, result: string): string => {
      const items = given[0] as readonly (number | undefined)[];
      kept.push(items.filter((item) => item !== undefined).length);
      kept.push(results.filter((one) => one !== undefined).length);
      return result;
    };
    const owner = {};
    const used = [0, 1, 2].map((item) => batch.addFor(owner, item, countKept));
    const shared = batch.add(3);
    expect(await Promise.all(used)).toEqual(["result of 0", "result of 1", "result of 2"]);
    expect(kept).toEqual([3, 3, 2, 2, 1, 1]);
    expect(await shared).toBe("result of 3");
  });

  it("divides thousands of callers into turns of the event loop, whose consequences are one batch", async () => {
    const clock = new FakeClock();
    const longTick = new LongTick(clock);
    const sizes: number[] = [];
    const later = new TickBatch<number, number>(longTick, async (items) => {
      sizes.push(items.length);
      return items;
    });
    const batch = new TickBatch<number, number>(clock, async (items) => items, undefined, longTick);
    const some = Array.from({ length: PER_TURN }, (_, item) => item);
    const many = Array.from({ length: 3 * PER_TURN }, (_, item) => item);
    let turns = 0;
    const count = (): void => {
      turns++;
      if (sizes.length === 0) setImmediate(count);
    };
    setImmediate(count);
    const use = (item: number, result: number): Promise<number> => {
      expect(result).toBe(item);
      return later.add(result);
    };
    const used = await Promise.all(
      [some, many].flatMap((items) => items.map((item) => batch.addFor(items, item, use))),
    );
    const singly = await batch.add(7).then((item) => later.add(item));
    expect(used).toEqual([...some, ...many]);
    expect(singly).toBe(7);
    expect(sizes).toEqual([4 * PER_TURN, 1]);
    expect(turns).toBeGreaterThanOrEqual(4);
  });

  describe("with owners", () => {
    const context = new AsyncLocalStorage<string>();

    it("runs what is done with the results in the asynchronous context of the first of successive calls of each owner", async () => {
      const batch = new TickBatch<string, string>(new FakeClock(), async (items) => items.map((item) => `${item}!`));
      const [some, others] = [{}, {}];
      const use = (item: string, result: string): string => `${item} ${result} ${context.getStore()}`;
      const calls = [
        ["a", some],
        ["b", some],
        ["c", others],
        ["d", some],
      ] as const;
      const used = calls.map(([item, owner]) => context.run(`by ${item}`, () => batch.addFor(owner, item, use)));
      expect(await Promise.all(used)).toEqual(["a a! by a", "b b! by a", "c c! by c", "d d! by d"]);
    });

    it("does not confuse the results of an owner with others that were added between its calls", async () => {
      const batch = new TickBatch<string, string>(new FakeClock(), async (items) => items);
      const owner = {};
      const use = (item: string, result: string): string => item + result;
      const first = batch.addFor(owner, "a", use);
      const between = batch.add("b");
      const last = batch.addFor(owner, "c", use);
      expect(await Promise.all([first, between, last])).toEqual(["aa", "b", "cc"]);
    });

    it("says of the items of a call whether all of them are of one owner, also if they continue in several turns", async () => {
      const told: boolean[] = [];
      const clock = new FakeClock();
      const run = async (items: readonly string[], haveOneOwner: boolean): Promise<readonly string[]> => {
        told.push(haveOneOwner);
        return items;
      };
      const batch = new TickBatch<string, string>(clock, run, undefined, new LongTick(clock));
      const [owner, other] = [{}, {}];
      const use = (item: string): string => item;
      const add = (owners: readonly (object | undefined)[]): Promise<unknown> =>
        Promise.all(owners.map((each) => (each === undefined ? batch.add("a") : batch.addFor(each, "a", use))));
      await add([owner]);
      await add([owner, owner, owner]);
      await add([owner, owner, other]);
      await add([other, owner, owner]);
      await add([owner, other, owner]);
      await add([owner, undefined]);
      await add([undefined, owner]);
      await add([undefined]);
      expect(told).toEqual([true, true, false, false, false, false, false, false]);
      await add(Array(PER_TURN + 1).fill(owner));
      await add([...Array(PER_TURN).fill(owner), other]);
      expect(told.slice(8)).toEqual([true, false]);
    });

    it("rejects only the call whose result cannot be used, and all of them if the batch fails", async () => {
      let isAvailable = true;
      const batch = new TickBatch<string, string>(new FakeClock(), async (items) => {
        if (isAvailable) return items;
        throw new Error("unavailable");
      });
      const owner = {};
      const use = (_: string, result: string): string => {
        if (result === "unusable") throw new Error("not usable");
        return result;
      };
      const messagesOf = async (items: readonly string[]): Promise<unknown[]> =>
        Promise.all(items.map((item) => batch.addFor(owner, item, use).catch((error: Error) => error.message)));
      expect(await messagesOf(["a", "unusable", "b"])).toEqual(["a", "not usable", "b"]);
      isAvailable = false;
      expect(await messagesOf(["a", "b"])).toEqual(["unavailable", "unavailable"]);
    });
  });

  describe("of a process that may have no other work", () => {
    const use = (item: string): string => item;

    /** Returns a batch, the calls of it among the ends of turns of the event loop, and what decides about them. */
    function startBatch() {
      const otherWork = { isEmpty: true };
      const held: { by: Promise<void> | undefined } = { by: undefined };
      const seen: string[] = [];
      const run = async (items: readonly string[]): Promise<readonly string[]> => {
        seen.push(items.join());
        await held.by;
        if (items.includes("bad")) throw new Error("refused");
        return items;
      };
      const batch = new TickBatch<string, string>(new FakeClock(), run, undefined, undefined, otherWork);
      /** Adds items for an owner each, and resolves after this turn of the event loop as well. */
      const addInTurn = async (...items: readonly string[]): Promise<void> => {
        const turn = new Promise<void>((resolve) => {
          setImmediate(() => {
            seen.push("turn");
            resolve();
          });
        });
        await Promise.allSettled([...items.map((item) => batch.addFor({}, item, use)), turn]);
      };
      return { batch, seen, held, otherWork, addInTurn };
    }

    it("runs the items of one caller after the other without waiting for the end of the turn", async () => {
      const { seen, addInTurn } = startBatch();
      await addInTurn("a");
      await addInTurn("b");
      expect(seen).toEqual(["a", "turn", "b", "turn"]);
    });

    it("runs what promise jobs of any number add in the same call", async () => {
      const { batch, seen } = startBatch();
      const afterJobs = async (count: number, item: string): Promise<unknown> => {
        for (let job = 0; job < count; job++) await undefined;
        return batch.addFor({}, item, use);
      };
      const added = [batch.addFor({}, "a", use), afterJobs(1, "b"), afterJobs(20, "c")];
      expect(await Promise.all(added)).toEqual(["a", "b", "c"]);
      expect(seen).toEqual(["a,b,c"]);
    });

    it("runs what follows from a timer or a message in the same call, promise jobs included", async () => {
      const { batch, seen } = startBatch();
      await new Promise((resolve) => {
        setImmediate(() => {
          const first = batch.addFor({}, "a", use);
          const second = Promise.resolve().then(() => batch.addFor({}, "b", use));
          resolve(Promise.all([first, second]));
        });
      });
      expect(seen).toEqual(["a,b"]);
    });

    it("waits for the end of the turn after a call for several callers, until one asks alone", async () => {
      const { seen, addInTurn } = startBatch();
      await addInTurn("a", "b");
      await addInTurn("c");
      await addInTurn("d");
      expect(seen).toEqual(["a,b", "turn", "turn", "c", "d", "turn"]);
    });

    it("waits for the end of the turn while a call is running, and when the next one has asked", async () => {
      const { seen, held, addInTurn } = startBatch();
      const callGate = gate();
      held.by = callGate.passed;
      const added = [addInTurn("a")];
      await Promise.resolve().then(() => new Promise(process.nextTick));
      added.push(addInTurn("b"));
      await settle();
      callGate.open();
      await Promise.all(added);
      expect(seen).toEqual(["a", "turn", "turn", "b"]);
      seen.length = 0;
      await addInTurn("c");
      await addInTurn("d");
      expect(seen).toEqual(["turn", "c", "d", "turn"]);
    });

    it("does not count a call that was rejected as running", async () => {
      const { seen, addInTurn } = startBatch();
      await addInTurn("bad");
      await addInTurn("a");
      expect(seen).toEqual(["bad", "turn", "a", "turn"]);
    });

    it("waits for the end of the turn while there is other work", async () => {
      const { seen, otherWork, addInTurn } = startBatch();
      otherWork.isEmpty = false;
      await addInTurn("a");
      otherWork.isEmpty = true;
      await addInTurn("b");
      expect(seen).toEqual(["turn", "a", "b", "turn"]);
    });
  });
});
