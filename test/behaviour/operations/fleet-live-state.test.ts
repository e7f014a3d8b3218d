import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import {
  applyCached,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  memoryStore,
} from "graphql-cached";
import { expect, it, onTestFinished } from "vitest";

/** Two simulated processes on one store and clock, the first of which can be asked. */
function twoProcesses() {
  const clock = new FakeClock(1_000_000);
  const store = memoryStore({ clock });
  const hold = gate();
  const logger = { info: () => undefined, warn: () => undefined };
  const processes = [0, 1].map(() => {
    const cache = createCache<object>({ store, testing: { clock }, inspection: { report: true }, logger });
    const films = cache.loader({
      name: "Film",
      maxAge: 60,
      batch: (ids: readonly number[]) => hold.passed.then(() => ids),
    });
    const schema = applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, inspectionTypeDefs, "type Query { film: Int @cached(maxAge: 60) }"],
        resolvers: inspectionResolvers(cache, { allow: () => true }),
      }),
      cache,
    );
    return { cache, films, schema };
  });
  onTestFinished(async () => {
    hold.open();
    await Promise.all(processes.map(({ cache }) => cache.close()));
  });
  const [here, there] = processes as [(typeof processes)[0], (typeof processes)[0]];
  const ask = async (fields: string): Promise<Record<string, unknown>> => {
    const source = `{ cacheInspection { ${fields} } }`;
    const { data, errors } = await graphql({ schema: here.schema, source, contextValue: {} });
    expect(errors).toBeUndefined();
    return (data as Record<string, Record<string, unknown>>).cacheInspection as Record<string, unknown>;
  };
  return { clock, hold, there, ask };
}

const ENTRY = 'entry(coordinate: "Film", id: 7) { state lease { hasWaiters waiters process { isThis host pid } } }';

it("the inspection shows the load of another process with its last report, and who holds the lease", async () => {
  const { clock, there, ask } = twoProcesses();
  await settle();
  const reads = [there.films({}).load(7), there.films({}).load(7)];
  await settle();
  expect(await ask("leases { coordinate }")).toEqual({ leases: [] });
  await clock.advance(5_000);
  const { processes, leases } = (await ask(
    "processes { id isThis } leases { process coordinate state waiters forMs }",
  )) as {
    readonly processes: readonly { readonly id: string; readonly isThis: boolean }[];
    readonly leases: unknown;
  };
  const other = processes.find(({ isThis }) => !isThis)?.id;
  expect(leases).toEqual([{ process: other, coordinate: "Film", state: "LOADING", waiters: 2, forMs: 5_000 }]);
  expect(await ask(ENTRY)).toEqual({
    entry: {
      state: "PENDING",
      lease: { hasWaiters: false, waiters: 2, process: { isThis: false, host: expect.any(String), pid: process.pid } },
    },
  });
  void reads;
});

it("the inspection no longer shows what a process was doing once its cache is closed", async () => {
  const { clock, hold, there, ask } = twoProcesses();
  const read = there.films({}).load(7);
  await clock.advance(5_000);
  expect(await ask("states { leases }")).toEqual({ states: [{ leases: 0 }, { leases: 1 }] });
  hold.open();
  await read;
  await there.cache.close();
  expect(await ask("states { leases }")).toEqual({ states: [{ leases: 0 }] });
});
