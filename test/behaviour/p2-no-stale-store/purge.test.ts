import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, type Process } from "../../support/world.js";

interface Purge {
  readonly tags: readonly string[];
  readonly isSoft: boolean;
  readonly signal: AbortSignal;
}

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
  }
  type Mutation {
    rate(id: ID!): Movie @invalidates(tags: ["Movie:{$args.id}"])
  }
  type Movie { id: ID! }
`;
const movie = (_: unknown, { id }: { id: string }) => ({ id });
const resolvers = { Query: { movie }, Mutation: { rate: movie } };
const RATE = "mutation { rate(id: 7) { id } }";

function start(purge: (purge: Purge) => unknown, options: object = {}, clock = new FakeClock()) {
  const process = memoryWorld(() => memoryStore({ clock })).process(typeDefs, resolvers, {
    invalidation: { purge, ...options },
    testing: { clock },
  });
  return { ...process, clock, failures: () => process.events.filter(({ name }) => name === "purge.failed") };
}

/** The tags of the last invalidation that was published. */
const published = ({ events }: Pick<Process, "events">): readonly string[] => {
  const last = events.findLast((event) => event.name === "invalidation.finished");
  return last?.name === "invalidation.finished" ? last.tags : [];
};

describe("the purge of a CDN", () => {
  it("gets the tags that the event names, which are those that edgeTags returns", async () => {
    const purges: Purge[] = [];
    const process = start((purge) => purges.push(purge));
    await process.cache.invalidateTags(["Movie:7", "featured"]);
    const named = process.cache.edgeTags(["Movie:7", "featured"]);
    for (const tag of named) expect(tag).toMatch(/^[a-z0-9]{1,11}$/);
    expect(purges.map(({ tags, isSoft }) => [tags, isSoft])).toEqual([[published(process), false]]);
    expect(published(process)).toEqual(named);
    await process.cache.invalidateTags(["featured"], { soft: true });
    expect(purges[1]).toMatchObject({ tags: process.cache.edgeTags(["featured"]), isSoft: true });
  });

  it("ends before the mutation is answered", async () => {
    const { passed, open } = gate();
    const { ask } = start(() => passed);
    let isAnswered = false;
    const answer = ask(RATE).then((result) => {
      isAnswered = true;
      return result;
    });
    await settle();
    expect(isAnswered).toBe(false);
    open();
    expect(await dataOf(answer)).toEqual({ rate: { id: "7" } });
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("503");
      },
    ],
    ["rejects", () => Promise.reject(new Error("503"))],
  ])("does not fail the mutation if it %s, and is reported", async (_how, purge) => {
    const process = start(purge);
    expect(await dataOf(process.ask(RATE))).toEqual({ rate: { id: "7" } });
    expect(process.failures()).toEqual([
      { name: "purge.failed", tagCount: published(process).length, error: new Error("503") },
    ]);
  });

  it("is logged once if it fails, without what it has thrown", async () => {
    const lines: string[] = [];
    const process = memoryWorld().process(typeDefs, resolvers, {
      invalidation: { purge: () => Promise.reject(new Error("token=s3cr3t")) },
      logger: { info: () => undefined, warn: (line) => lines.push(line) },
    });
    for (const _ of [1, 2]) await process.cache.invalidateTags(["featured"]);
    const found = lines.filter((line) => line.includes("invalidation.purge"));
    expect(found).toEqual([expect.stringContaining("listen to the event `purge.failed`")]);
    expect(found.join()).not.toContain("s3cr3t");
  });

  it("is given up after purgeTimeoutMs, when its signal aborts", async () => {
    let signal: AbortSignal | undefined;
    const process = start(
      (purge) => {
        signal = purge.signal;
        return new Promise(() => undefined);
      },
      { purgeTimeoutMs: 500 },
    );
    const answer = process.ask(RATE);
    await settle();
    expect(signal?.aborted).toBe(false);
    await process.clock.advance(500);
    expect(await dataOf(answer)).toEqual({ rate: { id: "7" } });
    expect(signal?.aborted).toBe(true);
    expect(process.failures()).toMatchObject([{ error: { code: "CACHED_PURGE_TIMEOUT" } }]);
  });

  it("runs once after the write of cache.mutate", async () => {
    const steps: string[] = [];
    const { cache } = start(() => steps.push("purge"));
    await cache.mutate({ tags: ["Movie:7"] }, () => steps.push("write"));
    expect(steps).toEqual(["write", "purge"]);
  });

  it("runs again when an invalidation is confirmed that the store had not confirmed", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const purged: (readonly string[])[] = [];
    const { cache } = memoryWorld(() => store).process(typeDefs, resolvers, {
      store,
      testing: { clock },
      invalidation: { purge: ({ tags }) => purged.push(tags) },
    });
    store.chaos.mode = "throws";
    await expect(cache.invalidateTags(["featured"])).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    expect(purged).toEqual([cache.edgeTags(["featured"])]);
    store.chaos.mode = undefined;
    await clock.advance(10_000);
    expect(purged).toHaveLength(2);
  });
});
