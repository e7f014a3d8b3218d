import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { MapperKind, mapSchema } from "@graphql-tools/utils";
import { defaultFieldResolver, graphql } from "graphql";
import { applyCached, type CachedLoader, memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld, onEachStore } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    left: Int @cached(maxAge: 60)
    right: Int @cached(maxAge: 60)
    self: Int @cached(maxAge: 60)
  }
`;

onEachStore("nested loads", (world) => {
  it("does not deadlock when loads in two processes need each other's keys", async () => {
    const shared = world();
    const [leftBegun, rightBegun] = [gate(), gate()];
    const loads = { left: 0, right: 0 };
    const createCrossing = () => {
      const process = shared.process(
        typeDefs,
        {
          Query: {
            left: async () => {
              loads.left++;
              leftBegun.open();
              await rightBegun.passed;
              return 1 + ((await dataOf(process.ask("{ right }"))) as { right: number }).right;
            },
            right: async () => {
              loads.right++;
              rightBegun.open();
              await leftBegun.passed;
              if (loads.right > 1) return 10;
              return 10 + ((await dataOf(process.ask("{ left }"))) as { left: number }).left;
            },
          },
        },
        { leases: { nestedWaitMs: 40 } },
      );
      return process;
    };
    const [one, other] = [createCrossing(), createCrossing()];
    const results = await Promise.all([one.ask("{ left }"), other.ask("{ right }")]);
    for (const { data, errors } of results) {
      expect(errors).toBeUndefined();
      expect(data).toBeDefined();
    }
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
  const schema = applyCached(wrapped, cache);
  const { data, errors } = await graphql({ schema, source: "{ self }" });
  expect(errors).toBeUndefined();
  expect(data).toEqual({ self: 1 });
  expect(loads).toBe(1);
});

it("a batch function that asks its own loader for its id gets it from the source", async () => {
  const { cache } = memoryWorld().process(typeDefs, {}, { loads: { loadTimeoutMs: 2_000 } });
  const context = {};
  let batches = 0;
  const items: (context: object) => CachedLoader<number, number> = cache.loader<number, number, object>({
    name: "Item",
    maxAge: 60,
    batch: async (ids, own) => (++batches === 1 ? [(await items(own).load(ids[0] as number)) + 1] : [7]),
  });
  expect(await items(context).load(1)).toBe(8);
});

it("a load that needs its own key loads it from the source at once, and does not wait for itself", async () => {
  const clock = new FakeClock();
  let loads = 0;
  const process = memoryWorld(() => memoryStore({ clock })).process(
    typeDefs,
    {
      Query: {
        self: async () => (++loads > 1 ? 7 : ((await dataOf(process.ask("{ self }"))) as { self: number }).self + 1),
      },
    },
    { testing: { clock } },
  );
  const answer = dataOf(process.ask("{ self }"));
  await settle();
  const loadsAtOnce = loads;
  await clock.advance(60_000);
  expect(await answer).toEqual({ self: 8 });
  expect(loadsAtOnce).toBe(2);
  expect(process.outcomes()).toEqual({ "bypassed(NESTED)": 1, loaded: 1 });
});

it("what a load has started is not inside of it any more when it has ended, while other loads run", async () => {
  const bypassed: string[] = [];
  const { cache } = memoryWorld().process(
    "type Query { unused: Int }",
    {},
    {
      loads: { abortSignal: ({ signal }: { signal?: AbortSignal }) => signal },
      onEvent: (event) => {
        if (event.name === "resolver.bypassed") bypassed.push(event.reason);
      },
    },
  );
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
  const controller = new AbortController();
  const left = numbers({ signal: controller.signal })
    .load(1)
    .catch((error: Error) => error.name);
  await settle();
  controller.abort();
  expect(await left).toBe("AbortError");
  slow.open();
  await settle();
  const other = numbers({}).load(2);
  await settle();
  bypassed.length = 0;
  timer.open();
  expect(await background).toEqual([1, 3]);
  expect(bypassed).toEqual([]);
  hold.open();
  await other;
});
