import { settle } from "@graphql-cached/testing";
import { inspectionResolvers } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

/** What JavaScript makes of 9007199254740993, and of 9007199254740992. */
const ROUNDED = 2 ** 53;
const EXACT = ["9007199254740993", 9007199254740993n, 2 ** 53 - 1, -1, 0] as const;

const typeDefs = `
  scalar Long
  type Query {
    movie(id: ID): Movie @cached(maxAge: 60, scope: PUBLIC, tags: ["Film:{$args.id}"])
    long(id: Long): Movie @cached(maxAge: 60, scope: PUBLIC, tags: ["Long:{$args.id}"])
    find(filter: Filter, near: Float): Movie @cached(maxAge: 60, scope: PUBLIC)
    found: Movie @cached(maxAge: 60, scope: PUBLIC, tags: ["Found:{$result.id}"])
    list: [Movie] @cached(maxAge: 60, scope: PUBLIC)
    parent: Movie
  }
  input Filter { ids: [ID!] more: Filter }
  type Movie { id: Long price: Int @cached(maxAge: 60, scope: PUBLIC) }
  type Mutation {
    change(id: Long): Int @invalidates(tags: ["Film:{$args.id}"])
    rename: Movie
  }
`;

function start() {
  let loads = 0;
  const movie = () => ({ id: ROUNDED, nth: ++loads });
  const site = memoryWorld().process(
    typeDefs,
    {
      Query: {
        movie: (_: unknown, { id }: { id: string }) => ({ id, nth: ++loads }),
        long: movie,
        find: movie,
        found: movie,
        list: () => [movie()],
        parent: () => ({ id: ROUNDED }),
      },
      Movie: { price: () => ++loads },
      Mutation: { change: () => 1, rename: () => ({ id: ROUNDED }) },
    },
    {},
    { entityTags: true } as never,
  );
  const items = site.cache.loader<unknown, unknown>({
    name: "Item",
    maxAge: 60,
    scope: "PUBLIC",
    batch: async (ids) => ids.map(() => ++loads),
  });
  return { ...site, items, lines: site.warnings, loads: () => loads };
}

describe("a number above 2^53 as an id", () => {
  it.each<[string, object]>([
    ["an argument", { coordinate: "Query.movie", args: { id: ROUNDED } }],
    ["an argument of a scalar", { coordinate: "Query.long", args: { id: ROUNDED } }],
    ["a nested argument", { coordinate: "Query.find", args: { filter: { more: { ids: ["1", ROUNDED] } } } }],
    ["a parent", { coordinate: "Movie.price", source: { id: ROUNDED } }],
    ["a loader", { loader: "Item", id: ROUNDED }],
    ["a part of the id of a loader", { loader: "Item", id: { id: [-ROUNDED] } }],
  ])("is refused for %s by all that name an entry", async (_what, target) => {
    const { cache } = start();
    const refusal = expect.objectContaining({ message: expect.stringContaining("which may be rounded") });
    const either = async (run: () => unknown): Promise<unknown> => {
      try {
        return await run();
      } catch (error) {
        return error;
      }
    };
    await expect(cache.invalidate(target as never)).rejects.toEqual(refusal);
    let isWritten = false;
    const write = () => {
      isWritten = true;
    };
    await expect(cache.mutate({ entries: [target as never] }, write)).rejects.toEqual(refusal);
    expect(isWritten).toBe(false);
    const { loader, ...others } = target as { loader?: string };
    const inspect = (
      inspectionResolvers(cache, { allow: () => true }) as never as {
        CacheInspection: { entry: (source: object, args: object) => Promise<unknown> };
      }
    ).CacheInspection.entry;
    await expect(
      either(() => inspect({}, loader === undefined ? target : { coordinate: loader, ...others })),
    ).resolves.toEqual(refusal);
  });

  it.each(EXACT)("is accepted if it is exact: %s", async (id) => {
    const { cache } = start();
    await cache.invalidate({ coordinate: "Query.movie", args: { id: String(id) } });
    await cache.invalidate({ coordinate: "Movie.price", source: { id } });
    await cache.invalidate({ loader: "Item", id });
    await cache.invalidate({ coordinate: "Query.find", args: { near: 1e300 } });
  });

  it("is neither the key of a field nor of a loader", async () => {
    const { ask, items, loads, outcomes } = start();
    for (let read = 1; read <= 2; read++) {
      await dataOf(ask("{ parent { price } }", {}));
      await items({}).load(ROUNDED);
      await items({}).load({ id: ROUNDED });
      await settle();
      expect(loads()).toBe(3 * read);
    }
    expect(outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 6 });
  });

  it("is no tag of a value: one that needs it is not cached", async () => {
    const { ask, loads, events } = start();
    for (let read = 1; read <= 2; read++) {
      await dataOf(ask("{ long(id: 9007199254740993) { id } found { id } }", {}));
      await settle();
      expect(loads()).toBe(2 * read);
    }
    const codes = events.flatMap((event) => ("error" in event ? [(event.error as { code?: string }).code] : []));
    expect(new Set(codes)).toEqual(new Set(["CACHED_KEY_UNUSABLE"]));
  });

  it("makes a mutation invalidate all values whose tags begin like the one that it cannot name, and is reported once", async () => {
    const { ask, loads, lines } = start();
    const read = () => dataOf(ask('{ movie(id: "9007199254740993") { id } }', {}));
    for (const loaded of [1, 2]) {
      await read();
      await settle();
      await read();
      expect(loads()).toBe(loaded);
      await ask("mutation { change(id: 9007199254740993) }");
    }
    await read();
    expect(loads()).toBe(3);
    const what = "so all that begins like them is invalidated: `tags`: expected an id that is exact";
    expect(lines.filter((line) => line.includes(what))).toHaveLength(1);
  });

  it("of an entity stands for all entities of its type", async () => {
    const { ask, loads, cache } = start();
    const read = () => dataOf(ask("{ list { id } }", {}));
    for (const change of [() => ask("mutation { rename { id } }"), () => cache.invalidateTags(["Movie:7"])]) {
      await read();
      await settle();
      const before = loads();
      await read();
      expect(loads()).toBe(before);
      await change();
      await read();
      await settle();
      expect(loads()).toBe(before + 1);
    }
  });
});
