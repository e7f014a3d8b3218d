import { gate, settle } from "@graphql-cached/testing";
import { graphql } from "graphql";
import { applyCached } from "graphql-cached";
import { jsonCodec } from "graphql-cached/codec";
import { describe, expect, it, vi } from "vitest";
import { countParses } from "../../support/count-parses.js";
import { listen, schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld, type Process, waitForStores } from "../../support/world.js";

/** A field of which the key does not show the tags of its reader. */
const taggedByReader =
  'type Query { top(id: Int, by: Int): Int @cached(maxAge: 60, key: ["$args.id"], tags: ["By:{$args.by}"]) }';

it("serves a reader whose tags the key does not show the value of another one, until one of its own tags is invalidated", async () => {
  let loads = 0;
  const { ask, cache, events } = memoryWorld().process(taggedByReader, { Query: { top: () => ++loads } });
  const askBoth = () => Promise.all([ask("{ top(id: 1, by: 1) }"), ask("{ top(id: 1, by: 2) }")].map(dataOf));
  await ask("{ top(id: 1, by: 1) }");
  await waitForStores({ events });
  expect(await askBoth()).toEqual([{ top: 1 }, { top: 1 }]);
  await cache.invalidateTags(["By:2"]);
  expect(await askBoth()).toEqual([{ top: 1 }, { top: 2 }]);
  await waitForStores({ events }, 2);
  // Loaded after the invalidation, for everyone.
  expect(await askBoth()).toEqual([{ top: 2 }, { top: 2 }]);
});

it("does not let a reader whose own tag was invalidated share a load from before with another reader of its tick", async () => {
  const source = { value: 1, loads: 0 };
  const first = gate();
  const { ask, cache } = memoryWorld().process(taggedByReader, {
    Query: {
      top: async () => {
        const { value } = source;
        if (++source.loads === 1) await first.passed;
        return value;
      },
    },
  });
  const earlier = dataOf(ask("{ top(id: 1, by: 1) }"));
  while (source.loads === 0) await settle();
  source.value = 2;
  await cache.invalidateTags(["By:2"]);
  const later = [ask("{ top(id: 1, by: 1) }"), ask("{ top(id: 1, by: 2) }")].map(dataOf);
  await settle();
  first.open();
  expect(await earlier).toEqual({ top: 1 });
  expect(await later[1]).toEqual({ top: 2 });
  await later[0];
});

it("gives each request of a tick a copy of the value, and none the source's own object", async () => {
  const typeDefs = "type Query { film: Film @cached(maxAge: 60) } type Film { id: Int }";
  const own = { id: 1 };
  const seen: unknown[] = [];
  const { ask } = memoryWorld().process(typeDefs, {
    Query: { film: () => own },
    Film: { id: (film: typeof own) => (seen.push(film), film.id) },
  });
  const answers = [ask("{ film { id } }"), ask("{ film { id } }")].map(dataOf);
  expect(await Promise.all(answers)).toEqual(Array(2).fill({ film: own }));
  expect(seen).toHaveLength(2);
  expect(new Set([own, ...seen]).size).toBe(3);
});

interface Film {
  title: string;
  cast: { name: string }[];
}

/** Each request changes what it gets. */
function change(value: unknown): unknown {
  (value as Partial<Film>).cast?.push({ name: "Kilmer" });
  return value;
}

/** Returns what eight requests have got of one key, and how often JSON was parsed for them. */
type Together = (
  value: () => unknown,
  options?: object,
) => Promise<{ readonly read: unknown[]; readonly parsed: number }>;

const filmsOf = ({ cache }: Process, batch: (ids: readonly number[]) => Promise<unknown[]>) =>
  cache.loader<number, unknown, object>({ name: "Film", maxAge: 60, batch });

const readTogether: Together = async (value, options = {}) => {
  const process = memoryWorld().bare({ memory: false, ...options });
  const films = filmsOf(process, async (ids) => ids.map(value));
  await films({}).load(1);
  await waitForStores(process);
  const { result, parses } = await countParses(() =>
    Promise.all(Array.from({ length: 8 }, () => films({}).load(1).then(change))),
  );
  return { read: result, parsed: parses };
};

/** Half of them wait from another tick on. */
const waitTogether =
  (processes: 1 | 2): Together =>
  async (value) => {
    const world = memoryWorld();
    const { passed, open } = gate();
    let loads = 0;
    const start = () => filmsOf(world.bare(), async (ids) => (loads++, await passed, ids.map(value)));
    const heldBy = start();
    const films = processes === 1 ? heldBy : start();
    const holding = heldBy({}).load(1);
    await settle();
    const ask = () => Array.from({ length: 4 }, () => films({}).load(1).then(change));
    const first = ask();
    await settle();
    const waiting = [...first, ...ask()];
    await settle();
    const { result, parses } = await countParses(() => (open(), Promise.all(waiting)));
    await holding;
    expect(loads).toBe(1);
    return { read: result, parsed: parses };
  };

const heat = (): Film => ({ title: "Heat", cast: [{ name: "Pacino" }, { name: "De Niro" }] });

