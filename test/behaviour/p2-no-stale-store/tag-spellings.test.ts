import { applyCached } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";
import { dataOf, memoryWorld, type Process, pair, type World, waitForStores } from "../../support/world.js";

/** Leading zeros of numbers do not count, nor does the case of anything. */
const normalizeTag = (tag: string): string => tag.toLowerCase().replaceAll(/(?<=:)0+(?=\d)/g, "");

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    found(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$result.id}"])
    entity(id: ID!): Movie @cached(maxAge: 60)
    loaded(id: ID!): Int
  }
  type Mutation { rate(id: ID!): Boolean @invalidates(tags: ["Movie:{$args.id}"]) }
  type Movie { id: ID! loads: Int! }
`;

interface Args {
  readonly id: string;
}

function start(world: World, isNormalized = true): Process {
  const counter = () => {
    let loads = 0;
    return () => ++loads;
  };
  const movie =
    (count = counter()) =>
    (_: unknown, { id }: Args) => ({ id: id.toLowerCase(), loads: count() });
  const loaded = (_: unknown, { id }: Args, context: object) => loader(context).load(id);
  const Query = { movie: movie(), found: movie(), entity: movie(), loaded };
  const options = isNormalized ? { invalidation: { normalizeTag } } : {};
  const process = world.process(typeDefs, { Query, Mutation: { rate: () => true } }, options, { entityTags: true });
  const count = counter();
  const loader = process.cache.loader({
    name: "Movie",
    maxAge: 60,
    tags: (id) => [`Movie:${id}`],
    batch: async (ids: readonly string[]) => ids.map(count),
  });
  return process;
}

const SPELLINGS: readonly (readonly [stored: string, given: string])[] = [
  ["7", "007"],
  ["007", "7"],
  ["2f1c0b6e-aaaa", "2F1C0B6E-AAAA"],
  ["2F1C0B6E-AAAA", "2f1c0b6e-aaaa"],
];
const CALLS: Readonly<Record<string, (process: Process, id: string) => Promise<unknown>>> = {
  "@invalidates": ({ ask }, id) => dataOf(ask(`mutation { rate(id: "${id}") }`)),
  "cache.invalidateTags": ({ cache }, id) => cache.invalidateTags([`Movie:${id}`]),
  "cache.mutate": ({ cache }, id) => cache.mutate({ tags: [`movie:${id}`] }, () => undefined),
  "a soft invalidation": ({ cache }, id) => cache.invalidateTags([`MOVIE:${id}`], { soft: true }),
};

describe("spellings of tags that the option normalizeTag makes one", () => {
  describe.each(SPELLINGS)("of a value under %s, invalidated as %s", (stored, given) => {
    it.each(Object.entries(CALLS))(
      "is reached by %s in another process, with tags of arguments, results, entities and loaders",
      async (name, call) => {
        const shared = memoryWorld();
        const [reader, writer] = pair(() => start(shared));
        const query = `{ ${["movie", "found", "entity"].map((field) => `${field}(id: "${stored}") { loads }`).join(" ")} loaded(id: "${stored}") }`;
        const read = () => dataOf(reader.ask(query, {}));
        const all = (loads: number) => ({ movie: { loads }, found: { loads }, entity: { loads }, loaded: loads });
        expect(await read()).toEqual(all(1));
        await waitForStores(reader, 4);
        expect(await read()).toEqual(all(1));
        await call(writer, given);
        if (name === "a soft invalidation") {
          expect(await read()).toEqual(all(1));
          await waitForStores(reader, 8);
        }
        expect(await read()).toEqual(all(2));
      },
    );
  });

  it.each<[what: string, call: (process: Process) => Promise<unknown>]>([
    ["cache.invalidateTags", ({ cache }) => cache.invalidateTags(["urn:movie:7"])],
    ["cache.mutate", ({ cache }) => cache.mutate({ tags: ["urn:movie:7"] }, () => undefined)],
    ["@invalidates", ({ ask }) => dataOf(ask("mutation { rate(id: 7) }"))],
  ])("reach the values with too many entities to have the tag of each, by %s", async (_, call) => {
    let loads = 0;
    const process = memoryWorld().process(
      `type Query { movies: [Movie!] @cached(maxAge: 60) }
       type Mutation { rate(id: ID!): Boolean @invalidates(tags: ["urn:movie:{$args.id}"]) }
       type Movie { id: ID! }`,
      { Query: { movies: () => (loads++, Array.from({ length: 101 }, (__, id) => ({ id }))) } },
      { invalidation: { normalizeTag: (tag) => tag.replace(/^urn:movie:/, "Movie:") } },
      { entityTags: true },
    );
    const read = () => dataOf(process.ask("{ movies { id } }"));
    await read();
    await waitForStores(process);
    await read();
    expect(loads).toBe(1);
    await call(process);
    await read();
    expect(loads).toBe(2);
  });

  it.each([
    ["reach the values of a release without the option, by the spelling that is given", "movie", false, 2],
    ["are not served to a release with another form of tags", "found", true, 1],
  ])("%s", async (_, field, isReadByOther, loads) => {
    const shared = memoryWorld();
    const [reader, writer] = [start(shared, false), start(shared)];
    const read = ({ ask }: Process) => dataOf(ask(`{ ${field}(id: "007") { loads } }`, {}));
    await read(reader);
    await waitForStores(reader);
    if (!isReadByOther) await writer.cache.invalidateTags(["Movie:007"]);
    const other = isReadByOther ? writer : reader;
    expect(await read(other)).toEqual({ [field]: { loads } });
    expect(other.outcomes()).toEqual({ loaded: loads });
  });
});

describe("normalizeTag", () => {
  const startWith = (option: unknown) => listen({ invalidation: { normalizeTag: option as typeof normalizeTag } });

  it("does not have other spellings reported as mistakes", async () => {
    const { cache, warnings } = startWith(normalizeTag);
    applyCached(schemaOf(typeDefs), cache);
    warnings.length = 0;
    await cache.invalidateTags(["movie:7", "MOVIE:007"]);
    expect(warnings).toEqual([]);
    await cache.invalidateTags(["Movie7"]);
    expect(warnings).toHaveLength(1);
  });

  const fail = (): never => {
    throw new Error("secret");
  };
  it.each([
    ["throws", fail, "got an exception"],
    ["returns a promise", async (tag: string) => tag, "got a promise"],
    ["returns an empty text", () => "", 'got ""'],
    ["returns nothing", () => undefined, "got undefined"],
  ])("is reported once if it %s, and the tags count as they are", async (_, mistaken, problem) => {
    const { cache, warnings } = startWith(mistaken);
    let loads = 0;
    const batch = async (ids: readonly number[]) => ids.map(() => ++loads);
    const loader = cache.loader({ name: "Movie", maxAge: 60, tags: (id) => [`Movie:${id}`], batch });
    await loader({}).load(7);
    expect(await loader({}).load(7)).toBe(1);
    await cache.invalidateTags(["Movie:7"]);
    expect(await loader({}).load(7)).toBe(2);
    expect(warnings).toEqual([
      `createCache: \`invalidation.normalizeTag\`: expected a function that returns a non-empty string, ${problem}; until then such tags count as they are`,
    ]);
  });
});
