import { ApolloServer, type ApolloServerPlugin } from "@apollo/server";
import { settle } from "@graphql-cached/testing";
import { cachedPlugin } from "graphql-cached/apollo";
import { expect, it } from "vitest";
import { onEachStore, type World } from "../support/world.js";

interface Viewer {
  userId: string;
}

const PEOPLE = ["alice", "bob", "carol"];
const ALIASES = Array.from({ length: 200 }, (_, nth) => nth);
const QUERY = `query ($big: String) { ${ALIASES.map(
  (nth) => `a${nth}: wall(of: $big) { text } b${nth}: wall(of: "${nth % 7}") { text } c${nth}: own { text }`,
).join(" ")} }`;

/** Makes Apollo Server wrap all resolvers. */
const resolveWatcher: ApolloServerPlugin<Viewer> = {
  requestDidStart: async () => ({
    executionDidStart: async () => ({ willResolveField: () => () => undefined }),
  }),
};

/** A process of one release. A PUBLIC field reads a PRIVATE loader, and each request exceeds the limits. */
function startServer(world: World, version: string): ApolloServer<Viewer> {
  const { schema, cache } = world.process(
    `type Wall { text: String }
    type Query {
      wall(of: String): Wall @cached(maxAge: 60)
      own: Wall @cached(maxAge: 60, scope: PRIVATE, tags: ["Own"])
    }`,
    {
      Query: {
        wall: async (_: unknown, { of }: { of: string }, viewer: Viewer) => ({
          text: of === "0" ? "for all" : await notes(viewer).load(1),
        }),
        own: (_: unknown, __: object, { userId }: Viewer) => ({ text: `own of ${userId}` }),
      },
    },
    {
      version,
      identify: ({ userId }: Viewer) => userId,
      limits: { maxKeyBytes: 5_000 },
    },
  );
  const notes = cache.loader<number, string, Viewer>({
    name: "Note",
    scope: "PRIVATE",
    maxAge: 60,
    batch: async (ids, { userId }) => ids.map((id) => `note ${id} of ${userId}`),
  });
  return new ApolloServer<Viewer>({ schema, plugins: [resolveWatcher, cachedPlugin(cache)] });
}

onEachStore("hundreds of aliases over the limits of an execution", (world) => {
  it("give each caller their own values, from processes of two releases behind a plugin that wraps resolvers", async () => {
    const shared = world();
    const servers = ["one", "two"].map((version) => startServer(shared, version));
    const ask = async (userId: string, nth: number): Promise<Record<string, { text: string }>> => {
      const server = servers[nth % 2] as ApolloServer<Viewer>;
      const { body } = await server.executeOperation(
        { query: QUERY, variables: { big: "x".repeat(2_000) } },
        { contextValue: { userId } },
      );
      if (body.kind !== "single") throw new Error("expected a single result");
      expect(body.singleResult.errors).toBeUndefined();
      return body.singleResult.data as Record<string, { text: string }>;
    };
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(PEOPLE.map((userId, nth) => ask(userId, nth + round)));
      for (const [at, data] of answers.entries()) {
        const userId = PEOPLE[at] as string;
        const expected = ALIASES.flatMap((nth) => [
          [`a${nth}`, `note 1 of ${userId}`],
          [`b${nth}`, nth % 7 === 0 ? "for all" : `note 1 of ${userId}`],
          [`c${nth}`, `own of ${userId}`],
        ]);
        expect(Object.entries(data).map(([name, { text }]) => [name, text])).toEqual(expected);
      }
      await settle();
    }
    await Promise.all(servers.map((server) => server.stop()));
  });
});
