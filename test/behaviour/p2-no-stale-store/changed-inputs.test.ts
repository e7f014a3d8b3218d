import { settle } from "@graphql-cached/testing";
import type { RefreshJob } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Int @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    me: Int @cached(maxAge: 60, key: ["$context.userId"], tags: ["User:{$context.userId}"])
    partVersion(id: ID!): Int @cached(maxAge: 60, tags: ["Part:{$args.id}:front"])
    part(id: ID!): Part @cached(maxAge: 60, tags: ["Part:{$args.id}:{$result.name}", "Locale:{$context.locale}:{$result.name}"])
    swr(id: ID!): Part @cached(maxAge: 60, staleWhileRevalidate: 60, tags: ["Part:{$args.id}:{$result.name}"])
  }
  type Part { name: String }
  input Patch { id: ID list: [ID!] }
  type Mutation {
    update(patch: Patch!): Int @invalidates(tags: ["Movie:{$args.patch.id}"])
    updateAll(patch: Patch!): Int @invalidates(tags: ["Movie:{$args.patch.list[]}"])
    replace(id: ID!): Int @invalidates(tags: ["Movie:{$args.id}"])
    rename(id: ID!): Part @invalidates(tags: ["Part:{$args.id}:{$result.name}"])
    add(id: ID): Int @invalidates(tags: ["Movie:{$args.id}"])
    logIn: Int @invalidates(tags: ["User:{$context.userId}"])
    logOut: Int @invalidates(tags: ["User:{$context.userId}"])
    movies(id: ID!): MovieMutations!
  }
  type MovieMutations { id: ID touch: Int @invalidates(tags: ["Movie:{$source.id}"]) }
`;

interface Args {
  id?: unknown;
  patch: { id?: string; list: string[] };
}
interface Context {
  userId?: number | undefined;
  locale?: string;
}

/** A film site whose resolvers change what they are called with. */
function start() {
  let version = 1;
  const jobs: RefreshJob[] = [];
  const loads = { refreshQueue: (job: RefreshJob) => void jobs.push(job) };
  /** A resolver that changes its inputs, and the source if it is a mutation. */
  const changing =
    (change: (args: Args, context: Context, source: Args) => unknown, result?: object) =>
    (source: Args, args: Args, context: Context) => (change(args, context, source), result ?? ++version);
  const current = () => version;
  const front = { name: "front" };
  const resolvers = {
    Query: {
      movie: current,
      me: current,
      partVersion: current,
      swr: changing((args) => (args.id = "changed"), front),
      part: changing((args, context) => (args.id = context.locale = "changed"), front),
    },
    Mutation: {
      update: changing(({ patch }) => delete patch.id),
      updateAll: changing(({ patch }) => (patch.list.length = 0)),
      replace: changing((args) => (args.id = Number(args.id) + 100)),
      rename: changing((args) => Object.assign(args, { id: "changed", version: version++ }), front),
      add: changing((args) => (args.id ??= "7")),
      logIn: changing((_, context) => (context.userId = 7)),
      logOut: changing((_, context) => (context.userId = undefined)),
      movies: (_: unknown, { id }: Args) => ({ id }),
    },
    MovieMutations: { touch: changing((_, __, source) => (source.id = "changed")) },
  };
  const process = memoryWorld().process(typeDefs, resolvers, { loads });
  return { ...process, jobs, read: (query: string, context: Context = {}) => dataOf(process.ask(query, context)) };
}

describe("@invalidates", () => {
  const movie = "movie(id: 7)";
  it.each<[what: string, mutation: string, field?: string, context?: Context]>([
    ["a part of an argument that the resolver deletes", "update(patch: { id: 7 })"],
    ["the members of a list that the resolver empties", "updateAll(patch: { list: [6, 7] })"],
    ["an argument that the resolver replaces", "replace(id: 7)"],
    ["a part of the parent object that the resolver replaces", "movies(id: 7) { touch }"],
    ["an argument that is missing until the resolver sets it", "add"],
    ["a context property that the resolver clears", "logOut", "me", { userId: 7 }],
    ["a context property that the resolver sets, if it was missing before", "logIn", "me"],
    ["a result together with an argument that the resolver replaces", "rename(id: 7) { name }", "partVersion(id: 7)"],
  ])("invalidates the tag of %s", async (_, mutation, field = movie, context = {}) => {
    const { read } = start();
    const readOne = async () => Object.values((await read(`{ ${field} }`, { userId: 7 })) as object);
    expect(await readOne()).toEqual([1]);
    await read(`mutation { ${mutation} }`, { ...context });
    expect(await readOne()).toEqual([2]);
  });
});

describe("the tags of a result", () => {
  it.each(["Part:7:front", "Locale:en:front"])(
    "contain arguments and context as they were before the load: %s",
    async (tag) => {
      const { cache, events, outcomes, read } = start();
      const readPart = () => read("{ part(id: 7) { name } }", { locale: "en" });
      await readPart();
      await waitForStores({ events });
      await readPart();
      await cache.invalidateTags([tag]);
      await readPart();
      expect(outcomes()).toEqual({ loaded: 2, hit: 1 });
    },
  );

  it("contain arguments as they were before the load of a refresh job", async () => {
    const { cache, events, jobs, outcomes, read } = start();
    const readSwr = () => read("{ swr(id: 7) { name } }");
    await readSwr();
    await waitForStores({ events });
    await cache.invalidate({ coordinate: "Query.swr", args: { id: 7 } }, { soft: true });
    await readSwr();
    await settle();
    expect(await cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    await readSwr();
    await cache.invalidateTags(["Part:7:front"]);
    await readSwr();
    expect(outcomes()).toEqual({ loaded: 2, stale: 1, hit: 1 });
  });
});
