import { gate, settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import { resultControl } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60)
    many: [Movie!] @cached(maxAge: 60)
    count(id: ID!): Int @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    controlled: Int @cached(maxAge: 60)
    loaded(id: ID!): Movie
    typed(id: ID!): Movie
    person: Person @cached(maxAge: 60)
    titles: Int @cached(maxAge: 60, tags: ["Movies"])
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
  "a field with the entity": "{ movie(id: 7) { id } }",
  "a field with more entities than it has tags for": "{ many { id } }",
  "a field with a tag of its own": "{ count(id: 7) }",
  "a field whose resolver sets a tag": "{ controlled }",
  "a loader with tags": "{ loaded(id: 7) { id } }",
  "a loader with a type": "{ typed(id: 7) { id } }",
} as const;
const OTHERS = ["{ person { id } }", "{ titles }"];

function start(world: World, entityTags = true) {
  const loads: string[] = [];
  let held: Promise<void> | undefined;
  const load = async <Value>(what: string, value: Value): Promise<Value> => {
    loads.push(what);
    await held;
    return value;
  };
  type Args = { readonly id: string };
  const movie = (_: unknown, { id }: Args) => ({ id });
  const process: Process = world.process(
    typeDefs,
    {
      Query: {
        movie: (_: unknown, { id }: Args) => load("movie", { id }),
        many: () =>
          load(
            "many",
            Array.from({ length: 101 }, (_, id) => ({ id })),
          ),
        count: () => load("count", 1),
        controlled: (_: unknown, __: unknown, ___: unknown, info: GraphQLResolveInfo) => {
          resultControl(info).set({ tags: ["Movie:7"] });
          return load("controlled", 1);
        },
        loaded: (_: unknown, { id }: Args, context: object) => loaded(context).load(id),
        typed: (_: unknown, { id }: Args, context: object) => typed(context).load(id),
        person: () => load("person", { id: 1 }),
        titles: () => load("titles", 1),
      },
      Mutation: { rate: movie, touch: () => 1, import: () => 1 },
    },
    {},
    { entityTags },
  );
  const batch = (name: string) => (ids: readonly string[]) => Promise.all(ids.map((id) => load(name, { id })));
  const { cache } = process;
  const loaded = cache.loader({
    name: "Loaded",
    maxAge: 60,
    tags: (id: string) => [`Movie:${id}`],
    batch: batch("loaded"),
  });
  const typed = cache.loader({ name: "Typed", maxAge: 60, type: "Movie", batch: batch("typed") });
  /** Holds loads from now on, until what it returns is called. */
  const hold = (): (() => void) => {
    const { passed, open } = gate();
    held = passed;
    return open;
  };
  const read = async (...queries: readonly string[]): Promise<void> => {
    for (const query of queries) await dataOf(process.ask(query, {}));
    await settle();
  };
  return { ...process, loads, read, hold };
}

const CALLS: Readonly<Record<string, (process: Process) => Promise<unknown>>> = {
  "cache.invalidateTags": ({ cache }) => cache.invalidateTags(["Movie"]),
  "cache.mutate": ({ cache }) => cache.mutate({ tags: ["Movie"] }, () => undefined),
  "@invalidates": ({ ask }) => ask("mutation { import }", {}),
};

onEachStore("the name of a type as a tag", (world) => {
  it.each(Object.entries(CALLS))(
    "invalidates every value with a tag of the type, in every process: %s",
    async (_, call) => {
      const shared = world();
      const [reader, writer] = [start(shared), start(shared)];
      const queries = [...Object.values(READS), ...OTHERS];
      for (const query of queries) await dataOf(reader.ask(query, {}));
      await waitForStores(reader, queries.length);
      await call(writer);
      reader.loads.length = 0;
      for (const query of queries) await dataOf(reader.ask(query, {}));
      expect(reader.loads).toEqual(["movie", "many", "count", "controlled", "loaded", "typed"]);
    },
  );

  it.each(Object.entries(READS))("keeps a load that began before from being served later: %s", async (_, query) => {
    const shared = world();
    const [reader, writer] = [start(shared), start(shared)];
    const open = reader.hold();
    const early = dataOf(reader.ask(query, {}));
    await expect.poll(() => reader.loads).toHaveLength(1);
    await writer.cache.invalidateTags(["Movie"]);
    open();
    await early;
    await waitForStores(reader);
    await dataOf(writer.ask(query, {}));
    expect(writer.loads).toHaveLength(1);
  });
});

describe("the name of a type as a tag", () => {
  it("makes values stale if it is invalidated softly", async () => {
    const process = start(memoryWorld());
    const queries = Object.values(READS);
    await process.read(...queries);
    await process.cache.invalidateTags(["Movie"], { soft: true });
    await process.read(...queries);
    await process.read(...queries);
    expect(process.outcomes()).toMatchObject({ loaded: 6, stale: 6, hit: 6 });
  });

  it("is not invalidated with an entity of the type", async () => {
    const process = start(memoryWorld());
    const queries = Object.values(READS).filter((query) => query !== "{ many { id } }");
    await process.read(...queries);
    process.loads.length = 0;
    await process.read("mutation { rate(id: 8) { id } }", "mutation { touch(id: 8) }", ...queries);
    expect(process.loads).toEqual([]);
  });

  it("is not what a client can make of an id", async () => {
    const process = start(memoryWorld());
    await process.read(READS["a field with the entity"]);
    process.loads.length = 0;
    for (const id of ["*", "", ":", "Movie", "Movie:"])
      await process.read(`mutation { rate(id: "${id}") { id } touch(id: "${id}") }`);
    await process.read(READS["a field with the entity"]);
    expect(process.loads).toEqual([]);
  });

  it("reaches declared tags without entity tags", async () => {
    const process = start(memoryWorld(), false);
    const query = READS["a field with a tag of its own"];
    await process.read(query);
    await process.cache.invalidateTags(["Movie"]);
    await process.read(query);
    expect(process.loads).toEqual(["count", "count"]);
  });

  it("is brought into the form of other tags, with and without `normalizeTag`", async () => {
    const world = memoryWorld();
    const sdl = `type Query { lower: Int @cached(maxAge: 60, tags: ["movie:7"]) upper: Int @cached(maxAge: 60, tags: ["MOVIE:7"]) }`;
    const normalizeTag = (tag: string): string => tag.toLowerCase();
    const resolvers = { Query: { lower: () => 1, upper: () => 1 } };
    const process = world.process(sdl, resolvers, { invalidation: { normalizeTag } });
    const without = world.process(sdl, resolvers);
    const read = async (of: Process): Promise<object> => {
      const before = of.outcomes().loaded ?? 0;
      await dataOf(of.ask("{ lower upper }", {}));
      await settle();
      return { loads: (of.outcomes().loaded ?? 0) - before };
    };
    for (const [tag, loads] of [
      ["MOVIE", 2],
      ["movie", 1],
    ] as const) {
      await read(process);
      await read(without);
      await process.cache.invalidateTags([tag]);
      expect(await read(process)).toEqual({ loads: 2 });
      expect(await read(without)).toEqual({ loads });
    }
  });
});
