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
  type Part {
    name: String
  }
  input Patch {
    id: ID
    list: [ID!]
  }
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
  type MovieMutations {
    id: ID
    touch: Int @invalidates(tags: ["Movie:{$source.id}"])
  }
`;

/** A film site whose resolvers change what they are called with. */
function start() {
  let version = 1;
  const jobs: RefreshJob[] = [];
  const loads = { refreshQueue: (job: RefreshJob) => void jobs.push(job) };
  const resolvers = {
    Query: {
      movie: () => version,
      me: () => version,
      swr(_: unknown, args: { id: unknown }) {
        args.id = "changed";
        return { name: "front" };
      },
      partVersion: () => version,
      part: (_: unknown, args: { id: unknown }, context: { locale?: string }) => {
        args.id = "changed";
        context.locale = "changed";
        return { name: "front" };
      },
    },
    Mutation: {
      update(_: unknown, { patch }: { patch: { id?: string } }) {
        delete patch.id;
        return ++version;
      },
      updateAll(_: unknown, { patch }: { patch: { list: string[] } }) {
        patch.list.length = 0;
        return ++version;
      },
      replace(_: unknown, args: { id: unknown }) {
        args.id = Number(args.id) + 100;
        return ++version;
      },
      rename(_: unknown, args: { id: unknown }) {
        args.id = "changed";
        version++;
        return { name: "front" };
      },
      add(_: unknown, args: { id?: string }) {
        args.id ??= "7";
        return ++version;
      },
      logIn(_: unknown, __: unknown, context: { userId?: number }) {
        context.userId = 7;
        return ++version;
      },
      logOut(_: unknown, __: unknown, context: { userId?: number | undefined }) {
        context.userId = undefined;
        return ++version;
      },
      movies: (_: unknown, { id }: { id: string }) => ({ id }),
    },
    MovieMutations: {
      touch(source: { id: unknown }) {
        source.id = "changed";
        return ++version;
      },
    },
  };
  const process = memoryWorld().process(typeDefs, resolvers, { loads });
  const read = async (query: string, contextValue: object = {}): Promise<unknown> =>
    dataOf(process.ask(query, contextValue));
  return { ...process, jobs, read };
}

describe("@invalidates", () => {
  const mutations: Readonly<Record<string, string>> = {
    "a part of an argument that the resolver deletes": "mutation { update(patch: { id: 7 }) }",
    "the members of a list that the resolver empties": "mutation { updateAll(patch: { list: [6, 7] }) }",
    "an argument that the resolver replaces": "mutation { replace(id: 7) }",
    "a part of the parent object that the resolver replaces": "mutation { movies(id: 7) { touch } }",
    "an argument that is missing until the resolver sets it": "mutation { add }",
  };
  for (const [what, mutation] of Object.entries(mutations))
    it(`invalidates the tag of ${what}`, async () => {
      const { read } = start();
      expect(await read("{ movie(id: 7) }")).toEqual({ movie: 1 });
      await read(mutation);
      expect(await read("{ movie(id: 7) }")).toEqual({ movie: 2 });
    });

  it("invalidates the tag of a context property that the resolver clears", async () => {
    const { read } = start();
    expect(await read("{ me }", { userId: 7 })).toEqual({ me: 1 });
    await read("mutation { logOut }", { userId: 7 });
    expect(await read("{ me }", { userId: 7 })).toEqual({ me: 2 });
  });

  it("invalidates the tag of a context property that the resolver sets, if it was missing before", async () => {
    const { read } = start();
    expect(await read("{ me }", { userId: 7 })).toEqual({ me: 1 });
    await read("mutation { logIn }", {});
    expect(await read("{ me }", { userId: 7 })).toEqual({ me: 2 });
  });

  it("invalidates the tag of a result together with an argument that the resolver replaces", async () => {
    const { read } = start();
    expect(await read("{ partVersion(id: 7) }")).toEqual({ partVersion: 1 });
    await read("mutation { rename(id: 7) { name } }");
    expect(await read("{ partVersion(id: 7) }")).toEqual({ partVersion: 2 });
  });
});

describe("the tags of a result", () => {
  for (const tag of ["Part:7:front", "Locale:en:front"])
    it(`contain arguments and context as they were before the load: ${tag}`, async () => {
      const process = start();
      const { cache, outcomes, read } = process;
      await read("{ part(id: 7) { name } }", { locale: "en" });
      await waitForStores(process);
      await read("{ part(id: 7) { name } }", { locale: "en" });
      await cache.invalidateTags([tag]);
      await read("{ part(id: 7) { name } }", { locale: "en" });
      expect(outcomes()).toEqual({ loaded: 2, hit: 1 });
    });

  it("contain arguments as they were before the load of a refresh job", async () => {
    const process = start();
    const { cache, jobs, outcomes, read } = process;
    await read("{ swr(id: 7) { name } }");
    await waitForStores(process);
    await cache.invalidate({ coordinate: "Query.swr", args: { id: 7 } }, { soft: true });
    await read("{ swr(id: 7) { name } }");
    await settle();
    expect(await cache.refresh(jobs[0] as RefreshJob)).toBe(true);
    await read("{ swr(id: 7) { name } }");
    await cache.invalidateTags(["Part:7:front"]);
    await read("{ swr(id: 7) { name } }");
    expect(outcomes()).toEqual({ loaded: 2, stale: 1, hit: 1 });
  });
});
