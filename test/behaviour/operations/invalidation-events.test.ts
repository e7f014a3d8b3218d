import { chaosStore, FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, onEachStore, type Process } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    top: Int @cached(maxAge: 60)
  }
  type Mutation {
    rate(id: ID!): Movie @invalidates(tags: ["Movie:{$args.id}"])
    rename(id: ID!): Movie
  }
  type Movie { id: ID! }
`;
const movie = (_: unknown, { id }: { id: string }) => ({ id });
const resolvers = { Query: { movie, top: () => 1 }, Mutation: { rate: movie, rename: movie } };

const invalidationsOf = ({ events }: Process) => events.filter((event) => event.name === "invalidation.finished");

onEachStore("events of invalidations", (world) => {
  const start = (): Process => world().process(typeDefs, resolvers, {}, { entityTags: true });

  it.each([
    [
      "cache.invalidate of one entry",
      ({ cache }: Process) => cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } }),
      { via: "cache.invalidate", entryCount: 1, coordinates: ["Query.movie"], tagCount: expect.any(Number) as number },
    ],
    [
      "cache.invalidate of a field",
      ({ cache }: Process) => cache.invalidate({ coordinate: "Query.movie" }),
      { via: "cache.invalidate", coordinates: ["Query.movie"] },
    ],
    [
      "cache.invalidateTags",
      ({ cache }: Process) => cache.invalidateTags(["featured", "drama"], { soft: true }),
      { via: "cache.invalidateTags", kind: "soft", tagCount: 2, coordinates: [] },
    ],
    ["cache.clear", ({ cache }: Process) => cache.clear(), { via: "cache.clear", isClear: true }],
    [
      "@invalidates",
      ({ ask }: Process) => dataOf(ask("mutation { rate(id: 7) { id } }")),
      { via: "@invalidates", mutation: "Mutation.rate", tagCount: expect.any(Number) as number },
    ],
    [
      "entity tags",
      ({ ask }: Process) => dataOf(ask("mutation { rename(id: 7) { id } }")),
      { via: "entityTags", mutation: "Mutation.rename", tagCount: expect.any(Number) as number },
    ],
  ])("publishes one event for %s", async (_title, invalidate, expected) => {
    const process = start();
    await invalidate(process);
    expect(invalidationsOf(process)).toEqual([
      {
        name: "invalidation.finished",
        kind: "hard",
        isConfirmed: true,
        isClear: false,
        tagCount: 0,
        entryCount: 0,
        coordinates: [],
        invalidationMs: expect.any(Number) as number,
        tags: expect.arrayContaining([expect.stringMatching(/^[a-z0-9]{1,11}$/)]) as string[],
        ...expected,
      },
    ]);
  });

  it.each([false, true])(
    "names what was invalidated as edgeTags and the headers for CDNs do (soft: %s)",
    async (soft) => {
      const process = start();
      await process.cache.invalidateTags(["Movie:7", "featured"], { soft });
      const named = process.cache.edgeTags(["Movie:7", "featured"]);
      for (const tag of named) expect(tag).toMatch(/^[a-z0-9]{1,11}$/);
      const [event, ...others] = invalidationsOf(process);
      expect([event?.kind, others]).toEqual([soft ? "soft" : "hard", []]);
      expect([...(event?.tags ?? [])].sort()).toEqual([...named].sort());
    },
  );

  it("publishes one event before and one after the write of cache.mutate", async () => {
    const process = start();
    const before = await process.cache.mutate({ tags: ["Movie:7"] }, () => invalidationsOf(process).length);
    expect([before, invalidationsOf(process).map(({ via }) => via)]).toEqual([1, ["cache.mutate", "cache.mutate"]]);
  });
});

describe("events of invalidations that the store does not confirm", () => {
  it("say that they are not confirmed, and that they are repeated", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const process = memoryWorld(() => store).process(typeDefs, resolvers, { store, testing: { clock } });
    store.chaos.mode = "throws";
    await expect(process.cache.invalidateTags(["featured"])).rejects.toMatchObject({
      code: "CACHED_STORE_UNAVAILABLE",
    });
    store.chaos.mode = undefined;
    await clock.advance(10_000);
    const tags = process.cache.edgeTags(["featured"]);
    expect(invalidationsOf(process)).toMatchObject([
      { via: "cache.invalidateTags", isConfirmed: false, tagCount: 1, tags },
      { via: "retry", isConfirmed: true, tagCount: 1, tags },
    ]);
  });
});
