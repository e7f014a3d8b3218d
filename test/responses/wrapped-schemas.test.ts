import { ApolloServer } from "@apollo/server";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { mapSchema } from "@graphql-tools/utils";
import { type GraphQLSchema, lexicographicSortSchema, parse } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import type { Store } from "graphql-cached/store";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { describe, expect, it, vi } from "vitest";
import { applyMiddleware, rule, shield } from "../support/graphql-shield.js";
import { afterCaches } from "../support/world.js";
import { knowOperations } from "./site.js";

interface Context {
  readonly user?: string;
}

const typeDefs = `
  type Query {
    salaries: [String!] @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
    plain: String @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
    open: String @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60, scope: PUBLIC)
    person: Person @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
  }
  type Person { salary: Int @cacheControl(maxAge: 60) }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope) on FIELD_DEFINITION
  enum CacheControlScope { PUBLIC PRIVATE }
`;
const isBoss = rule({ cache: "no_cache" })((_: unknown, __: unknown, { user }: Context) => user === "boss");

type Ask = (query: string, user: string) => Promise<unknown>;
const ASKS: Readonly<Record<string, (schema: GraphQLSchema, cache: Cache<Context>) => Ask>> = {
  "Apollo Server": (schema, cache) => {
    const server = new ApolloServer<Context>({ schema, plugins: [cachedPlugin(cache, { responses: true })] });
    return async (query, user) => {
      const { body } = await server.executeOperation({ query }, { contextValue: { user } });
      return body.kind === "single" ? body.singleResult.data : undefined;
    };
  },
  Yoga: (schema, cache) => {
    const yoga = createYoga<object, Context>({
      schema,
      logging: false,
      context: ({ request }) => ({ user: request.headers.get("x-user") ?? "" }),
      plugins: [useCached(cache, { responses: true })],
    });
    return async (query, user) => {
      const response = await yoga.fetch(`http://localhost/graphql?query=${encodeURIComponent(query)}`, {
        headers: { "x-user": user },
      });
      return ((await response.json()) as { data?: unknown }).data;
    };
  },
  "cache.execute": (schema, cache) => async (query, user) =>
    (await cache.execute({ schema, document: parse(query), contextValue: { user } })).data,
};

describe.each(Object.entries(ASKS))(
  "a response whose resolvers are wrapped after applyCached, on %s",
  (_name, askOf) => {
    const start = (wrap: (schema: GraphQLSchema) => GraphQLSchema, store?: Store) => {
      knowOperations();
      const warn = vi.fn();
      const stored: unknown[] = [];
      const cache = createCache<Context>({
        defaultScope: "PUBLIC",
        store,
        identify: ({ user }) => user,
        logger: { info: () => undefined, warn },
        onEvent: (event) => {
          if (event.name === "entry.served" && event.coordinate === "responses") stored.push(event.outcome);
        },
      });
      afterCaches(() => cache.close());
      const resolvers = {
        Query: { salaries: () => ["100"], plain: () => "plain", open: () => "open", person: () => ({ salary: 100 }) },
      };
      const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
      const lines = (): unknown[] =>
        warn.mock.calls.map(([line]) => line).filter((line) => `${line}`.includes("wrapped"));
      const answer = askOf(wrap(schema), cache);
      const ask: Ask = async (query, user) => {
        const data = await answer(query, user);
        await cache.settled();
        return data;
      };
      return { ask, stored, lines };
    };
    const guarded = (schema: GraphQLSchema): GraphQLSchema =>
      applyMiddleware(schema, shield({ Query: { salaries: isBoss, open: isBoss } }));

    it("is not shared with callers whom graphql-shield refuses", async () => {
      const { ask, stored, lines } = start(guarded);
      for (const _ of [1, 2]) {
        expect(await ask("{ salaries }", "boss")).toEqual({ salaries: ["100"] });
        expect(await ask("{ salaries }", "alice")).toEqual({ salaries: null });
      }
      expect(stored).toContain("hit");
      expect(lines()).toEqual([expect.stringContaining("`Query.salaries`")]);
    });

    it("is shared if its own resolvers are as applyCached has left them", async () => {
      const { ask, stored, lines } = start((schema) =>
        applyMiddleware(schema, { Query: { salaries: async (resolve) => resolve() } }),
      );
      for (const _ of [1, 2]) await ask("{ plain }", "boss");
      stored.length = 0;
      expect(await ask("{ plain }", "alice")).toEqual({ plain: "plain" });
      expect(stored).toEqual(["hit"]);
      expect(lines()).toEqual([]);
    });

    it("is not shared if the field that is refused has no resolver of its own", async () => {
      const { ask } = start((schema) => applyMiddleware(schema, shield({ Person: { salary: isBoss } })));
      for (const _ of [1, 2]) {
        expect(await ask("{ person { salary } }", "boss")).toEqual({ person: { salary: 100 } });
        expect(await ask("{ person { salary } }", "alice")).toEqual({ person: { salary: null } });
      }
    });

    it("is shared by a copy of the schema with the same resolvers", async () => {
      const { ask, stored, lines } = start((schema) => lexicographicSortSchema(mapSchema(schema, {})));
      for (const _ of [1, 2]) await ask("{ plain person { salary } }", "boss");
      stored.length = 0;
      expect(await ask("{ plain person { salary } }", "alice")).toEqual({ plain: "plain", person: { salary: 100 } });
      expect(stored).toEqual(["hit"]);
      expect(lines()).toEqual([]);
    });

    it("is shared although its server has replaced the resolvers of a copy for an operation before", async () => {
      const { ask, stored, lines } = start((schema) => mapSchema(schema, {}));
      await ask("{ open }", "boss");
      for (const _ of [1, 2]) await ask("{ plain person { salary } }", "boss");
      stored.length = 0;
      expect(await ask("{ plain person { salary } }", "alice")).toEqual({ plain: "plain", person: { salary: 100 } });
      expect(stored).toEqual(["hit"]);
      expect(lines()).toEqual([]);
    });

    it("is not taken from a release that did not wrap them, nor shared with it", async () => {
      const store = memoryStore();
      const [before, after] = [start((schema) => schema, store), start(guarded, store)];
      for (const _ of [1, 2]) await before.ask("{ salaries }", "boss");
      expect(before.stored).toContain("hit");
      for (const _ of [1, 2]) expect(await after.ask("{ salaries }", "alice")).toEqual({ salaries: null });
      expect(await after.ask("{ salaries }", "boss")).toEqual({ salaries: ["100"] });
      expect(await before.ask("{ salaries }", "alice")).toEqual({ salaries: ["100"] });
    });

    it("is shared if its fields have @cacheControl(scope: PUBLIC)", async () => {
      const { ask, stored } = start(guarded);
      for (const _ of [1, 2]) await ask("{ open }", "boss");
      stored.length = 0;
      await ask("{ open }", "alice");
      expect(stored).toEqual(["hit"]);
    });
  },
);
