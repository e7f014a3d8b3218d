import { setImmediate } from "node:timers/promises";
import { gate } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  type Query {
    posts: [Post!]! @cached(maxAge: 60, subtree: true)
  }
  type Post {
    id: ID!
    author: String
    isRead: Boolean @cached(maxAge: 0)
  }
`;

it("stores a subtree whose holes read a PRIVATE loader, and fills them for each caller", async () => {
  const loads = { author: 0, read: 0 };
  const cache = createCache<{ userId: string }>({ identify: ({ userId }) => userId });
  onTestFinished(() => cache.close());
  const read = cache.loader({
    name: "Read",
    maxAge: 60,
    scope: "PRIVATE",
    async batch(userIds: readonly string[]) {
      loads.read += userIds.length;
      return userIds.map((userId) => (userId === "ann" ? [1] : [2]));
    },
  });
  const resolvers = {
    Query: { posts: () => [{ id: 1 }, { id: 2 }] },
    Post: {
      async author() {
        loads.author++;
        // So many that everything else that the request does could happen during the build.
        for (let turn = 0; turn < 50; turn++) await setImmediate();
        return "Ben";
      },
      isRead: async ({ id }: { id: number }, _: unknown, context: { userId: string }) =>
        (await read(context).load(context.userId)).includes(id),
    },
  };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  const document = parse("{ posts { author isRead } }");
  const ask = async (userId: string): Promise<unknown> => {
    const { data } = await cache.execute({ schema, document, contextValue: { userId } }, false);
    await cache.settled();
    return data;
  };
  const posts = (...isRead: boolean[]) => ({ posts: isRead.map((one) => ({ author: "Ben", isRead: one })) });
  expect(await ask("ann")).toEqual(posts(true, false));
  expect(await ask("bob")).toEqual(posts(false, true));
  expect(await ask("ann")).toEqual(posts(true, false));
  expect(loads).toEqual({ author: 2, read: 2 });
});

it("stores a build during which a sibling field reads a PRIVATE loader", async () => {
  const skipped: string[] = [];
  let built = 0;
  const cache = createCache<{ userId: string }>({
    identify: ({ userId }) => userId,
    onEvent(event) {
      if (event.name === "subtree.skipped") skipped.push(`${event.reason} ${event.subject}`);
    },
  });
  onTestFinished(() => cache.close());
  const names = cache.loader({
    name: "Name",
    maxAge: 60,
    scope: "PRIVATE",
    batch: async (userIds: readonly string[]) => userIds.map((userId) => userId.toUpperCase()),
  });
  const isBuilding = gate();
  const isNameRead = gate();
  const resolvers = {
    Query: {
      posts: () => [{ id: 1 }],
      async me(_source: unknown, _args: unknown, context: { userId: string }) {
        await isBuilding.passed;
        const name = await names(context).load(context.userId);
        isNameRead.open();
        return name;
      },
    },
    Post: {
      async author() {
        built++;
        isBuilding.open();
        await isNameRead.passed;
        return "Ben";
      },
    },
  };
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs, "extend type Query { me: String }"], resolvers }),
    cache,
  );
  const document = parse("{ posts { author } me }");
  for (const [userId, me] of [
    ["ann", "ANN"],
    ["bob", "BOB"],
  ]) {
    const { data } = await cache.execute({ schema, document, contextValue: { userId: userId as string } }, false);
    expect(data).toEqual({ posts: [{ author: "Ben" }], me });
  }
  expect([skipped, built]).toEqual([[], 1]);
});