describe.each<[string, Together, parses: number]>([
  ["read the same key in one tick", readTogether, 1],
  // Parsed for the request that has loaded it, and for all others.
  ["wait for one load", waitTogether(1), 2],
  // And in the other process for the first one and for all others.
  ["wait for one load of another process", waitTogether(2), 3],
])("eight requests that %s", (_how, together, parses) => {
  const plain = () => ({ ...heat(), rating: 8.3, none: null });
  const sparse = () => ({ ...plain(), note: undefined, votes: 2n, cast: [{ name: undefined }, { score: Number.NaN }] });

  it.each<[string, () => object]>([
    ["plain data", plain],
    ["data that lacks fields or has numbers beyond JSON", sparse],
  ])("get equal objects of their own from %s, which is not parsed for each of them", async (_, value) => {
    const { read, parsed } = await together(value);
    expect(parsed).toBe(parses);
    expect(read).toStrictEqual(Array.from({ length: 8 }, () => change(value())));
    const seen = read as Film[];
    for (const part of [seen, seen.map(({ cast }) => cast), seen.map(({ cast }) => cast[1])])
      expect(new Set<unknown>(part).size).toBe(8);
  });

  it("get a value each that is decoded again if it has objects beyond JSON", async () => {
    const dated = () => ({ at: new Date(0), tags: new Set(["a"]) });
    const { read, parsed } = await together(dated);
    if (together === readTogether) expect(parsed).toBe(8);
    expect(read).toStrictEqual(Array.from({ length: 8 }, dated));
    expect(new Set((read as { tags: object }[]).map(({ tags }) => tags)).size).toBe(8);
  });
});

it("eight requests that read the same key get what a codec of the server's own makes of its text, also if it is based on JSON", async () => {
  const decode = (content: string): unknown => ({ ...(jsonCodec.decode(content) as object), at: new Date(0) });
  const { read } = await readTogether(heat, { codec: { ...jsonCodec, id: "dated", decode } });
  expect(read).toStrictEqual(Array.from({ length: 8 }, () => change({ ...heat(), at: new Date(0) })));
  expect(new Set((read as { at: Date }[]).map(({ at }) => at)).size).toBe(8);
});

it("reads a key once for all loaders of a tick, also for one that remembers nothing", async () => {
  for (const remembers of [true, false]) {
    const world = memoryWorld();
    const read = vi.spyOn(world.store(), "read");
    const { cache, events } = world.bare({ memory: false });
    const batch = vi.fn(async (ids: readonly number[]) => ids);
    const loader = cache.loader<number, number, object>({ name: "Value", maxAge: 60, cache: remembers, batch });
    const requests = (remembers ? ["121", "21"] : ["121"]).map((ids) => [...ids].map(Number));
    for (const batches of [[[1, 2]], []]) {
      read.mockClear();
      batch.mockClear();
      expect(await Promise.all(requests.map((ids) => loader({}).loadMany(ids)))).toEqual(requests);
      expect(read.mock.calls.map(([keys]) => keys.length)).toEqual([2]);
      expect(batch.mock.calls.map(([ids]) => ids)).toEqual(batches);
      await waitForStores({ events }, 2);
    }
  }
});

it("gives each request of a tick the values of its own keys, in whatever order others read the same ones", async () => {
  const world = memoryWorld();
  const { cache, events } = world.bare({ memory: false });
  const batch = vi.fn(async (ids: readonly number[]) => ids);
  const loader = cache.loader<number, number, object>({ name: "Value", maxAge: 60, batch });
  const orders = ["123", "123", "132", "31", "2413", "42"].map((ids) => [...ids].map(Number));
  const read = vi.spyOn(world.store(), "read");
  for (let round = 0; round < 2; round++) {
    read.mockClear();
    expect(await Promise.all(orders.map((ids) => loader({}).loadMany(ids)))).toEqual(orders);
    expect(read.mock.calls.map(([keys]) => keys.length)).toEqual([4]);
    expect(batch.mock.calls.flatMap(([ids]) => ids)).toEqual([1, 2, 3, 4]);
    await waitForStores({ events }, 4);
  }
});

it("gives each request of a tick the value of its own schema, although keys of two schemas have the same inputs", async () => {
  const { cache } = listen();
  const loads: string[] = [];
  const askOf = (type: string, value: unknown) => {
    const top = (): unknown => (loads.push(type), value);
    const schema = applyCached(schemaOf(`type Query { top: ${type} @cached(maxAge: 60) }`, { Query: { top } }), cache);
    return () => dataOf(graphql({ schema, source: "{ top }", contextValue: {} }));
  };
  const askNumber = askOf("Int", 1);
  const askText = askOf("String", "one");
  const answers = [{ top: 1 }, { top: "one" }, { top: 1 }, { top: "one" }];
  for (let round = 0; round < 2; round++)
    expect(await Promise.all([askNumber(), askText(), askNumber(), askText()])).toEqual(answers);
  expect(loads).toEqual(["Int", "String"]);
});

it("loads a key once that a request clears and asks for again in the same tick", async () => {
  const { cache, events } = memoryWorld().bare();
  const batch = vi.fn(async (ids: readonly number[]) => ids.map((id) => ({ id })));
  const values = cache.loader<number, { id: number }, object>({ name: "Value", maxAge: 60, batch })({});
  for (let tick = 0; tick < 2; tick++) {
    const [first, second] = await Promise.all([values.load(1), values.clear(1).load(1)]);
    expect([first, second]).toEqual([{ id: 1 }, { id: 1 }]);
    expect(first).not.toBe(second);
    await waitForStores({ events });
    values.clearAll();
  }
  expect(batch).toHaveBeenCalledTimes(1);
});
