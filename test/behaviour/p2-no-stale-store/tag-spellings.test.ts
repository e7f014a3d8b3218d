import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

/** Leading zeros of numbers do not count, nor does the case of anything. */
const normalizeTag = (tag: string): string => tag.toLowerCase().replaceAll(/(?<=:)0+(?=\d)/g, "");

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    found(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$result.id}"])
    entity(id: ID!): Movie @cached(maxAge: 60)
  }
  type Mutation { rate(id: ID!): Boolean @invalidates(tags: ["Movie:{$args.id}"]) }
  type Movie { id: ID! loads: Int! }
`;

function start(world: World, isNormalized = true): Process {
  let loads = 0;
  const movie = (_: unknown, { id }: { id: string }) => ({ id: id.toLowerCase(), loads: ++loads });
  return world.process(
    typeDefs,
    { Query: { movie, found: movie, entity: movie }, Mutation: { rate: () => true } },
    isNormalized ? { invalidation: { normalizeTag } } : {},
    { entityTags: true },
  );
}

const SPELLINGS: readonly (readonly [stored: string, given: string])[] = [
  ["7", "007"],
  ["007", "7"],
  ["2f1c0b6e-aaaa", "2F1C0B6E-AAAA"],
  ["2F1C0B6E-AAAA", "2f1c0b6e-aaaa"],
];

function spellingTests(world: () => World): void {
  describe.each(SPELLINGS)("of a value under %s, invalidated as %s", (stored, given) => {
    const CALLS: Readonly<Record<string, (process: Process) => Promise<unknown>>> = {
      "@invalidates": (process) => dataOf(process.ask(`mutation { rate(id: "${given}") }`)),
      "cache.invalidateTags": ({ cache }) => cache.invalidateTags([`Movie:${given}`]),
      "cache.mutate": ({ cache }) => cache.mutate({ tags: [`movie:${given}`] }, () => undefined),
      "a soft invalidation": ({ cache }) => cache.invalidateTags([`MOVIE:${given}`], { soft: true }),
    };
    it.each(Object.keys(CALLS))(
      "is reached by %s in another process, with tags of arguments, results, entities and loaders",
      async (call) => {
        const shared = world();
        const [reader, writer] = [start(shared), start(shared)];
        let loads = 0;
        const loader = reader.cache.loader({
          name: "Movie",
          maxAge: 60,
          tags: (id) => [`Movie:${id}`],
          batch: async (ids: readonly string[]) => ids.map(() => ++loads),
        });
        const ask = async (): Promise<unknown> => {
          const fields = ["movie", "found", "entity"].map((field) => `${field}(id: "${stored}") { loads }`);
          const { movie, found, entity } = (await dataOf(reader.ask(`{ ${fields.join(" ")} }`, {}))) as Record<
            string,
            { loads: number }
          >;
          return [[movie?.loads, found?.loads, entity?.loads].sort(), await loader({}).load(stored)];
        };
        expect(await ask()).toEqual([[1, 2, 3], 1]);
        await waitForStores(reader, 4);
        expect(await ask()).toEqual([[1, 2, 3], 1]);
        await CALLS[call]?.(writer);
        if (call === "a soft invalidation") {
          expect(await ask()).toEqual([[1, 2, 3], 1]);
          await waitForStores(reader, 8);
        }
        expect(await ask()).toEqual([[4, 5, 6], 2]);
      },
    );
  });

  it("reaches the values of a release without the option, by the spelling that is given", async () => {
    const shared = world();
    const [reader, writer] = [start(shared, false), start(shared)];
    const ask = async (): Promise<unknown> => dataOf(reader.ask('{ movie(id: "007") { loads } }', {}));
    await ask();
    await waitForStores(reader);
    await writer.cache.invalidateTags(["Movie:007"]);
    expect(await ask()).toEqual({ movie: { loads: 2 } });
  });

  it("are not served to a release with another form of tags", async () => {
    const shared = world();
    const [before, after] = [start(shared, false), start(shared)];
    await dataOf(before.ask('{ found(id: "7") { loads } }', {}));
    await waitForStores(before);
    await dataOf(after.ask('{ found(id: "7") { loads } }', {}));
    expect(after.outcomes()).toEqual({ loaded: 1 });
  });
}

onEachStore("spellings of tags that the option normalizeTag makes one", spellingTests);

describe("normalizeTag", () => {
  it("does not have other spellings reported as mistakes", async () => {
    const lines: string[] = [];
    const log = (line: string): void => void lines.push(line);
    const cache = createCache({
      defaultScope: "PUBLIC",
      logger: { info: log, warn: log },
      invalidation: { normalizeTag },
    });
    applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] }), cache);
    lines.length = 0;
    await cache.invalidateTags(["movie:7", "MOVIE:007"]);
    expect(lines).toEqual([]);
    await cache.invalidateTags(["Movie7"]);
    expect(lines).toHaveLength(1);
  });

  it.each([
    ["throws", () => fail(), "got an exception"],
    ["returns a promise", async (tag: string) => tag, "got a promise"],
    ["returns an empty text", () => "", 'got ""'],
    ["returns nothing", () => undefined, "got undefined"],
  ])("is reported once if it %s, and the tags count as they are", async (_, mistaken, problem) => {
    const lines: string[] = [];
    const log = (line: string): void => void lines.push(line);
    let loads = 0;
    const cache = createCache({
      defaultScope: "PUBLIC",
      logger: { info: log, warn: log },
      invalidation: { normalizeTag: mistaken as never },
    });
    const loader = cache.loader({
      name: "Movie",
      maxAge: 60,
      tags: (id) => [`Movie:${id}`],
      batch: async (ids: readonly number[]) => ids.map(() => ++loads),
    });
    await loader({}).load(7);
    expect(await loader({}).load(7)).toBe(1);
    await cache.invalidateTags(["Movie:7"]);
    expect(await loader({}).load(7)).toBe(2);
    expect(lines).toEqual([
      `graphql-cached: createCache: \`invalidation.normalizeTag\`: expected a function that returns a non-empty string, ${problem}; until then such tags count as they are`,
    ]);
  });
});

function fail(): never {
  throw new Error("secret");
}
