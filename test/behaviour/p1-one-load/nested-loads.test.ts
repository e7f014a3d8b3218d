import { gate, settle } from "@graphql-cached/testing";
import { MapperKind, mapSchema } from "@graphql-tools/utils";
import { defaultFieldResolver, graphql } from "graphql";
import { applyCached, type CachedLoader } from "graphql-cached";
import { expect, it } from "vitest";
import { abortSignal, client, HUNG_UP } from "../../support/client.js";
import { listen, schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld, onEachStore, pair, timedWorld } from "../../support/world.js";

const typeDefs = `
  type Query { left: Int @cached(maxAge: 60) right: Int @cached(maxAge: 60) self: Int @cached(maxAge: 60) }
`;

onEachStore("nested loads", (world) => {
  it("does not deadlock when loads in two processes need each other's keys", async () => {
    const shared = world();
    const [leftBegun, rightBegun] = pair(gate);
    let loads = 0;
    const createCrossing = () => {
      const read = async (field: string): Promise<number> =>
        Object.values((await dataOf(process.ask(`{ ${field} }`))) as { [name: string]: number })[0] as number;
      const left = async () => {
        leftBegun.open();
        await rightBegun.passed;
        return 1 + (await read("right"));
      };
      const right = async () => {
        loads++;
        rightBegun.open();
        await leftBegun.passed;
        return loads > 1 ? 10 : 10 + (await read("left"));
      };
      const process = shared.process(typeDefs, { Query: { left, right } }, { leases: { nestedWaitMs: 40 } });
      return process;
    };
    const [one, other] = pair(createCrossing);
    const results = await Promise.all([dataOf(one.ask("{ left }")), dataOf(other.ask("{ right }"))]);
    for (const data of results) expect(data).toBeDefined();
    const nested = [...one.events, ...other.events].filter((event) => event.name === "resolver.bypassed");
    expect(nested.length).toBeGreaterThan(0);
    for (const event of nested) expect(event).toMatchObject({ reason: "NESTED" });
  });
});

it("a schema that was passed through applyCached twice loads each value once", async () => {
  let loads = 0;
  // The audit of a simulated process expects a field to be wrapped once.
  const { cache } = listen({ loads: { loadTimeoutMs: 2_000 } });
  const once = applyCached(schemaOf(typeDefs, { Query: { self: () => ++loads } }), cache);
  const wrapped = mapSchema(once, {
    [MapperKind.OBJECT_FIELD]: ({ resolve = defaultFieldResolver, ...field }) => ({
      ...field,
      resolve: (...args) => resolve(...args),
    }),
  });
  const answer = await dataOf(graphql({ schema: applyCached(wrapped, cache), source: "{ self }" }));
  expect([answer, loads]).toEqual([{ self: 1 }, 1]);
});

it("a value is stored in another cache although it is read inside of the load of a key of the same name", async () => {
  let loads = 0;
  const typeDefs = "type Query { self: Int @cached(maxAge: 60) }";
  const process = (self: () => unknown) => memoryWorld().process(typeDefs, { Query: { self } }, { prefix: "shop" });
  const inner = process(() => ++loads);
  const self = async () => ((await dataOf(inner.ask("{ self }"))) as { self: number }).self;
  const outer = process(self);
  expect(await dataOf(outer.ask("{ self }"))).toEqual({ self: 1 });
  await settle();
  expect(await dataOf(inner.ask("{ self }"))).toEqual({ self: 1 });
});

it("a batch function that asks its own loader for its id gets it from the source", async () => {
  const { cache } = memoryWorld().bare({ loads: { loadTimeoutMs: 2_000 } });
  let batches = 0;
  const items: (context: object) => CachedLoader<number, number> = cache.loader<number, number, object>({
    name: "Item",
    maxAge: 60,
    batch: async (ids, own) => (++batches === 1 ? [(await items(own).load(ids[0] as number)) + 1] : [7]),
  });
  expect(await items({}).load(1)).toBe(8);
});

it.each(["Outer", "Half"])(
  "a batch inside of several, which are inside of one, waits for no load of theirs (%s)",
  async (asked) => {
    // No time passes, so that no wait ends.
    const { cache } = timedWorld().bare();
    type Loader = (context: object) => CachedLoader<number, number>;
    const loaderOf = (name: string, inner: () => Loader, maxBatchSize = 100): Loader => {
      let batches = 0;
      const isNested = (): boolean => name === asked && ++batches > Math.ceil(4 / maxBatchSize);
      const batch = async (ids: readonly number[], own: object): Promise<readonly number[]> =>
        isNested() ? ids : Promise.all(ids.map((id) => inner()(own).load(id)));
      return cache.loader<number, number, object>({ name, maxAge: 60, maxBatchSize, batch });
    };
    const outer = loaderOf("Outer", () => halves);
    const halves = loaderOf("Half", () => whole, 2);
    const whole = loaderOf("Whole", () => inner);
    const inner = loaderOf("Inner", () => (asked === "Outer" ? outer : halves));
    expect(await outer({}).loadMany([1, 2, 3, 4])).toEqual([1, 2, 3, 4]);
  },
);

it("a load that needs its own key loads it from the source at once, and does not wait for itself", async () => {
  const world = timedWorld();
  let loads = 0;
  const self = async () => (++loads > 1 ? 7 : ((await dataOf(process.ask("{ self }"))) as { self: number }).self + 1);
  const process = world.process(typeDefs, { Query: { self } });
  const answer = dataOf(process.ask("{ self }"));
  await settle();
  const loadsAtOnce = loads;
  await world.clock.advance(60_000);
  expect([await answer, loadsAtOnce]).toEqual([{ self: 8 }, 2]);
  expect(process.outcomes()).toEqual({ "bypassed(NESTED)": 1, loaded: 1 });
});

it("what a load has started is not inside of it any more when it has ended, while other loads run", async () => {
  const { cache, events } = memoryWorld().bare({ loads: { abortSignal } });
  const [timer, hold, slow] = [gate(), gate(), gate()];
  let background: Promise<number[]> | undefined;
  const numbers = cache.loader({
    name: "Number",
    maxAge: 60,
    batch: async (ids: readonly number[], _context: { signal?: AbortSignal }) => {
      if (ids.includes(1) && background === undefined) {
        // As with a connection that the first call opens, and that goes on for the life of the process.
        background = timer.passed.then(() => Promise.all([1, 3].map((id) => numbers({}).load(id))));
        await slow.passed;
      }
      if (ids.includes(2)) await hold.passed;
      return [...ids];
    },
  });
  const { signal, hangUp } = client();
  const left = numbers({ signal }).load(1);
  await settle();
  hangUp();
  await expect(left).rejects.toThrow(HUNG_UP);
  slow.open();
  await settle();
  const other = numbers({}).load(2);
  await settle();
  events.length = 0;
  timer.open();
  expect(await background).toEqual([1, 3]);
  expect(events.filter(({ name }) => name === "resolver.bypassed")).toEqual([]);
  hold.open();
  await other;
});
