import { gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import { resultControl } from "graphql-cached";
import { describe, expect, it } from "vitest";
import {
  dataOf,
  memoryWorld,
  onEachStore,
  type Process,
  pair,
  type World,
  waitForStores,
} from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie: Movie @cached(maxAge: 60)
    many: [Movie!] @cached(maxAge: 60)
    count: Int @cached(maxAge: 60, tags: ["Movie:7"])
    controlled: Int @cached(maxAge: 60)
    loaded: Movie
    typed: Movie
    person: Person @cached(maxAge: 60)
    titles: Int @cached(maxAge: 60, tags: ["Movies"])
    lower: Int @cached(maxAge: 60, tags: ["movie:7"])
    upper: Int @cached(maxAge: 60, tags: ["MOVIE:7"])
  }
  type Mutation {
    rate(id: ID!): Movie
    touch(id: ID!): Int @invalidates(tags: ["Movie:{$args.id}"])
    import: Int @invalidates(tags: ["Movie"])
  }
  type Movie { id: ID! stars: Int }
  type Person { id: ID! }
`;

const READS = {
  "a field with the entity": "movie { id }",
  "a field with more entities than it has tags for": "many { id }",
  "a field with a tag of its own": "count",
  "a field whose resolver sets a tag": "controlled",
  "a loader with tags": "loaded { id }",
  "a loader with a type": "typed { id }",
} as const;
const ALL = Object.values(READS);

function start(world: World, entityTags = true, options: object = {}) {
  const loads: string[] = [];
  let held: Promise<void> | undefined;
  const loadOf = (name: string, value: unknown) => async () => (loads.push(name), await held, value);
  type Info = [unknown, unknown, object, GraphQLResolveInfo];
  const controlled = loadOf("controlled", 1);
  const entity = (_: unknown, { id }: { id: string }) => ({ id });
  const MANY = Array.from({ length: 101 }, (_, id) => ({ id }));
  const Query = {
    movie: loadOf("movie", { id: 7 }),
    many: loadOf("many", MANY),
    count: loadOf("count", 1),
    controlled: (...[, , , info]: Info) => (resultControl(info).set({ tags: ["Movie:7"] }), controlled()),
    loaded: (...[, , context]: Info) => loaded(context).load(7),
    typed: (...[, , context]: Info) => typed(context).load(7),
    person: loadOf("person", { id: 1 }),
    titles: loadOf("titles", 1),
    lower: loadOf("lower", 1),
    upper: loadOf("upper", 1),
  };
  const resolvers = { Query, Mutation: { rate: entity, touch: () => 1, import: () => 1 } };
  const process: Process = world.process(typeDefs, resolvers, options, { entityTags });
  const settings = (name: string) => ({
    name,
    maxAge: 60,
    batch: (ids: readonly number[]) => Promise.all(ids.map((id) => loadOf(name, { id })())),
  });
  const loaded = process.cache.loader({ ...settings("loaded"), tags: (id) => [`Movie:${id}`] });
  const typed = process.cache.loader({ ...settings("typed"), type: "Movie" });
  /** Holds loads from now on, until what it returns is called. */
  const hold = (): (() => void) => {
    const { passed, open } = gate();
    held = passed;
    return open;
  };
  /** Asks one after the other. Returns what was loaded. */
  const read = async (...queries: readonly string[]): Promise<string[]> => {
    for (const query of queries) await dataOf(process.ask(query.startsWith("mutation") ? query : `{ ${query} }`, {}));
    await settle();
    return loads.splice(0);
  };
  return { ...process, loads, read, hold };
}

onEachStore("the name of a type as a tag", (world) => {
  it.each<[string, (process: Process) => Promise<unknown>]>([
    ["cache.invalidateTags", ({ cache }) => cache.invalidateTags(["Movie"])],
    ["cache.mutate", ({ cache }) => cache.mutate({ tags: ["Movie"] }, () => undefined)],
    ["@invalidates", ({ ask }) => ask("mutation { import }", {})],
  ])("invalidates every value with a tag of the type, in every process: %s", async (_, call) => {
    const shared = world();
    const [reader, writer] = pair(() => start(shared));
    const queries = [...ALL, "person { id }", "titles"];
    await reader.read(...queries);
    await waitForStores(reader, queries.length);
    await call(writer);
    expect(await reader.read(...queries)).toEqual(["movie", "many", "count", "controlled", "loaded", "typed"]);
  });

  it.each(Object.entries(READS))("keeps a load that began before from being served later: %s", async (_, query) => {
    const shared = world();
    const [reader, writer] = pair(() => start(shared));
    const open = reader.hold();
    const early = reader.read(query);
    await expect.poll(() => reader.loads).toHaveLength(1);
    await writer.cache.invalidateTags(["Movie"]);
    open();
    await early;
    await waitForStores(reader);
    expect(await writer.read(query)).toHaveLength(1);
  });
});

describe("the name of a type as a tag", () => {
  it("makes values stale if it is invalidated softly", async () => {
    const { read, cache, outcomes } = start(memoryWorld());
    await read(...ALL);
    await cache.invalidateTags(["Movie"], { soft: true });
    await read(...ALL);
    await read(...ALL);
    expect(outcomes()).toMatchObject({ loaded: 6, stale: 6, hit: 6 });
  });

  it.each([
    ["with another entity of the type", ["8"], ALL.filter((query) => query !== "many { id }")],
    ["with what a client can make of an id", ["*", "", ":", "Movie", "Movie:"], ["movie { id }"]],
  ])("is not invalidated %s", async (_, ids, queries) => {
    const { read } = start(memoryWorld());
    await read(...queries);
    await read(...ids.map((id) => `mutation { rate(id: "${id}") { id } touch(id: "${id}") }`));
    expect(await read(...queries)).toEqual([]);
  });

  it("reaches declared tags without entity tags", async () => {
    const { read, cache } = start(memoryWorld(), false);
    await read("count");
    await cache.invalidateTags(["Movie"]);
    expect(await read("count")).toEqual(["count"]);
  });

  it("is brought into the form of other tags, with and without `normalizeTag`", async () => {
    const world = memoryWorld();
    const normalizeTag = (tag: string): string => tag.toLowerCase();
    const [process, without] = [start(world, true, { invalidation: { normalizeTag } }), start(world)];
    for (const [tag, loads] of [
      ["MOVIE", ["upper"]],
      ["movie", ["lower"]],
    ] as const) {
      for (const { read } of [process, without]) await read("lower upper");
      await process.cache.invalidateTags([tag]);
      expect([await process.read("lower upper"), await without.read("lower upper")]).toEqual([
        ["lower", "upper"],
        tag === "MOVIE" ? ["lower", "upper"] : loads,
      ]);
    }
  });
});
