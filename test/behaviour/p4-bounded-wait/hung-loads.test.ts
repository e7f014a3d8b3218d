import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import type { ExecutionResult } from "graphql";
import { CachedError, memoryStore } from "graphql-cached";
import { afterEach, describe, expect, it } from "vitest";
import { compiledPath } from "../../support/programs.js";
import { memoryWorld } from "../../support/world.js";

const hanging: (() => void)[] = [];
// Lets the loads end before the caches are closed.
afterEach(async () => {
  for (const end of hanging.splice(0)) end();
  await settle();
});

/** Two processes. The load with the number `hangingLoad` hangs until the end of the test; all others return their number. */
function createHanging(policy: string, hangingLoad: number) {
  const clock = new FakeClock();
  const world = memoryWorld(() => memoryStore({ clock }));
  const counts = { loads: 0 };
  const load = (): unknown => {
    const nth = ++counts.loads;
    return nth === hangingLoad ? new Promise((resolve) => hanging.push(() => resolve(nth))) : nth;
  };
  const start = () =>
    world.process(
      `type Query { a: Int @cached(${policy}) }`,
      { Query: { a: load } },
      { testing: { clock }, loads: { loadTimeoutMs: 2_000, errorBackoffMs: 1_000 } },
    );
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 100) {
      await clock.advance(100);
      await settle();
    }
  };
  return { one: start(), two: start(), counts, pass };
}

function answerOf({ data, errors }: ExecutionResult): unknown {
  const error = errors?.[0]?.originalError;
  return error instanceof CachedError ? error.code : data?.a;
}

describe("a load that hangs for longer than loadTimeoutMs", () => {
  it("fails those who wait for it, and is replaced as soon as its lease has ended", async () => {
    const { one, pass } = createHanging("maxAge: 60", 1);
    const first = one.ask("{ a }");
    await pass(2_100);
    expect(answerOf(await first)).toBe("CACHED_LOAD_TIMEOUT");
    const second = one.ask("{ a }");
    await pass(5_000);
    expect(answerOf(await second)).toBe(2);
  });

  it("does not keep its process from the value of another one that has taken the lease over", async () => {
    const { one, two, pass } = createHanging("maxAge: 60", 1);
    const first = one.ask("{ a }");
    await pass(2_100);
    await first;
    const second = two.ask("{ a }");
    await pass(5_000);
    expect(answerOf(await second)).toBe(2);
    expect(answerOf(await one.ask("{ a }"))).toBe(2);
  });
});

describe("a refresh that hangs", () => {
  it.each(["staleWhileRevalidate: 600", "neverExpires: true"])(
    "does not end all refreshes of its key in its process (%s)",
    async (window) => {
      const { one, counts, pass } = createHanging(`maxAge: 10, ${window}`, 2);
      await one.ask("{ a }");
      await pass(11_000);
      expect(answerOf(await one.ask("{ a }"))).toBe(1);
      await pass(20_000);
      expect(counts.loads).toBe(2);
      expect(answerOf(await one.ask("{ a }"))).toBe(1);
      await pass(1_000);
      expect(answerOf(await one.ask("{ a }"))).toBe(3);
    },
  );

  it("does not end all refreshes of its key if it hangs in the queue of refreshes", async () => {
    const clock = new FakeClock();
    const hold = gate();
    let jobs = 0;
    const refreshQueue = (): Promise<unknown> => {
      jobs++;
      return hold.passed;
    };
    const { ask } = memoryWorld(() => memoryStore({ clock })).process(
      "type Query { a: Int @cached(maxAge: 10, staleWhileRevalidate: 1000) }",
      { Query: { a: () => 1 } },
      { testing: { clock }, loads: { loadTimeoutMs: 2_000, refreshQueue } },
    );
    await ask("{ a }");
    for (let nth = 0; nth < 3; nth++) {
      await clock.advance(60_000);
      await settle();
      await ask("{ a }");
      await settle();
    }
    expect(jobs).toBe(3);
    hold.open();
  });
});

it("a process that closes its cache while a load hangs goes on after it", async () => {
  const program = `
    import { createCache } from ${JSON.stringify(await compiledPath("src/index.ts"))};
    const cache = createCache({ defaultScope: "PUBLIC" });
    const close = async () => {
      await cache.close();
      console.log("closed");
    };
    const batch = () => {
      setImmediate(close);
      return new Promise(() => undefined);
    };
    void cache.loader({ name: "Film", maxAge: 5, batch })({}).load(1);
  `;
  const args = ["--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(stdout).toBe("closed\n");
});
