import { ApolloServer } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLResolveInfo } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { afterEach, describe, expect, it, vi } from "vitest";
import { seededRandom } from "../../bench/seeded-random.js";
import { SubtreeBuild } from "../../src/core/subtrees/build.js";
import { type Draw, drawOfRandom } from "../property/draw.js";

const SCHEMAS = 12;
const QUERIES = 6;
const quiet = { info: () => undefined, warn: () => undefined };

interface HintingInfo extends GraphQLResolveInfo {
  readonly cacheControl: { setCacheHint(hint: { maxAge: number; scope?: "PUBLIC" | "PRIVATE" }): void };
}

interface Entries {
  /** Whether objects of lists are entries, in place of fields of the query type. */
  readonly listsAreEntries: boolean;
}

/** Returns SDL with random hints. Whatever is cached is cached for longer than all hints say. */
function typeDefsOf(draw: Draw, { listsAreEntries }: Entries): string {
  const hint = (percent = 60): string => {
    if (!draw.chance(percent)) return "";
    if (draw.chance(20)) return " @cacheControl(inheritMaxAge: true)";
    return ` @cacheControl(maxAge: ${5 + draw.int(90)}${draw.chance(15) ? ", scope: PRIVATE" : ""})`;
  };
  const cached = (percent = 40): string => (draw.chance(percent) ? " @cached(maxAge: 600, jitter: 0)" : "");
  const root = listsAreEntries ? "" : " @cached(maxAge: 600, jitter: 0, subtree: true)";
  const type = listsAreEntries ? " @cached(maxAge: 600, jitter: 0, subtree: true)" : "";
  return /* GraphQL */ `
    enum CacheControlScope { PUBLIC PRIVATE }
    directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
    type Query {
      item: Item${root}${hint(80)}
      items: [Item!]${root}${hint(80)}
      plain: Int${hint(90)}
    }
    type Item${hint(70)}${type} {
      id: ID! title: String${hint()}
      friend: Item${cached()}${hint(80)}
      set: Int${cached()} narrowed: String${hint(70)}
      live: Int @cached(maxAge: 0)${hint(80)}
    }
  `;
}

function resolversOf(draw: Draw): object {
  const [set, narrowed] = [5 + draw.int(90), 5 + draw.int(90)];
  const scope = draw.chance(20) ? "PRIVATE" : "PUBLIC";
  const item = (id: number): object => ({ id, title: `Item ${id}` });
  return {
    Query: { item: () => item(0), items: async () => [item(1), item(2)], plain: () => 1 },
    Item: {
      friend: ({ id }: { id: number }) => item(id + 1),
      set: async (_: unknown, __: unknown, ___: unknown, info: HintingInfo) => {
        await settle();
        info.cacheControl.setCacheHint({ maxAge: set });
        return 1;
      },
      narrowed: (_: unknown, __: unknown, ___: unknown, info: HintingInfo) => {
        info.cacheControl.setCacheHint({ maxAge: narrowed, scope });
        return "narrow";
      },
      live: () => 1,
    },
  };
}

const selectionOf = (draw: Draw, depth = 0): string => {
  const fields = ["id", "title", "set", "narrowed"].filter(() => draw.chance(35));
  if (draw.chance(10)) fields.push("live");
  if (depth < 2 && draw.chance(50)) fields.push(`friend ${selectionOf(draw, depth + 1)}`);
  return `{ ${fields.length === 0 ? "id" : fields.join(" ")} }`;
};

/** Returns the queries whose header differs from that without a cache, each asked three times. */
async function differences(
  seed: number,
  entries: Entries = { listsAreEntries: false },
): Promise<{ differing: string[]; hits: number; cacheable: number }> {
  const draw = drawOfRandom(seededRandom(seed));
  const differing: string[] = [];
  let [hits, cacheable] = [0, 0];
  for (let nth = 0; nth < SCHEMAS; nth++) {
    const typeDefs = typeDefsOf(draw, entries);
    const resolvers = resolversOf(draw);
    const make = () => makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: resolvers as never });
    const clock = new FakeClock();
    const cache = createCache({
      store: memoryStore({ clock }),
      testing: { clock },
      logger: quiet,
      privacy: { requireScope: false },
      onEvent: (event) => {
        if (
          event.name === "entry.served" &&
          (entries.listsAreEntries ? event.coordinate === "Item" : event.coordinate.startsWith("Query.")) &&
          event.outcome === "hit"
        )
          hits++;
      },
    });
    const schema = applyCached(make(), cache);
    const plain = new ApolloServer({ schema: make() });
    const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache)] });
    const headerOf = async (asked: ApolloServer, query: string): Promise<string | undefined> => {
      const { http, body } = await asked.executeOperation({ query }, { contextValue: {} });
      expect(body.kind === "single" && body.singleResult.errors).toBe(undefined);
      await settle();
      return http.headers.get("cache-control");
    };
    for (let one = 0; one < QUERIES; one++) {
      const roots = [`a: item ${selectionOf(draw)}`, `b: items ${selectionOf(draw)}`, "plain"];
      const query = `{ ${draw.chance(60) ? draw.pick(roots.slice(0, 2)) : roots.slice(draw.int(1), 2 + draw.int(1)).join(" ")} }`;
      const expected = await headerOf(plain, query);
      if (expected !== "no-store") cacheable++;
      for (const what of ["miss", "hit", "hit again"]) {
        const header = await headerOf(server, query);
        if (header !== expected) differing.push([what, header, expected, query, typeDefs].join("\n"));
      }
    }
    await cache.close();
  }
  return { differing, hits, cacheable };
}

describe("the cache-control header of answers with subtrees", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("is the same as without a cache on misses and hits, for random hints and queries", async () => {
    const { differing, hits, cacheable } = await differences(1);
    expect(differing[0]).toBe(undefined);
    expect(hits).toBeGreaterThan(SCHEMAS * QUERIES);
    expect(cacheable).toBeGreaterThan(SCHEMAS);
  });

  it("is the same as without a cache where the objects of lists are entries", async () => {
    const { differing, hits, cacheable } = await differences(3, { listsAreEntries: true });
    expect(differing[0]).toBe(undefined);
    expect(hits).toBeGreaterThan(SCHEMAS * QUERIES);
    expect(cacheable).toBeGreaterThan(SCHEMAS);
  });

  it("differs on hits if the hints of the fields in a build are lost", async () => {
    vi.spyOn(SubtreeBuild.prototype, "executed").mockReturnValue(undefined);
    const { differing } = await differences(1);
    expect(differing.filter((text) => text.startsWith("hit")).length).toBeGreaterThan(0);
  });
});
